"""Reading the data of commands: a file, or a directory with a training and a test part."""

import os
from pathlib import Path
from typing import Any


def check_there(data: Path) -> None:
    """Raise if there is no such file or directory, before JAX is imported."""
    if not os.path.lexists(data):
        from linoss.data import DataError

        raise DataError(f"{data}: there is no such file; check the path")


def read_cases(data: Path, label: str | None) -> tuple[Any, Any]:
    """Sequences for training and, if there are any, for the test."""
    from linoss.data import read_parts

    return read_parts(data, label=label)


def read_test_cases(data: Path, label: str | None) -> Any:
    """The sequences of a file, or the test part of a directory."""
    _, test = parts = read_cases(data, label)
    return _test_part(data, parts) if data.is_dir() else parts[0] if test is None else test


def read_unlabelled_cases(data: Path, label: str | None) -> Any:
    """The same, also without the column of labels."""
    from linoss.data import DataError

    try:
        return read_test_cases(data, label)
    except DataError:
        if label is None:
            raise
        try:
            return _without_labels(data)
        except DataError:
            pass
        raise


def _without_labels(data: Path) -> Any:
    from linoss.data import read_parts

    parts = read_parts(data, label=False)
    return _test_part(data, parts) if data.is_dir() else parts[0]


def read_tables(data: Path) -> tuple[Any, Any]:
    """Tables for training and, if there is one, for the test."""
    from linoss.data import read_table_parts

    return read_table_parts(data)


def read_test_table(data: Path) -> Any:
    """The table of a file, or the test part of a directory."""
    parts = read_tables(data)
    return _test_part(data, parts) if data.is_dir() else parts[0]


def _test_part(data: Path, parts: tuple[Any, Any]) -> Any:
    from linoss.data import DataError

    if parts[1] is None:
        raise DataError(f"{data}: holds no test part; name a file in it")
    return parts[1]
