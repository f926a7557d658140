"""Experiments, their options, and their runs: each in its own directory, finished ones kept."""

import datetime
import functools
import json
import math
import os
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import jax

from linoss import __version__
from linoss.kernels import instruction_set
from linoss.nn import LinOSS, LinOSSConfig, count_parameters
from linoss.training import (
    Cases,
    Inputs,
    Objective,
    Progress,
    TrainingConfig,
    TrainingError,
    TrainingResult,
    evaluate,
    train,
)
from paper.models import MODELS, Hyperparameters, best, own_settings, title
from paper.numbers import DATA_SETS, PublishedRun

RESULT = "result.json"


@dataclass(frozen=True)
class Protocol:
    """The length of a training, and its evaluations."""

    steps: int
    evaluate_every: int
    patience: int = 11


PROTOCOLS = {"paper": Protocol(100_000, 1000), "quick": Protocol(5_000, 50)}
"""`paper`: stop after more than ten evaluations without improvement. `quick`: the same models and
splits with evaluations twenty times as often, so that runs end twenty times sooner."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a command."""

    experiment: str
    out: Path
    data_dir: Path | None = None
    data_sets: tuple[str, ...] | None = None
    """None for all that are available."""
    models: tuple[str, ...] = ()
    variants: tuple[str | None, ...] = (None,)
    seeds: tuple[int, ...] = ()
    protocol: str = "paper"
    max_steps: int | None = None
    resume: bool = False
    command: str = ""


@dataclass(frozen=True, kw_only=True)
class Result:
    """The result of one run or measurement."""

    experiment: str
    data_set: str
    model: str
    seed: int | None = None
    variant: str | None = None
    """The variant, which distinguishes it from other runs of the experiment."""
    protocol: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    """All settings that affect the outcome."""
    outcome: dict[str, Any] = field(default_factory=dict)
    """Numbers by name."""
    history: list[dict[str, Any]] = field(default_factory=list)
    """For each evaluation: step, loss, metric, best, learning_rate, seconds."""
    made: dict[str, Any] = field(default_factory=dict)
    """Provenance: command, seconds, commit, versions, machine, date."""

    @property
    def curve(self) -> dict[int, float]:
        """The validation metric by step."""
        return {h["step"]: h["metric"] for h in self.history if h["metric"] is not None}


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """An experiment of the paper. `report` writes Markdown, with pictures in a directory."""

    title: str
    run: Callable[[Options], None]
    report: Callable[[Sequence[Result], Path, Sequence[PublishedRun]], str]
    data_sets: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    """The models of the paper."""
    others: tuple[str, ...] = ()
    """Further models that it can run."""
    variants: tuple[str, ...] = ()
    on_request: tuple[str, ...] = ()
    """Variants that are run on request."""
    seeds: tuple[int, ...] = ()
    """The default seeds; empty if nothing is drawn."""


@dataclass(frozen=True, kw_only=True)
class Run:
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
        parts = (self.data_set, title(self.model), self.variant, f"seed {self.seed}")
        return ", ".join(part for part in parts if part)

    @property
    def settings(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "hyperparameters": asdict(self.hyperparameters),
            "model": self.model_settings,
            "training": self.training.to_dict(),
        }

    @property
    def model_settings(self) -> dict[str, Any]:
        """Arguments of `LinOSSConfig.published`, without those that follow from the data."""
        own = own_settings(self.data_set, self.model) if self.data_set in DATA_SETS else {}
        return {**self.hyperparameters.sizes, **MODELS[self.model].settings, **own, **self.changes}


