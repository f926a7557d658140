"""`linoss search`: hyperparameter search with any number of workers."""

import shlex
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from linoss._settings import SETTINGS, TaskName
from linoss._stderr import say
from linoss.cli import _options as options
from linoss.cli._fit import _refuse_classes
from linoss.cli._guard import INTERRUPTED
from linoss.cli._output import show_json, show_line, show_table
from linoss.cli._run_settings import (
    REPORT,
    ColumnNames,
    holds_a_run,
    write_column_names,
)
from linoss.cli._sources import check_there, read_labelled_cases, read_tables

_SHOWN = 10
_SETTINGS = options.settings(model="linoss", alone=True)
_SEARCHED = ", ".join(
    name for name, setting in _SETTINGS.items() if setting.about.search is not None
)
_option = partial(options.option, options.SEARCH)


@options.with_settings(_SETTINGS)
def search(
    data: Annotated[
        Path,
        typer.Argument(metavar="DATA", help="A file or a directory, as for linoss fit."),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Directory of the trials.")],
    task: Annotated[TaskName, typer.Option(help="The task.")],
    trials: Annotated[
        int | None,
        _option("Number of trials of all workers together.", "30, or the whole grid", min=1),
    ] = None,
    range: Annotated[
        list[str] | None,
        _option(
            "NAME=LOW..HIGH or NAME=VALUE,VALUE: the values of a parameter of Model or Training "
            "to try; repeatable.",
            _SEARCHED,
        ),
    ] = None,
    grid: Annotated[
        Literal["paper", "ranges"] | None,
        _option(
            "Try every combination of the paper's grid, or of the ranges, which must be lists."
        ),
    ] = None,
    storage: Annotated[
        str | None,
        _option(
            "Shared storage of the workers: sqlite:///FILE, or "
            "postgresql://USER:PASSWORD@HOST/DATABASE for several machines.",
            "DIR/study.db",
            envvar="LINOSS_STORAGE",
        ),
    ] = None,
    study: Annotated[
        str, _option("Name of the study, if a storage holds several.", True)
    ] = "search",
    prune: Annotated[bool, _option("Stop trials that are worse than the median.", True)] = True,
    silence: Annotated[
        int | None,
        _option("Seconds without a heartbeat after which a worker counts as dead.", "60", min=2),
    ] = None,
    json: options.Json = False,
    label: options.Label = None,
    id: options.Id = None,
    drop: options.Drop = None,
    **given: Any,
) -> None:
    """Search hyperparameters by the score on held-out cases.

    DIR then holds a run for each trial, the best one in DIR/best, and report.html. Run the same
    command at the same time to add workers, or later to continue. Parameters given by an option are
    not searched. By default a fifth of the data is held out.
    """
    parameters = options.parameters(given)
    roles = options.roles_of(label, id, drop)
    options.record("linoss", task, parameters, roles)
    check_there(data)
    options.refuse_foreign(parameters)
    options.check("linoss", task, parameters, roles)
    what = _what(task, range, grid, parameters)
    try:
        result, score = _searched(
            data, out, task, roles, parameters, what, trials,
            {"storage": storage, "study": study, "prune": prune, "silence": silence},
        )  # fmt: skip
    except KeyboardInterrupt:
        line = shlex.join(["linoss", *_shown_words(sys.argv[1:], storage)])
        say(f"Interrupted. The trials are in {out}; the same command continues:\n  {line}")
        raise typer.Exit(INTERRUPTED) from None
    _show(out, result, score, json=json)


def _what(
    task: TaskName, ranges: list[str] | None, grid: str | None, parameters: dict[str, Any]
) -> dict[str, Any]:
    """The search space, without parameters given as options."""
    from linoss.search import default_ranges, make_space, parse_ranges

    if ranges and grid == "paper":
        raise typer.BadParameter("--grid paper has its own ranges; omit --range")
    if not ranges and grid == "ranges":
        raise typer.BadParameter("--grid ranges needs --range NAME=VALUE,VALUE")
    if not ranges:
        return {"space": default_ranges(grid, parameters.keys()), "grid": grid is not None}
    with options.usage_errors():
        space = parse_ranges(ranges)
        make_space(space, SETTINGS["linoss", task])
    for name in space:
        if name in parameters:
            option = name.replace("_", "-")
            raise typer.BadParameter(f"--{option} and --range {name}: expected one of the two")
    return {"space": space, "grid": grid is not None}


def _searched(
    data: Path,
    out: Path,
    task: TaskName,
    roles: dict[str, Any],
    parameters: dict[str, Any],
    what: dict[str, Any],
    trials: int | None,
    where: dict[str, Any],
) -> tuple[Any, Any]:
    """Read the data, search, and report; the result, and the score if there is a test part."""
    import linoss.search
    from linoss.cli._report import About, write_report, write_study
    from linoss.cli._runs import Run, estimator_of, load_run
    from linoss.cli._scores import evaluate_run, score_on

    training, test = (
        read_tables(data, parameters.get("static", ()))
        if task == "forecasting"
        else read_labelled_cases(data, roles)
    )
    if task == "regression":
        _refuse_classes(training.labels)
    parameters = {**options.RUN_DEFAULTS, **parameters}
    seed = parameters["random_state"]
    estimator = estimator_of("linoss", task)(**parameters)

    def begin(run: Path) -> None:
        if task != "forecasting" and not holds_a_run(run):
            write_column_names(run, ColumnNames(training.names, roles))

    def finish(trained: Any, run: Path) -> None:
        fitted = Run.of(trained)
        evaluation = evaluate_run(fitted, training, test)
        write_report(run / REPORT, fitted, evaluation, About(data, training))

    result = linoss.search.search(
        estimator, training, out=out, trials=trials, seed=seed, verbose=1, begin=begin,
        finish=finish, **what, **where,
    )  # fmt: skip
    score = None
    if result.directory is not None and test is not None:
        score = score_on(load_run(result.directory), test)
    write_study(out / REPORT, result, score)
    return result, score


def _show(out: Path, result: Any, score: Any, *, json: bool) -> None:
    from linoss.cli._report import counts, trial_header, trial_rows

    if result.best is None:
        errors = [trial.error for trial in result.trials if trial.error is not None]
        first = f"; trial {result.trials[0].number}: {errors[0]}" if errors else ""
        raise ValueError(f"no trial is complete ({counts(result)}){first}")
    if json:
        record = {name: value for name, value in result.record().items() if name != "trials"}
        trials = [
            {name: value for name, value in vars(trial).items() if name != "curve"}
            for trial in result.trials
        ]
        test = None if score is None else score.record()
        run = {"run": result.directory, "report": str(out / REPORT)}
        show_json({**record, "trials": trials, **run, "test": test})
        return
    show_table(counts(result), trial_header(result), trial_rows(result, _SHOWN))
    if result.directory is None:
        show_line(
            f"The best run, of trial {result.best.number}, is in the directory of another worker's"
        )
        show_line(f"trials; see {out / REPORT}")
        return
    if score is not None:
        name, value = score.headline
        show_line(f"Test score of the best run: {name} {value:.4g}")
    show_line(f"The best run is in {result.directory}; see {out / REPORT}")


def _shown_words(words: list[str], storage: str | None) -> list[str]:
    """The arguments of the command, without the password of its storage."""
    from linoss.search import without_password

    if not storage:
        return words
    return [word.replace(storage, without_password(storage)) for word in words]
