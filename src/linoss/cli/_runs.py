"""What commands work on: a run, which holds a fitted thing or a forecaster, and data."""

import json
import os
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from typer import Argument, Option

from linoss._files import make_directory, open_regular, write_text
from linoss._plain import with_checksum, without_checksum
from linoss._settings import ESTIMATORS
from linoss._stderr import say
from linoss.cli._options import COLUMNS, estimator_class
from linoss.cli._output import json_line

REPORT = "report.html"
_CONFIG, _COLUMNS = "config.json", "columns.json"

RunArgument = Annotated[
    Path, Argument(metavar="RUN", help="Directory of a run, written by linoss fit.")
]
Data = Annotated[Path, Argument(metavar="DATA", help="A file, or a directory with a test part.")]
Out = Annotated[Path | None, Option(help="CSV file for the predictions.", show_default="stdout")]


# ---- Runs ----


def load_run(directory: Path, *, forecasts: bool | None = None) -> Any:
    """Load the estimator of a run; with `forecasts`, one that is or is not a forecaster."""
    if not holds_a_run(directory):
        raise ValueError(f"{directory}: holds no run, expected a directory that linoss fit wrote")
    model, task, *_ = read_settings(directory)
    if forecasts is not None and forecasts != (task == "forecasting"):
        use = "predict, evaluate or explain" if forecasts else "forecast, evaluate or backtest"
        raise ValueError(f"{directory}: holds a {ESTIMATORS[model, task]}; use linoss {use}")
    return estimator_class(model, task).load(directory)


def models_of(fitted: Any) -> list[Any]:
    """The trained models."""
    return [] if fitted.trained is None else fitted.trained.models


class RunSettings(NamedTuple):
    """All that determines a run; None where a command line leaves it to the run."""

    model: Any
    task: Any
    parameters: dict[str, Any]
    roles: dict[str, Any]
    """The columns that are not channels."""


def holds_a_run(run: Path) -> bool:
    """Whether a directory holds a run."""
    return (run / _CONFIG).exists()


def read_settings(run: Path) -> RunSettings:
    """The settings of a run, even if it is not trained yet."""
    from linoss.training import CheckpointError, read_extra

    extra = read_extra(run)
    kinds = {name: kind for kind, name in ESTIMATORS.items()}
    try:
        kind, parameters = kinds[extra["estimator"]], dict(extra["parameters"])
    except (TypeError, LookupError, ValueError):
        raise CheckpointError(
            f"{run / _CONFIG}: is not that of a run of linoss fit; train in another directory"
        ) from None
    return RunSettings(*kind, parameters, read_roles(run))


def write_roles(run: Path, roles: dict[str, Any]) -> None:
    """Keep the columns that are not channels with a run, if any are given."""
    if roles:
        make_directory(run)
        write_text(run / _COLUMNS, json_line(with_checksum(roles)))


def read_roles(run: Path) -> dict[str, Any]:
    """The inverse of `write_roles`."""
    from linoss.training import CheckpointError

    path = run / _COLUMNS
    try:
        with open_regular(path) as file:
            roles = without_checksum(dict(json.loads(file.read(2**20))))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, RecursionError):
        roles = None
    if roles is None or not roles.keys() <= COLUMNS.keys():
        raise CheckpointError(
            f"{path}: is invalid; remove it, and name the column of labels with --label"
        )
    return roles


# ---- Data ----


def check_there(data: Path) -> None:
    """Raise if a file or directory does not exist, before anything else is imported."""
    if not os.path.lexists(data):
        raise ValueError(f"{data}: there is no such file; check the path")


def read_training_data(data: Path, settings: RunSettings) -> tuple[Any, Any]:
    """Training and, if available, test part of the data of a run."""
    from linoss.data import DataError, read_parts, read_table

    parts: tuple[Any, Any]
    if settings.task == "forecasting":
        parts = read_parts(data, read_table)
    else:
        parts = read_parts(data, **settings.roles)
    say(f"Read {summary_of(parts[0])}")
    if settings.task == "forecasting":
        return parts
    labels = parts[0].labels
    if labels is None:
        raise DataError(
            f"{data}: has no labels, expected a column named label, class, target or y; if "
            "another column holds them, name it with --label; for data without labels use --task "
            "forecasting"
        )
    kind = getattr(getattr(labels, "dtype", None), "kind", "f")
    if settings.task == "regression" and kind in "OU":
        raise DataError(
            f"a label is {str(labels[0])[:80]!r}, expected numbers for --task "
            "regression; use --task classification, or name another column with --label"
        )
    return parts


def summary_of(cases: Any) -> str:
    """A line on what was read."""
    if not hasattr(cases, "series"):
        return cases.summary
    steps = sorted(len(each) for each in cases.series)
    names = ", ".join(map(str, cases.names[:8])) + ", ..." * (len(cases.names) > 8)
    counts = f"{len(steps)} series of {len(cases.names)} variables ({names})"
    ends = [sorted(str(index[i])[:19].replace("T", " ") for index in cases.index) for i in (0, -1)]
    first, last = (" to ".join(dict.fromkeys((each[0], each[-1]))) for each in ends)
    length = " to ".join(dict.fromkeys((f"{steps[0]:,}", f"{steps[-1]:,}")))
    return f"{counts}, {length} steps; first: {first}; last: {last}"


def time_unit(cases: Any) -> str:
    """What times count."""
    return "samples" if cases.times is None else cases.about.get("time") or "time"


def read_cases(
    run: Path, data: Path, roles: dict[str, Any], *, forecasts: bool | None = False, **how: Any
) -> tuple[Any, Any]:
    """The estimator of a run, and the data of a file or of the test part of a directory."""
    check_there(data)
    estimator = load_run(run, forecasts=forecasts)
    from linoss.data import DataError, read_parts, read_table

    if estimator.task == "forecasting":
        parts = read_parts(data, read_table)
    else:
        parts = read_parts(data, **{**read_roles(run), **roles, **how})
    if parts[1] is None and data.is_dir():
        raise DataError(f"{data}: has no test part; pass a file in it")
    return estimator, parts[0] if parts[1] is None else parts[1]
