"""Choice between untrained oscillators, a trained model, and the average of both."""

import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.validation import check_is_fitted

from linoss._declare import check_settings, declared, documented, shared_with
from linoss._plain import first_difference
from linoss._settings import AutoClassifierSettings, AutoSettings, ModelName
from linoss._stderr import duration, say
from linoss.data import Sequences, as_sequences
from linoss.estimators._base import OnProgress, drawn_seed
from linoss.estimators._classifier import LinOSSClassifier
from linoss.estimators._described import describe, described, saved_into, understanding
from linoss.estimators._listener import FunctionListener
from linoss.estimators._oscillators import (
    OscillatorClassifier,
    OscillatorRegressor,
    labelled_cases,
)
from linoss.estimators._regressor import LinOSSRegressor
from linoss.training import (
    CheckpointError,
    TrainingError,
    holds_files,
    load_arrays,
    read_extra,
    save_arrays,
)

Kind = TypeVar("Kind", bound="AutoEstimator")

BOTH = "both"
_MEMBERS: dict[str, tuple[ModelName, ...]] = {
    "oscillators": ("oscillators",),
    "linoss": ("linoss",),
    BOTH: ("oscillators", "linoss"),
}
"""The candidates, the simplest first."""
_NAMES = {"oscillators": "the oscillators", "linoss": "the trained model", BOTH: "their average"}
_FEW = 150  # with fewer cases every third is held out, otherwise every fifth
_FEWEST = 4  # minimum number of held-out cases for a comparison


@dataclass(frozen=True)
class Choice:
    """The model that an estimator kept, and the reason."""

    kept: str
    """`"oscillators"`, `"linoss"`, or `"both"` for the average of their predictions."""
    why: str
    """The reason, as a sentence."""
    scores: dict[str, float]
    """Accuracy or R² of each candidate on the held-out cases; empty without a comparison."""
    cases: int
    """Number of held-out cases."""


