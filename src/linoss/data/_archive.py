"""The files of the UEA and UCR archives, .ts and .arff, read line by line: errors name the line."""

import math
from array import array
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from linoss.data._arrays import as_labels, class_name
from linoss.data._raw_files import DataError, listed, shown, text_lines
from linoss.data._sequences import Sequences, as_case

_COMMENTS = (b"#", b"%")


@dataclass
class _Header:
    """The header of a file."""

    flags: dict[str, bool] = field(default_factory=dict)
    classes: dict[str, str] = field(default_factory=dict)
    """Maps the class in a data line (in .ts files in lower case) to its name in the header."""
    labelled: bool = True
    numeric: bool = False
    attributes: int = 0
    relational: bool = False


@dataclass(frozen=True)
class _Row:
    """A line of data: its location for errors, its channels as text, its label."""

    where: str
    channels: list[str]
    label: str | None


def read_ts(path: Path) -> Sequences:
    """Read the cases of a .ts file."""
    return _read(path, _ts_rows)


def read_arff(path: Path) -> Sequences:
    """Read the cases of an .arff file with one or several channels."""
    return _read(path, _arff_rows)


def _read(path: Path, rows: Callable[[Path, Iterator[str], _Header], Iterator[_Row]]) -> Sequences:
    header = _Header()
    values: list[np.ndarray] = []
    labels: list[str | float] = []
    with closing(text_lines(path, _COMMENTS)) as lines:
        for row in rows(path, lines, header):
            first = values[0].shape if values else None
            case = _case(row, first, equal=header.flags.get("equallength", True))
            values.append(as_case(row.where, case))
            if header.labelled:
                labels.append(_label(row, header))
    if not values:
        raise DataError(
            f"{path}: found no line '@data' with cases after it, expected a header, '@data' and a "
            "line for each case; the file is incomplete or of another kind"
        )
    return Sequences(values, as_labels(str(path), labels, len(labels)) if header.labelled else None)


def _case(row: _Row, first: tuple[int, ...] | None, *, equal: bool) -> np.ndarray:
    """(channels, length), which must agree with the first case (length, channels)."""
    lengths = [channel.count(",") + 1 for channel in row.channels]
    length, channels = first or (lengths[0], len(lengths))
    if len(lengths) != channels:
        raise DataError(
            f"{row.where}: has {len(lengths)} channels, expected {channels} as in the first case"
        )
    length = length if equal else lengths[0]
    for channel, count in enumerate(lengths):
        if count != length:
            raise DataError(
                f"{row.where}: channel {channel} has {count} values, expected {length}; write ? "
                "for missing values" + (", or '@equalLength false' in a .ts file" if equal else "")
            )
    return np.stack([_numbers(row.where, i, text) for i, text in enumerate(row.channels)])


def _numbers(where: str, channel: int, text: str) -> np.ndarray:
    cells = text.replace("?", "nan").split(",")
    try:
        return np.frombuffer(array("d", map(float, cells)))
    except ValueError:
        for position, cell in enumerate(text.split(",")):
            _number(where, cell.strip(), f"value {position} of channel {channel}")
        raise


def _label(row: _Row, header: _Header) -> str | float:
    label = (row.label or "").strip()
    if header.numeric:
        target = _number(row.where, label, "the target")
        if not math.isfinite(target):
            raise DataError(f"{row.where}: the target is {shown(label)}, expected a finite number")
        return target
    known = header.classes.get(label) or header.classes.get(label.lower())
    if not label or (header.classes and known is None):
        raise DataError(
            f"{row.where}: the class is {shown(label)}, expected one of the header's: "
            + (listed(header.classes.values()) or "any name")
        )
    return known or class_name(row.where, label)


def _number(where: str, text: str, what: str) -> float:
    try:
        return float(text.replace("?", "NaN"))
    except ValueError:
        raise DataError(
            f"{where}: {what} is {shown(text)}, expected a number; write ? for a missing value"
        ) from None


