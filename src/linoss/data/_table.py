"""Time series for forecasting, from wide and long tables, and the continuation of their index.

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
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from linoss.data._calendar import Frequency, fill_gaps
from linoss.data._columns import (
    ID_NAMES,
    TABLES,
    TIME_NAMES,
    Columns,
    Groups,
    columns_of_frame,
    is_missing,
    named,
)
from linoss.data._raw_files import (
    DataError,
    listed,
    optional,
    positions,
    regular_file,
    shown,
    suffix_of,
)
from linoss.data._times import shown_time, sorted_rows, time_column

_HINT = (
    f"a column of series is named {ID_NAMES[-1]}, of times {TIME_NAMES[0]} or {TIME_NAMES[3]}; "
    "leave out what is no variable; what each series has one value of can be static"
)
_LARGEST = 2**53  # the largest time


@dataclass(frozen=True, eq=False)
class Table:
    """Series of the same variables, and their original form, in which forecasts are returned.

    Made by [`linoss.data.table`][] and [`linoss.data.read_table`][], which validate their input.

    ```python
    >>> import numpy as np
    >>> import linoss.data
    >>> load = linoss.data.table(np.zeros((100, 2)))
    >>> load.series[0].shape, load.continued(3)[0].tolist()
    ((100, 2), [100, 101, 102])

    ```
    """

    series: list[np.ndarray]
    """For each series (time, variables), float64, NaN where missing."""
    index: list[np.ndarray]
    """For each series (time,), datetime64 (in UTC), int64 or float64, increasing."""
    names: tuple[Any, ...]
    """Names of the variables."""
    kind: Literal["array", "wide", "long"] = "array"
    """The original form: an array, a wide table, or a long table."""
    ids: tuple[Any, ...] | None = None
    """Names of the series of a long table."""
    time_name: str | None = None
    """The column of times, or the name of the index."""
    id_name: str | None = None
    """The column of series of a long table."""
    in_index: bool = False
    """Whether times are the index of a wide frame, not a column."""
    timezone: Any = None
    """The original time zone of dates."""
    static: dict[Any, tuple[Any, ...]] = field(default_factory=dict)
    """Constants of each series, such as its region: maps names to numbers or texts."""
    frequencies: tuple[Frequency | None, ...] = ()
    """The frequency of each series; None for one of a single sample."""
    gaps: int = 0
    """Number of samples without values that fill gaps of an index."""

    @property
    def irregular(self) -> bool:
        """Whether any series has an irregular step."""
        return not all(each is None or each.is_regular for each in self.frequencies)

    def pick(self, places: Iterable[int]) -> "Table":
        """Some of the series.

        ```python
        >>> import pandas
        >>> import linoss.data
        >>> frame = pandas.DataFrame({"unique_id": ["a", "b"], "ds": [1, 1], "y": [1.0, 2.0]})
        >>> linoss.data.table(frame).pick([1]).ids
        ('b',)

        ```
        """
        chosen = list(places)
        return replace(
            self,
            series=[self.series[i] for i in chosen],
            index=[self.index[i] for i in chosen],
            ids=None if self.ids is None else tuple(self.ids[i] for i in chosen),
            static={name: tuple(all_[i] for i in chosen) for name, all_ in self.static.items()},
            frequencies=tuple(self.frequencies[i] for i in chosen),
        )

    def ordered(self, names: tuple[Any, ...] | None, source: str = "data") -> "Table":
        """The variables in the order of these names, which must be those of the table.

        ```python
        >>> import pandas
        >>> import linoss.data
        >>> wide = linoss.data.table(pandas.DataFrame({"load": [1.0, 2.0], "wind": [3.0, 4.0]}))
        >>> wide.ordered(("wind", "load")).series[0].tolist()
        [[3.0, 1.0], [4.0, 2.0]]

        ```
        """
        if names is None or self.names == names:
            return self
        order = positions(f"{source}, variables:", self.names, names, "rename or remove columns")
        return replace(self, series=[values[:, order] for values in self.series], names=names)

    def continued(self, horizon: int) -> list[np.ndarray]:
        """The index of each series for the `horizon` steps after its end.

        The frequency is that of the series; if it is irregular, its median step.

        ```python
        >>> import pandas
        >>> import linoss.data
        >>> months = pandas.date_range("2024-01-01", periods=10, freq="MS")
        >>> sales = linoss.data.table(pandas.DataFrame({"sales": range(10)}, index=months))
        >>> sales.continued(2)[0].astype("datetime64[D]").tolist()
        [datetime.date(2024, 11, 1), datetime.date(2024, 12, 1)]

        ```
        """
        if horizon < 1:
            raise DataError(f"horizon is {horizon}, expected an integer >= 1")
        found = []
        for i, (index, frequency) in enumerate(zip(self.index, self.frequencies, strict=True)):
            try:
                if frequency is None and index.dtype.kind == "M":
                    raise ValueError("there is one date, expected at least two to know the step")
                found.append((frequency or Frequency("fixed", 1)).after(index, horizon))
            except (ValueError, OverflowError) as error:
                raise DataError(
                    f"{self.title(i)}: {horizon} steps after {shown_time(index[-1])}: {error}"
                ) from None
        return found

    def title(self, series: int) -> str:
        """The name of a series, for errors."""
        return "the series" if self.ids is None else f"series {shown(self.ids[series])}"

    def restore(
        self,
        forecasts: Sequence[np.ndarray],
        names: Sequence[Any] | None = None,
        times: np.ndarray | None = None,
    ) -> Any:
        """Convert forecasts to the original form: an array, a wide frame or a long frame.

        ```python
        >>> import numpy as np, pandas
        >>> import linoss.data
        >>> days = pandas.date_range("2024-01-01", periods=10)
        >>> wide = pandas.DataFrame({"date": days, "load": range(10)})
        >>> linoss.data.table(wide).restore([np.array([[10.0], [11.0]])])
                date  load
        0 2024-01-11  10.0
        1 2024-01-12  11.0

        ```

        **Arguments:**

        - `forecasts`: for each series (horizon, variables), the steps after its end.
        - `names`: the variables of the forecasts, if they are not all variables of the table.
        - `times`: the times of the forecasts, by default those of the steps after the end.
        """
        names = self.names if names is None else tuple(names)
        shapes = {np.shape(forecast) for forecast in forecasts}
        horizon = max((shape[0] for shape in shapes), default=0)
        if len(forecasts) != len(self.series) or shapes != {(horizon, len(names))}:
            raise DataError(
                f"forecasts has {len(forecasts)} series of shapes {sorted(shapes)}, expected "
                f"{len(self.series)} of shape (horizon, {len(names)})"
            )
        if self.kind == "array":
            return np.asarray(forecasts[0])
        pandas = optional("pandas", "a frame of forecasts")
        frames = []
        after = self.continued(horizon) if times is None else [times] * len(self.series)
        for i, index in enumerate(after):
            when = pandas.Index(index, name=self.time_name)
            if self.timezone is not None:
                when = when.tz_localize("UTC").tz_convert(self.timezone)
            frame = pandas.DataFrame(np.asarray(forecasts[i]), columns=list(names))
            if self.in_index:
                frame.index = when
            else:
                frame.insert(0, self.time_name, when)
            if self.ids is not None:
                frame.insert(0, self.id_name, self.ids[i])
            frames.append(frame)
        return frames[0] if self.kind == "wide" else pandas.concat(frames, ignore_index=True)


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
      columns `unique_id`, `ds`, `y` and further variables. The docstring of `data/_table.py`
      has the details. Raises [`linoss.data.DataError`][].
    - `static`: columns of a long table with one value for each series, numbers or texts.
    """
    file = regular_file(path)
    read = TABLES[suffix_of(file, TABLES)]
    return _build(read(file, partial(_other_names, static=static), _HINT), static)


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
      times may be the index. The docstring of `data/_table.py` has the details.
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
    if array.ndim not in (1, 2) or array.dtype.kind not in "biuf" or 0 in array.shape:
        raise DataError(
            f"data has shape {array.shape} and dtype {array.dtype}, expected numbers "
            "(time, variables), or a pandas frame"
        )
    array = array[:, None] if array.ndim == 1 else array
    names = tuple(map(str, range(array.shape[1])))
    made = _build(Columns("data", names, array.astype(float), {}), static)
    return replace(made, kind="array", in_index=False)