def make_run(
    options: Options,
    data_set: str,
    model: str,
    seed: int,
    *,
    chosen: Hyperparameters | None = None,
    variant: str | None = None,
    changes: dict[str, Any] | None = None,
    protocols: dict[str, Protocol] | None = None,
) -> Run:
    """A run on one of the paper's data sets, by Adam with a constant learning rate; by default with
    the paper's best hyperparameters."""
    chosen = chosen or best(data_set, model)
    protocol = (protocols or PROTOCOLS)[options.protocol]
    return Run(
        experiment=options.experiment,
        data_set=data_set,
        model=model,
        seed=seed,
        protocol=options.protocol,
        hyperparameters=chosen,
        training=TrainingConfig(
            steps=options.max_steps or protocol.steps,
            batch_size=DATA_SETS[data_set].batch_size,
            learning_rate=chosen.learning_rate,
            schedule="constant",
            clip_norm=None,
            evaluate_every=protocol.evaluate_every,
            patience=protocol.patience,
            seed=seed,
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

    def model(self, run: Run) -> LinOSS:
        """The initial model of a run."""
        config = LinOSSConfig.published(
            in_size=self.inputs.in_size,
            out_size=self.objective.out_size,
            **{**self.settings, **run.model_settings},
        )
        # The second of four keys; the first draws the split.
        return LinOSS(config, key=jax.random.split(jax.random.key(run.seed), 4)[1])


MakeProblem = Callable[[Run], Problem]
Measure = Callable[[LinOSS, Problem], dict[str, Any]]


def execute(
    runs: Sequence[Run],
    problem: MakeProblem,
    options: Options,
    measure: Measure = lambda model, problem: {},
) -> None:
    """Execute all runs without a result, but for those that another process trains now."""
    for run in runs:
        refuse_used(folder_of(options.out, run), options)
    try:
        for place, run in enumerate(runs, start=1):
            if is_finished(run, options):
                say(f"[{place}/{len(runs)}] {run.name}: already has a result")
                continue
            try:
                result = execute_one(run, problem, options, measure)
            except BlockingIOError:
                say(f"[{place}/{len(runs)}] {run.name}: another process trains it")
                continue
            say(f"[{place}/{len(runs)}] {run.name}: {_summary(result)}")
    except KeyboardInterrupt:
        say("Interrupted. The same command with --resume continues.")
        raise


def execute_one(run: Run, problem: MakeProblem, options: Options, measure: Measure) -> Result:
    """Train, test, and write the result."""
    folder, parts = folder_of(options.out, run), problem(run)
    error = None
    try:
        trained = train(
            parts.model(run),
            parts.inputs,
            parts.objective,
            parts.training,
            parts.validation,
            run.training,
            directory=folder,
            resume=True,
            on_progress=_show(run.name, parts.objective.metric),
        )
    except TrainingError as stopped:
        if stopped.result is None:
            raise
        trained, error = stopped.result, str(stopped)
    return record(
        options,
        folder,
        trained.seconds,
        data_set=run.data_set,
        model=run.model,
        seed=run.seed,
        variant=run.variant,
        protocol=run.protocol,
        settings=run.settings,
        outcome=_outcome(parts, trained, error, measure),
        history=trained.history,
    )


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


def _show(name: str, metric: str) -> Callable[[Progress], None]:
    """A line for each evaluation."""
    last: Any = None

    def show(progress: Progress) -> None:
        nonlocal last
        before, last = last, (progress.metric, progress.best, progress.step == progress.steps)
        if progress.metric is not None and last != before:
            say(f"  {name}: {progress.text(metric)}")

    return show


def _summary(result: Result) -> str:
    outcome, took = result.outcome, datetime.timedelta(seconds=round(result.made["seconds"]))
    if outcome["test"] is None:
        return f"failed: {outcome['error']}"
    return (
        f"test {outcome['metric']} {outcome['test']:.4g} (validation {outcome['validation']:.4g} "
        f"at step {outcome['best_step']} of {outcome['steps']}), {took}"
    )


def say(line: str) -> None:
    """A line on stderr."""
    print(line, file=sys.stderr, flush=True)


def is_finished(run: Run, options: Options) -> bool:
    """Whether there is a result. Raises for one with other settings."""
    folder = folder_of(options.out, run)
    result = read_result(folder)
    if result is None:
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


def refuse_difference(folder: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Raise for a result with other settings, and name them."""
    for part, settings in now.items():
        for name, value in settings.items() if before.get(part) != settings else ():
            old = before.get(part, {}).get(name)
            if old != value:
                raise ValueError(
                    f"{folder}: {name} is {old!r} in its result, but {value!r} now; continue with "
                    "the same options, or choose another --out"
                )


def folder_of(out: Path, run: Run | Result) -> Path:
    """The directory of a run or measurement within that of all results."""
    seed = None if run.seed is None else str(run.seed)
    parts = (run.experiment, run.protocol, run.data_set, run.model, run.variant, seed)
    return out.joinpath(*(part for part in parts if part))


def measure_once(options: Options, measure: Callable[[], dict[str, Any]], **fields: Any) -> None:
    """Record what `measure` returns, unless there is a result of the same settings."""
    asked = Result(experiment=options.experiment, **fields)
    folder = folder_of(options.out, asked)
    refuse_used(folder, options)
    before = read_result(folder)
    if before is not None:
        refuse_difference(folder, before.settings, asked.settings)
        return
    start = time.monotonic()
    outcome = measure()
    record(options, folder, time.monotonic() - start, outcome=outcome, **fields)
    say(f"{folder.relative_to(options.out)}: {json.dumps(outcome)}")


def record(options: Options, folder: Path, seconds: float, **fields: Any) -> Result:
    """Make a result, with its provenance, and write it to a directory, atomically."""
    made = {
        "command": options.command,
        "seconds": round(seconds, 1),
        "commit": _commit(),
        "linoss": __version__,
        "jax": jax.__version__,
        "machine": _machine(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
    result = Result(experiment=options.experiment, made=made, **fields)
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{RESULT}.part"
    part.write_text(json.dumps(asdict(result), indent=1, allow_nan=False) + "\n")
    part.replace(folder / RESULT)
    return result


def read_result(folder: Path) -> Result | None:
    """The result in a directory, if there is one."""
    path = folder / RESULT
    if not path.exists():
        return None
    try:
        return Result(**json.loads(path.read_text()))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: is no result of an experiment ({error}); remove it") from None


def read_results(folder: Path) -> list[Result]:
    """All results in a directory, sorted by protocol, data set and model, then by path."""
    results = (read_result(path.parent) for path in sorted(folder.rglob(RESULT)))
    order = {model: place for place, model in enumerate(MODELS)}
    return sorted(
        (result for result in results if result is not None),
        key=lambda r: (r.protocol or "", r.data_set, order.get(r.model, len(order))),
    )


def command(words: Iterable[str]) -> str:
    """The command with these words, without the paths of data and results."""
    kept, words = ["python", "-m", "paper"], iter(words)
    for word in words:
        if word.partition("=")[0] in ("--out", "--data-dir"):
            if "=" not in word:
                next(words, None)
        elif word != "--resume":
            kept.append(word)
    return shlex.join(kept)


@functools.cache
def _machine() -> str:
    """The processor, its cores and instructions, as text."""
    name, path = platform.machine(), Path("/proc/cpuinfo")
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count()
    if path.exists():
        lines = path.read_text().splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        name = names[0] if names else name
    return f"{name}, {cores} cores, {instruction_set()}"


@functools.cache
def _commit() -> str | None:
    """The commit of the source tree, followed by "+" if files were changed."""

    def git(*arguments: str) -> str:
        folder = str(Path(__file__).parent.parent)
        return subprocess.run(
            ["git", "-C", folder, *arguments], capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        return git("rev-parse", "HEAD") + (
            "+" if git("status", "--porcelain", "src", "paper") else ""
        )
    except (OSError, subprocess.CalledProcessError):
        return None
