"""The columns of a file or frame, before conversion to sequences or tables."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from linoss.data._errors import DataError
from linoss.data._raw_files import shown

ID_NAMES = ("case", "case_id", "id", "unique_id")
TIME_NAMES = ("time", "ds", "timestamp", "date", "datetime")
LABEL_NAMES = ("label", "class", "target", "y")

Chooser = Callable[[tuple[str, ...]], Iterable[str]]
"""Selects, from the names of all columns, those that may contain other values than numbers."""


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns of numbers as one matrix, other columns by name."""

    source: str
    """The file or the argument, for errors."""
    number_names: tuple[str, ...]
    """Names of the columns of `numbers`."""
    numbers: np.ndarray
    """(rows, columns), float64, NaN where missing."""
    others: dict[str, np.ndarray]
    """Name to (rows,): strings, numbers or dates; None, "", NaN or NaT where missing."""
    lines: np.ndarray | None = None
    """(rows,), the line of the file on which each row ends."""

    def where(self, row: int | np.integer) -> str:
        """The location of a row, for errors."""
        return f"{self.source}, {self.row(row)}"

    def row(self, row: int | np.integer) -> str:
        """The location of a row without the file."""
        return f"row {row}" if self.lines is None else f"line {self.lines[row]}"

    def without_counter(self) -> "Columns":
        """Remove an unnamed first column that numbers the rows, as written by pandas."""
        if "" not in self.number_names:
            return self
        place = self.number_names.index("")
        if (self.numbers[:, place] != np.arange(len(self.numbers))).any():
            raise DataError(f"{self.source}: the first column has no name, expected one; name it")
        names = tuple(name for name in self.number_names if name)
        numbers = np.delete(self.numbers, place, axis=1)
        return Columns(self.source, names, numbers, self.others, self.lines)

    def refuse_infinite(self, largest: float = np.inf) -> None:
        """Raise for infinite numbers, and for those that become infinite in a smaller dtype."""
        with np.errstate(invalid="ignore"):
            wrong = np.isinf(self.numbers) | (np.abs(self.numbers) > largest)
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            raise DataError(
                f"{self.where(row)}, column {shown(self.number_names[column])}: found "
                f"{self.numbers[row, column]}, expected a finite number"
                + (f" up to {largest:.2g}" if largest < np.inf else "")
                + "; remove it, or leave the cell empty for a missing value"
            )


def named(names: Iterable[str], wanted: tuple[str, ...]) -> str | None:
    """The first of the wanted names that a column has, ignoring case."""
    spelled = {_folded(name): name for name in names}
    return next((spelled[name] for name in wanted if name in spelled), None)


def check_names(source: str, names: tuple[str, ...]) -> None:
    """Raise for columns without a name, and for names that `named` cannot distinguish."""
    seen: dict[str, str] = {}
    for position, name in enumerate(names):
        if not name.strip() and position:
            raise DataError(
                f"{source}: column {position + 1} has no name, expected one for every column"
            )
        first = seen.setdefault(_folded(name), name)
        if len(seen) == position + 1:
            continue
        if name == first:
            raise DataError(f"{source}: two columns are named {shown(name)}; rename one")
        raise DataError(
            f"{source}: the columns {shown(first)} and {shown(name)} differ only in capitals or "
            "spaces, expected names that differ otherwise; rename one"
        )


def _folded(name: str) -> str:
    return name.strip().lower()


def is_missing(column: np.ndarray) -> np.ndarray:
    """(rows,), True where a cell is empty."""
    if column.dtype.kind == "f":
        return np.isnan(column)
    if column.dtype.kind == "M":
        return np.isnat(column)
    if column.dtype.kind != "O":
        return np.zeros(len(column), bool)
    return np.array([cell is None or (isinstance(cell, str) and not cell) for cell in column], bool)
