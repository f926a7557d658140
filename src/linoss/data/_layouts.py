"""The two layouts of sequences in a table, wide and long.

**Wide**: a row is a case. One column is the label: the one that the caller names, or the first of
`label`, `class`, `target` and `y` that exists. Every other column is a time point of a channel,
named by the channel and an integer: `x_0, x_1, ..., z_0, z_1, ...`, `t0, t1, ...` or `0, 1, 2,
...`, without gaps, the same number for each channel. Missing values at the end of a row are missing
values, not the end of the case.

**Long**: a row is a sample. The column `case` (or `case_id`, `id`, `unique_id`) names its case. The
optional column `time` (or `ds`, `timestamp`, `date`, `datetime`) is its time, a number or a date.
The optional label and group are the same in all rows of a case. Every other column is a channel.
Samples are sorted by time; without times, the rows of a case must be contiguous. Cases may differ
in length.

A table with a column of cases is wide if no case has a second row, there are no times, and the
other columns are time points.
"""

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from linoss.data._arrays import case_times, class_names
from linoss.data._columns import (
    ID_NAMES,
    LABEL_NAMES,
    TIME_NAMES,
    Columns,
    Groups,
    as_numbers,
    is_missing,
    named,
)
from linoss.data._raw_files import DataError, listed, shown
from linoss.data._sequences import Sequences, as_values
from linoss.data._times import sorted_rows, time_column

_POINT = re.compile(r"(.*?)[ _.:\-]?(\d{1,9})")
_FLOAT32 = float(np.finfo(np.float32).max)
_UNLABELLED = ("", "?", "nan", "none")
_FEWEST_STEPS = 10  # from one sample to the next, to say that a column only ever increases

HINT = (
    "if it holds labels, pass label={0!r}; names of cases, case={0!r}; groups, groups={0!r}; if it "
    "is no channel, drop={0!r}"
)
"""Advice for a column of text; format it with the name of the column."""


@dataclass(frozen=True)
class Roles:
    """What columns hold, given by name or position."""

    label: Any = None
    """False for none; None for a column with a usual name. The same holds for `case` and `time`."""
    case: Any = None
    time: Any = None
    groups: Any = None
    channels: tuple[str | int, ...] | None = None
    """None for all others."""
    drop: tuple[str | int, ...] = ()
    may_lack: bool = False
    """Whether a column may be absent."""
    single: bool = False
    """Whether the table is one case."""

    def named(self, source: str, names: tuple[str, ...]) -> "Roles":
        """Resolve the columns to names."""

        def find(argument: str, column: Any) -> str | None:
            if column is None or column is False or column in names:
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

        def matching(column: Any) -> list[Any]:
            points = [n for n in names if (m := _POINT.fullmatch(n)) and m[1] == column]
            return [column] if column in names else points or [find("channels", column)]

        taken = [find("drop", column) for column in self.drop]
        channels = None
        if self.channels is not None:
            channels = [name for column in self.channels for name in matching(column)]

        def role(argument: str, usual: tuple[str, ...]) -> str | None:
            column = getattr(self, argument)
            free = [name for name in names if name not in (*taken, *(channels or ()))]
            name = named(free, usual) if column is None else find(argument, column)
            taken.append(name)
            return name

        drop = tuple(name for name in taken if name is not None)
        label, groups = role("label", LABEL_NAMES), role("groups", ())
        case = role("case", ID_NAMES)
        is_wide = case is None and not self.single and any(map(_POINT.fullmatch, channels or names))
        time = role("time", () if is_wide else TIME_NAMES)
        if channels is not None:
            drop = tuple(name for name in names if name not in (*channels, *taken)) + drop
        return replace(
            self, label=label, case=case, time=time, groups=groups, channels=channels, drop=drop
        )

    def columns(self) -> list[Any]:
        """The names of the columns that are no channels."""
        columns = (self.label, self.case, self.time, self.groups, *self.drop)
        return [name for name in columns if name is not None]


def sequences_of(columns: Columns, roles: Roles) -> Sequences:
    """The sequences of a table in either layout; `roles` must be names."""
    columns = columns.without_counter()
    if not columns.number_names:
        raise DataError(
            f"{columns.source}: found the columns {listed(columns.others)}, expected columns of "
            "numbers other than the label"
        )
    columns.refuse_infinite(_FLOAT32)
    cases = Groups.of(columns, "case", roles.case)
    count = len(columns.numbers)
    has_points = any(map(_POINT.fullmatch, columns.number_names))
    about: dict[str, Any] = {n: getattr(roles, n) for n in ("label", "groups")}
    about["dropped"], times = roles.drop, None
    is_wide = cases.ids is None or (len(cases.ids) == count and has_points)
    if is_wide and roles.time is None and not roles.single:
        firsts = codes = np.arange(count)
        values, names = _wide(columns)
    else:
        clock = None if roles.time is None else time_column(columns, roles.time)
        codes, rows = cases.codes, _sorted(columns, cases, clock, roles.time)
        firsts = np.array([chosen.min() for chosen in rows])
        if roles.channels is None and not roles.may_lack:
            _ask(columns, rows)
        values, names = [as_values(columns.numbers[part]) for part in rows], columns.number_names
        if clock is not None:
            where = columns.source
            times = [case_times(where, clock[part], len(part)) for part in rows]
            unit = "dates in seconds" if clock.dtype.kind == "M" else "in its own unit"
            about["time"] = f"{roles.time}, {unit}"
    groups = None
    if roles.groups is not None:
        column = columns.filled(roles.groups, "the group of its case")
        columns.refuse(roles.groups, column != column[firsts][codes], "one group for each case")
        groups = column[firsts]
    ids = None if cases.ids is None else tuple(map(str, cases.ids))
    made = Sequences(values, None, times, names, ids, groups=groups, about=about)
    return made if roles.label is None else _labelled(made, columns, roles, firsts, codes)


