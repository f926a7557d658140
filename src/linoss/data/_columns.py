"""The columns of .csv and .parquet files and of frames, before they become sequences or tables."""

import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from linoss._plain import scalar
from linoss.data._raw_files import (
    LINE_LIMIT,
    DataError,
    check_expansion,
    open_text,
    optional,
    refusing,
    shown,
    text_lines,
)

ID_NAMES = ("case", "case_id", "id", "unique_id")
TIME_NAMES = ("time", "ds", "timestamp", "date", "datetime")
LABEL_NAMES = ("label", "class", "target", "y")

Chooser = Callable[[tuple[str, ...]], Iterable[str]]
"""Selects, from the names of all columns, those that may contain other values than numbers."""
_MISSING = ("", " ", "nan", "NaN", "NA", "na", "?")
_WORDS = {**dict.fromkeys(map(str.lower, _MISSING), np.nan), "true": 1.0, "false": 0.0}
_NUMBER = re.compile(r"[-+.\deE]+")
_SEPARATORS = ",;\t|"
_DECIMAL_COMMA = re.compile(r"([-+]?\d*),(\d+(?:[eE][-+]?\d+)?)")
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
    text: Path | None = None
    """The file, if it is a text with a row on each line that is not empty."""

    def where(self, row: int | np.integer) -> str:
        """The location of a row, for errors."""
        return f"{self.source}, {self.row(row)}"

    def row(self, row: int | np.integer) -> str:
        """The location of a row without the file."""
        if self.text is None:
            return f"row {row}"
        return f"line {next(islice(_filled_lines(self.text), int(row) + 1, None))[0]}"

    def refuse(self, name: str, wrong: np.ndarray, expected: str, found: Any = None) -> None:
        """Raise for the first of the rows of a column that are wrong."""
        if wrong.any():
            row = int(np.argmax(wrong))
            cell = scalar((self.others[name] if found is None else found)[row])
            found = "is empty" if cell is None or cell == "" or cell != cell else f"found {cell!r}"
            found = found if len(found) <= 48 else f"{found[:45]}..."
            raise DataError(
                f"{self.where(row)}, column {shown(name)}: {found}, expected {expected}"
            )

    def filled(self, name: str, expected: str) -> np.ndarray:
        """A column without missing cells; raises for the first one."""
        self.refuse(name, is_missing(self.others[name]), expected)
        return self.others[name]

    def without_counter(self) -> "Columns":
        """Remove an unnamed first column that numbers the rows, as written by pandas."""
        if "" not in self.number_names:
            return self
        place = self.number_names.index("")
        if (self.numbers[:, place] != np.arange(len(self.numbers))).any():
            raise DataError(f"{self.source}: the first column has no name, expected one; name it")
        names = tuple(name for name in self.number_names if name)
        return replace(self, number_names=names, numbers=np.delete(self.numbers, place, axis=1))

    def refuse_infinite(self, largest: float = np.inf) -> None:
        """Raise for infinite numbers, and for those that become infinite in a smaller dtype."""
        with np.errstate(invalid="ignore"):
            wrong = np.isinf(self.numbers) | (np.abs(self.numbers) > largest)
        expected = "a finite number" + (f" up to {largest:.2g}" if largest < np.inf else "")
        for place in np.flatnonzero(wrong.any(axis=0))[:1]:
            self.refuse(
                self.number_names[place],
                wrong[:, place],
                f"{expected}; remove it, or leave the cell empty for a missing value",
                self.numbers[:, place].tolist(),
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


def check_names(source: str, names: Sequence[str]) -> None:
    """Raise for columns without a name, and for names that `named` cannot distinguish."""
    seen: dict[str, str] = {}
    for position, name in enumerate(names):
        if not name.strip() and position:
            raise DataError(f"{source}: column {position + 1} has no name; name it")
        first = seen.setdefault(_folded(name), name)
        if len(seen) <= position:
            raise DataError(
                f"{source}: two columns are named {shown(first)} and {shown(name)}, expected names "
                "that differ in more than capitals or spaces; rename one"
            )


def _folded(name: str) -> str:
    return name.strip().lower()


def is_missing(column: np.ndarray) -> np.ndarray:
    """(rows,), True where a cell is empty, NaN or NaT."""
    if column.dtype.kind == "O":
        return np.array([cell is None or cell == "" or cell != cell for cell in column], bool)
    return column != column


def as_numbers(cells: np.ndarray) -> np.ndarray:
    """Texts that all are numbers as int64 or float64; others as they are."""
    if cells.dtype.kind in "OU" and all(_NUMBER.fullmatch(str(cell)) for cell in cells):
        for kind in (np.int64, np.float64):
            try:
                return cells.astype(kind)
            except (ValueError, OverflowError):
                pass
    return cells


def _filled_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines that Arrow reads, with their numbers: not empty, and ended by any of its marks."""
    lines = (line for text in text_lines(path) for line in io.StringIO(text, None))
    return ((number, line) for number, line in enumerate(lines, 1) if line != "\n")


def read_csv(path: Path, choose: Chooser, hint: str) -> Columns:
    """The columns of a text with a header, separated by the mark that the header has most of.

    Columns that `choose` selects stay text. In the others an empty cell, NaN, nan, NA or ? is
    missing, and True and False are 1 and 0. Unless commas separate, they may be decimal.
    """
    arrow, arrow_csv = (optional(f"pyarrow{part}", "reading tables") for part in ("", ".csv"))
    source = str(path)
    header = next(_filled_lines(path), (0, ""))[1]
    if not header.strip():
        raise DataError(f"{path}: found no text, expected a header and rows of data")
    mark = max(_SEPARATORS, key=header.count)
    size = LINE_LIMIT if path.suffix.lower() == ".gz" else min(LINE_LIMIT, path.stat().st_size)
    options = (
        arrow_csv.ReadOptions(use_threads=False, block_size=max(size, 2**20)),
        arrow_csv.ParseOptions(delimiter=mark),
    )
    with refusing(source, "expected a header in one line"):
        stored = arrow_csv.read_csv(io.BytesIO(f"{header}\n".encode()), *options).column_names
    names = [name.strip() for name in stored]
    check_names(source, names)
    kept = list(choose(tuple(names)))
    text = arrow.dictionary(arrow.int32(), arrow.string())  # equal cells share one object
    with (
        refusing(source, f"expected rows of {len(names)} cells, separated by {mark!r}"),
        open_text(path) as file,
    ):
        table = arrow_csv.read_csv(
            file,
            *options,
            arrow_csv.ConvertOptions(
                null_values=_MISSING,
                column_types={s: text for s, n in zip(stored, names, strict=True) if n in kept},
            ),
        )
    if not table.num_rows:
        raise DataError(f"{path}: found only a header, expected rows of data below it")
    columns = _columns(source, table.rename_columns(names), kept, hint, path, decimal=mark != ",")
    if mark != ",":
        for name, cells in columns.others.items():
            dotted = [_DECIMAL_COMMA.sub(r"\1.\2", str(cell)) for cell in cells]
            columns.others[name] = np.array(dotted, object)
    return columns


def read_parquet(path: Path, choose: Chooser, hint: str) -> Columns:
    """The columns of a .parquet file; those that `choose` does not select must be numbers."""
    parquet = optional("pyarrow.parquet", "reading tables")
    source = str(path)
    with refusing(source, "expected a .parquet file"):
        schema = parquet.read_schema(path)
        # Repeated strings share one object.
        strings = [field.name for field in schema if str(field.type) in ("string", "large_string")]
        names = ["" if name == _PANDAS_INDEX else name for name in schema.names]
        check_names(source, sorted(names, key=bool))
        kept = list(choose(tuple(names)))
        with parquet.ParquetFile(path, read_dictionary=strings) as file:
            groups = range(file.metadata.num_row_groups)
            rows = sum(file.metadata.row_group(i).num_rows for i in groups)
            check_expansion(source, rows * len(names) * 8, path.stat().st_size)
            table = file.read(use_threads=False).rename_columns(names)
        table.validate(full=True)
        if table.num_rows != rows or not rows:
            raise DataError(f"{path}: holds {table.num_rows} rows, expected {rows}, at least one")
        return _columns(source, table, kept, hint)


def columns_of_frame(source: str, frame: Any, choose: Chooser, hint: str) -> Columns:
    """The columns of a pandas frame; those that `choose` does not select must be numbers."""
    names = [str(name) for name in frame.columns]
    check_names(source, names)
    if not len(frame):
        raise DataError(f"{source} has no rows, expected at least one")
    arrow = optional("pyarrow", "reading tables")
    with refusing(source, "expected columns of numbers, text or dates"):
        table = arrow.Table.from_pandas(frame.set_axis(names, axis=1), preserve_index=False)
    return _columns(source, table, list(choose(tuple(names))), hint)


def _columns(
    source: str, table: Any, kept: list[str], hint: str, text: Path | None = None, **csv: bool
) -> Columns:
    """The columns of an Arrow table."""
    names = tuple(name for name in table.column_names if name not in kept)
    columns = Columns(source, names, np.empty((table.num_rows, len(names))), {}, text)
    for place, name in enumerate(names):
        kind = str(table[name].type)
        if kind in ("bool", "float", "double", "halffloat", "null") or "int" in kind[:5]:
            numbers = table[name].cast("float64", safe=False).to_numpy()
        elif text is not None and kind in ("string", "binary"):
            numbers = _parsed(columns, name, table[name].to_pylist(), hint, **csv)
        else:
            raise DataError(
                f"{source}, column {shown(name)}: holds {'text' if 'string' in kind else kind}, "
                f"expected numbers; convert it; {hint.format(name)}"
            )
        columns.numbers[:, place] = numbers
    for name in kept:
        columns.others[name] = _as_other(f"{source}, column {shown(name)}", table[name])
    return columns


def _parsed(
    columns: Columns, name: str, cells: list[Any], hint: str, *, decimal: bool
) -> list[float]:
    """Numbers from text that Arrow does not take for numbers."""
    numbers = []
    for row, cell in enumerate(cells):
        cell = cell.decode(errors="replace") if isinstance(cell, bytes) else cell
        word = "" if cell is None else cell.strip().lower()
        try:
            numbers.append(_WORDS.get(word) or float(word.replace(",", ".") if decimal else word))
        except ValueError:
            raise DataError(
                f"{columns.where(row)}, column {shown(name)}: found {shown(cell)}, expected a "
                f"number; leave the cell empty for a missing value; {hint.format(name)}",
            ) from None
    return numbers


def _as_other(where: str, column: Any) -> np.ndarray:
    kind = str(column.type)
    if kind.startswith("dictionary"):
        column = column.unify_dictionaries().combine_chunks()
        values = np.array([*column.dictionary.to_pylist(), None], object)
        return values[column.indices.fill_null(len(values) - 1).to_numpy()]
    if kind.startswith(("list", "struct", "map", "binary", "fixed", "large_list")):
        raise DataError(f"{where}: holds {kind}, expected text, numbers or dates; convert it")
    return column.to_numpy()


TABLES: dict[str, Callable[[Path, Chooser, str], Columns]] = {
    ".csv": read_csv,
    ".tsv": read_csv,
    ".csv.gz": read_csv,
    ".parquet": read_parquet,
}
"""Readers by suffix."""
