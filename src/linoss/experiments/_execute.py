"""The runs of an experiment, each in its own directory; finished runs are not repeated."""

import functools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import jax

from linoss._plain import first_difference
from linoss._stderr import duration, say
from linoss.experiments._models import own_settings
from linoss.experiments._paper import DATA_SETS, Hyperparameters
from linoss.experiments._protocol import (
    MODELS,
    NAMES,
    Options,
    Protocol,
    hyperparameters,
    training_config,
)
from linoss.experiments._results import ExperimentResult, made_by, read_result, write_result
from linoss.experiments._worker_pool import together
from linoss.nn import LinOSS, LinOSSConfig, count_parameters
from linoss.training import (
    Cases,
    Inputs,
    Objective,
    ProgressLine,
    TrainingConfig,
    TrainingError,
    TrainingResult,
    evaluate,
    train,
)

_SAVE_EVERY = 120  # seconds between checkpoints


@dataclass(frozen=True, kw_only=True)
class ExperimentRun:
    """One training of one model on one split, with all of its settings."""

    experiment: str
    data_set: str
    model: str
    seed: int
    protocol: str
    hyperparameters: Hyperparameters
    training: TrainingConfig
    variant: str | None = None
    changes: dict[str, Any] = field(default_factory=dict)
    """Changes to the settings of the published model."""

    @property
    def name(self) -> str:
        """A description of the run."""
        parts = (self.data_set, NAMES[self.model], self.variant, f"seed {self.seed}")
        return ", ".join(part for part in parts if part)

    def folder(self, out: Path) -> Path:
        """The directory of the run within that of all results."""
        parts = (self.protocol, self.data_set, self.model, self.variant, str(self.seed))
        return out.joinpath(self.experiment, *(part for part in parts if part))

    @property
    def settings(self) -> dict[str, Any]:
        """Convert to plain values, for JSON."""
        return {
            "hyperparameters": asdict(self.hyperparameters),
            "model": self.model_settings,
            "training": self.training.to_dict(),
        }

    @property
    def model_settings(self) -> dict[str, Any]:
        """Arguments of `LinOSSConfig.published`, without those that follow from the data."""
        chosen = self.hyperparameters
        sizes = {n: getattr(chosen, n) for n in ("hidden_size", "state_size", "num_blocks")}
        own = own_settings(self.data_set, self.model)
        return {**sizes, **MODELS[self.model], **own, **self.changes}


def make_run(
    experiment: str,
    options: Options,
    data_set: str,
    model: str,
    seed: int,
    *,
    chosen: Hyperparameters | None = None,
    variant: str | None = None,
    changes: dict[str, Any] | None = None,
    protocols: dict[str, Protocol] | None = None,
) -> ExperimentRun:
    """A run on one of the paper's data sets; by default with the paper's best hyperparameters."""
    chosen = chosen or hyperparameters(data_set, model)
    return ExperimentRun(
        experiment=experiment,
        data_set=data_set,
        model=model,
        seed=seed,
        protocol=options.protocol,
        hyperparameters=chosen,
        training=training_config(
            options,
            learning_rate=chosen.learning_rate,
            batch_size=DATA_SETS[data_set].batch_size,
            seed=seed,
            protocols=protocols,
        ),
        variant=variant,
        changes=changes or {},
    )


@dataclass(frozen=True, eq=False)
class Problem:
    """Data, inputs and objective of a run."""

    inputs: Inputs
    objective: Objective
    training: Cases
    validation: Cases
    test: Cases
    settings: dict[str, Any] = field(default_factory=dict)
    """Task and head of the model."""


MakeProblem = Callable[[ExperimentRun], Problem]
Measure = Callable[[LinOSS, Problem], dict[str, Any]]


def no_more(model: LinOSS, problem: Problem) -> dict[str, Any]:
    """Measure nothing but the test metric."""
    return {}


def execute(
    runs: Sequence[ExperimentRun],
    problem: MakeProblem,
    options: Options,
    measure: Measure = no_more,
) -> None:
    """Execute all runs without a result, `options.processes` at a time."""
    todo = [run for run in runs if not is_finished(run, options)]
    if len(todo) < len(runs):
        say(f"{len(runs) - len(todo)} of {len(runs)} runs already have results")
    try:
        if options.processes > 1 and len(todo) > 1:
            one = functools.partial(execute_one, problem=problem, options=options, measure=measure)
            together(one, todo, options.processes, _say_finished)
        else:
            _execute_in_turn(todo, problem, options, measure)
    except KeyboardInterrupt:
        say("Interrupted. The same command with --resume continues.")
        raise


def _execute_in_turn(
    todo: Sequence[ExperimentRun], problem: MakeProblem, options: Options, measure: Measure
) -> None:
    start = time.monotonic()
    for place, run in enumerate(todo):
        say(f"[{place + 1}/{len(todo)}] {run.name}")
        result = execute_one(run, problem, options, measure, live=True)
        left = (time.monotonic() - start) / (place + 1) * (len(todo) - place - 1)
        say(f"  {_summary(result)}{left_for_all(left)}")


