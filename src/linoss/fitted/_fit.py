"""Fits: the readout of untrained oscillators, or one or several trained models.

With fewer than 1000 cases a different fold is held out from each of several models, otherwise the
same cases from all. A run directory holds the directory of each model, `model-1`, `model-2`, ...
"""

import os
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import jax
import numpy as np
from sklearn.utils.class_weight import compute_class_weight, compute_sample_weight

from linoss._declare import COUNT, POSITIVE, SHARE, Number, changed, setting
from linoss._programs import refuse_forked
from linoss._settings import MEMORY, NormKind, PrecisionName, RandomStateLike
from linoss._stderr import ProgressBar, say
from linoss.data import Sequences
from linoss.features import OscillatorSettings
from linoss.fitted._fitted import Fitted, HeldOut, Outputs
from linoss.fitted._models import Trained, mean_of
from linoss.fitted._oscillators import Untrained
from linoss.nn import MIXERS, LinOSS, LinOSSConfig, MixerKind, MixerLike, SchemeLike, adopt
from linoss.training import (
    Callback,
    Cases,
    Classification,
    Inputs,
    Objective,
    Progress,
    Regression,
    TrainingConfig,
    TrainingResult,
    TrainingStopped,
    make_mesh,
    train,
)

_FEW = 1000  # with fewer cases, several models are trained, each with another held-out fold
_FEW_TO_HOLD_OUT = 500  # with fewer cases, one model holds out none by default
_MODELS = 4
_LEAST_PATIENCE = 10


@dataclass(kw_only=True, eq=False, repr=False)
class TrainedSettings:
    """Settings of all estimators with trained models; the defaults are chosen for small data.

    Those without a help text are passed on to fields of the same name of `configs`.
    """

    configs: ClassVar[tuple[type, ...]] = (LinOSSConfig, TrainingConfig, OscillatorSettings)

    hidden_size: int = 64
    state_size: int = 64
    num_blocks: int = 2
    mixer: MixerLike = "linoss"
    scheme: SchemeLike = "exact"
    damped: bool | None = None
    bidirectional: bool = False
    norm: NormKind | None = "batch"
    dropout: Number = 0.1
    precision: PrecisionName = "float32"
    time_channel: bool = setting(False, "Add a channel with the time since the start.")
    model_options: dict[str, Any] | None = setting(
        None, "Further settings of linoss.LinOSSConfig, by name.", other="a dict"
    )

    steps: int | None = None
    epochs: Number | None = setting(
        None,
        "Maximum number of passes over the training cases, instead of steps.",
        POSITIVE,
        none="determined by steps",
    )
    batch_size: int = 32
    learning_rate: Number = 3e-3
    warmup: int | None = None
    schedule: Literal["cosine", "constant"] = "cosine"
    weight_decay: Number = 0.01
    clip_norm: Number | None = 1.0
    validation_fraction: Number | None = setting(
        None,
        "Fraction of the cases, or of the end of each series, held out to select the best weights.",
        SHARE,
        none="0.1, or 0 for fewer than 500 cases; with several models and fewer than 1000 cases a "
        "different fold for each model; 0.2 for forecasting",
    )
    evaluate_every: int | None = None
    patience: int | None = setting(
        None,
        "Stop after this number of evaluations without improvement.",
        COUNT,
        none="half of them, at least 10, if cases are held out to select the best weights",
    )
    min_loss: Number = 0.0
    minutes: Number | None = None
    random_state: int | RandomStateLike | None = None
    devices: int | tuple[int, int] | None = setting(
        None,
        "Number of devices to split each batch over, or a pair (batch, time) to also split the "
        "sequences over time.",
        COUNT,
        none="JAX's default device",
        other="a pair of integers",
    )
    memory: int = setting(
        MEMORY,
        "Bytes of intermediate results that an update may keep for the backward pass, in addition "
        "to the inputs of blocks, instead of recomputing them. Does not change results.",
        "[0, inf)",
    )
    verbose: int | bool = setting(0, "1 to show progress.", "[0, inf)")


@dataclass(frozen=True)
class RunOptions:
    """Directory of a fit, whether to resume it, a callback, and where weights start."""

    directory: str | os.PathLike[str] | None = None
    resume: bool = False
    on_progress: Callback | None = None
    start_from: Fitted | None = None
    """A fitted thing whose weights initialise the models; None to draw them."""

    def model(self, k: int, count: int) -> "RunOptions":
        """The options of the k-th of several models, whose progress has its number."""
        report = self.on_progress

        def tell(progress: Progress) -> None:
            assert report is not None
            eta, left = progress.eta, progress.steps - progress.step
            if eta is not None and left:
                eta *= 1 + (count - 1 - k) * progress.steps / left
            report(replace(progress, model=k + 1, models=count, eta=eta))

        folder = None if self.directory is None else Path(self.directory) / f"model-{k + 1}"
        progress = tell if count > 1 and report is not None else report
        return replace(self, directory=folder, on_progress=progress)

    def warn_of_stop(self, done: str) -> None:
        """Warn, without a directory, that a fit was interrupted, and how far it came."""
        if self.directory is None:
            warnings.warn(
                f"fit was interrupted after {done}; the estimator uses the weights learned so far",
                stacklevel=5,
            )

    @contextmanager
    def shown(self, metric: str, verbose: int | bool) -> Iterator["RunOptions"]:
        """Options whose callback also shows the progress, if `verbose`."""
        if not verbose:
            yield self
            return
        bar, report = ProgressBar(), self.on_progress

        def tell(progress: Progress) -> None:
            done = (progress.model - 1) * progress.steps + progress.step
            bar.show(done, progress.models * progress.steps, progress.text(metric))
            if report is not None:
                report(progress)

        with closing(bar):
            yield replace(self, on_progress=tell)


