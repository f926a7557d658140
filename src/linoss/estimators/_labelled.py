"""Classification and regression by an ensemble of trained models and untrained oscillators.

With fewer than 1000 cases a different fold is held out from each model, otherwise the same cases
from all. The oscillators have leave-one-out predictions. Predictions of both for held-out cases
determine the ensemble weights, the calibration and the score.
"""

import os
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.utils.validation import check_is_fitted

from linoss._declare import shared_with
from linoss._settings import LabelledSettings, ModelName
from linoss._stderr import duration, say
from linoss.data import DataError, Sequences, as_sequences
from linoss.estimators._base import (
    RunOptions,
    SequenceEstimator,
    drawn_seed,
    warn_of_nan,
    warn_of_stop,
)
from linoss.estimators._contributions import Contributions, find_contributions
from linoss.estimators._described import understanding
from linoss.estimators._listener import AbstractListener, Listener, Together
from linoss.estimators._oscillators import checked_weights
from linoss.estimators._source import Source
from linoss.estimators._stack import Choice, is_better
from linoss.nn import LinOSS
from linoss.training import (
    CheckpointError,
    Inputs,
    Objective,
    Progress,
    TrainingConfig,
    TrainingStopped,
    holds_files,
    load_arrays,
    load_model,
    predict,
    save_arrays,
    save_model,
)

Kind = TypeVar("Kind", bound="LabelledEstimator")

_FEW = 1000  # with fewer cases, several models are trained, each with another held-out fold
_MODELS = 4
_STACK, _OSCILLATORS = "stack", "oscillators"  # directories