def execute_one(
    run: ExperimentRun,
    problem: MakeProblem,
    options: Options,
    measure: Measure,
    *,
    live: bool = False,
) -> ExperimentResult:
    """Train, test, and write the result."""
    folder, parts = run.folder(options.out), problem(run)
    config = LinOSSConfig.published(
        in_size=parts.inputs.in_size,
        out_size=parts.objective.out_size,
        **{**parts.settings, **run.model_settings},
    )
    # The second of four keys; the first draws the split.
    model = LinOSS(config, key=jax.random.split(jax.random.key(run.seed), 4)[1])
    error = None
    with _progress(parts.objective.metric, live) as show:
        try:
            trained = train(
                model,
                parts.inputs,
                parts.objective,
                parts.training,
                parts.validation,
                run.training,
                directory=folder,
                resume=True,
                on_progress=show,
                save_every=_SAVE_EVERY,
                extra={"experiment": run.experiment, "data_set": run.data_set},
            )
        except TrainingError as stopped:
            trained, error = stopped.result, str(stopped)
    outcome = _outcome(parts, trained, error, measure)
    seconds = trained.history[-1]["seconds"] if trained.history else 0.0
    result = ExperimentResult(
        experiment=run.experiment,
        data_set=run.data_set,
        model=run.model,
        seed=run.seed,
        variant=run.variant,
        protocol=run.protocol,
        settings=run.settings,
        outcome=outcome,
        history=trained.history,
        made=made_by(options.command(run.experiment), seconds),
    )
    write_result(folder, result)
    return result


def _outcome(
    parts: Problem, trained: TrainingResult, error: str | None, measure: Measure
) -> dict[str, Any]:
    """The results of a run; `error` has the reason if its training or test failed."""
    outcome = {
        "metric": parts.objective.metric,
        "test": None,
        "validation": trained.best_metric,
        "best_step": trained.best_step,
        "steps": trained.steps,
        "stopped_early": trained.stopped_early,
        "parameters": count_parameters(trained.model),
        "cases": [len(part) for part in (parts.training, parts.validation, parts.test)],
    }
    if trained.best_metric is not None:
        test = evaluate(trained.model, parts.inputs, parts.objective, parts.test)
        if math.isfinite(test):
            outcome["test"] = test
            outcome.update(measure(trained.model, parts))
        else:
            error = error or f"the test {parts.objective.metric} is {test}"
    elif error is None:
        error = f"the validation {parts.objective.metric} was never finite"
    if error is not None:
        outcome["error"] = error
    return outcome


def _say_finished(run: ExperimentRun, result: ExperimentResult, place: str, left: float) -> None:
    say(f"[{place}] {run.name}: {_summary(result)}{left_for_all(left)}")


def left_for_all(seconds: float) -> str:
    """The time left for all runs, as text."""
    return f"; about {duration(seconds)} left for all" if seconds else ""


def _summary(result: ExperimentResult) -> str:
    outcome, seconds = result.outcome, result.made["seconds"]
    if outcome["test"] is None:
        return f"failed: {outcome['error']}"
    return (
        f"test {outcome['metric']} {outcome['test']:.4g} (validation {outcome['validation']:.4g} "
        f"at step {outcome['best_step']} of {outcome['steps']}), {duration(seconds)}"
    )


@contextmanager
def _progress(metric: str, live: bool) -> Iterator[Callable[[Any], None] | None]:
    if not live:
        yield None
        return
    with ProgressLine(metric) as line:
        yield line


def is_finished(run: ExperimentRun, options: Options) -> bool:
    """Whether there is a result. Raises for a directory that is not empty, unless `resume`."""
    folder = run.folder(options.out)
    refuse_used(folder, options)
    result = read_result(folder)
    if result is None or _goes_on(result, run):
        return False
    refuse_difference(folder, result.settings, run.settings)
    return True


def refuse_used(folder: Path, options: Options) -> None:
    """Raise for a directory that is not empty, unless `resume`."""
    if not options.resume and folder.exists() and any(folder.iterdir()):
        raise ValueError(
            f"{folder}: already exists and is not overwritten; continue it with --resume, or "
            "choose another --out"
        )


def _goes_on(result: ExperimentResult, run: ExperimentRun) -> bool:
    """Whether the run ended at its number of steps, and that number is larger now."""
    ended = result.outcome.get("stopped_early") or "error" in result.outcome
    return not ended and run.training.goes_on(result.settings.get("training"))


def refuse_difference(folder: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Raise for a result with other settings, and name the first difference."""
    found = first_difference(before, now)
    if found is not None:
        raise ValueError(
            f"{folder}: {found.path[-1]} is {found.before!r} in its result, but {found.now!r} "
            "now; continue with the same options, or choose another --out"
        )
