"""Reading CSV files into columns, line by line, so that errors can name the line."""

import csv
from array import array
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from linoss.data._columns import Chooser, Columns, check_names
from linoss.data._errors import DataError
from linoss.data._raw_files import shown, text_lines

_WORDS = {"": np.nan, "nan": np.nan, "na": np.nan, "?": np.nan, "true": 1.0, "false": 0.0}


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
            f"cell empty for a missing value; {hint.format(name)}"
        ) from None
