"""What commands work on: a run, which holds a fitted thing or a forecaster, and data."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from linoss._files import make_directory, write_text
from linoss._plain import with_checksum, without_checksum
from linoss._settings import ESTIMATORS, ModelName, TaskName
from linoss.cli._output import json_line

REPORT = "report.html"
_CONFIG, _COLUMNS = "config.json", "columns.json"

RunArgument = Annotated[
    Path, typer.Argument(metavar="RUN", help="Directory of a run, written by linoss fit.")
]
Data = Annotated[
    Path, typer.Argument(metavar="DATA", help="A file, or a directory with a test part.")
]
Out = Annotated[
    Path | None, typer.Option(help="CSV file for the predictions.", show_default="stdout")
]
Levels = Annotated[
    list[float] | None,
    typer.Option(
        help="Prediction interval in percent, such as 80; repeatable.", show_default=False
    ),
]


# ---- Runs ----


@dataclass(frozen=True, eq=False)
class Run:
    """What was fitted, and the settings of its estimator."""

    estimator: str
    """The name of the estimator."""
    parameters: dict[str, Any]
    model: Any
    """A [`linoss.fitted.Fitted`][], or a [`linoss.forecasting.FittedForecaster`][]."""

    @classmethod
    def of(cls, estimator: Any) -> "Run":
        """The run of an estimator that was just fitted."""
        parameters = estimator.get_params(deep=False)
        return cls(type(estimator).__name__, parameters, estimator.fitted_)

    @property
    def is_forecaster(self) -> bool:
        """Whether it forecasts tables; otherwise it predicts for sequences."""
        return self.model.task == "forecasting"

    @property
    def trained(self) -> list[Any]:
        """The trained models."""
        return [] if self.model.trained is None else self.model.trained.models


def load_run(directory: Path) -> Run:
    """Load a run."""
    if not holds_a_run(directory):
        raise ValueError(f"{directory}: holds no run, expected a directory that linoss fit wrote")
    from linoss.fitted import load
    from linoss.forecasting import FittedForecaster, LinOSSForecaster
    from linoss.training import read_extra

    is_forecaster = read_extra(directory).get("estimator") == LinOSSForecaster.__name__
    model, description = (FittedForecaster.load if is_forecaster else load)(directory)
    return Run(description.estimator, description.parameters, model)


def load_forecaster(directory: Path) -> Run:
    """Load a run that holds a forecaster."""
    run = load_run(directory)
    if not run.is_forecaster:
        raise ValueError(f"{directory}: holds a {run.estimator}; use linoss predict")
    return run


def load_fitted(directory: Path, instead: str = "") -> Any:
    """Load a run that holds a [`linoss.fitted.Fitted`][]."""
    run = load_run(directory)
    if run.is_forecaster:
        hint = instead or "expected a classifier or regressor"
        raise ValueError(f"{directory}: holds a forecaster{'; ' if instead else ', '}{hint}")
    return run.model


class RunSettings(NamedTuple):
    """Model, task and parameters of a run."""

    model: ModelName
    task: TaskName
    parameters: dict[str, Any]


def holds_a_run(run: Path) -> bool:
    """Whether a directory holds a run."""
    return (run / _CONFIG).exists()


def read_settings(run: Path) -> RunSettings:
    """Model, task and parameters of a run, even if it is not trained yet."""
    from linoss.training import CheckpointError, read_extra

    extra = read_extra(run)
    kinds = {name: kind for kind, name in ESTIMATORS.items()}
    try:
        return RunSettings(*kinds[extra["estimator"]], dict(extra["parameters"]))
    except (TypeError, LookupError, ValueError):
        raise CheckpointError(
            f"{run / _CONFIG}: is not that of a run of linoss fit; train in another directory"
        ) from None


# ---- Columns that are not channels ----


def given_roles(label: str | None, case: str | None, drop: list[str] | None) -> dict[str, Any]:
    """The columns that are not channels, as given by the user."""
    roles = {"label": label, "case": case, "drop": drop}
    return {role: columns for role, columns in roles.items() if columns}


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
        roles = without_checksum(dict(json.loads(path.read_text(encoding="utf-8"))))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, RecursionError):
        roles = None
    if roles is None or not roles.keys() <= {"label", "case", "drop"}:
        raise CheckpointError(
            f"{path}: is invalid; remove it, and name the column of labels with --label"
        )
    return roles


# ---- Data ----


def check_there(data: Path) -> None:
    """Raise if a file or directory does not exist, before anything else is imported."""
    if not os.path.lexists(data):
        raise ValueError(f"{data}: there is no such file; check the path")


def read_training_data(
    data: Path, task: TaskName, roles: dict[str, Any], parameters: dict[str, Any]
) -> tuple[Any, Any]:
    """Training and, if available, test part of the data of a task."""
    from linoss.data import DataError, read_parts, read_table

    if task == "forecasting":
        return read_parts(data, read_table, static=parameters.get("static", ()))
    parts = read_parts(data, **roles)
    labels = parts[0].labels
    if labels is None:
        raise DataError(
            f"{data}: has no labels, expected a column named label, class, target or y; if "
            "another column holds them, name it with --label; for data without labels use --task "
            "forecasting"
        )
    if task == "regression" and getattr(getattr(labels, "dtype", None), "kind", "f") in "OU":
        raise DataError(
            f"a label is {str(labels[0])[:80]!r}, expected numbers for --task "
            "regression; use --task classification, or name another column with --label"
        )
    return parts


def read_test_cases(data: Path, roles: dict[str, Any]) -> Any:
    """The sequences of a file, or the test part of a directory."""
    from linoss.data import read_parts

    return _test_part(data, read_parts(data, **roles))


def read_test_table(data: Path, static: Any) -> Any:
    """The table of a file, or the test part of a directory."""
    from linoss.data import read_parts, read_table

    return _test_part(data, read_parts(data, read_table, static=static))


def _test_part(data: Path, parts: tuple[Any, Any]) -> Any:
    if parts[1] is None and data.is_dir():
        from linoss.data import DataError

        raise DataError(f"{data}: has no test part; pass a file in it")
    return parts[0] if parts[1] is None else parts[1]