def _other_names(names: tuple[str, ...], static: Collection[Any] = ()) -> list[str]:
    """The columns that hold no variables."""
    found = [name for name in _id_and_time(names) if name is not None]
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
    names = tuple(str(name) for name in frame.columns)
    in_index = any(_id_and_time((level,)) != (None, None) for level in levels)
    if in_index and set(levels) & {*names}:
        raise DataError(f"data has {listed(levels)} as index and as column, expected it once")
    if in_index:
        frame = frame.reset_index()
    elif _id_and_time(names) == (None, None):
        if frame.index.nlevels > 1:
            raise DataError("data has an index of several levels, expected them named, or columns")
        frame = frame.reset_index(names="")
    spelled = {str(name): name for name in frame.columns}
    columns = columns_of_frame("data", frame, partial(_other_names, static=static), _HINT)
    _, time_name = _id_and_time(tuple(spelled))
    zone = None if time_name is None else getattr(frame[spelled[time_name]].dtype, "tz", None)
    made = _build(columns, static, zone)
    return replace(
        made,
        names=tuple(spelled.get(name, name) for name in made.names),
        in_index=made.ids is None and (in_index or not time_name),
        time_name=made.time_name or next(iter(levels), None),
    )


def _build(columns: Columns, static: Collection[Any], timezone: Any = None) -> Table:
    columns = columns.without_counter()
    source = columns.source
    others = [name for name in columns.others if name not in set(map(str, static))]
    id_name, time_name = _id_and_time((*others, *columns.number_names))
    if not columns.number_names or (id_name is not None and time_name is None):
        raise DataError(
            f"{source}: has the columns {listed((*others, *columns.number_names))}, expected at "
            "least one of numbers, and, beside a column of series, one of times, such as ds"
        )
    if len(static) and id_name is None:
        raise DataError(
            f"static has {next(iter(static))!r}, but {source} has no column of series, expected "
            f"one named {ID_NAMES[-1]}"
        )
    columns.refuse_infinite()
    times = np.arange(len(columns.numbers))
    times = times if time_name is None else time_column(columns, time_name)
    if times.dtype.kind == "f" and not (times % 1 != 0).any():
        expected = "dates or smaller numbers; number the samples, or leave the column out"
        columns.refuse(str(time_name), np.abs(times) > _LARGEST, expected, times)
        times = times.astype(np.int64)
    groups = Groups.of(columns, "series", id_name)
    target = named(columns.number_names, ("y",)) if id_name is not None else None
    places = np.argsort([name != target for name in columns.number_names], kind="stable")
    zone = None if timezone is None or str(timezone) == "UTC" else str(timezone)
    remedy = "remove one" + ", or name series in a column unique_id" * (id_name is None)
    parts = []
    for code, rows in enumerate(sorted_rows(columns, groups, times, time_name, remedy)):
        where = columns.source + groups.title(code)
        parts.append(fill_gaps(where, times[rows], columns.numbers[rows][:, places], zone))
    index, series, frequencies = (list(each) for each in zip(*parts, strict=True))
    return Table(
        series,
        index,
        tuple(columns.number_names[i] for i in places),
        kind="wide" if id_name is None else "long",
        ids=groups.ids,
        time_name=time_name or None,
        id_name=id_name,
        in_index=id_name is None and not time_name,
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
    columns.refuse(
        name, cells != firsts[codes], "one value for each series; leave it out of static", cells
    )
    try:
        return tuple(float("nan" if cell == "" else cell) for cell in firsts)
    except (TypeError, ValueError):
        return tuple(map(str, firsts))
