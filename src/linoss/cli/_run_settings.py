"""Settings and column names in the directory of a run."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from linoss._files import make_directory, write_text
from linoss._plain import plain, with_checksum, without_checksum
from linoss._settings import ESTIMATORS, ModelName, TaskName
from linoss.cli._output import json_line

REPORT = "report.html"
_CONFIG, _COLUMNS = "config.json", "columns.json"


@dataclass(frozen=True)
class ColumnNames:
    """Names in the training data of a run."""

    channels: tuple[str, ...] | None = None
    """Names of the channels, if they have any."""
    roles: dict[str, Any] = field(default_factory=dict)
    """Columns that are not channels, as given by the user: `label`, `case` and `drop`."""


@dataclass(frozen=True)
class RunSettings:
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


def read_column_names(run: Path) -> ColumnNames:
    """The inverse of `write_column_names`; empty if an estimator was saved in another way."""
    from linoss.training import CheckpointError

    path = run / _COLUMNS
    try:
        record = without_checksum(dict(json.loads(path.read_text(encoding="utf-8"))))
        if record is None:
            raise ValueError("its content does not match its checksum")
        channels, roles = record["channels"], dict(record["roles"])
        names = None if channels is None else tuple(channels)
        drop = list(roles.get("drop", []))
        chosen = [*drop, *(column for role, column in roles.items() if role != "drop")]
        if not all(isinstance(name, str) for name in (*(names or ()), *chosen)):
            raise TypeError("names are not text")
        if not roles.keys() <= {"label", "case", "drop"}:
            raise ValueError("a role is not known")
    except FileNotFoundError:
        return ColumnNames()
    except (OSError, ValueError, TypeError, LookupError, RecursionError) as error:
        raise CheckpointError(
            f"{path}: is invalid ({error}); remove it, and name the column of labels with --label"
        ) from None
    return ColumnNames(names, roles)


def write_column_names(run: Path, columns: ColumnNames) -> None:
    """Write column names to the directory of a run."""
    make_directory(run)
    record = with_checksum({"channels": plain(columns.channels), "roles": plain(columns.roles)})
    write_text(run / _COLUMNS, json_line(record))
