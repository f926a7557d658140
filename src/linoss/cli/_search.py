"""`linoss search`: hyperparameter search with any number of workers."""

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from linoss._settings import TaskName
from linoss._stderr import say
from linoss.cli import _options as options
from linoss.cli._output import INTERRUPTED, show_json, show_line, show_table
from linoss.cli._runs import (
    REPORT,
    Run,
    check_there,
    given_roles,
    holds_a_run,
    load_run,
    read_training_data,
    write_roles,
)

_SHOWN = 10
_MODELS = ("n_models", "patch")
"""Settings of several models, or of their input, which a search does not have."""


def search(
    data: Annotated[
        Path,
        typer.Argument(metavar="DATA", help="A file or a directory, as for linoss fit."),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Directory of the trials.")],
    task: Annotated[TaskName, typer.Option(help="The task.")],
    trials: Annotated[
        int | None,
        typer.Option(
            help="Number of trials of all workers together.",
            show_default="30, or the whole grid",
            min=1,
        ),
    ] = None,
    range: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RANGE",
            help="NAME=LOW..HIGH or NAME=VALUE,VALUE: the values of a setting to try; repeatable.",
            show_default="learning rate, sizes, blocks and dropout",
        ),
    ] = None,
    grid: Annotated[
        Literal["paper", "ranges"] | None,
        typer.Option(help="Try every combination of the paper's grid, or of the ranges."),
    ] = None,
    storage: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Shared storage of the workers: sqlite:///FILE, or "
            "postgresql://USER:PASSWORD@HOST/DATABASE.",
            show_default="DIR/study.db",
            envvar="LINOSS_STORAGE",
        ),
    ] = None,
    study: Annotated[
        str, typer.Option(help="Name of the study, if a storage holds several.")
    ] = "search",
    prune: Annotated[bool, typer.Option(help="Stop trials worse than the median.")] = True,
    silence: Annotated[
        int | None,
        typer.Option(
            help="Seconds without a heartbeat after which a worker counts as dead.",
            show_default="60",
            min=2,
        ),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="Most updates of a trial.", show_default="1000")
    ] = None,
    horizon: options.Horizon = None,
    known: options.Known = None,
    seed: options.Seed = None,
    assign: options.Set = None,
    json: options.Json = False,
    label: options.Label = None,
    id: options.Id = None,
    drop: options.Drop = None,
) -> None:
    """Search hyperparameters by the score on held-out cases.

    DIR then holds a run for each trial, the best one in DIR/best, and report.html. Run the same
    command at the same time to add workers, or later to continue. Settings that are given are not
    searched. By default a fifth of the data is held out.
    """
    named = {"steps": steps, "horizon": horizon, "known": known, "seed": seed}
    given = options.given_settings(named, assign)
    for name in _MODELS:
        if name in given:
            raise typer.BadParameter(f"{name} is for linoss fit; a search trains one model a trial")
    parameters = options.parameters_of("linoss", task, given)
    roles = given_roles(label, id, drop)
    options.check_columns(task, roles)
    check_there(data)
    parameters = {"random_state": options.SEED, **parameters}
    estimator = options.check("linoss", task, parameters)
    what = _what(type(estimator), range, grid, given)
    try:
        result, score = _searched(
            data, out, task, roles, estimator, what, trials,
            {"storage": storage, "study": study, "prune": prune, "silence": silence},
        )  # fmt: skip
    except KeyboardInterrupt:
        line = shlex.join(["linoss", *_shown_words(sys.argv[1:], storage)])
        say(f"Interrupted. The trials are in {out}; the same command continues:\n  {line}")
        raise typer.Exit(INTERRUPTED) from None
    _show(out, result, score, json=json)


def _what(
    kind: type, ranges: list[str] | None, grid: str | None, given: dict[str, Any]
) -> dict[str, Any]:
    """The search space, without settings that are given."""
    from linoss.search import default_ranges, make_space, parse_ranges

    if ranges and grid == "paper":
        raise typer.BadParameter("--grid paper has its own ranges; omit --range")
    if not ranges and grid == "ranges":
        raise typer.BadParameter("--grid ranges needs --range NAME=VALUE,VALUE")
    if not ranges:
        return {"space": default_ranges(kind, grid, given.keys()), "grid": grid is not None}
    with options.usage_errors():
        space = parse_ranges(ranges)
        make_space(space, kind)
    for name in space:
        if name in given:
            raise typer.BadParameter(f"{name} is given and has a --range, expected one of the two")
    return {"space": space, "grid": grid is not None}


def _searched(
    data: Path,
    out: Path,
    task: TaskName,
    roles: dict[str, Any],
    estimator: Any,
    what: dict[str, Any],
    trials: int | None,
    where: dict[str, Any],
) -> tuple[Any, Any]:
    """Read the data, search, and report; the result, and the score if there is a test part."""
    import linoss.search
    from linoss.cli._report import About, write_report, write_study
    from linoss.cli._scores import evaluate_run, score_on

    training, test = read_training_data(data, task, roles, estimator.get_params())
    seed = estimator.random_state

    def begin(run: Path) -> None:
        if task != "forecasting" and not holds_a_run(run):
            write_roles(run, roles)

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
        score = score_on(load_run(Path(result.directory)), test)
    write_study(out / REPORT, result, score)
    return result, score


def _show(out: Path, result: Any, score: Any, *, json: bool) -> None:
    from linoss.cli._report import counts, trials_table

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
    show_table(counts(result), *trials_table(result, _SHOWN))
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
