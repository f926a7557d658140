"""Reading the data of commands from a file, or a directory with a training and a test part."""

import os
from pathlib import Path
from typing import Any


def check_there(data: Path) -> None:
    """Raise if a file or directory does not exist, before anything else is imported."""
    if not os.path.lexists(data):
        raise ValueError(f"{data}: there is no such file; check the path")


def read_cases(data: Path, roles: dict[str, Any]) -> tuple[Any, Any]:
    """Training and, if available, test sequences; `roles` names columns."""
    from linoss.data import read_parts

    return read_parts(data, **roles)


def read_labelled_cases(data: Path, roles: dict[str, Any]) -> tuple[Any, Any]:
    """`read_cases` that raises for a training part without labels."""
    parts = read_cases(data, roles)
    if parts[0].labels is None:
        from linoss.data import DataError

        raise DataError(
            f"{data}: has no labels, expected a column named label, class, target or y; if "
            "another column holds them, name it with --label; for data without labels use --task "
            "forecasting"
        )
    return parts


def read_training_data(
    data: Path, task: str, roles: dict[str, Any], parameters: dict[str, Any]
) -> tuple[Any, Any]:
    """Training and, if available, test part of the data of a task."""
    if task == "forecasting":
        return read_tables(data, parameters.get("static", ()))
    parts = read_labelled_cases(data, roles)
    kind = getattr(getattr(parts[0].labels, "dtype", None), "kind", "f")
    if task == "regression" and kind in "OU":
        from linoss.data import DataError

        raise DataError(
            f"a label is {str(parts[0].labels[0])[:80]!r}, expected numbers for --task "
            "regression; use --task classification, or name another column with --label"
        )
    return parts


def read_test_cases(data: Path, roles: dict[str, Any]) -> Any:
    """The sequences of a file, or the test part of a directory."""
    _, test = parts = read_cases(data, roles)
    return _test_part(data, parts) if data.is_dir() else parts[0] if test is None else test


def read_unlabelled_cases(data: Path, roles: dict[str, Any]) -> Any:
    """`read_test_cases` for data that may lack the columns that are not channels."""
    return read_test_cases(data, {**roles, "may_lack": True})


def read_tables(data: Path, static: Any) -> tuple[Any, Any]:
    """Training and, if available, test table."""
    from linoss.data import read_parts, read_table

    return read_parts(data, read_table, static=static)


def read_test_table(data: Path, static: Any) -> Any:
    """The table of a file, or the test part of a directory."""
    parts = read_tables(data, static)
    return _test_part(data, parts) if data.is_dir() else parts[0]


def _test_part(data: Path, parts: tuple[Any, Any]) -> Any:
    from linoss.data import DataError

    if parts[1] is None:
        raise DataError(f"{data}: has no test part; pass a file in it")
    return parts[1]