class AutoEstimator(AutoSettings, BaseEstimator):
    """Base class of `AutoClassifier` and `AutoRegressor`."""

    choice_: Choice
    left_out_: tuple[np.ndarray, np.ndarray]
    """After `fit`: held-out cases, and their predictions by the kept model."""
    left_out_score_: float
    n_features_in_: int
    task: str
    metric: str
    _untrained: type[Any]
    _trained: type[Any]
    _checks: ClassVar[dict[str, Any]]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = True
        return tags

    def _fit(
        self,
        X: Any,
        y: Any,
        times: Any,
        directory: str | os.PathLike[str] | None,
        resume: bool,
        on_progress: OnProgress | None,
    ) -> None:
        """Fit both models, and choose."""
        check_settings(self)
        options = self._linoss_options()
        cases, y = labelled_cases(self, X, y, times, **self._checks)
        cases = Sequences(cases.values, y, cases.times, cases.names, cases.ids)
        folder = None if directory is None else Path(directory)
        if folder is not None:
            self._begin(folder, resume)
        elif resume:
            raise ValueError("resume is True, but directory is None; pass the directory of the run")
        begun, seed = time.monotonic(), drawn_seed(self.random_state)
        untrained = {**shared_with(self, self._untrained), "random_state": seed}
        self.oscillators_ = self._untrained(**untrained).fit(cases)
        self.left_out_score_ = self.oscillators_.left_out_score_
        self.left_out_ = self.oscillators_.left_out_
        if self.verbose:
            took = duration(time.monotonic() - begun)
            score = f"leave-one-out {self.metric} {self.left_out_score_:.4g}"
            say(f"Untrained oscillators, after {took}: {score}")
        held_out = _held_out(np.asarray(y), seed, by_class=self.task == "classification")
        if self.minutes == 0:
            self.choice_ = _without_comparison("minutes is 0, so nothing was trained")
        elif len(held_out) < _FEWEST:
            self.choice_ = _without_comparison(f"{len(cases)} cases are too few for a comparison")
        else:
            alone = {"n_oscillators": None, "random_state": seed}
            trained = {**shared_with(self, self._trained), "n_models": 1, **options, **alone}
            self.linoss_ = self._trained(**trained)
            rest = np.setdiff1d(np.arange(len(cases)), held_out)
            where = {} if folder is None else {"directory": folder / "linoss", "resume": resume}
            try:
                self.linoss_.fit(cases.select(rest), **where, on_progress=on_progress)
            except TrainingError as error:
                self.choice_ = _without_comparison(f"the training failed: {error}")
            else:
                rival = self._untrained(**untrained).fit(cases.select(rest))
                self.choice_ = self._compared(rival, cases.select(held_out), held_out)
        if folder is not None:
            self._write(folder, {"oscillators"})

    def _compared(self, rival: Any, held_out: Sequences, places: Any = None) -> Choice:
        """Compare the trained model and the oscillators on cases that neither has seen.

        The simplest candidate is kept that is not worse than the best by more than a standard error
        of the mean difference between cases.
        """
        answers = {name: self._member_answer(m, held_out) for name, m in self._pair(rival).items()}
        answers[BOTH] = (answers["oscillators"] + answers["linoss"]) / 2
        by_case = {
            name: self._case_scores(answer, np.asarray(held_out.labels))
            for name, answer in answers.items()
            if np.isfinite(answer).all()
        }
        scores = {name: float(np.mean(score)) for name, score in by_case.items()}
        best = max(scores, key=lambda name: scores[name])
        kept = next(n for n in _MEMBERS if n in scores and _as_good(by_case[n], by_case[best]))
        if kept != "oscillators" and places is not None:  # they have predictions for all cases
            self.left_out_ = places, answers[kept]
        others = [f"{scores[name]:.4g} of {_NAMES[name]}" for name in scores if name != kept]
        return Choice(
            kept,
            f"Kept {_NAMES[kept]}: {self.metric} {scores[kept]:.4g} on {len(held_out)} held-out "
            f"cases, against {' and '.join(others) or 'answers that are not numbers'}; "
            + (
                "the best"
                if all(score < scores[kept] for name, score in scores.items() if name != kept)
                else "the simplest that is not worse by more than a standard error"
            ),
            scores,
            len(held_out),
        )

    def _pair(self, rival: Any) -> dict[str, Any]:
        return {"oscillators": rival, "linoss": self.linoss_}

    def _member_answer(self, member: Any, cases: Sequences) -> np.ndarray:
        raise NotImplementedError

    def _case_scores(self, answers: np.ndarray, truth: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def _linoss_options(self) -> dict[str, Any]:
        """The settings of the trained model, other than those of this estimator."""
        options = self.linoss_options or {}
        known = declared(self._trained).keys() - declared(type(self)).keys() - {"every"}
        for name in options:
            if name not in known:
                raise ValueError(
                    f"linoss_options has {name!r}, expected settings of {self._trained.__name__}: "
                    f"{', '.join(sorted(known))}"
                )
        check_settings(self._trained(**options))
        return options

    def _answer(self, X: Any, times: Any) -> np.ndarray:
        """The mean prediction of the kept models."""
        check_is_fitted(self)
        cases, _ = as_sequences(self, X, None, times, reset=False)
        found = [self._member_answer(member, cases) for member in self.members_.values()]
        return np.mean(found, axis=0) if found[1:] else found[0]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "choice_")

    def stream(self) -> FunctionListener:
        """Return a function that processes one sample at a time, in constant memory.

        It returns the prediction for the sequence so far: probabilities, or numbers. All kept
        models must support streaming: oscillators need `causal=True`.

        ```python
        >>> import numpy as np
        >>> from linoss import AutoClassifier
        >>> waves = np.random.default_rng(0).normal(size=(20, 1, 50))
        >>> settings = {"minutes": 0, "n_oscillators": 64, "causal": True, "random_state": 0}
        >>> classifier = AutoClassifier(**settings).fit(waves, np.arange(20) % 2)
        >>> listen = classifier.stream()
        >>> for sample in waves[0].T:
        ...     probabilities = listen(sample)
        >>> bool(np.allclose(probabilities, classifier.predict_proba(waves[:1]), atol=1e-5))
        True

        ```
        """
        check_is_fitted(self)
        listeners = [member.stream() for member in self.members_.values()]

        def listen(sample: Any, time: float | None = None) -> np.ndarray:
            return np.mean([listener(sample, time) for listener in listeners], axis=0)

        return FunctionListener(listen)

    # ---- The interface of all estimators for commands ----

    @property
    def members_(self) -> dict[ModelName, Any]:
        """The fitted estimators of the ensemble, by model."""
        return {name: getattr(self, f"{name}_") for name in _MEMBERS[self.choice_.kept]}

    @property
    def _first(self) -> Any:
        return next(iter(self.members_.values()))

    @property
    def n_outputs_(self) -> int:
        """Number of classes, or of targets."""
        return self._first.n_outputs_

    @property
    def n_channels_(self) -> int:
        """Number of channels of the data."""
        return self._first.n_channels_

    @property
    def timed_(self) -> bool:
        """Whether each sample needs a time."""
        return any(member.timed_ for member in self.members_.values())

    @property
    def can_stream_(self) -> bool:
        """Whether it supports streaming."""
        return all(member.can_stream_ for member in self.members_.values())

    @property
    def own_scores_(self) -> dict[str, float]:
        """Scores without a test part, by name."""
        found = {f"left-out {self.metric} of the oscillators": self.left_out_score_}
        for name, score in self.choice_.scores.items():
            found[f"held-out {self.metric} of {_NAMES[name]}"] = score
        return found

    # ---- Files ----

    def _begin(self, folder: Path, resume: bool) -> None:
        """Write the fitted oscillators, or check that they equal those in the directory."""
        now = describe(self, {"choice": None})
        if not resume or not holds_files(folder):
            save_arrays(folder, now, {})
            return
        before = {**read_extra(folder), "fitted": now["fitted"]}
        for record in (before, now):
            record["parameters"] = {**record["parameters"], "verbose": None}  # has no effect
        found = first_difference(before, now)
        if found is not None:
            raise CheckpointError(
                f"{folder}: {'.'.join(found.path)} is {found.before!r} in the run, but "
                f"{found.now!r} now; resume with the settings of the run, or fit into another "
                "directory"
            )

    def _write(self, folder: Path, names: set[str]) -> None:
        """Write the named members that are kept, then the estimator."""
        for name, member in self.members_.items():
            if name in names and not holds_files(folder / name):
                member.save(folder / name)
        fitted = {
            "choice": asdict(self.choice_),
            "left_out_score": self.left_out_score_,
            "n_features_in": getattr(self, "n_features_in_", None),
        }
        save_arrays(folder, describe(self, fitted), {}, replace=True)

    def save(self, directory: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the fitted estimator to a directory, as JSON and safetensors.

        Raises if it holds an estimator or a run; with `overwrite` it is replaced atomically.
        """
        check_is_fitted(self)
        with saved_into(directory, overwrite) as folder:
            save_arrays(folder, describe(self, {"choice": None}), {})
            self._write(folder, set(self.members_))

    @classmethod
    def load(cls: type[Kind], directory: str | os.PathLike[str]) -> Kind:
        """Load an estimator of `save` or `fit(..., directory=...)`."""
        extra, _ = load_arrays(directory)
        estimator = described(cls, extra, directory)
        with understanding(directory):
            fitted = extra["fitted"]
            choice = fitted["choice"]
        if choice is None:
            raise CheckpointError(
                f"{os.fspath(directory)}: was stopped before its end; continue it with "
                "resume=True or --resume"
            )
        with understanding(directory):
            estimator.choice_ = Choice(**choice)
            estimator.left_out_score_ = float(fitted["left_out_score"])
            if fitted["n_features_in"] is not None:
                estimator.n_features_in_ = int(fitted["n_features_in"])
            members = _MEMBERS[estimator.choice_.kept]
        kinds = {"oscillators": cls._untrained, "linoss": cls._trained}
        for name in members:
            setattr(estimator, f"{name}_", kinds[name].load(Path(directory) / name))
        return estimator


@documented
class AutoClassifier(ClassifierMixin, AutoClassifierSettings, AutoEstimator):
    """A scikit-learn classifier of sequences: untrained oscillators, or a trained model if better.

    Fits a [`linoss.OscillatorClassifier`][] first; with `verbose`, its leave-one-out accuracy,
    `left_out_score_`, is shown at once. Then trains a [`linoss.LinOSSClassifier`][] for `minutes`,
    with a third of the cases held out, or a fifth of at least 150. On the held-out cases it
    compares the trained model, oscillators fitted without them, and the average of their
    probabilities, and keeps the simplest that is not worse than the best by more than a standard
    error of the difference. `choice_` has the choice and its reason; `oscillators_` and `linoss_`
    are the two models. With `minutes=0` nothing is trained.

    ```python
    >>> import numpy as np
    >>> from linoss import AutoClassifier
    >>> labels = np.arange(60) % 2
    >>> waves = np.sin(np.outer(1 + labels, np.arange(50)) / 5)
    >>> waves += 0.5 * np.random.default_rng(0).normal(size=waves.shape)
    >>> small = {"steps": 20, "hidden_size": 8, "state_size": 8}
    >>> classifier = AutoClassifier(n_oscillators=256, linoss_options=small, random_state=0)
    >>> classifier.fit(waves[:40], labels[:40]).score(waves[40:], labels[40:])
    1.0
    >>> classifier.choice_.kept
    'oscillators'

    ```
    """

    task, metric = "classification", "accuracy"
    _untrained, _trained = OscillatorClassifier, LinOSSClassifier
    _checks: ClassVar[dict[str, Any]] = {}

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        times: Any = None,
        directory: str | os.PathLike[str] | None = None,
        resume: bool = False,
        on_progress: OnProgress | None = None,
    ) -> "AutoClassifier":
        """Fit to labelled sequences.

        **Arguments:** as for [`linoss.LinOSSClassifier.fit`][]; `directory` holds the kept models
        and the run of the training in separate directories.
        """
        self._fit(X, y, times, directory, resume, on_progress)
        return self

    @property
    def classes_(self) -> np.ndarray:
        """The classes, in the order of the probabilities."""
        return self._first.classes_

    def predict_proba(self, X: Any, *, times: Any = None) -> np.ndarray:
        """Probabilities `(cases, classes)`, in the order of `classes_`."""
        return self._answer(X, times)

    def predict(self, X: Any, *, times: Any = None) -> np.ndarray:
        """Most probable class of each sequence."""
        shares = self._answer(X, times)
        return self.classes_[shares.argmax(axis=1)]

    def score(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, times: Any = None
    ) -> float:
        """Accuracy; `y` may be omitted if X has labels."""
        y = X.labels if y is None and isinstance(X, Sequences) else y
        return float(accuracy_score(y, self.predict(X, times=times), sample_weight=sample_weight))

    def _member_answer(self, member: Any, cases: Sequences) -> np.ndarray:
        return np.asarray(member.predict_proba(cases))

    def _case_scores(self, answers: np.ndarray, truth: np.ndarray) -> np.ndarray:
        """1 for each correct prediction, else 0."""
        return np.asarray(self.oscillators_.classes_[answers.argmax(axis=1)] == truth, float)


@documented
class AutoRegressor(RegressorMixin, AutoEstimator):
    """A scikit-learn regressor of sequences: untrained oscillators, or a trained model if better.

    Like [`linoss.AutoClassifier`][], but compares the R² of [`linoss.OscillatorRegressor`][],
    [`linoss.LinOSSRegressor`][] and the average of both.

    ```python
    >>> import numpy as np
    >>> from linoss import AutoRegressor
    >>> speed = np.random.default_rng(0).uniform(0.5, 1.5, 60)
    >>> waves = np.sin(np.outer(speed, np.arange(50)) / 3)
    >>> regressor = AutoRegressor(minutes=0, n_oscillators=256, random_state=0)
    >>> bool(regressor.fit(waves[:40], speed[:40]).score(waves[40:], speed[40:]) > 0.9)
    True
    >>> regressor.choice_.why
    'Kept the oscillators: minutes is 0, so that nothing was trained'

    ```
    """

    task, metric = "regression", "R²"
    _untrained, _trained = OscillatorRegressor, LinOSSRegressor
    _checks: ClassVar[dict[str, Any]] = {"multi_output": True, "y_numeric": True}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        times: Any = None,
        directory: str | os.PathLike[str] | None = None,
        resume: bool = False,
        on_progress: OnProgress | None = None,
    ) -> "AutoRegressor":
        """Fit to sequences and their targets.

        **Arguments:** as for [`linoss.AutoClassifier.fit`][], but

        - `y`: `(cases,)` or `(cases, n)` numbers.
        """
        self._fit(X, y, times, directory, resume, on_progress)
        return self

    def predict(self, X: Any, *, times: Any = None) -> np.ndarray:
        """Predicted targets, in the shape of `fit`."""
        return self._answer(X, times)

    def score(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, times: Any = None
    ) -> float:
        """R²; `y` may be omitted if X has labels."""
        y = X.labels if y is None and isinstance(X, Sequences) else y
        return float(r2_score(y, self.predict(X, times=times), sample_weight=sample_weight))

    def _member_answer(self, member: Any, cases: Sequences) -> np.ndarray:
        return np.asarray(member.predict(cases))

    def _case_scores(self, answers: np.ndarray, truth: np.ndarray) -> np.ndarray:
        """1 - e² / variance, the mean of which is R²."""
        truth = truth.reshape(len(truth), -1).astype(float)
        errors = answers.reshape(truth.shape) - truth
        variance = truth.var(axis=0)
        return np.mean(1 - errors**2 / np.where(variance > 0, variance, 1.0), axis=1)


def _without_comparison(reason: str) -> Choice:
    return Choice("oscillators", f"Kept the oscillators: {reason}", {}, 0)


def _held_out(y: np.ndarray, seed: int, *, by_class: bool) -> np.ndarray:
    """Every third case, or every fifth of many, in the order of their targets (stratified).

    Cases with the same target are in random order. At least one case of each class is not held out.
    """
    n = len(y)
    shuffled = np.random.default_rng(seed).permutation(n)
    places = np.unique(y if by_class else y.reshape(n, -1)[:, 0], return_inverse=True)[1].ravel()
    order = shuffled[np.argsort(places[shuffled], kind="stable")]
    step = 3 if n < _FEW else 5
    chosen = order[step // 2 :: step]
    if by_class:
        chosen = chosen[np.bincount(places)[places[chosen]] > 1]
    return np.sort(chosen)


def _as_good(scores: np.ndarray, best: np.ndarray) -> bool:
    """Whether scores of cases are at most a standard error worse than others."""
    behind = best - scores
    error = behind.std(ddof=1) / np.sqrt(len(behind))
    return bool(behind.mean() <= error)
