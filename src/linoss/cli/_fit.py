"""`linoss fit`: fit a model to data, score, and write a report."""

import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Argument, Option

from linoss._settings import MixerName, ModelName, TaskName
from linoss._stderr import say
from linoss.cli import _options as options
from linoss.cli._output import INTERRUPTED, heed_interrupts
from linoss.cli._runs import (
    RunSettings,
    check_there,
    holds_a_run,
    read_settings,
    read_training_data,
    write_roles,
)

if TYPE_CHECKING:
    from linoss.training import Callback, Progress


@options.with_columns
def fit(
    data: Annotated[
        Path,
        Argument(
            metavar="DATA",
            help="A file (.ts, .arff, .npz, .npy, .csv, .parquet, .wav), or a directory with a "
            "training and a test part.",
        ),
    ],
    out: Annotated[Path, Option(metavar="RUN", help="Directory of the run.")],
    task: Annotated[TaskName | None, Option(help=" | ".join(options.TASKS), metavar="TASK")] = None,
    model: Annotated[
        Literal[ModelName, MixerName] | None,
        Option(
            metavar="MODEL",
            help="auto (default), oscillators (untrained), linoss (trained) or a baseline: lru.",
        ),
    ] = None,
    minutes: Annotated[float | None, Option(metavar="N", help="Most minutes of training.")] = None,
    steps: Annotated[int | None, Option(metavar="N", help="Most updates.")] = None,
    horizon: options.Horizon = None,
    known_in_advance: options.Known = None,
    random_state: options.Seed = None,
    assign: options.Set = None,
    resume: Annotated[bool, Option("--resume", help="Continue the run in RUN.")] = False,
    start_from: Annotated[
        Path | None,
        Option(metavar="RUN", help="Start from the weights of another run.", hidden=True),
    ] = None,
    watch: Annotated[
        list[Path] | None,
        Option(
            metavar="PATH",
            help="Write progress: FILE.jsonl or a TensorBoard folder.",
            hidden=True,
        ),
    ] = None,
    json: options.Json = False,
    devices: Annotated[
        str | None,
        Option(
            metavar="N", help="Devices, or parts of a batch x shards of time: 2x4.", hidden=True
        ),
    ] = None,
    *,
    roles: dict[str, Any],
) -> None:
    """Fit a model to data, and save it to a directory.

    RUN holds the model and report.html. Ctrl-C stops a training; --resume continues it.
    """
    named = {"minutes": minutes, "steps": steps, "horizon": horizon}
    named |= {"known_in_advance": known_in_advance, "random_state": random_state}
    chosen, given = options.with_mixer(model, options.given_settings(named, assign))
    asked = RunSettings(chosen, task, given, roles)
    if start_from is not None:
        asked = _from_run(start_from, asked)
    shape = None if devices is None else options.device_shape(devices)
    needs = {"--devices": shape is not None, "--watch": bool(watch)}
    check_there(data)
    new = None if resume else _new_run(asked, needs)
    if shape is not None:
        import jax

        with suppress(RuntimeError):  # JAX is initialised; accelerators are not changed
            jax.config.update("jax_num_cpu_devices", shape[0] * shape[1])
    try:
        run = _decided(out, asked, new, needs)
        if run.model == "linoss":
            run.parameters["devices"] = shape
        with _callbacks(watch or ()) as callback:
            further = {"resume": resume, "on_progress": callback, "start_from": start_from}
            _fit(data, out, run, further, json=json)
    except KeyboardInterrupt:
        say(_interrupted(data, out))
        raise typer.Exit(INTERRUPTED) from None


def _new_run(asked: RunSettings, needs: dict[str, bool]) -> RunSettings:
    """A run that begins. Raises a usage error for options that do not go together."""
    if asked.task is None:
        names = ", ".join(options.TASKS)
        raise typer.BadParameter(f"expected one of {names}", param_hint="--task")
    shared = ["devices"] if needs["--devices"] else []
    model = asked.model or options.chosen_model(asked.task, [*asked.parameters, *shared])
    options.check_columns(asked.task, asked.roles)
    parameters = options.parameters_of(model, asked.task, asked.parameters)
    for option, is_given in needs.items():
        if is_given and (model == "oscillators" or (option, model) == ("--devices", "auto")):
            raise typer.BadParameter(f"{option} is for --model linoss, not for --model {model}")
    usual: dict[str, Any] = {} if model == "oscillators" else {"verbose": 1}
    parameters = {"random_state": options.SEED, **usual, **parameters}
    options.check(model, asked.task, parameters)
    return RunSettings(model, asked.task, parameters, asked.roles)


