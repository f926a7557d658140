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
    ID_NAMES,
    LABEL_NAMES,
    TIME_NAMES,
    Columns,
    Groups,
    is_missing,
    named,
)
from linoss.data._raw_files import DataError, listed, shown
from linoss.data._sequences import Sequences, as_values
from linoss.data._times import sorted_rows, time_column

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
    label: Any = roles.label
    case: Any = roles.case
    if not columns.number_names:
        raise DataError(
            f"{columns.source}: found the columns {listed(names)}, expected columns of numbers "
            "other than the label"
        )
    columns.refuse_infinite(_FLOAT32)
    cases = Groups.of(columns, "case", case)
    has_points = any(map(_POINT.fullmatch, columns.number_names))
    if cases.ids is None:
        return _wide(columns, label, None)
    if roles.time is None and len(cases.ids) == len(cases.codes) and has_points:
        return _wide(columns, label, tuple(map(str, cases.ids)))
    return _long(columns, cases, roles.time, label)


def _wide(columns: Columns, label_column: str | None, ids: tuple[str, ...] | None) -> Sequences:
    points = _points(columns.number_names)
    if points is None:
        odd = next((n for n in columns.number_names if _POINT.fullmatch(n) is None), None)
        advice = "leave out others with drop=NAME"
        if odd is not None:
            advice = f"as for the column {shown(odd)}, {HINT.format(odd)}"
        raise DataError(
            f"{columns.source}: found the columns {listed(columns.number_names)}, expected a "
            "column named case (one row per sample), or columns named by channel and time point "
            "(one row per case), such as x_0, x_1, z_0, z_1, without gaps and as many for each "
            f"channel; {advice}",
        )
    order = np.array([column for places in points.values() for column in places])
    shape = (len(columns.numbers), len(points), -1)
    cases = as_values(columns.numbers[:, order].reshape(shape).transpose(0, 2, 1))
    labels = None if label_column is None else _labels(columns, label_column)
    names = None if "" in points else tuple(points)
    return Sequences(list(cases), labels, None, names, ids)


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
    columns: Columns, cases: Groups, time_name: str | None, label_column: str | None
) -> Sequences:
    codes, ids = cases.codes, tuple(map(str, cases.ids or ()))
    if time_name is None:
        times = np.arange(len(codes))
        backward = np.flatnonzero(np.diff(codes) < 0)
        if len(backward):
            row = int(backward[0]) + 1
            raise DataError(
                f"{columns.where(row)}: case {shown(ids[codes[row]])} continues after another case "
                "began, expected its rows together; sort them, or add a column named time"
            )
    else:
        times = time_column(columns, time_name)
    rows = sorted_rows(columns, cases, times, time_name, "remove one")
    return Sequences(
        [as_values(columns.numbers[chosen]) for chosen in rows],
        None if label_column is None else _case_labels(columns, label_column, codes, rows),
        None
        if time_name is None
        else [case_times(columns.where(int(p[0])), times[p], len(p)) for p in rows],
        columns.number_names,
        ids,
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
