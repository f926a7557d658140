"""Training, validation of inputs, streaming and files of all trained estimators."""

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from linoss._settings import ModelName
from linoss.estimators._described import describe, described, saved_into, understanding
from linoss.fitted import NotANumberWarning
from linoss.nn import MIXERS, LinOSS, LinOSSConfig
from linoss.training import (
    Cases,
    Inputs,
    Objective,
    Progress,
    ProgressLine,
    TrainingConfig,
    TrainingResult,
    TrainingStopped,
    holds_files,
    load_model,
    make_mesh,
    read_training,
    save_model,
    together,
    train,
)

OnProgress = Callable[[Progress], None]
Kind = TypeVar("Kind", bound="SequenceEstimator")

_FEW = 500  # with fewer cases none are held out by default


def drawn_seed(random_state: Any) -> int:
    """The seed of a fit: `random_state` if it is an integer, else drawn from it."""
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31))


@dataclass(frozen=True)
class RunOptions:
    """Directory of a fit, whether to resume it, and a callback for its progress."""

    directory: str | os.PathLike[str] | None = None
    resume: bool = False
    on_progress: OnProgress | None = None
    start: Callable[[LinOSS, Objective], LinOSS] | None = None
    """A function that initialises a new model from another one; None to use the new model."""


class SequenceEstimator(BaseEstimator):
    """Base class of the trained estimators. Parameters are declared in `linoss._settings`."""

    # ---- Training ----

    def _train(
        self,
        inputs: Inputs,
        objective: Objective,
        training_set: Cases,
        validation_set: Cases | None,
        seed: int,
        run: RunOptions,
        *,
        used: bool = True,
    ) -> None:
        """Train one model and set the fitted attributes; no updates if it is not `used`."""
        config = TrainingConfig.from_settings(self, seed, len(training_set))
        config = config if used else replace(config, steps=0, warmup=0)
        try:
            with self._shown(objective, run) as run:
                result = self._run(inputs, objective, training_set, validation_set, config, run)
        except TrainingStopped as stop:
            self._take(inputs, objective, stop.result)
            warn_of_stop(f"{stop.result.steps} of {config.steps} updates", run)
            raise
        self._take(inputs, objective, result)

    def _take(self, inputs: Inputs, objective: Objective, result: TrainingResult) -> None:
        """Set the fitted attributes from a result."""
        self.model_, self.inputs_, self.objective_ = result.model, inputs, objective
        self.history_, self.n_steps_ = result.history, result.steps
        self.best_metric_ = result.best_metric

    @contextmanager
    def _shown(self, objective: Objective, run: RunOptions) -> Iterator[RunOptions]:
        """Options whose callback also shows the progress, if `verbose`."""
        if not self.verbose:
            yield run
            return
        with ProgressLine(objective.metric) as line:
            report = run.on_progress
            yield replace(run, on_progress=line if report is None else together(line, report))

    def _run(
        self,
        inputs: Inputs,
        objective: Objective,
        training_set: Cases,
        validation_set: Cases | None,
        training: TrainingConfig,
        run: RunOptions,
    ) -> TrainingResult:
        """Train a model."""
        config = LinOSSConfig.from_settings(
            self, in_size=inputs.in_size, out_size=objective.out_size, task=objective.task
        )
        if inputs.interval is not None and not MIXERS[config.mixer].irregular:
            timed = ", ".join(repr(name) for name, kind in MIXERS.items() if kind.irregular)
            raise ValueError(
                f"times are not evenly spaced, but mixer is {config.mixer!r}, which counts "
                f"samples; use one of {timed}, or leave out times and pass them as a channel"
            )
        if self.patience is not None and validation_set is None:
            raise ValueError(
                f"patience is {self.patience}, but nothing is held out to measure improvement; "
                "set validation_fraction, such as 0.2"
            )
        if run.resume and run.directory is not None and holds_files(run.directory):
            training = self._lengthened(training, read_training(run.directory))
        with jax.enable_x64(False):
            model = LinOSS(config, key=jax.random.key(training.seed))
            return train(
                model if run.start is None else run.start(model, objective),
                inputs,
                objective,
                training_set,
                validation_set,
                training,
                directory=run.directory,
                resume=run.resume,
                on_progress=run.on_progress,
                extra=self._extra(),
                arrays=self._arrays(),
                mesh=make_mesh(self.devices),
                memory=self.memory,
                quickly=True,
            )

    def _lengthened(self, now: TrainingConfig, before: TrainingConfig | None) -> TrainingConfig:
        """Settings that extend a run, with the defaults that follow from the steps of the run."""
        if before is None or now.schedule != "constant" or now.steps <= before.steps:
            return now
        names = [n for n in ("warmup", "evaluate_every") if getattr(self, n) is None]
        return replace(now, **{name: getattr(before, name) for name in names})

    def _held_out(self, cases: int) -> int:
        """Number of cases to hold out for validation."""
        fraction = self.validation_fraction
        if fraction is None:
            fraction = 0.0 if cases < _FEW else 0.1
        return min(round(fraction * cases), cases - 1)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    # ---- The interface of all estimators for commands ----

    task: str
    """The task."""

    @property
    def n_outputs_(self) -> int:
        """Number of classes, of targets, or of forecast variables."""
        return self.objective_.out_size

    @property
    def n_channels_(self) -> int:
        """Number of channels of the data."""
        return self.inputs_.channels

    @property
    def timed_(self) -> bool:
        """Whether each sample needs a time."""
        return self.inputs_.interval is not None

    @property
    def can_stream_(self) -> bool:
        """Whether it supports streaming."""
        config = self.model_.config
        return not config.bidirectional and not MIXERS[config.mixer].follows

    @property
    def own_scores_(self) -> dict[str, float]:
        """Scores without a test part, by name."""
        best = self.history_[-1]["best"] if self.history_ else None
        return {} if best is None else {f"validation {self.objective_.metric}": best}

    @property
    def members_(self) -> dict[ModelName, Any]:
        """The fitted estimators of the ensemble, by model."""
        return {"linoss": self}

    # ---- Files ----

    def _extra(self) -> dict[str, Any]:
        """Return the JSON values to save with the model."""
        described = describe(self, self._fitted())
        for name in ("devices", "memory"):  # may differ when a run is resumed
            del described["parameters"][name]
        return described

    def _fitted(self) -> dict[str, Any]:
        """Return fitted attributes other than the model, its inputs and its objective."""
        return {"n_features_in": getattr(self, "n_features_in_", None)}

    def _arrays(self) -> dict[str, np.ndarray]:
        """Return fitted arrays other than the weights."""
        return {}

    def _restore(self, fitted: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Set the attributes that `_fitted` and `_arrays` returned."""
        if fitted["n_features_in"] is not None:
            self.n_features_in_ = fitted["n_features_in"]

    def save(self, directory: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the fitted estimator to a directory, as JSON and safetensors.

        Raises if it holds an estimator or a run; with `overwrite` it is replaced atomically.
        """
        check_is_fitted(self)
        with saved_into(directory, overwrite) as folder:
            self._save(folder)

    def _save(self, folder: Path) -> None:
        model = (self.model_, self.inputs_, self.objective_)
        save_model(folder, *model, extra=self._extra(), arrays=self._arrays())

    @classmethod
    def load(cls: type[Kind], directory: str | os.PathLike[str]) -> Kind:
        """Load an estimator of `save` or `fit(..., directory=...)`."""
        with jax.enable_x64(False):
            saved = load_model(directory)
        estimator = described(cls, saved.extra, directory)
        with understanding(directory):
            estimator.model_, estimator.inputs_ = saved.model, saved.inputs
            estimator.objective_, estimator.history_ = saved.objective, saved.history
            estimator.n_steps_ = saved.history[-1]["step"] if saved.history else 0
            estimator._restore(saved.extra["fitted"], saved.arrays)
        return estimator


def warn_of_nan(what: str, answers: Any) -> None:
    """Warn if predictions, one for each case, are not all finite."""
    wrong = [i for i, answer in enumerate(answers) if not np.isfinite(answer).all()]
    if wrong:
        more = f" and {len(wrong) - 1} others" if len(wrong) > 1 else ""
        warnings.warn(
            f"the predictions for {what} {wrong[0]}{more} are not numbers: values of the data or "
            "the weights are too large for single precision",
            NotANumberWarning,
            stacklevel=4,
        )


def warn_of_stop(done: str, run: RunOptions) -> None:
    """Warn that a fit without a directory was interrupted, and how far it came."""
    if run.directory is None:
        warnings.warn(
            f"fit was interrupted after {done}; the estimator uses the weights learned so far",
            stacklevel=4,
        )
