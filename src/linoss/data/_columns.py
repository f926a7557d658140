"""The columns of .csv and .parquet files and of frames, before conversion to sequences or tables.

.csv files are read line by line, so that errors can name the line.
"""

import csv
from array import array
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from linoss.data._raw_files import (
    DataError,
    check_expansion,
    optional,
    refusing,
    shown,
    text_lines,
)

"""Arguments of `read` that name columns."""
ID_NAMES = ("case", "case_id", "id", "unique_id")
TIME_NAMES = ("time", "ds", "timestamp", "date", "datetime")
LABEL_NAMES = ("label", "class", "target", "y")

Chooser = Callable[[tuple[str, ...]], Iterable[str]]
"""Selects, from the names of all columns, those that may contain other values than numbers."""
_WORDS = {"": np.nan, "nan": np.nan, "na": np.nan, "?": np.nan, "true": 1.0, "false": 0.0}
_PANDAS_INDEX = "__index_level_0__"
"""pandas' name for an unnamed index in a .parquet file."""


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

    def filled(self, name: str, expected: str) -> np.ndarray:
        """A column without missing cells; raises for the first one."""
        missing = is_missing(self.others[name])
        if missing.any():
            where = self.where(int(np.argmax(missing)))
            raise DataError(f"{where}, column {shown(name)}: is empty, expected {expected}")
        return self.others[name]

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


@dataclass(frozen=True, eq=False)
class Groups:
    """The cases or the series of a table."""

    word: str
    """`"case"` or `"series"`."""
    ids: tuple[Any, ...] | None
    """Their names, in the order of their first rows; None for a single one without a name."""
    codes: np.ndarray
    """(rows,): the position of the name of each row."""

    @classmethod
    def of(cls, columns: Columns, word: str, name: str | None) -> "Groups":
        """The groups that a column names."""
        if name is None:
            return cls(word, None, np.zeros(len(columns.numbers), int))
        known: dict[Any, int] = {}
        cells = columns.filled(name, f"the name of a {word}").tolist()
        names = [cell if isinstance(cell, str | int | float) else str(cell) for cell in cells]
        codes = np.array([known.setdefault(each, len(known)) for each in names])
        return cls(word, tuple(known), codes)

    def title(self, code: int) -> str:
        """The name of a group, for errors."""
        return "" if self.ids is None else f", {self.word} {shown(self.ids[code])}"


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


def read_csv(path: Path, choose: Chooser, hint: str) -> Columns:
    """The columns of a .csv file with a header.

    Columns that `choose` selects stay text. In the others an empty cell, NaN, nan, NA or ? is
    missing, and True and False are 1 and 0.
    """
    with closing(text_lines(path)) as text:
        reader = csv.reader(text, strict=True)
        try:
            return _columns(path, reader, choose, hint)
        except csv.Error as error:
            raise DataError(
                f"{path}, line {reader.line_num}: {error}, expected cells separated by commas; "
                "quotes that are opened must be closed"
            ) from None


def _columns(path: Path, reader: Any, choose: Chooser, hint: str) -> Columns:
    names = _header(path, reader)
    kept = {name: names.index(name) for name in choose(names)}
    numeric = [i for i, name in enumerate(names) if name not in kept]
    numbers, lines = array("d"), array("q")
    texts: dict[str, list[str]] = {name: [] for name in kept}
    known: dict[str, str] = {}  # equal cells share one object
    for row in reader:
        if not row:
            continue
        if len(row) != len(names):
            raise DataError(
                f"{path}, line {reader.line_num}: has {len(row)} cells, expected {len(names)} as "
                "in the header"
            )
        try:
            numbers.extend([float(row[i]) for i in numeric])
        except ValueError:
            where = f"{path}, line {reader.line_num}"
            numbers.extend([_number(where, names[i], row[i], hint) for i in numeric])
        for name, position in kept.items():
            cell = row[position].strip()
            texts[name].append(known.setdefault(cell, cell))
        lines.append(reader.line_num)
    if not lines:
        raise DataError(f"{path}: found only a header, expected rows of data below it")
    return Columns(
        str(path),
        tuple(names[i] for i in numeric),
        np.frombuffer(numbers, float).reshape(len(lines), len(numeric)),
        {name: np.array(cells, object) for name, cells in texts.items()},
        np.frombuffer(lines, np.int64),
    )