class FitStopped(KeyboardInterrupt):
    """A fit was stopped by Ctrl-C. `fitted` holds the models so far."""

    def __init__(self, fitted: Fitted):
        super().__init__("the fit was stopped")
        self.fitted = fitted


def fit_oscillators(
    cases: Sequences, outputs: Outputs, *, class_weight: Any = None, **bank: Any
) -> Fitted:
    """Fit a readout of untrained oscillators to labelled cases; `bank` is as in `Untrained.fit`."""
    if len(cases) < 2:
        raise ValueError(f"X has {len(cases)} sample, expected at least 2 cases")
    weights, labels = cases.weights, cases.labels
    if class_weight is not None:
        balance = compute_sample_weight(class_weight, labels)
        weights = balance if weights is None else weights * balance
    member, part, predictions = Untrained.fit(cases, outputs.encode(labels), weights, **bank)
    score = outputs.score(predictions, np.asarray(labels)[part])
    kind = "leave-one-out" if cases.groups is None else "leave-one-group-out"
    held_out = HeldOut(kind, part, predictions, score)
    return Fitted(outputs, oscillators=member, held_out=held_out, channels=cases.names)


def fit_models(
    settings: Any, cases: Sequences, outputs: Outputs, seed: int, run: RunOptions
) -> Fitted:
    """Train models on labelled cases. Raises `FitStopped` on Ctrl-C if there is a model already.

    `settings` are `TrainedSettings` with `n_models` and `patch`, and for classes `class_weight` and
    `label_smoothing`.
    """
    source, fraction = run.start_from, settings.validation_fraction
    if source is not None and source.n_channels == cases.num_channels:
        cases = cases.ordered(source.channels)
    parts, is_crossed = _held_out_parts(settings.n_models, fraction, cases, outputs, seed)
    others = [np.setdiff1d(np.arange(len(cases)), part) for part in parts]
    seen = cases if is_crossed else cases.select(others[0])
    inputs = Inputs.from_sequences(seen, time_channel=bool(settings.time_channel))
    inputs = replace(inputs, patch=_patch(settings, inputs, outputs))
    objective, count = _objective(settings, outputs, seen.labels), len(parts)
    config = TrainingConfig.from_settings(settings, seed, min(map(len, others)))
    if config.minutes is not None:
        config = changed(config, minutes=config.minutes / count)
    seeds = [seed, *np.random.default_rng(seed).integers(2**31, size=count - 1).tolist()]
    results: list[TrainingResult] = []

    def fitted(held_out: HeldOut | None = None) -> Fitted:
        first, steps = results[0], sum(result.steps for result in results)
        models = [result.model for result in results]
        trained = Trained(models, inputs, objective, first.history, steps, first.best_metric)
        return Fitted(outputs, trained, held_out=held_out, channels=cases.names)

    with run.shown(objective.metric, settings.verbose) as shown:
        for k, part in enumerate(parts):
            is_validated = len(part) and (not is_crossed or settings.patience is not None)
            sets = cases.select(others[k]), cases.select(part) if is_validated else None
            training = changed(config, seed=seeds[k])
            try:
                result = train_model(
                    settings, inputs, objective, *sets, training, shown.model(k, count), k
                )
            except KeyboardInterrupt as stop:
                results += [stop.result] if isinstance(stop, TrainingStopped) else []
                if not results:
                    raise
                steps = sum(each.steps for each in results)
                run.warn_of_stop(
                    f"{steps} of {count * config.steps} updates of {len(results)} of {count} models"
                )
                raise FitStopped(fitted()) from None
            results.append(result)
    return fitted(_held_out(fitted(), cases, parts, is_crossed))


