"""Tables for forecasting, wide and long, from files, frames and arrays.

**Wide**: a row is a time. The times are a column named `time`, `ds`, `timestamp`, `date` or
`datetime`, or an unnamed first column; without it rows are numbered. Every other column is a
variable.

**Long**: a row is a time of one series. A column named `unique_id` (or `id`, `case`, `case_id`)
names the series, and a column has the times. `y` is the first variable; every other column is a
further variable, or `static`: one number or text for each series.

Rows are sorted by time within a series. Times are numbers or dates, and each series has its own
step. A gap in a regular step becomes missing samples; a series without a regular step, or with gaps
for more than half of it, keeps its times. Two samples at the same time are an error. Dates with a
time zone are converted to UTC.
"""

import os
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from linoss.data._calendar import Frequency, fill_gaps
from linoss.data._columns import (
    ID_NAMES,
    TIME_NAMES,
    Columns,
    Groups,
    columns_of_frame,
    is_missing,
    named,
)
from linoss.data._raw_files import DataError, listed, regular_file, shown
from linoss.data._read import TABLES
from linoss.data._table import Table
from linoss.data._times import sorted_rows, time_column

_HINT = (
    f"a column of series is named {ID_NAMES[-1]}, of times {TIME_NAMES[0]} or {TIME_NAMES[3]}; "
    "leave out what is no variable; what each series has one value of can be static"
)


def read_table(path: str | os.PathLike[str], *, static: Collection[Any] = ()) -> Table:
    r"""Read time series for forecasting from a .csv or .parquet file.

    ```python
    >>> import pathlib, tempfile
    >>> import linoss.data
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "load.csv"
    ...     _ = file.write_text("date,load\n2024-01-01,5\n2024-01-02,6\n2024-01-03,\n")
    ...     load = linoss.data.read_table(file)
    >>> load.names, load.series[0].tolist()
    (('load',), [[5.0], [6.0], [nan]])

    ```

    **Arguments:**

    - `path`: a wide table, with columns `date` and one for each variable, or a long one, with
      columns `unique_id`, `ds`, `y` and further variables. The docstring of `data/_read_table.py`
      has the details. Raises [`linoss.data.DataError`][].
    - `static`: columns of a long table with one value for each series, numbers or texts.
    """
    file = regular_file(path)
    suffix = file.suffix.lower()
    if suffix not in TABLES:
        raise DataError(f"{file}: the suffix is {shown(suffix)}, expected {' or '.join(TABLES)}")
    return _build(TABLES[suffix](file, partial(_other_names, static=static), _HINT), static)


def table(data: Any, *, static: Collection[Any] = ()) -> Table:
    """Time series for forecasting from memory.

    ```python
    >>> import pandas
    >>> import linoss.data
    >>> long = pandas.DataFrame(
    ...     {"unique_id": ["a", "a", "b", "b"], "ds": [1, 2, 1, 2], "y": [1.0, 2.0, 3.0, 4.0]}
    ... )
    >>> series = linoss.data.table(long)
    >>> series.ids, series.series[1].tolist()
    (('a', 'b'), [[3.0], [4.0]])

    ```

    **Arguments:**

    - `data`: an array (time, variables) or (time,), or a pandas frame, wide or long; in a wide one
      times may be the index. The docstring of `data/_read_table.py` has the details.
    - `static`: columns of a long frame with one value for each series, numbers or texts.
    """
    if hasattr(data, "to_frame") and getattr(data, "ndim", 0) == 1:
        data = data.to_frame("y" if data.name is None else data.name)
    if hasattr(data, "columns") and hasattr(data, "iloc"):
        return _from_frame(data, static)
    try:
        array = np.asarray(data)
    except ValueError:
        array = np.array(None)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or array.dtype.kind not in "biuf" or 0 in array.shape:
        raise DataError(
            f"data has shape {array.shape} and dtype {array.dtype}, expected numbers "
            "(time, variables), or a pandas frame"
        )
    if len(static):
        raise DataError(f"static has {next(iter(static))!r}, but data is an array: one series")
    names = tuple(f"{i}" for i in range(array.shape[1]))
    columns = Columns("data", names, array.astype(float), {})
    columns.refuse_infinite()
    index = np.arange(len(array))
    return Table([columns.numbers], [index], names, frequencies=(Frequency("fixed", np.int64(1)),))


def _other_names(names: tuple[str, ...], static: Collection[Any] = ()) -> list[str]:
    id_name, time_name = _id_and_time(names)
    found = [name for name in (id_name, time_name) if name is not None]
    for name in map(str, static):
        if name not in names or name in found:
            raise DataError(
                f"static has {shown(name)}, expected columns of the data that are neither series "
                f"nor times: {listed([n for n in names if n not in found])}"
            )
    return [*found, *map(str, static)]


