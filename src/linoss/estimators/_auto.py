"""Untrained oscillators first, then trained models with a time limit, if they help."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from linoss._declare import check_settings, declared, documented, shared_with
from linoss._settings import AutoClassifierSettings, AutoSettings
from linoss.data import Sequences, as_sequences
from linoss.estimators._base import OnProgress, drawn_seed
from linoss.estimators._classifier import LinOSSClassifier
from linoss.estimators._described import describe, described, saved_into, understanding
from linoss.estimators._listener import AbstractListener
from linoss.estimators._oscillators import (
    OscillatorClassifier,
    OscillatorRegressor,
    labelled_cases,
)
from linoss.estimators._regressor import LinOSSRegressor
from linoss.estimators._stack import Choice
from linoss.training import (
    CheckpointError,
    TrainingError,
    holds_files,
    load_arrays,
    save_arrays,
)

Kind = TypeVar("Kind", bound="AutoEstimator")


def _of_kept(name: str, text: str) -> Any:
    """A property of the kept estimator."""
    return property(lambda auto: getattr(auto.estimator_, name), doc=text)


class AutoEstimator(AutoSettings, BaseEstimator):
    """Base class of `AutoClassifier` and `AutoRegressor`."""

    choice_: Choice
    estimator_: Any
    """After `fit`: the kept estimator, of untrained oscillators, or of an ensemble."""
    n_features_in_: int
    task: str
    metric: str
    _untrained: type[Any]
    _trained: type[Any]
    _checks: ClassVar[dict[str, Any]] = {}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = True
        return tags

    def fit(
        self: Kind,
        X: Any,
        y: Any = None,
        *,
        times: Any = None,
        directory: str | os.PathLike[str] | None = None,
        resume: bool = False,
        on_progress: OnProgress | None = None,
    ) -> Kind:
        """Fit to labelled sequences.

        **Arguments:** as for [`linoss.LinOSSClassifier.fit`][] or [`linoss.LinOSSRegressor.fit`][];
        `directory` holds the run of the training, and the oscillators if they are kept, in separate
        directories. Ctrl-C raises a KeyboardInterrupt and keeps the oscillators.
        """
        check_settings(self)
        options = self._linoss_options()
        cases, y = labelled_cases(self, X, y, times, **self._checks)
        cases = Sequences(cases.values, y, cases.times, cases.names, cases.ids)
        folder = None if directory is None else Path(directory)
        if resume and folder is None:
            raise ValueError("resume is True, but directory is None; pass the directory of the run")
        if folder is not None and not (resume and holds_files(folder)):
            save_arrays(folder, describe(self, {"choice": None}), {})
        seed = {"random_state": drawn_seed(self.random_state)}
        if self.minutes == 0:
            self.estimator_ = self._untrained(**{**shared_with(self, self._untrained), **seed})
            self.estimator_.fit(cases)
            reason = "minutes is 0, so nothing was trained"
            self.choice_ = Choice.because(reason, "oscillators")
        else:
            settings = {**shared_with(self, self._trained), **options, **seed}
            where = {} if folder is None else {"directory": folder / "linoss", "resume": resume}
            self._train(self._trained(**settings), cases, {**where, "on_progress": on_progress})
        if folder is not None:
            self._write(folder, self.choice_.kept == "oscillators")
        return self

    def _train(self, trained: Any, cases: Sequences, how: dict[str, Any]) -> None:
        """Fit an ensemble, and keep what helps: the oscillators, if the training does not end."""
        try:
            trained.fit(cases, **how)
        except (TrainingError, KeyboardInterrupt) as error:
            if hasattr(trained, "oscillators_"):
                failed = isinstance(error, TrainingError)
                reason = f"the training {f'failed: {error}' if failed else 'was interrupted'}"
                self.choice_ = Choice.because(reason, "oscillators")
                self.estimator_ = trained.oscillators_
            if not isinstance(error, TrainingError):
                raise
        else:
            self.choice_ = trained.choice_
            alone = self.choice_.kept == "oscillators"
            self.estimator_ = trained.oscillators_ if alone else trained

    def _linoss_options(self) -> dict[str, Any]:
        """The settings of the trained models, other than those of this estimator."""
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

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimator_")

    # ---- Predictions ----

    def _sequences(self, X: Any, times: Any) -> Sequences:
        check_is_fitted(self)
        return as_sequences(self, X, None, times, reset=False)[0]

    def predict(self, X: Any, *, times: Any = None) -> np.ndarray:
        """The most probable class of each sequence, or targets in the shape of `fit`."""
        cases = self._sequences(X, times)
        return self.estimator_.predict(cases)

    def _score(self, X: Any, y: Any, sample_weight: Any, times: Any) -> float:
        y = X.labels if y is None and isinstance(X, Sequences) else y
        cases = self._sequences(X, times)
        return self.estimator_.score(cases, y, sample_weight)

    def stream(self) -> AbstractListener:
        """Return a function that processes one sample at a time, in constant memory.

        It returns the prediction for the sequence so far: probabilities, or numbers. Requires
        `causal=True`.

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
        return self.estimator_.stream()

    # ---- The interface of all estimators for commands ----

    left_out_ = _of_kept("left_out_", "After `fit`: held-out cases, and their predictions.")
    left_out_score_ = _of_kept("left_out_score_", "Accuracy or R² on held-out cases.")
    crossed_ = _of_kept("crossed_", "Whether each trained model has its own held-out cases.")
    members_ = _of_kept("members_", "The fitted estimators of the ensemble, by model.")
    n_outputs_ = _of_kept("n_outputs_", "Number of classes, or of targets.")
    n_channels_ = _of_kept("n_channels_", "Number of channels of the data.")
    timed_ = _of_kept("timed_", "Whether each sample needs a time.")
    can_stream_ = _of_kept("can_stream_", "Whether it supports streaming.")
    own_scores_ = _of_kept("own_scores_", "Scores without a test part, by name.")

    # ---- Files ----

    def _write(self, folder: Path, whole: bool) -> None:
        """Write the estimator, with the kept one if `whole`."""
        if whole:
            self.estimator_.save(_place(folder, self.choice_), overwrite=True)
        width = getattr(self, "n_features_in_", None)
        fitted = {"choice": asdict(self.choice_), "n_features_in": width}
        save_arrays(folder, describe(self, fitted), {}, replace=True)

    def save(self, directory: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the fitted estimator to a directory, as JSON and safetensors.

        Raises if it holds an estimator or a run; with `overwrite` it is replaced atomically.
        """
        check_is_fitted(self)
        with saved_into(directory, overwrite) as folder:
            save_arrays(folder, describe(self, {"choice": None}), {})
            self._write(folder, whole=True)

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
            if fitted["n_features_in"] is not None:
                estimator.n_features_in_ = int(fitted["n_features_in"])
            place = _place(Path(directory), estimator.choice_)
        kind = cls._untrained if estimator.choice_.kept == "oscillators" else cls._trained
        estimator.estimator_ = kind.load(place)
        return estimator


@documented
class AutoClassifier(ClassifierMixin, AutoClassifierSettings, AutoEstimator):
    """A scikit-learn classifier of sequences: untrained oscillators, and trained models if better.

    A [`linoss.LinOSSClassifier`][] that trains for at most `minutes`. It first fits a
    [`linoss.OscillatorClassifier`][]; with `verbose`, its leave-one-out accuracy is shown at once.
    The oscillators alone are kept, unless the trained models increase the log-likelihood of
    held-out cases by more than a standard error. `choice_` has the choice and its reason,
    `estimator_` is the kept estimator, and `left_out_score_` its accuracy on held-out cases. With
    `minutes=0` nothing is trained.

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
    >>> classifier.choice_.scores["oscillators"]  # on held-out cases
    1.0

    ```
    """

    task, metric = "classification", "accuracy"
    _untrained, _trained = OscillatorClassifier, LinOSSClassifier
    classes_ = _of_kept("classes_", "The classes, in the order of the probabilities.")

    def predict_proba(self, X: Any, *, times: Any = None) -> np.ndarray:
        """Probabilities `(cases, classes)`, in the order of `classes_`."""
        cases = self._sequences(X, times)
        return self.estimator_.predict_proba(cases)

    def score(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, times: Any = None
    ) -> float:
        """Accuracy; `y` may be omitted if X has labels."""
        return self._score(X, y, sample_weight, times)


@documented
class AutoRegressor(RegressorMixin, AutoEstimator):
    """A scikit-learn regressor of sequences: untrained oscillators, and trained models if better.

    Like [`linoss.AutoClassifier`][], with a [`linoss.LinOSSRegressor`][] and R².

    ```python
    >>> import numpy as np
    >>> from linoss import AutoRegressor
    >>> speed = np.random.default_rng(0).uniform(0.5, 1.5, 60)
    >>> waves = np.sin(np.outer(speed, np.arange(50)) / 3)
    >>> regressor = AutoRegressor(minutes=0, n_oscillators=256, random_state=0)
    >>> bool(regressor.fit(waves[:40], speed[:40]).score(waves[40:], speed[40:]) > 0.9)
    True
    >>> regressor.choice_.why
    'Kept the oscillators: minutes is 0, so nothing was trained'

    ```
    """

    task, metric = "regression", "R²"
    _untrained, _trained = OscillatorRegressor, LinOSSRegressor
    _checks: ClassVar[dict[str, Any]] = {"multi_output": True, "y_numeric": True}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def score(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, times: Any = None
    ) -> float:
        """R²; `y` may be omitted if X has labels."""
        return self._score(X, y, sample_weight, times)


def _place(folder: Path, choice: Choice) -> Path:
    """The directory of the kept estimator; that of an ensemble is that of its run."""
    return folder / ("oscillators" if choice.kept == "oscillators" else "linoss")
