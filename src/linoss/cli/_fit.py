"""`linoss fit`: fit a model to data, score, and write a report."""

import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from linoss._settings import MixerName, ModelName, TaskName
from linoss._stderr import say
from linoss.cli import _options as options
from linoss.cli._output import INTERRUPTED
from linoss.cli._runs import (
    check_there,
    given_roles,
    holds_a_run,
    read_roles,
    read_settings,
    read_training_data,
    write_roles,
)

if TYPE_CHECKING:
    from linoss.training import Callback, Progress


class _Request(NamedTuple):
    """What a command line asks for; on resuming, the rest is that of the run."""

    model: ModelName | None
    task: TaskName | None
    roles: dict[str, Any]
    given: dict[str, Any]


def fit(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="A file (.ts, .npz, .npy, .csv, .parquet, .wav), or a directory with a "
            "training and a test part.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="RUN", help="Directory of the run.")],
    task: Annotated[
        TaskName | None, typer.Option(help=" | ".join(options.TASKS), metavar="TASK")
    ] = None,
    model: Annotated[
        Literal[ModelName, MixerName] | None,
        typer.Option(
            metavar="MODEL",
            help="auto (default), oscillators (untrained), linoss (trained) or a baseline: lru.",
        ),
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(metavar="N", help="Most minutes of training.")
    ] = None,
    steps: Annotated[int | None, typer.Option(metavar="N", help="Most updates.")] = None,
    learning_rate: Annotated[
        float | None, typer.Option(metavar="N", help="Peak learning rate.")
    ] = None,
    hidden_size: Annotated[
        int | None, typer.Option(metavar="N", help="Channels between blocks.")
    ] = None,
    horizon: options.Horizon = None,
    known: options.Known = None,
    seed: options.Seed = None,
    assign: options.Set = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in RUN.")] = False,
    start: Annotated[
        Path | None,
        typer.Option("--from", metavar="RUN", help="Start from the weights of another run."),
    ] = None,
    watch: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="PATH",
            help="Write progress: FILE.jsonl or a TensorBoard folder.",
        ),
    ] = None,
    json: options.Json = False,
    label: options.Label = None,
    id: options.Id = None,
    drop: options.Drop = None,
    devices: options.Devices = None,
) -> None:
    """Fit a model to data, and save it to a directory.

    RUN holds the model and report.html. Ctrl-C stops a training; --resume continues it.
    """
    named = {
        "minutes": minutes, "steps": steps, "learning_rate": learning_rate,
        "hidden_size": hidden_size, "horizon": horizon, "known": known, "seed": seed,
    }  # fmt: skip
    chosen, given = options.with_mixer(model, options.given_settings(named, assign))
    request = _Request(chosen, task, given_roles(label, id, drop), given)
    if start is not None:
        request = _from_run(start, request)
    shape = None if devices is None else options.device_shape(devices)
    check_there(data)
    new = None if resume else _new_run(request, shape is not None, watches=bool(watch))
    if shape is not None:
        _make_cpu_devices(shape[0] * shape[1])
    try:
        run = _decided(out, request, new, shape is not None)
        if run.model == "linoss":
            run.parameters["devices"] = shape
        with _callbacks(watch or ()) as callback:
            further = {"resume": resume, "on_progress": callback, "start_from": start}
            _fit(data, out, run, further, json=json)
    except KeyboardInterrupt:
        say(_interrupted(data, out))
        raise typer.Exit(INTERRUPTED) from None


class _Run(NamedTuple):
    """All that determines a run."""

    model: ModelName
    task: TaskName
    roles: dict[str, Any]
    parameters: dict[str, Any]


def _new_run(request: _Request, is_shared: bool, *, watches: bool = False) -> _Run:
    """A run that begins. Raises a usage error for options that do not go together."""
    model, task, roles, given = request
    if task is None:
        names = ", ".join(options.TASKS)
        raise typer.BadParameter(f"expected one of {names}", param_hint="--task")
    shared = ["devices"] if is_shared else []
    model = model or options.chosen_model(task, [*given, *shared])
    options.check_columns(task, roles)
    parameters = options.parameters_of(model, task, given)
    for option, is_given in (("--devices", is_shared), ("--watch", watches)):
        if is_given and (model == "oscillators" or (option, model) == ("--devices", "auto")):
            raise typer.BadParameter(f"{option} is for --model linoss, not for --model {model}")
    usual: dict[str, Any] = {} if model == "oscillators" else {"verbose": 1}
    parameters = {"random_state": options.SEED, **usual, **parameters}
    options.check(model, task, parameters)
    return _Run(model, task, roles, parameters)


def _from_run(start: Path, request: _Request) -> _Request:
    """A training that starts from another run, with its model."""
    from linoss._declare import declared
    from linoss.nn import LinOSSConfig

    before = read_settings(start)
    if before.model != "linoss" or before.task == "forecasting":
        raise typer.BadParameter(
            f"--from {start}: holds {before.model} for {before.task}, expected a run of --model "
            "linoss for classification or regression"
        )
    if request.model not in (None, "linoss") or request.task not in (None, before.task):
        raise typer.BadParameter(f"--from {start}: holds a run of linoss for {before.task}")
    names = {*declared(LinOSSConfig), "model_options", "time_channel", "patch"}
    kept = {name: value for name, value in before.parameters.items() if name in names}
    return request._replace(model="linoss", task=before.task, given={**kept, **request.given})


def _decided(out: Path, request: _Request, new: _Run | None, is_shared: bool) -> _Run:
    """The new run, or that of the directory, with the settings that are given now."""
    if new is not None:
        if not holds_a_run(out):
            return new
        raise ValueError(
            f"{out}: already holds a run, which is not overwritten; continue it with --resume, "
            "or choose another directory"
        )
    if not holds_a_run(out):
        if request.task is None:
            raise ValueError(
                f"{out}: holds no run to resume; omit --resume and pass --task to begin one, or "
                "pass the directory of the run with --out"
            )
        return _new_run(request, is_shared)
    before = read_settings(out)
    if request.task not in (None, before.task):
        raise ValueError(f"{out}: holds a run of {before.task}, but --task is {request.task}")
    if request.model not in (None, before.model):
        raise ValueError(f"{out}: holds a run of {before.model}, but --model is {request.model}")
    if before.model == "oscillators":
        raise ValueError(
            f"{out}: holds untrained oscillators: there is nothing to resume; choose another "
            "directory"
        )
    options.check_columns(before.task, request.roles)
    parameters = options.parameters_of(before.model, before.task, request.given)
    parameters = {**before.parameters, **parameters}
    options.check(before.model, before.task, parameters)
    roles = {**read_roles(out), **request.roles}
    return _Run(before.model, before.task, roles, parameters)


def _fit(data: Path, out: Path, run: _Run, further: dict[str, Any], *, json: bool) -> None:
    """Read, train, score and report."""
    from linoss.cli._report import finish

    training, test = read_training_data(data, run.task, run.roles, run.parameters)
    estimator = options.estimator_class(run.model, run.task)(**run.parameters)
    if run.task != "forecasting" and not holds_a_run(out):
        write_roles(out, run.roles)
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


def _make_cpu_devices(number: int) -> None:
    """Set the number of CPU devices, if JAX is not initialised. Accelerators are not changed."""
    import jax

    try:
        jax.config.update("jax_num_cpu_devices", number)
    except RuntimeError:
        return