def _id_and_time(names: tuple[str, ...]) -> tuple[str | None, str | None]:
    id_name = named(names, ID_NAMES[::-1])
    time_name = named([name for name in names if name != id_name], TIME_NAMES)
    unnamed = id_name is None and time_name is None and "" in names
    return id_name, "" if unnamed else time_name


def _from_frame(frame: Any, static: Collection[Any]) -> Table:
    levels = [str(name) for name in frame.index.names if name is not None]
    id_name, time_name = _id_and_time(tuple(str(name) for name in frame.columns))
    in_index = any(_id_and_time((level,)) != (None, None) for level in levels)
    if in_index and set(levels) & {str(name) for name in frame.columns}:
        raise DataError(f"data has {listed(levels)} as index and as column, expected it once")
    if in_index:
        frame = frame.reset_index()
    elif id_name is None and time_name is None:
        if frame.index.nlevels > 1:
            raise DataError("data has an index of several levels, expected them named, or columns")
        frame = frame.reset_index(names="")
    spelled = {str(name): name for name in frame.columns}
    columns = columns_of_frame("data", frame, partial(_other_names, static=static), _HINT)
    _, time_name = _id_and_time(tuple(spelled))
    zone = None if time_name is None else getattr(frame[spelled[time_name]].dtype, "tz", None)
    made = _build(columns, static, in_index=in_index, timezone=zone, spelled=spelled)
    return replace(made, time_name=made.time_name or next(iter(levels), None))


def _build(
    columns: Columns,
    static: Collection[Any],
    *,
    in_index: bool = False,
    timezone: Any = None,
    spelled: dict[str, Any] | None = None,
) -> Table:
    columns = columns.without_counter()
    others = [name for name in columns.others if name not in set(map(str, static))]
    id_name, time_name = _id_and_time((*others, *columns.number_names))
    if not columns.number_names:
        raise DataError(f"{columns.source}: has no column of numbers, expected at least one")
    if id_name is not None and time_name is None:
        raise DataError(
            f"{columns.source}: has a column of series, {shown(id_name)}, but none of times, "
            f"expected one of {', '.join(TIME_NAMES)}"
        )
    columns.refuse_infinite()
    times = np.arange(len(columns.numbers)) if time_name is None else _times(columns, time_name)
    groups = Groups.of(columns, "series", id_name)
    ids = groups.ids
    if len(static) and ids is None:
        raise DataError(
            f"static has {next(iter(static))!r}, but {columns.source} has no column of series, "
            f"expected one named {ID_NAMES[-1]}"
        )
    target = named(columns.number_names, ("y",)) if id_name is not None else None
    places = np.argsort([name != target for name in columns.number_names], kind="stable")
    zone = None if timezone is None or str(timezone) == "UTC" else str(timezone)
    remedy = "remove one" + ", or name series in a column unique_id" * (ids is None)
    parts = sorted_rows(columns, groups, times, time_name, remedy)

    def filled(code: int, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, Frequency | None]:
        values = columns.numbers[rows][:, places]
        title = groups.title(code)
        return fill_gaps(lambda i: columns.where(int(rows[i])) + title, times[rows], values, zone)

    several = [filled(code, rows) for code, rows in enumerate(parts)]
    index, series, frequencies = (list(each) for each in zip(*several, strict=True))
    names = tuple((spelled or {}).get(n, n) for n in (columns.number_names[i] for i in places))
    return Table(
        series,
        index,
        names,
        kind="wide" if ids is None else "long",
        ids=ids,
        time_name=time_name or None,
        id_name=id_name,
        in_index=ids is None and (in_index or not time_name),
        timezone=timezone,
        static={name: _static(columns, str(name), groups) for name in static},
        frequencies=tuple(frequencies),
        gaps=sum(map(len, index)) - len(times),
    )


def _static(columns: Columns, name: str, groups: Groups) -> tuple[Any, ...]:
    """The value of each series: numbers, with NaN where missing, if all are numbers; else texts."""
    codes = groups.codes
    cells = columns.others[name].astype(object)
    cells[is_missing(columns.others[name])] = ""
    firsts = cells[np.unique(codes, return_index=True)[1]]
    wrong = cells != firsts[codes]
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"{columns.where(row)}, column {shown(name)}: found {cells[row]!r}"
            f"{groups.title(codes[row])} had {firsts[codes[row]]!r}, expected one value for each "
            "series; leave it out of static"
        )
    try:
        return tuple(float("nan" if cell == "" else cell) for cell in firsts)
    except (TypeError, ValueError):
        return tuple(map(str, firsts))


def _times(columns: Columns, time_name: str) -> np.ndarray:
    """Dates, integers if all times are integers, or floats."""
    times = time_column(columns, time_name)
    if times.dtype.kind != "f" or (times % 1 != 0).any():
        return times
    wrong = np.abs(times) > 2**53
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"{columns.where(row)}, column {shown(time_name)}: found {times[row]}, expected dates "
            "or smaller numbers; number the samples, or leave the column out"
        )
    return times.astype(np.int64)
