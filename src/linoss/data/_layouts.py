"""The two layouts of sequences in a table, wide and long.

**Wide**: a row is a case. One column is the label: the one that the caller names, or the first of
`label`, `class`, `target` and `y` that exists. Every other column is a time point of a channel,
named by the channel and an integer: `x_0, x_1, ..., z_0, z_1, ...`, `t0, t1, ...` or `0, 1, 2,
...`, without gaps, the same number for each channel. Missing values at the end of a row are missing
values, not the end of the case.

**Long**: a row is a sample. The column `case` (or `case_id`, `id`, `unique_id`) names its case. The
optional column `time` (or `ds`, `timestamp`, `date`, `datetime`) is its time, a number or a date.
The optional label is the same in all rows of a case. Every other column is a channel. Samples are
sorted by time; without times, the rows of a case must be contiguous. Cases may differ in length.

A table with a column of cases is wide if no case has a second row, there are no times, and the
other columns are time points.
"""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from linoss.data._arrays import case_times, class_name, class_names
from linoss.data._columns import (
    ARGUMENTS,
    ID_NAMES,
    LABEL_NAMES,
    TIME_NAMES,
    Columns,
    is_missing,
    named,
)
from linoss.data._raw_files import DataError, listed, shown
from linoss.data._sequences import Sequences, as_values
from linoss.data._times import same_time, time_column

_POINT = re.compile(r"(.*?)[ _.:\-]?(\d{1,9})")
_FLOAT32 = float(np.finfo(np.float32).max)


HINT = (
    "if it holds labels, pass label={0!r}; names of cases, case={0!r}; if it is no channel, "
    "drop={0!r}"
)
"""Advice for a column of text; format it with the name of the column."""


@dataclass(frozen=True)
class Roles:
    """Columns that are not channels, given by name or position."""

    label: str | int | None = None
    """False for none; None for a column with a usual name. The same holds for `case`."""
    case: str | int | None = None
    drop: tuple[str | int, ...] = ()
    time: str | None = None
    may_lack: bool = False
    """Whether a column may be absent."""

    def named(self, source: str, names: tuple[str, ...]) -> "Roles":
        """Resolve the columns to names; times only in long tables."""

        def find(argument: str, column: Any) -> str | None:
            if column is False or column in names:
                return column or None
            try:
                return names[int(column)]
            except (ValueError, IndexError):
                if self.may_lack:
                    return None
                raise DataError(
                    f"{source}: {argument}={shown(column)} is no column, expected its name or its "
                    f"position, 0 for the first and -1 for the last; the columns are "
                    f"{listed(names)}",
                    ARGUMENTS,
                ) from None

        drop = [find("drop", column) for column in self.drop]
        free = [name for name in names if name not in drop]
        label = named(free, LABEL_NAMES) if self.label is None else find("label", self.label)
        free = [name for name in free if name != label]
        case = None if self.case is None else find("case", self.case)
        if case is None and self.case is not False:
            case = named(free, ID_NAMES)
        time = None if case is None else named([n for n in free if n != case], TIME_NAMES)
        return Roles(label, case, tuple(name for name in drop if name is not None), time)

    def columns(self) -> list[Any]:
        """The names of these columns."""
        columns = (self.label, self.case, self.time, *self.drop)
        return [name for name in columns if name is not None]


def sequences_of(columns: Columns, roles: Roles) -> Sequences:
    """The sequences of a table in either layout; `roles` must be names."""
    columns = columns.without_counter()
    names = (*columns.others, *columns.number_names)
    case_column: Any = roles.case
    label_column: Any = roles.label
    time_name = roles.time
    if not columns.number_names:
        raise DataError(
            f"{columns.source}: found the columns {listed(names)}, expected columns of numbers "
            "other than the label"
        )
    columns.refuse_infinite(_FLOAT32)
    if case_column is None:
        return _wide(columns, label_column, None)
    ids = tuple(str(cell) for cell in columns.filled(case_column, "the name of a case"))
    alone = time_name is None and len(set(ids)) == len(ids)  # each case has one row
    if alone and any(map(_POINT.fullmatch, columns.number_names)):
        return _wide(columns, label_column, ids)
    return _long(columns, ids, time_name, label_column)


def _wide(columns: Columns, label_column: str | None, ids: tuple[str, ...] | None) -> Sequences:
    points = _points(columns.number_names)
    if points is None:
        raise DataError(
            f"{columns.source}: found the columns {listed(columns.number_names)}, expected a "
            "column named case (one row per sample), or columns named by channel and time point "
            "(one row per case), such as x_0, x_1, z_0, z_1, without gaps and as many for each "
            f"channel; {_odd_one(columns.number_names)}",
            ARGUMENTS,
        )
    order = np.array([column for places in points.values() for column in places])
    shape = (len(columns.numbers), len(points), -1)
    cases = as_values(columns.numbers[:, order].reshape(shape).transpose(0, 2, 1))
    labels = None if label_column is None else _labels(columns, label_column)
    names = None if "" in points else tuple(points)
    return Sequences(list(cases), labels, None, names, ids)


