"""`linoss search`: hyperparameter search with any number of workers."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer import Argument, Option

from linoss._settings import TaskName
from linoss._stderr import say
from linoss.cli import _options as options
from linoss.cli._output import INTERRUPTED, heed_interrupts, show_json, show_line, show_table
from linoss.cli._runs import (
    REPORT,
    RunSettings,
    check_there,
    load_run,
    read_training_data,
    write_roles,
)

_SHOWN = 10
_MODELS = ("n_models", "patch")
"""Settings of several models, or of their input, which a search does not have."""


@options.with_columns
def search(
    data: Annotated[
        Path,
        Argument(metavar="DATA", help="A file or a directory, as for linoss fit."),
    ],
    out: Annotated[Path, Option(metavar="DIR", help="Directory of the trials.")],
    task: Annotated[TaskName, Option(help="The task.")],
    trials: Annotated[
        int | None,
        Option(
            help="Number of trials of all workers together.",
            show_default="30, or the whole grid",
            min=1,
        ),
    ] = None,
    range: Annotated[
        list[str] | None,
        Option(
            metavar="RANGE",
            help="NAME=LOW..HIGH or NAME=VALUE,VALUE: the values of a setting to try; repeatable.",
            show_default="learning rate, sizes, blocks and dropout",
        ),
    ] = None,
    grid: Annotated[
        Literal["paper", "ranges"] | None,
        Option(help="Try every combination of the paper's grid, or of the ranges."),
    ] = None,
    storage: Annotated[
        str | None,
        Option(
            metavar="URL",
            help="Shared storage of the workers: sqlite:///FILE, or "
            "postgresql://USER:PASSWORD@HOST/DATABASE.",
            show_default="DIR/study.db",
            envvar="LINOSS_STORAGE",
        ),
    ] = None,
    study: Annotated[str, Option(help="Name of the study, if a storage holds several.")] = "search",
    prune: Annotated[bool, Option(help="Stop trials worse than the median.")] = True,
    silence: Annotated[
        int | None,
        Option(
            help="Seconds without a heartbeat after which a worker counts as dead.",
            show_default="60",
            min=2,
        ),
    ] = None,
    steps: Annotated[
        int | None, Option(help="Most updates of a trial.", show_default="1000")
    ] = None,
    horizon: options.Horizon = None,
    known_in_advance: options.Known = None,
    random_state: options.Seed = None,
    assign: options.Set = None,
    json: options.Json = False,
    *,
    roles: dict[str, Any],
) -> None:
    """Search hyperparameters by the score on held-out cases.

    DIR then holds a run for each trial, the best one in DIR/best, and report.html. Run the same
    command at the same time to add workers, or later to continue. Settings that are given are not
    searched. By default a fifth of the data is held out.
    """
    named = {"steps": steps, "horizon": horizon, "known_in_advance": known_in_advance}
    given = options.given_settings({**named, "random_state": random_state}, assign)
    for name in _MODELS:
        if name in given:
            raise typer.BadParameter(f"{name} is for linoss fit; a search trains one model a trial")
    options.check_columns(task, roles)
    parameters = options.parameters_of("linoss", task, given)
    check_there(data)
    settings = RunSettings("linoss", task, {"random_state": options.SEED, **parameters}, roles)
    estimator = options.check("linoss", task, settings.parameters)
    what = _what(type(estimator), range, grid, given)
    what |= {"storage": storage, "study": study, "prune": prune, "silence": silence}
    try:
        _search(data, out, settings, estimator, {**what, "trials": trials}, json=json)
    except KeyboardInterrupt:
        say(f"Interrupted. The trials are in {out}; the same command continues.")
        raise typer.Exit(INTERRUPTED) from None


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


def _search(
    data: Path, out: Path, settings: RunSettings, estimator: Any, what: Any, *, json: bool
) -> None:
    """Read the data, search, report, and print the results."""
    import linoss.search
    from linoss.cli._report import counts, trials_table, write_report, write_study
    from linoss.cli._scores import score_of

    training, test = read_training_data(data, settings)

    def finish(trained: Any, run: Path) -> None:
        write_roles(run, settings.roles)
        score = score_of(trained.fitted_, training, test)
        write_report(run / REPORT, trained, score, training, data=data)

    heed_interrupts()
    result = linoss.search.search(
        estimator, training, out=out, seed=estimator.random_state, verbose=1,
        finish=finish, **what,
    )  # fmt: skip
    score = None
    if result.directory is not None and test is not None:
        score = score_of(load_run(Path(result.directory)).fitted_, None, test)
    write_study(out / REPORT, result, score)
    if result.best is None:
        errors = [trial.error for trial in result.trials if trial.error is not None]
        first = f"; trial {result.trials[0].number}: {errors[0]}" if errors else ""
        raise ValueError(f"no trial is complete ({counts(result)}){first}")
    if json:
        record = result.record()
        for trial in record["trials"]:
            del trial["curve"]
        run = {"run": result.directory, "report": str(out / REPORT)}
        show_json({**record, **run, "test": None if score is None else score.record()})
        return
    show_table(counts(result), *trials_table(result, _SHOWN))
    if result.directory is None:
        show_line(
            f"The best run, of trial {result.best.number}, is in the directory of another worker's "
            f"trials; see {out / REPORT}"
        )
        return
    if score is not None:
        name, value = score.headline
        show_line(f"Test score of the best run: {name} {value:.4g}")
    show_line(f"The best run is in {result.directory}; see {out / REPORT}")