def _labelled(
    cases: Sequences, columns: Columns, roles: Roles, firsts: np.ndarray, codes: np.ndarray
) -> Sequences:
    """The cases that have a label, or all cases without labels if none has one."""
    name: Any = roles.label
    column = columns.others[name]
    missing = is_missing(column)
    if column.dtype.kind in "OU":
        missing |= np.array([str(cell).lower() in _UNLABELLED for cell in column])
    columns.refuse(
        name,
        (missing != missing[firsts][codes]) | (~missing & (column != column[firsts][codes])),
        "one label for all rows of a case; if this is not the label, pass label=COLUMN",
    )
    labelled, column = ~missing[firsts], column[firsts]
    if not labelled.any() or (roles.may_lack and not labelled.all()):
        return cases
    labels = column[labelled]
    if labels.dtype.kind == "O":
        labels = as_numbers(class_names(f"{columns.source}, column {shown(name)}", labels))
    if labels.dtype.kind not in "biufOU" or (labels.dtype.kind == "f" and np.isinf(labels).any()):
        raise DataError(
            f"{columns.source}, column {shown(name)}: holds {labels.dtype}, not all finite, "
            "expected classes or finite numbers as labels"
        )
    cases = cases if labelled.all() else cases.select(labelled)
    about = {**cases.about, "unlabelled": int(np.sum(~labelled))}
    return replace(cases, labels=labels, about=about)


def _wide(columns: Columns) -> tuple[list[np.ndarray], tuple[str, ...] | None]:
    """The values of cases, and the names of their channels."""
    matches = [(i, _POINT.fullmatch(name)) for i, name in enumerate(columns.number_names)]
    odd = [columns.number_names[i] for i, match in matches if match is None]
    channels = {name: i for i, name in enumerate({m[1]: None for _, m in matches if m})}
    points = sorted((channels[m[1]], int(m[2]), i) for i, m in matches if m)
    first, count = points[0][1] if points else 0, max(len(channels), 1)
    grid = [(c, first + n) for c in range(count) for n in range(len(points) // count)]
    if odd or [point[:2] for point in points] != grid:
        advice = (
            f"as for the column {shown(odd[0])}, {HINT.format(odd[0])}" if odd else "or drop=NAME"
        )
        raise DataError(
            f"{columns.source}: found the columns {listed(columns.number_names)}, expected a "
            "column named case (one row per sample), or columns named by channel and time point "
            "(one row per case), such as x_0, x_1, z_0, z_1, without gaps and as many for each "
            f"channel; {advice}",
        )
    values = columns.numbers[:, [i for *_, i in points]].reshape(len(columns.numbers), count, -1)
    return list(as_values(values.transpose(0, 2, 1))), None if "" in channels else tuple(channels)


def _sorted(
    columns: Columns, cases: Groups, times: np.ndarray | None, name: str | None
) -> list[np.ndarray]:
    """The rows of each case, by time."""
    if times is None:
        times, backward = np.arange(len(cases.codes)), np.flatnonzero(np.diff(cases.codes) < 0)
        for row in backward[:1] + 1:
            raise DataError(
                f"{columns.where(row)}{cases.title(int(cases.codes[row]))}: continues after "
                "another case began, expected its rows together; sort them, or pass time=NAME"
            )
    return sorted_rows(columns, cases, times, name, "remove one")


def _ask(columns: Columns, rows: list[np.ndarray]) -> None:
    """Raise for a channel that seems to be a time, or the name of a case or of a group."""
    if sum(map(len, rows)) - len(rows) < _FEWEST_STEPS:
        return
    for place, name in enumerate(columns.number_names):
        parts = [columns.numbers[part, place] for part in rows]
        steps = np.concatenate([np.diff(part) for part in parts])
        rises = (steps >= 0).all() and all(part[-1] > part[0] for part in parts if len(part) > 1)
        if rises or (not steps.any() and len({part[0] for part in parts}) > 1):
            what, role = ("never decreases", "time") if rises else ("is constant", "groups")
            raise DataError(
                f"{columns.source}, column {shown(name)}: {what} within every case; if it is no "
                f"channel, name it: {role}={name!r} or drop={name!r}; if it is one, list all "
                "channels: channels=NAMES"
            )