def train_model(
    settings: TrainedSettings,
    inputs: Inputs,
    objective: Objective,
    training_set: Cases,
    validation_set: Cases | None,
    training: TrainingConfig,
    run: RunOptions,
    k: int = 0,
) -> TrainingResult:
    """Train one model, the k-th of several, in the directory of `run`."""
    refuse_forked()
    config = LinOSSConfig.from_settings(
        settings, in_size=inputs.in_size, out_size=objective.out_size, task=objective.task
    )
    if inputs.interval is not None and not MixerKind.of(config.mixer).irregular:
        timed = ", ".join(repr(name) for name, kind in MIXERS.items() if kind.irregular)
        raise ValueError(
            f"times are not evenly spaced, but mixer is {config.mixer!r}, which counts "
            f"samples; use one of {timed}, or leave out times and pass them as a channel"
        )
    if settings.patience is not None and validation_set is None:
        raise ValueError(
            f"patience is {settings.patience}, but nothing is held out to measure improvement; "
            "set validation_fraction, such as 0.2"
        )
    if settings.patience is None and validation_set is not None:
        half = training.steps // training.evaluate_every // 2
        training = changed(training, patience=max(half, _LEAST_PATIENCE))
    with jax.enable_x64(False):
        model = LinOSS(config, key=jax.random.key(training.seed))
        if run.start_from is not None:
            model = _started(model, objective, run.start_from, k, settings.verbose)
        return train(
            model,
            inputs,
            objective,
            training_set,
            validation_set,
            training,
            directory=run.directory,
            resume=run.resume,
            on_progress=run.on_progress,
            mesh=make_mesh(settings.devices),
            memory=settings.memory,
        )


def _started(
    model: LinOSS, objective: Objective, source: Fitted, k: int, verbose: int | bool
) -> LinOSS:
    """The k-th new model with all parts of the k-th source model that fit."""
    if source.trained is None:
        raise ValueError("start_from has no trained model, expected one that was trained")
    models, before = source.trained.models, source.trained.objective
    same = getattr(before, "classes", None) == getattr(objective, "classes", None)
    started, kept, new = adopt(model, models[k % len(models)], head=same)
    if not kept:
        raise ValueError(
            f"no part of the model of start_from fits: its settings are {models[0].config}, "
            f"now they are {model.config}"
        )
    if verbose and k == 0:
        say(f"Reused weights: {', '.join(kept)}")
        say(f"New: {', '.join(new) or 'nothing'}")
    return started


def _objective(settings: Any, outputs: Outputs, labels: Any) -> Objective:
    if outputs.classes is None:
        return Regression.from_labels(labels, every=outputs.every)
    weights = None
    if settings.class_weight is not None:
        by_class = {"classes": outputs.classes, "y": np.asarray(labels)}
        weights = tuple(compute_class_weight(settings.class_weight, **by_class).tolist())
    classes, smoothing = tuple(outputs.classes.tolist()), settings.label_smoothing
    return Classification(classes=classes, class_weights=weights, smoothing=smoothing)


def _patch(settings: Any, inputs: Inputs, outputs: Outputs) -> int:
    """Number of samples that form one input step of the models."""
    others = {"every": outputs.every, "devices": settings.devices}
    given = [name for name, value in others.items() if value is not None]
    if settings.patch is None:
        longest = 0 if given or inputs.interval is not None else inputs.lengths[1]
        return max(longest // 100, 1) if longest > 128 else 1
    if settings.patch > 1 and given:
        raise ValueError(f"patch is {settings.patch}, expected 1 if there is {given[0]}")
    return settings.patch


def _held_out_parts(
    count: int | None, fraction: float | None, cases: Sequences, outputs: Outputs, seed: int
) -> tuple[list[np.ndarray], bool]:
    """The held-out cases of each of `count` models, and whether they differ between models.

    What is dealt to them are groups, or single cases without groups.
    """
    groups = np.arange(len(cases)) if cases.groups is None else cases.groups
    _, firsts, group_of = np.unique(groups, return_index=True, return_inverse=True)
    n, is_few = len(firsts), len(cases) < _FEW
    order = np.random.default_rng(seed).permutation(n)
    if outputs.classes is not None:
        kinds = outputs.encode(cases.labels)[firsts]
        order = order[np.argsort(kinds[order], kind="stable")]
    count = count or (min(_MODELS, n) if is_few else 1)
    is_crossed = fraction is None and count > 1 and is_few
    if is_crossed and count > n:
        raise ValueError(f"groups are {n}, expected one for each of {count} models")
    parts = [order[k::count] for k in range(count)]
    if not is_crossed:
        usual = 0.0 if len(cases) < _FEW_TO_HOLD_OUT else 0.1
        held_out = min(round((usual if fraction is None else fraction) * n), n - 1)
        parts = [order[np.linspace(0, n - 1, held_out).astype(int)]] * count
    return [np.flatnonzero(np.isin(group_of, part)) for part in parts], is_crossed


def _held_out(
    fitted: Fitted, cases: Sequences, parts: list[np.ndarray], is_crossed: bool
) -> HeldOut | None:
    """Predictions of each model for the cases that it has not seen."""
    if not len(parts[0]):
        return None
    trained, outputs = fitted.trained, fitted.outputs
    assert trained is not None
    each = [
        trained.predict_by(model, cases.select(part))
        for model, part in zip(trained.models, parts, strict=True)
    ]
    if is_crossed:
        kind, part = "cross-validation", np.concatenate(parts)
        predictions: Any = [row for of_part in each for row in of_part]
    else:
        kind, part, predictions = "validation", parts[0], mean_of(each)
    if outputs.every is None:
        predictions = np.stack(list(predictions))
    chosen = cases.select(part)
    return HeldOut(kind, part, predictions, outputs.score(predictions, chosen.labels))
