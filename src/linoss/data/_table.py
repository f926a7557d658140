"""Time series for forecasting, from wide and long tables, and the continuation of their index.

**Wide**: a row is a time. The times are a column named `time`, `ds`, `timestamp`, `date` or
`datetime`, or an unnamed first column; without it rows are numbered. Every other column is a
variable.

**Long**: a row is a time of one series. A column named `unique_id` (or `id`, `case`, `case_id`)
names the series, and a column has the times. `y` is the first variable; every other column is a
further variable.

Rows are sorted by time within a series. Times are numbers or dates, and each series has its own
step. A gap in a regular step becomes missing samples; a series without a regular step, or with gaps
for more than half of it, keeps its times. Two samples at the same time are an error. Dates with a
time zone are converted to UTC.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
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
    "leave out what is no variable"
)
_LARGEST = 2**53  # the largest time


@dataclass(frozen=True, eq=False)
class Table:
    """Series of the same variables, and their original form, in which forecasts are returned.

    Made by [`linoss.data.read_table`][], which validates its input.

    ```python
    >>> import numpy as np
    >>> import linoss.data
    >>> load = linoss.data.read_table(np.zeros((100, 2)))
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
        >>> linoss.data.read_table(frame).pick([1]).ids
        ('b',)

        ```
        """
        chosen = list(places)
        return replace(
            self,
            series=[self.series[i] for i in chosen],
            index=[self.index[i] for i in chosen],
            ids=None if self.ids is None else tuple(self.ids[i] for i in chosen),
            frequencies=tuple(self.frequencies[i] for i in chosen),
        )

    def ordered(self, names: tuple[Any, ...] | None, source: str = "data") -> "Table":
        """The variables in the order of these names, which must be those of the table.

        ```python
        >>> import pandas
        >>> import linoss.data
        >>> frame = pandas.DataFrame({"load": [1.0, 2.0], "wind": [3.0, 4.0]})
        >>> wide = linoss.data.read_table(frame)
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
        >>> sales = linoss.data.read_table(pandas.DataFrame({"sales": range(10)}, index=months))
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
        >>> linoss.data.read_table(wide).restore([np.array([[10.0], [11.0]])])
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


def read_table(source: Any) -> Table:
    """Time series for forecasting, from a file, a frame or an array.

    ```python
    >>> import pandas
    >>> import linoss.data
    >>> long = pandas.DataFrame(
    ...     {"unique_id": ["a", "a", "b", "b"], "ds": [1, 2, 1, 2], "y": [1.0, 2.0, 3.0, 4.0]}
    ... )
    >>> series = linoss.data.read_table(long)
    >>> series.ids, series.series[1].tolist()
    (('a', 'b'), [[3.0], [4.0]])

    ```

    **Arguments:**

    - `source`: the path of a table such as .csv or .parquet, a pandas frame, or an array (time,
      variables) or (time,). A wide table has columns `date` and one for each variable, and the
      dates of a frame may be its index; a long one has columns `unique_id`, `ds`, `y` and further
      variables. The docstring of `data/_table.py` has the details. Raises
      [`linoss.data.DataError`][].
    """
    data = source
    if isinstance(source, Table):
        return source
    if isinstance(source, str | os.PathLike):
        file = regular_file(source)
        read = TABLES[suffix_of(file, TABLES)]
        return _build(read(file, _id_and_time, _HINT))
    if hasattr(data, "to_frame") and getattr(data, "ndim", 0) == 1:
        data = data.to_frame("y" if data.name is None else data.name)
    if hasattr(data, "columns") and hasattr(data, "iloc"):
        return _from_frame(data)
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
    made = _build(Columns("data", names, array.astype(float), {}))
    return replace(made, kind="array", in_index=False)


def _id_and_time(names: tuple[str, ...]) -> list[str]:
    """The columns of series and of times that there are; the latter may have no name."""
    id_name = named(names, ID_NAMES[::-1])
    time_name = named([name for name in names if name != id_name], TIME_NAMES)
    if id_name is None and time_name is None and "" in names:
        time_name = ""
    return [name for name in (id_name, time_name) if name is not None]


def _from_frame(frame: Any) -> Table:
    levels = [str(name) for name in frame.index.names if name is not None]
    names = [str(name) for name in frame.columns]
    in_index = any(_id_and_time((level,)) for level in levels)
    if in_index and set(levels) & {*names}:
        raise DataError(f"data has {listed(levels)} as index and as column, expected it once")
    if in_index:
        frame = frame.reset_index()
    elif not _id_and_time(tuple(names)):
        if frame.index.nlevels > 1:
            raise DataError("data has an index of several levels, expected them named, or columns")
        frame = frame.reset_index(names="")
    spelled = {str(name): name for name in frame.columns}
    columns = columns_of_frame("data", frame, _id_and_time, _HINT)
    zones = [getattr(frame[spelled[name]].dtype, "tz", None) for name in columns.others]
    made = _build(columns, next(filter(None, zones), None))
    return replace(
        made,
        names=tuple(spelled[name] for name in made.names),
        in_index=made.ids is None and (in_index or made.time_name is None),
        time_name=made.time_name or next(iter(levels), None),
    )


def _build(columns: Columns, timezone: Any = None) -> Table:
    columns = columns.without_counter()
    names, others = columns.number_names, columns.others
    id_name = named(others, ID_NAMES)
    time_name = next((name for name in others if name != id_name), None)
    if not names or (id_name is not None and time_name is None):
        raise DataError(
            f"{columns.source}: has the columns {listed((*others, *names))}, expected at least one "
            "of numbers, and, beside a column of series, one of times, such as ds"
        )
    columns.refuse_infinite()
    times = np.arange(len(columns.numbers))
    times = times if time_name is None else time_column(columns, time_name)
    if times.dtype.kind == "f" and not (times % 1 != 0).any():
        expected = "dates or smaller numbers; number the samples, or leave the column out"
        columns.refuse(str(time_name), np.abs(times) > _LARGEST, expected, times)
        times = times.astype(np.int64)
    groups = Groups.of(columns, "series", id_name)
    target = None if id_name is None else named(names, ("y",))
    places = np.argsort([name != target for name in names], kind="stable")
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
        tuple(names[i] for i in places),
        kind="wide" if id_name is None else "long",
        ids=groups.ids,
        time_name=time_name or None,
        id_name=id_name,
        in_index=id_name is None and not time_name,
        timezone=timezone,
        frequencies=tuple(frequencies),
        gaps=sum(map(len, index)) - len(times),
    )