def _header(path: Path, reader: Any) -> tuple[str, ...]:
    names = tuple(name.strip() for name in next((row for row in reader if row), []))
    where = f"{path}, line {reader.line_num}"
    if not names:
        raise DataError(f"{path}: found no text, expected a header and rows of data")
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        raise DataError(
            f"{where}: found {shown(names[0])}, expected columns separated by commas; save the "
            "file with commas"
        )
    check_names(where, names)
    return names


def _number(where: str, name: str, cell: str, hint: str) -> float:
    word = _WORDS.get(cell.strip().lower())
    if word is not None:
        return word
    try:
        return float(cell)
    except ValueError:
        raise DataError(
            f"{where}, column {shown(name)}: found {shown(cell)}, expected a number; leave the "
            f"cell empty for a missing value; {hint.format(name)}",
        ) from None


def read_parquet(path: Path, choose: Chooser, hint: str) -> Columns:
    """The columns of a .parquet file; those that `choose` does not select must be numbers."""
    parquet = optional("pyarrow.parquet", "reading .parquet files")
    source = str(path)
    with refusing(source, "expected a .parquet file"):
        schema = parquet.read_schema(path)
        # Repeated strings share one object.
        strings = [field.name for field in schema if str(field.type) in ("string", "large_string")]
        stored = ["" if name == _PANDAS_INDEX else name for name in schema.names]
        names = tuple(sorted(stored, key=bool))
        check_names(source, names)
        kept = list(choose(names))
        numeric = tuple(name for name in names if name not in kept)
        for name in numeric:
            _check_type(source, name, str(schema.field(stored.index(name)).type), hint)
        with parquet.ParquetFile(path, read_dictionary=strings) as file:
            groups = range(file.metadata.num_row_groups)
            rows = sum(file.metadata.row_group(i).num_rows for i in groups)
            check_expansion(source, rows * len(names) * 8, path.stat().st_size)
            table = file.read(use_threads=False).rename_columns(stored)
        table.validate(full=True)
        if table.num_rows != rows or not rows:
            raise DataError(f"{path}: holds {table.num_rows} rows, expected {rows}, at least one")
        numbers = [_as_float(table[name]) for name in numeric]
        others = {name: _as_other(f"{path}, column {shown(name)}", table[name]) for name in kept}
    matrix = np.stack(numbers, axis=1) if numbers else np.zeros((rows, 0))
    return Columns(source, numeric, matrix, others)


def columns_of_frame(source: str, frame: Any, choose: Chooser, hint: str) -> Columns:
    """The columns of a pandas frame; those that `choose` does not select must be numbers."""
    names = tuple(str(name) for name in frame.columns)
    check_names(source, names)
    if not len(frame):
        raise DataError(f"{source} has no rows, expected at least one")
    kept = list(choose(names))
    numbers, numeric, others = [], [], {}
    for position, name in enumerate(names):
        column = frame.iloc[:, position]
        if name in kept:
            plain = isinstance(column.dtype, np.dtype) and column.dtype.kind != "O"
            cells = column if plain else column.astype(object).where(column.notna(), None)
            others[name] = cells.to_numpy()
            continue
        kind = getattr(column.dtype, "kind", "O")
        _check_type(source, name, "double" if kind in "biuf" else str(column.dtype), hint)
        numbers.append(column.to_numpy(dtype=float, na_value=np.nan))
        numeric.append(name)
    matrix = np.stack(numbers, axis=1) if numbers else np.zeros((len(frame), 0))
    return Columns(source, tuple(numeric), matrix, others)


def _check_type(source: str, name: str, kind: str, hint: str) -> None:
    if kind not in ("bool", "float", "double", "halffloat", "null") and "int" not in kind:
        raise DataError(
            f"{source}, column {shown(name)}: holds {kind}, expected numbers; convert it; "
            f"{hint.format(name)}",
        )


def _as_float(column: Any) -> np.ndarray:
    return column.cast("float64", safe=False).to_numpy().astype(float)


def _as_other(where: str, column: Any) -> np.ndarray:
    kind = str(column.type)
    if kind.startswith("dictionary"):
        column = column.unify_dictionaries().combine_chunks()
        values = np.array([*column.dictionary.to_pylist(), None], object)
        return values[column.indices.fill_null(len(values) - 1).to_numpy()]
    if not kind.startswith(("string", "int", "uint", "float", "double", "bool", "time", "date")):
        raise DataError(f"{where}: holds {kind}, expected text, numbers or dates; convert it")
    return column.to_numpy()
