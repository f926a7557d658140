"""`linoss fit`: train on data, score, and write a report."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from linoss._settings import TaskName
from linoss._stderr import say
from linoss.cli import _options as options
from linoss.cli._evaluate import show_score
from linoss.cli._guard import INTERRUPTED
from linoss.cli._machines import join_machines
from linoss.cli._output import number, show_json, show_line
from linoss.cli._run_settings import (
    REPORT,
    TASKS,
    ColumnNames,
    holds_a_run,
    read_column_names,
    read_settings,
    write_column_names,
)
from linoss.cli._scores import Score, last_forecasts, score_cases, score_table
from linoss.cli._sources import read_cases, read_tables


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
    out: Annotated[Path, typer.Option(metavar="RUN", help="Directory to keep the run in.")],
    task: Annotated[TaskName | None, typer.Option(help="What to learn.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in RUN, with its settings.")
    ] = False,
    json: options.Json = False,
    label: options.Label = None,
    devices: options.Devices = None,
    coordinator: options.Coordinator = None,
    num_processes: options.NumProcesses = None,
    process_id: options.ProcessId = None,
    **given: Any,
) -> None:
    """Train a model on data, and keep it in a directory.

    RUN then holds the model, the history, a checkpoint and report.html. Ctrl-C stops the training;
    --resume goes on where it was, also after a crash. If the data have a test part, the model is
    scored on it in the end.
    """
    parameters = options.parameters(given)
    machines = join_machines(devices, coordinator, num_processes, process_id)
    try:
        with machines.watched():
            decided = None
            if machines.speaks:
                decided = _decided(out, task, label, parameters, resume=resume)
            task, label, parameters = machines.from_first(decided)
            parameters["devices"] = machines.devices
            if not machines.speaks:
                parameters["verbose"] = 0
            how = {"resume": resume, "json": json, "speaks": machines.speaks}
            fitted(data, out, task, label, parameters, **how)  # pyright: ignore[reportArgumentType]
    except KeyboardInterrupt:
        say(_interrupted(data, out))
        raise typer.Exit(INTERRUPTED) from None


def _decided(
    out: Path, task: str | None, label: str | None, parameters: dict[str, Any], *, resume: bool
) -> tuple[str, str | None, dict[str, Any]]:
    """Task, label and parameters: as given; on resuming, those of the run where not given."""
    begun = holds_a_run(out)
    if begun and not resume:
        raise ValueError(
            f"{out}: holds a run already, and nothing is overwritten; go on with it by --resume, "
            "or choose another directory"
        )
    if begun:
        settings = read_settings(out)
        if task not in (None, settings.task):
            raise ValueError(f"{out}: holds a run of {settings.task}, but --task is {task}")
        task = settings.task
        label = label or read_column_names(out).label
        parameters = {**settings.parameters, **parameters}
    elif task is None:
        raise typer.BadParameter(f"expected one of {', '.join(TASKS)}", param_hint="--task")
    else:
        parameters = {**options.RUN_DEFAULTS, "verbose": 1, **parameters}
    assert task is not None
    options.check(task, parameters, label)
    return task, label, parameters


def fitted(
    data: Path,
    out: Path,
    task: str,
    label: str | None,
    parameters: dict[str, Any],
    *,
    resume: bool,
    json: bool,
    speaks: bool = True,
) -> None:
    """Read, train, score, report; with several processes, only one scores and reports."""
    import linoss.estimators

    training, test = read_tables(data) if task == "forecasting" else read_cases(data, label)
    if task == "regression":
        _refuse_classes(training.labels)
    estimator = getattr(linoss.estimators, TASKS[task])(**parameters)
    if task != "forecasting" and speaks and not holds_a_run(out):
        write_column_names(out, ColumnNames(label, training.names))
    estimator.fit(training, directory=out, resume=resume)
    if not speaks:
        return
    score, forecasts = None, []
    if task == "forecasting":
        score = None if test is None else score_table(estimator, test)
        forecasts = last_forecasts(estimator, training if test is None else test)
    elif test is not None:
        score = score_cases(estimator, test)
    finish(estimator, out, task, score, forecasts, json=json)


def finish(
    estimator: Any,
    out: Path,
    task: str,
    score: Score | None,
    forecasts: list[Any],
    *,
    json: bool,
) -> None:
    """Write the report, and print the outcome."""
    from linoss.cli._report import write_report
    from linoss.nn import count_parameters

    write_report(out / REPORT, estimator, score, forecasts)
    metric, best = estimator.objective_.metric, estimator.best_metric_
    if json:
        record = {
            "run": str(out),
            "report": str(out / REPORT),
            "task": task,
            "steps": estimator.n_steps_,
            "parameters": count_parameters(estimator.model_),
            "validation": None if best is None else {metric: best},
            "test": None if score is None else score.record(),
        }
        show_json(record)
        return
    if score is not None:
        show_line("Test:")
        show_score(score)
    elif best is not None:
        show_line(f"Validation: {metric} {number(best)} (there is no test part)")
    else:
        show_line(
            "No score: nothing was held out. Use --validation-fraction 0.2, or linoss evaluate "
            "with other data"
        )
    show_line(f"The run is in {out}; look at {out / REPORT}")


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
        return "Interrupted before training began; nothing was kept."
    command = shlex.join(["linoss", "fit", str(data), "--out", str(out), "--resume"])
    return f"Interrupted. The run is kept in {out}; go on with it by:\n  {command}"
