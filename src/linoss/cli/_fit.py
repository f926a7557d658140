"""`linoss fit`: fit a model to data, score, and write a report."""

import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from linoss._settings import MixerName, ModelName, TaskName
from linoss._stderr import say
from linoss.cli import _options as options
from linoss.cli._guard import INTERRUPTED
from linoss.cli._machines import join_machines
from linoss.cli._run_settings import (
    ColumnNames,
    holds_a_run,
    read_column_names,
    read_settings,
    write_column_names,
)
from linoss.cli._sources import check_there, read_labelled_cases, read_tables

if TYPE_CHECKING:
    from linoss.training import Callback


@options.with_settings(options.settings())
def fit(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="A file (.ts, .arff, .npz, .npy, .csv, .parquet), or a directory with a training "
            "and a test part, such as Bells_TRAIN.csv and Bells_TEST.csv.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="RUN", help="Directory of the run.")],
    task: Annotated[TaskName | None, typer.Option(help="The task.")] = None,
    model: Annotated[
        Literal[ModelName, MixerName] | None,
        typer.Option(
            help="oscillators: untrained, fitted in seconds. linoss: an ensemble of trained "
            "models and oscillators. lru and the following: trained baselines without "
            "oscillators. auto: fits oscillators, trains linoss for some minutes, and keeps "
            "the better.",
            show_default="auto; linoss for forecasting, and if an option is given that only "
            "linoss has",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run in RUN, with its settings.")
    ] = False,
    start: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="RUN",
            help="Initialise with the weights of another run, whose classes and channels may "
            "differ; settings of the model default to those of that run.",
        ),
    ] = None,
    watch: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="PATH",
            help="Write training progress: JSON lines to a file with the suffix .jsonl, "
            "TensorBoard event files to a directory otherwise; repeatable.",
        ),
    ] = None,
    json: options.Json = False,
    label: options.Label = None,
    id: options.Id = None,
    drop: options.Drop = None,
    devices: options.Devices = None,
    coordinator: options.Coordinator = None,
    num_processes: options.NumProcesses = None,
    process_id: options.ProcessId = None,
    **given: Any,
) -> None:
    """Fit a model to data, and save it to a directory.

    RUN then holds the model, for a training also its history and a checkpoint, and report.html.
    Ctrl-C stops the training; --resume continues it, also after a crash. If the data have a test
    part, the model is scored on it at the end. Options under Model and Training are those of
    --model linoss.
    """
    named, parameters = options.with_mixer(model, options.parameters(given))
    roles = options.roles_of(label, id, drop)
    if start is not None:
        named, task, parameters = _from_run(start, named, task, parameters)
    where = (devices, coordinator, num_processes, process_id)
    asked = {n: v for n, v in zip(options.MACHINES, where, strict=True) if v is not None}
    if not resume:
        task = _named_task(task)
        chosen = named or options.chosen_model(task, [*parameters, *asked])
        options.record(chosen, task, {**asked, **parameters}, roles)
        if watch and chosen == "oscillators":
            raise typer.BadParameter("--watch is for trained models, not for oscillators")
    if coordinator is None:
        check_there(data)
    options.refuse_foreign(parameters)
    machines = join_machines(*where)
    try:
        with machines.watched():
            decided = None
            if machines.speaks:
                wanted = (named, task, roles, parameters, asked)
                decided = _decided(out, *wanted, resume=resume)
            model, task, roles, parameters = machines.from_first(decided)
            if model == "linoss":
                parameters["devices"] = machines.devices
            if not machines.speaks:
                parameters["verbose"] = 0
            how = {"resume": resume, "json": json, "speaks": machines.speaks, "start": start}
            how["watch"] = watch if machines.speaks and watch else ()
            fitted(data, out, model, task, roles, parameters, **how)  # pyright: ignore[reportArgumentType]
    except KeyboardInterrupt:
        say(_interrupted(data, out))
        raise typer.Exit(INTERRUPTED) from None


def _from_run(
    run: Path, model: Any, task: TaskName | None, parameters: dict[str, Any]
) -> tuple[ModelName, TaskName, dict[str, Any]]:
    """Model, task and parameters of a training that starts from another run."""
    settings = read_settings(run)
    if settings.model != "linoss" or settings.task == "forecasting":
        raise typer.BadParameter(
            f"--from {run}: holds {settings.model} for {settings.task}, expected a run of --model "
            "linoss for classification or regression"
        )
    if model not in (None, "linoss") or task not in (None, settings.task):
        raise typer.BadParameter(f"--from {run}: holds a run of linoss for {settings.task}")
    names = options.settings(model="linoss", group=options.MODEL)
    taken = {name: value for name, value in settings.parameters.items() if name in names}
    return "linoss", settings.task, {**taken, **parameters}