def _ts_rows(path: Path, lines: Iterator[str], header: _Header) -> Iterator[_Row]:
    numbered = enumerate(lines, start=1)
    for number, line in numbered:
        words = line.split()
        if not words or words[0][0] != "@":  # a comment, or text
            continue
        if _ts_tag(f"{path}, line {number}", words, header):
            break
    for number, line in numbered:
        where = f"{path}, line {number}"
        if not line.strip():
            raise DataError(f"{where}: the line is empty, expected a case; remove the line")
        channels = line.strip().split(":")
        label = channels.pop() if header.labelled else None
        if not channels:
            raise DataError(
                f"{where}: found {shown(line.strip())}, expected the values of a case, a colon and "
                "its label; for cases without labels write '@classLabel false'"
            )
        yield _Row(where, channels, label)


def _ts_tag(where: str, words: list[str], header: _Header) -> bool:
    """Parse a line of the header; returns whether it is the last."""
    tag, values = words[0][1:].lower(), words[1:]
    if tag == "data" and values:
        raise DataError(
            f"{where}: found {shown(' '.join(words))}, expected '@data' alone before the first case"
        )
    if tag == "data":
        return True
    if tag in ("timestamps", "missing", "univariate", "equallength", "targetlabel", "classlabel"):
        flag = values[0].lower() if values else ""
        if flag not in ("true", "false") or (tag != "classlabel" and len(values) > 1):
            raise DataError(f"{where}: found {shown(' '.join(words))}, expected true or false")
        header.flags[tag] = flag == "true"
    if header.flags.get("timestamps"):
        raise DataError(
            f"{where}: the file has time stamps, which are not read from .ts files; write a .csv "
            "file with the columns case, time, label and one for each channel"
        )
    if tag == "classlabel" and header.flags[tag]:
        if len(values) < 2:
            raise DataError(f"{where}: found no classes, expected their names after 'true'")
        header.classes = {name.lower(): name for name in values[1:]}
        if len(header.classes) < len(values) - 1:
            raise DataError(f"{where}: two classes have the same name but for capitals; rename one")
    header.numeric = header.flags.get("targetlabel", False)
    header.labelled = header.numeric or header.flags.get("classlabel", True)
    return False


def _arff_rows(path: Path, lines: Iterator[str], header: _Header) -> Iterator[_Row]:
    numbered = enumerate(lines, start=1)
    for number, line in numbered:
        if not line.strip():
            continue
        where, words = f"{path}, line {number}", line.split(None, 2)
        tag = words[0].lower()
        if tag == "@data":
            break
        if tag[0] not in "@%":
            raise DataError(
                f"{where}: found {shown(line.strip())}, expected a line of the header that begins "
                "with @ or %"
            )
        if tag == "@attribute":
            kind = words[2].strip() if len(words) == 3 else ""
            header.attributes += 1
            header.relational = header.relational or kind.lower() == "relational"
            header.numeric = kind.lower() in ("numeric", "real", "integer")
            names = [name.strip(" '\"") for name in kind.strip("{}").split(",")]
            header.classes = {name: name for name in names} if kind.startswith("{") else {}
    for number, line in numbered:
        text = line.strip()
        if text:
            yield _arff_row(f"{path}, line {number}", text, header)


def _arff_row(where: str, text: str, header: _Header) -> _Row:
    if header.relational:
        values, end, label = text.partition("',")
        if not end or not values.startswith("'") or "'," in label:
            raise DataError(
                f"{where}: found {shown(text)}, expected the values of a case in single quotes, a "
                "comma and its label"
            )
        return _Row(where, values[1:].split("\\n"), label.strip().strip("'\""))
    values, _, label = text.rpartition(",")
    count = values.count(",") + 2
    if count != header.attributes or not values:
        raise DataError(
            f"{where}: has {count if values else 1} values, expected {header.attributes}, one for "
            "each '@attribute'"
        )
    return _Row(where, [values], label.strip().strip("'\""))