def _odd_one(names: tuple[str, ...]) -> str:
    """Advice for the first column that is not a time point."""
    odd = next((name for name in names if _POINT.fullmatch(name) is None), None)
    if odd is None:
        return "leave out others with drop=NAME"
    return f"as for the column {shown(odd)}, {HINT.format(odd)}"


def _points(names: tuple[str, ...]) -> dict[str, list[int]] | None:
    """Maps each channel to its columns in the order of time; None if names do not have this
    form."""
    channels: dict[str, dict[int, int]] = {}
    for column, name in enumerate(names):
        match = _POINT.fullmatch(name)
        if match is None:
            return None
        channel = channels.setdefault(match[1], {})
        if int(match[2]) in channel:
            return None
        channel[int(match[2])] = column
    first = sorted(next(iter(channels.values())))
    gaps = first[-1] - first[0] >= len(first)
    if gaps or any(sorted(channel) != first for channel in channels.values()):
        return None
    return {name: [channel[point] for point in first] for name, channel in channels.items()}


def _long(
    columns: Columns, ids: tuple[str, ...], time_name: str | None, label_column: str | None
) -> Sequences:
    known: dict[str, int] = {}
    codes = np.array([known.setdefault(name, len(known)) for name in ids])
    times = None if time_name is None else time_column(columns, time_name)
    if times is None:
        order = np.arange(len(codes))
        backward = np.flatnonzero(np.diff(codes) < 0)
        if len(backward):
            row = int(backward[0]) + 1
            raise DataError(
                f"{columns.where(row)}: case {shown(ids[row])} continues after another case "
                "began, expected its rows together; sort them, or add a column named time"
            )
    else:
        order = np.lexsort((times, codes))
        twice = (np.diff(codes[order]) == 0) & ~(times[order][1:] > times[order][:-1])
        if twice.any():
            place = int(np.argmax(twice))
            title = f", case {shown(ids[order[place]])}"
            raise same_time(columns, title, time_name, order[place : place + 2])
    ends = np.cumsum(np.bincount(codes))
    rows = [order[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]
    return Sequences(
        [as_values(columns.numbers[chosen]) for chosen in rows],
        None if label_column is None else _case_labels(columns, label_column, codes, rows),
        None
        if times is None
        else [case_times(columns.where(int(p[0])), times[p], len(p)) for p in rows],
        columns.number_names,
        tuple(known),
    )


def _case_labels(
    columns: Columns, name: str, codes: np.ndarray, rows: list[np.ndarray]
) -> np.ndarray | None:
    labels = _labels(columns, name)
    if labels is None:
        return None
    firsts = labels[[chosen.min() for chosen in rows]]
    differs = labels != firsts[codes]
    if differs.any():
        row = int(np.argmax(differs))
        raise DataError(
            f"{columns.where(row)}, column {shown(name)}: the label is {shown(labels[row])} after "
            f"{shown(firsts[codes[row]])} in the same case, expected one label a case; if this is "
            "not the label, pass label=COLUMN",
            ARGUMENTS,
        )
    return firsts


def _labels(columns: Columns, name: str) -> np.ndarray | None:
    """(rows,) integers, numbers or strings, whichever fits; None if all are empty."""
    column = columns.others[name]
    missing = is_missing(column)
    if column.dtype.kind == "O":
        missing |= np.array([str(cell).lower() in ("?", "nan") for cell in column])
    if missing.all():
        return None
    if missing.any():
        raise DataError(
            f"{columns.where(int(np.argmax(missing)))}, column {shown(name)}: is empty, expected a "
            "label in every row, or in none"
        )
    if column.dtype.kind == "O":
        texts = [class_name(columns.where(row), str(cell)) for row, cell in enumerate(column)]
        column = _typed(class_names(texts))
    if column.dtype.kind not in "biufOU" or (
        column.dtype.kind == "f" and not np.isfinite(column).all()
    ):
        raise DataError(
            f"{columns.source}, column {shown(name)}: holds {column.dtype}, not all finite, "
            "expected classes or finite numbers as labels"
        )
    return column


def _typed(texts: np.ndarray) -> np.ndarray:
    plain = all(re.fullmatch(r"[-+.\deE]+", text) for text in texts)
    for kind in (np.int64, np.float64) if plain else ():
        try:
            return texts.astype(kind)
        except (ValueError, OverflowError):
            pass
    return texts