class LabelledEstimator(LabelledSettings, SequenceEstimator):
    """Base class of `LinOSSClassifier` and `LinOSSRegressor`."""

    metric: str
    _untrained: type[Any]
    models_: list[LinOSS]
    """The trained models; `model_` is the first."""
    oscillators_: Any
    """The fitted estimator of untrained oscillators; None without."""
    weights_: np.ndarray | None
    """Ensemble weights of the trained models and the oscillators; None for a single member."""
    choice_: Choice | None
    """Which members count, and the reason; None for a single member."""
    left_out_: tuple[np.ndarray, np.ndarray]
    """After `fit`: held-out cases and their predictions, if there are any."""
    left_out_score_: float | None
    """Accuracy or R² of the predictions for held-out cases; None if there are none."""

    # ---- Fit ----

    def _cases(self, X: Any, cases: Sequences, y: Any, sample_weight: Any) -> Sequences:
        """Cases with their targets and weights, without those of weight 0."""
        cases = replace(cases, labels=y)
        if sample_weight is None:
            return cases
        weights = checked_weights(X, sample_weight)
        return replace(cases, weights=weights).select(weights > 0)

    def _fit(
        self,
        cases: Sequences,
        groups: np.ndarray | None,
        objective_of: Callable[[Sequences], Objective],
        run: RunOptions,
        start_from: Any = None,
    ) -> None:
        """Fit to labelled cases, with folds stratified by `groups`."""
        source = None if start_from is None else Source.of(start_from, type(self), self.verbose)
        seed = drawn_seed(self.random_state)
        parts, crossed = self._left_out_parts(len(cases), groups, seed)
        rest = [np.setdiff1d(np.arange(len(cases)), part) for part in parts]
        seen = cases if crossed else cases.select(rest[0])
        inputs = Inputs.from_sequences(seen, time_channel=bool(self.time_channel))
        inputs = replace(inputs, patch=self._patch_of(inputs))
        objective, count = objective_of(seen), len(parts)
        config = TrainingConfig.from_settings(self, seed, min(map(len, rest)))
        if config.minutes is not None:
            config = replace(config, minutes=config.minutes / count)
        begun = time.monotonic()
        self.oscillators_ = self._fit_oscillators(cases, seed)
        if self.verbose and self.oscillators_ is not None:
            say(
                f"Untrained oscillators, after {duration(time.monotonic() - begun)}: leave-one-out "
                f"{self.metric} {self.oscillators_.left_out_score_:.4g}"
            )
        self._stacked = count > 1 or self.oscillators_ is not None or len(parts[0]) > 0
        if self.verbose:
            say(_start_line(len(cases), parts, crossed, config))
        seeds = [seed, *np.random.default_rng(seed).integers(2**31, size=count - 1).tolist()]
        results = []
        with self._shown(objective, run) as shown:
            for k, part in enumerate(parts):
                held_out = len(part) and (not crossed or self.patience is not None)
                sets = cases.select(rest[k]), cases.select(part) if held_out else None
                own = _of_model(shown, k, count)
                own = replace(own, start=None if source is None else partial(source, k))
                settings = replace(config, seed=seeds[k])
                try:
                    results.append(self._run(inputs, objective, *sets, settings, own))
                except KeyboardInterrupt as stop:
                    results += [stop.result] if isinstance(stop, TrainingStopped) else []
                    if results:
                        self._take_all(inputs, objective, results)
                        self._settle(cases, [], crossed)
                        updates = f"{self.n_steps_} of {count * config.steps} updates"
                        warn_of_stop(f"{updates} of {len(results)} of {count} models", run)
                    raise
        self._take_all(inputs, objective, results)
        self._settle(cases, parts, crossed)
        if run.directory is not None and jax.process_index() == 0:
            self._write(Path(run.directory))

    def _take_all(self, inputs: Inputs, objective: Objective, results: list[Any]) -> None:
        """Set the fitted attributes of all models."""
        self._take(inputs, objective, results[0])
        self.models_ = [result.model for result in results]
        self.n_steps_ = sum(result.steps for result in results)

    def _patch_of(self, inputs: Inputs) -> int:
        """Number of samples that form one input step of the models."""
        every = getattr(self, "every", None)
        if self.patch is None:
            plain = every is None and inputs.interval is None and self.devices is None
            longest = inputs.lengths[1]
            return max(longest // 100, 1) if plain and longest > 128 else 1
        for name, other in (("every", every), ("devices", self.devices)):
            if self.patch > 1 and other is not None:
                raise ValueError(f"patch is {self.patch}, expected 1 if there is {name}")
        return self.patch

    def _left_out_parts(
        self, n: int, groups: np.ndarray | None, seed: int
    ) -> tuple[list[np.ndarray], bool]:
        """The held-out cases of each model, and whether they differ between models."""
        count = self.n_models or (_MODELS if n < _FEW else 1)
        if self.validation_fraction is None and count > 1 and n < _FEW:
            order = np.random.default_rng(seed).permutation(n)
            if groups is not None:
                order = order[np.argsort(groups[order], kind="stable")]
            return [np.sort(order[k::count]) for k in range(count)], True
        held_out, stratify = self._held_out(n), None
        if groups is not None and held_out:
            counts = np.unique(groups, return_counts=True)[1]
            held_out = max(held_out, len(counts))
            held_out = held_out if held_out <= n - len(counts) else 0
            stratify = groups if counts.min() > 1 else None
        if not held_out:
            return [np.zeros(0, int)] * count, False
        _, part = train_test_split(
            np.arange(n), test_size=held_out, random_state=seed, stratify=stratify
        )
        return [np.sort(part)] * count, False

    def _fit_oscillators(self, cases: Sequences, seed: int) -> Any:
        """Fit the untrained oscillators; None if `n_oscillators` is None."""
        if self.n_oscillators is None or getattr(self, "every", None) is not None:
            return None
        settings = {**shared_with(self, self._untrained), "random_state": seed}
        return self._untrained(**settings).fit(cases, sample_weight=cases.weights)

    def _settle(self, cases: Sequences, parts: list[np.ndarray], crossed: bool) -> None:
        """Set the ensemble weights and the score by the predictions for held-out cases."""
        both = self.oscillators_ is not None
        self.weights_, self.left_out_score_ = (np.full(2, 0.5) if both else None), None
        self.crossed_, self.choice_ = crossed, None
        if both:
            reason = "no cases were held out for a comparison"
            self.choice_ = Choice.because(reason, "both")
        part = np.concatenate(parts or [np.zeros(0, int)]) if crossed or not parts else parts[0]
        if not len(part):
            return
        found = [
            self._decoded(m, cases.select(p)) for m, p in zip(self.models_, parts, strict=True)
        ]
        if crossed:
            answers: Any = [answer for of_part in found for answer in of_part]
        else:
            answers = [np.mean(several, axis=0) for several in zip(*found, strict=True)]
        if getattr(self, "every", None) is None:
            answers = np.stack(answers)
        sources = [answers]
        if both:
            known, untrained = self.oscillators_.left_out_
            place = np.full(len(cases), -1)
            place[known] = np.arange(len(known))
            there = place[part] >= 0
            part, answers = part[there], answers[there]
            sources = [answers, untrained[place[part]].reshape(answers.shape)]
        chosen = cases.select(part)
        self.weights_ = self._fit_weights(sources, chosen.labels, chosen.weights)
        if both:
            self._choose(sources, chosen)
        answers = self._weighed(sources)
        self.left_out_score_ = self._quality(answers, chosen.labels)
        self.left_out_ = part, answers

    def _choose(self, sources: list[np.ndarray], cases: Sequences) -> None:
        """Give trained models a weight only if they help by more than a standard error.

        That is the standard error of the mean difference of the losses of held-out cases.
        """
        truth, both = cases.labels, self.weights_
        assert both is not None
        alone = self._fit_weights(sources[1:], truth, cases.weights)
        untrained = np.array([0.0, 1.0 if alone is None else alone[0]])
        if not np.isfinite(sources[0]).all():
            reason = "predictions of the trained models are not finite"
            self.weights_, self.choice_ = untrained, Choice.because(reason, "oscillators")
            return
        scores = {"oscillators": sources[1], "linoss": sources[0], "both": self._weighed(sources)}
        scores = {name: self._quality(answers, truth) for name, answers in scores.items()}
        better = is_better(*(self._losses(sources, truth, each) for each in (both, untrained)))
        self.weights_ = both if better else untrained
        self.choice_ = Choice.by_weights(self.weights_, scores, len(cases), self.metric)

    # ---- Predictions ----

    def _fit_weights(
        self, sources: list[np.ndarray], truth: Any, case_weights: np.ndarray | None
    ) -> np.ndarray | None:
        """Fit the ensemble weights to predictions for held-out cases; None for a single member."""
        raise NotImplementedError

    def _losses(self, sources: list[np.ndarray], truth: Any, weights: np.ndarray) -> np.ndarray:
        """The loss of each case, by ensemble weights."""
        raise NotImplementedError

    def _combine(self, sources: list[np.ndarray], weights: np.ndarray) -> np.ndarray:
        """Combine the predictions of members by ensemble weights."""
        raise NotImplementedError

    def _quality(self, answers: Any, truth: Any) -> float:
        """Accuracy or R²."""
        raise NotImplementedError

    def _heard(self, cases: Sequences) -> np.ndarray:
        """The predictions of the oscillators."""
        raise NotImplementedError

    def _decoded(self, model: LinOSS, cases: Sequences) -> Any:
        """Predictions of one model, in the units and shape of the targets."""
        with jax.enable_x64(False):
            found = predict(model, self.inputs_, cases)
        if isinstance(found, list):
            return [self.objective_.decode(answers) for answers in found]
        return self.objective_.decode(found)

    @property
    def _asked(self) -> list[LinOSS]:
        """The trained models, unless their weight is 0."""
        counts = self.oscillators_ is None or self.weights_ is None or self.weights_[0] > 0
        return self.models_ if counts else []

    def _weighed(self, sources: list[Any]) -> Any:
        """Combine the predictions of all members; the first may be omitted if its weight is 0."""
        if self.weights_ is None:
            return sources[0]
        weights = self.weights_[-len(sources) :]
        counting = [source for source, weight in zip(sources, weights, strict=True) if weight > 0]
        return self._combine(counting, weights[weights > 0])

    def _together(self, found: list[np.ndarray]) -> np.ndarray:
        """Combine the predictions of all models that count, followed by that of the oscillators."""
        trained, untrained = found[: len(self._asked)], found[len(self._asked) :]
        mean = [np.mean(trained, axis=0)] if trained[1:] else trained
        return self._weighed([*mean, *untrained])

    def _answers(self, X: Any, times: Any) -> Any:
        """Predict, in the units and shape of the targets."""
        check_is_fitted(self)
        cases, _ = self._sequences(X, None, times, reset=False)
        if self.inputs_.ignores_times(cases):
            raise DataError(
                "times are irregular, but those of fit were regular, or there were none; fit "
                "with irregular times"
            )
        if self.inputs_.irregular and cases.times is None:
            raise DataError(
                "times are not given, but fit had times; also pass them to predict and score. In "
                "cross-validation: sklearn.set_config(enable_metadata_routing=True), and "
                "estimator.set_fit_request(times=True).set_score_request(times=True)"
            )
        if not self.inputs_.indicators and any(map(_partly_missing, cases.values)):
            warnings.warn(
                "X has steps where some of the channels are missing; fit had none, so the model "
                "treats these as the mean of their channel. Include such cases in fit",
                stacklevel=3,
            )
        found = [self._decoded(model, cases) for model in self._asked]
        if self.oscillators_ is not None:
            found.append(self._heard(cases).reshape(len(cases), -1))
        if isinstance(found[0], list):
            answers = [self._together(list(several)) for several in zip(*found, strict=True)]
        else:
            answers = self._together(found)
        warn_of_nan("case", answers)
        return answers

    def _sequences(self, X: Any, y: Any, times: Any, *, reset: bool, **checks: Any) -> Any:
        """Convert X to sequences with the number of channels of fit."""
        cases, y = as_sequences(self, X, y, times, reset=reset, **checks)
        if not reset and cases.num_channels != self.inputs_.channels:
            raise DataError(
                f"X has {cases.num_channels} channels, expected {self.inputs_.channels}, as in fit"
            )
        return cases, y

    def stream(self) -> AbstractListener:
        """Return a function that processes one sample at a time, in constant memory.

        It returns the prediction for the sequence so far. Untrained oscillators in the ensemble
        need `causal=True`.

        ```python
        >>> import numpy as np
        >>> from linoss import LinOSSClassifier
        >>> waves = np.random.default_rng(0).normal(size=(20, 2, 50))
        >>> settings = {"steps": 5, "hidden_size": 8, "state_size": 8, "num_blocks": 1}
        >>> classifier = LinOSSClassifier(**settings, n_oscillators=64, causal=True)
        >>> listen = classifier.fit(waves, np.arange(20) % 2).stream()
        >>> for sample in waves[0].T:
        ...     probabilities = listen(sample)
        >>> bool(np.allclose(probabilities, classifier.predict_proba(waves[:1]), atol=1e-5))
        True

        ```
        """
        check_is_fitted(self)
        if self.oscillators_ is not None and not self.causal:
            raise ValueError(
                "causal is False: some of the untrained oscillators read sequences backwards, "
                "which a stream cannot do; fit with causal=True, or with n_oscillators=None"
            )
        untrained = [] if self.oscillators_ is None else [self.oscillators_.stream()]
        trained = [Listener(self.inputs_, self.objective_, model) for model in self._asked]
        return Together([*trained, *untrained], self._together)

    def explain(self, X: Any, *, times: Any = None) -> Contributions:
        """Return the contribution of each value of the only case of X to the trained models'
        outputs.

        By integrated gradients with channel means as the baseline; contributions sum to the
        outputs. `oscillators_.explain` does the same for the untrained oscillators.

        ```python
        >>> import numpy as np
        >>> from linoss import LinOSSClassifier
        >>> waves = np.random.default_rng(0).normal(size=(20, 2, 50))
        >>> waves[::2, 0] += np.sin(np.arange(50))
        >>> settings = {"steps": 20, "hidden_size": 8, "state_size": 8, "num_blocks": 1}
        >>> classifier = LinOSSClassifier(**settings, n_models=1, n_oscillators=None)
        >>> found = classifier.fit(waves, np.arange(20) % 2).explain(waves[:1])
        >>> found.evidence.shape, bool(found.error < 1e-3)
        ((2, 2, 50), True)

        ```
        """
        check_is_fitted(self)
        cases, _ = self._sequences(X, None, times, reset=False)
        return find_contributions(self.models_, self.inputs_, self.objective_, cases)

    # ---- The interface of all estimators for commands ----

    @property
    def can_stream_(self) -> bool:
        """Whether it supports streaming."""
        return super().can_stream_ and (self.oscillators_ is None or bool(self.causal))

    @property
    def own_scores_(self) -> dict[str, float]:
        """Scores without a test part, by name."""
        if self.left_out_score_ is None:
            return {} if self.oscillators_ is None else self.oscillators_.own_scores_
        kind = "left-out" if self.crossed_ else "validation"
        return {f"{kind} {self.metric}": self.left_out_score_}

    @property
    def members_(self) -> dict[ModelName, Any]:
        """The fitted estimators of the ensemble, by model."""
        if self.oscillators_ is None:
            return {"linoss": self}
        return {"oscillators": self.oscillators_, "linoss": self}

    # ---- Files ----

    def _fitted(self) -> dict[str, Any]:
        return {**super()._fitted(), "stacked": self._stacked}

    def _write(self, folder: Path) -> None:
        """Write the files of the further members to the directory of the first model."""
        if not self._stacked:
            return
        if self.oscillators_ is not None:
            self.oscillators_.save(folder / _OSCILLATORS, overwrite=True)
        record = {
            "models": len(self.models_),
            "oscillators": self.oscillators_ is not None,
            "weights": None if self.weights_ is None else self.weights_.tolist(),
            "choice": None if self.choice_ is None else asdict(self.choice_),
            "score": self.left_out_score_,
            "crossed": self.crossed_,
            "steps": self.n_steps_,
        }
        save_arrays(folder / _STACK, record, {}, replace=True)

    def _save(self, folder: Path) -> None:
        super()._save(folder)
        for k, model in enumerate(self.models_[1:], 2):
            below = folder / f"model-{k}"
            save_model(below, model, self.inputs_, self.objective_, extra=self._extra())
        self._write(folder)

    @classmethod
    def load(cls: type[Kind], directory: str | os.PathLike[str]) -> Kind:
        """Load an estimator of `save` or `fit(..., directory=...)`."""
        estimator, folder = super().load(directory), Path(directory)
        estimator.models_, estimator.oscillators_ = [estimator.model_], None
        estimator.weights_ = estimator.left_out_score_ = estimator.choice_ = None
        estimator.crossed_ = False
        if not estimator._stacked:
            return estimator
        if not holds_files(folder / _STACK):
            warnings.warn(
                f"{folder}: was stopped before its end, and only its first model is used; "
                "continue it with resume=True or --resume",
                stacklevel=2,
            )
            estimator._stacked = False
            return estimator
        record, _ = load_arrays(folder / _STACK)
        with understanding(folder / _STACK):
            count, sources = int(record["models"]), 1 + bool(record["oscillators"])
            weights, score, choice = record["weights"], record["score"], record["choice"]
            estimator.choice_ = None if choice is None else Choice(**choice)
            estimator.left_out_score_ = None if score is None else float(score)
            estimator.crossed_, estimator.n_steps_ = bool(record["crossed"]), int(record["steps"])
            if weights is not None or sources > 1:
                found = estimator.weights_ = np.array(weights, np.float64)
                if found.shape != (sources,) or not (np.isfinite(found) & (found >= 0)).all():
                    raise ValueError(f"weights are {weights}, expected {sources} numbers >= 0")
        for k in range(2, count + 1):
            estimator.models_.append(_equal_model(estimator, folder / f"model-{k}"))
        if record["oscillators"]:
            estimator.oscillators_ = cls._untrained.load(folder / _OSCILLATORS)
            outputs = estimator.oscillators_.n_outputs_, estimator.oscillators_.n_channels_
            if outputs != (estimator.n_outputs_, estimator.n_channels_):
                raise CheckpointError(f"{folder / _OSCILLATORS}: is of other data than {folder}")
        return estimator

    def _restore(self, fitted: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        super()._restore(fitted, arrays)
        self._stacked = bool(fitted["stacked"])


def _equal_model(estimator: Any, folder: Path) -> LinOSS:
    """Load a model with the settings, inputs and targets of the first one."""
    with jax.enable_x64(False):
        saved = load_model(folder)
    same = saved.model.config == estimator.model_.config
    same = same and saved.inputs.to_dict() == estimator.inputs_.to_dict()
    if not same or saved.objective.to_dict() != estimator.objective_.to_dict():
        raise CheckpointError(f"{folder}: is not one of the models of {folder.parent}")
    return saved.model


def _of_model(run: RunOptions, k: int, count: int) -> RunOptions:
    """The options of one of several models, whose progress has its number."""
    if count == 1:
        return run
    report = run.on_progress

    def tell(progress: Progress) -> None:
        assert report is not None
        eta, left = progress.eta, progress.steps - progress.step
        if eta is not None and left:
            eta *= 1 + (count - 1 - k) * progress.steps / left
        report(replace(progress, model=k + 1, models=count, eta=eta))

    directory = run.directory
    if directory is not None and k > 0:
        directory = Path(directory) / f"model-{k + 1}"
    return RunOptions(directory, run.resume, None if report is None else tell)


def _start_line(n: int, parts: list[np.ndarray], crossed: bool, config: TrainingConfig) -> str:
    """A line about the models, the cases and the budget of the training."""
    count, held_out = len(parts), max(map(len, parts))
    models = "a model" if count == 1 else f"{count} models"
    without = "none held out" if not held_out else f"{held_out} held out"
    if crossed:
        without = f"each without another {held_out} of them"
    epochs = config.steps / max((n - held_out) // config.batch_size, 1)
    time = "" if config.minutes is None else f", {duration(60 * config.minutes)}"
    each = "" if count == 1 else " each"
    return (
        f"Training {models} on {n} cases, {without}: at most {config.steps} updates of "
        f"{config.batch_size} cases{each}, {epochs:.3g} epochs{time}"
    )


def _partly_missing(case: Any) -> bool:
    """Whether some, but not all, channels are missing at a step."""
    missing = np.isnan(case)
    return bool((missing.any(axis=-1) & ~missing.all(axis=-1)).any())