def _named_task(task: TaskName | None) -> TaskName:
    if task is None:
        names = ", ".join(options.TASKS)
        raise typer.BadParameter(f"expected one of {names}", param_hint="--task")
    return task


def _decided(
    out: Path,
    model: ModelName | None,
    task: TaskName | None,
    roles: dict[str, Any],
    parameters: dict[str, Any],
    machines: dict[str, Any],
    *,
    resume: bool,
) -> tuple[ModelName, TaskName, dict[str, Any], dict[str, Any]]:
    """Model, task, columns and parameters, as given; on resuming, the others are those of the run.

    `machines` are the given options of devices and processes.
    """
    begun = holds_a_run(out)
    if begun and not resume:
        raise ValueError(
            f"{out}: already holds a run, which is not overwritten; continue it with --resume, "
            "or choose another directory"
        )
    if begun:
        settings = read_settings(out)
        if task not in (None, settings.task):
            raise ValueError(f"{out}: holds a run of {settings.task}, but --task is {task}")
        if model not in (None, settings.model):
            raise ValueError(f"{out}: holds a run of {settings.model}, but --model is {model}")
        if settings.model == "oscillators":
            raise ValueError(
                f"{out}: holds untrained oscillators: there is nothing to resume; choose another "
                "directory"
            )
        model, task = settings.model, settings.task
        roles = {**read_column_names(out).roles, **roles}
        parameters = {**settings.parameters, **parameters}
    else:
        if task is None:
            raise ValueError(
                f"{out}: holds no run to resume; omit --resume and pass --task to begin one, or "
                "pass the directory of the run with --out"
            )
        model = model or options.chosen_model(task, [*parameters, *machines])
        own: dict[str, Any] = {} if model == "oscillators" else {"verbose": 1}
        if parameters.get("mixer", "linoss") != "linoss" and task != "forecasting":
            own["n_oscillators"] = None  # a baseline has no oscillators in its ensemble
        parameters = {**options.RUN_DEFAULTS, **own, **parameters}
    assert model is not None
    assert task is not None
    options.check(model, task, {**machines, **parameters}, roles)
    return model, task, roles, parameters


def fitted(
    data: Path,
    out: Path,
    model: ModelName,
    task: TaskName,
    roles: dict[str, Any],
    parameters: dict[str, Any],
    *,
    resume: bool,
    json: bool,
    speaks: bool = True,
    start: Path | None = None,
    watch: Sequence[Path] = (),
) -> None:
    """Read, train, score and report; with several processes, only one scores and reports."""
    from linoss.cli._report import finish
    from linoss.cli._runs import estimator_of

    training, test = (
        read_tables(data, parameters.get("static", ()))
        if task == "forecasting"
        else read_labelled_cases(data, roles)
    )
    if task == "regression":
        _refuse_classes(training.labels)
    estimator = estimator_of(model, task)(**parameters)
    if task != "forecasting" and speaks and not holds_a_run(out):
        write_column_names(out, ColumnNames(training.names, roles))
    begun = time.monotonic()
    if model == "oscillators":
        estimator.fit(training).save(out)
    else:
        further: dict[str, Any] = {} if start is None else {"start_from": start}
        with _callbacks(watch) as watcher:
            further["on_progress"] = watcher
            estimator.fit(training, directory=out, resume=resume, **further)
    if speaks:
        seconds = time.monotonic() - begun
        finish(estimator, out, training, test, data=data, seconds=seconds, json=json)


@contextmanager
def _callbacks(paths: Sequence[Path]) -> "Iterator[Callback | None]":
    """One watcher that writes progress to all of these paths; None if there are none."""
    from linoss.training import JsonLines, TensorBoard, combine_callbacks

    with ExitStack() as files:
        kinds = [JsonLines if path.suffix == ".jsonl" else TensorBoard for path in paths]
        made = [files.enter_context(kind(at)) for kind, at in zip(kinds, paths, strict=True)]
        yield combine_callbacks(*made) if made else None


def _refuse_classes(labels: Any) -> None:
    kind = getattr(getattr(labels, "dtype", None), "kind", "f")
    if kind in "OU":
        from linoss.data import DataError

        raise DataError(
            f"a label is {str(labels[0])[:80]!r}, expected numbers for --task regression; use "
            "--task classification, or name another column with --label"
        )


def _interrupted(data: Path, out: Path) -> str:
    if not holds_a_run(out):
        return "Interrupted before training began; nothing was saved."
    command = shlex.join(["linoss", "fit", str(data), "--out", str(out), "--resume"])
    return f"Interrupted. The run is in {out}; continue it with:\n  {command}"