def _from_run(start: Path, asked: RunSettings) -> RunSettings:
    """A training that starts from another run, with its model."""
    from linoss._declare import declared
    from linoss.nn import LinOSSConfig

    before = read_settings(start)
    if before.model != "linoss" or before.task == "forecasting":
        raise typer.BadParameter(
            f"--start-from {start}: holds {before.model} for {before.task}, expected a run of "
            "--model linoss for classification or regression"
        )
    if asked.model not in (None, "linoss") or asked.task not in (None, before.task):
        raise typer.BadParameter(f"--start-from {start}: holds a run of linoss for {before.task}")
    names = {*declared(LinOSSConfig), "model_options", "time_channel", "patch"}
    kept = {name: value for name, value in before.parameters.items() if name in names}
    return RunSettings("linoss", before.task, {**kept, **asked.parameters}, asked.roles)


def _decided(
    out: Path, asked: RunSettings, new: RunSettings | None, needs: dict[str, bool]
) -> RunSettings:
    """The new run, or that of the directory, with the settings that are given now."""
    if new is not None:
        if not holds_a_run(out):
            return new
        raise ValueError(
            f"{out}: already holds a run, which is not overwritten; continue it with --resume, "
            "or choose another directory"
        )
    if not holds_a_run(out):
        if asked.task is None:
            raise ValueError(
                f"{out}: holds no run to resume; omit --resume and pass --task to begin one, or "
                "pass the directory of the run with --out"
            )
        return _new_run(asked, needs)
    model, task, before, roles = read_settings(out)
    for option, now, then in (("task", asked.task, task), ("model", asked.model, model)):
        if now not in (None, then):
            raise ValueError(f"{out}: holds a run of {then}, but --{option} is {now}")
    if model == "oscillators":
        raise ValueError(
            f"{out}: holds untrained oscillators: there is nothing to resume; choose another "
            "directory"
        )
    options.check_columns(task, asked.roles)
    parameters = {**before, **options.parameters_of(model, task, asked.parameters)}
    options.check(model, task, parameters)
    return RunSettings(model, task, parameters, {**roles, **asked.roles})


def _fit(data: Path, out: Path, run: RunSettings, further: dict[str, Any], *, json: bool) -> None:
    """Read, train, score and report."""
    from linoss.cli._report import finish

    training, test = read_training_data(data, run)
    estimator = options.estimator_class(run.model, run.task)(**run.parameters)
    if not holds_a_run(out):
        write_roles(out, run.roles)
    heed_interrupts()
    begun = time.monotonic()
    if run.model == "oscillators":
        estimator.fit(training).save(out)
    else:
        further = {name: value for name, value in further.items() if value is not None}
        estimator.fit(training, directory=out, **further)
    seconds = time.monotonic() - begun
    finish(estimator, out, training, test, data=data, seconds=seconds, json=json)


@contextmanager
def _callbacks(paths: Sequence[Path]) -> "Iterator[Callback]":
    """One callback that writes progress to all of these paths."""
    from linoss.training import JsonLines, TensorBoard

    with ExitStack() as files:
        kinds = [JsonLines if path.suffix == ".jsonl" else TensorBoard for path in paths]
        made = [files.enter_context(kind(at)) for kind, at in zip(kinds, paths, strict=True)]

        def tell(progress: "Progress") -> None:
            for each in made:
                each(progress)

        yield tell


def _interrupted(data: Path, out: Path) -> str:
    if not holds_a_run(out):
        return "Interrupted before training began; nothing was saved."
    command = shlex.join(["linoss", "fit", str(data), "--out", str(out), "--resume"])
    return f"Interrupted. The run is in {out}; continue it with:\n  {command}"
