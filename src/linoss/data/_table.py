"""Time series for forecasting, and the continuation of their index."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from linoss.data._calendar import Frequency
from linoss.data._raw_files import DataError, optional, positions, shown
from linoss.data._times import shown_time


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

    @property
    def long(self) -> bool:
        """Whether the table has a column of series."""
        return self.kind == "long"

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
        several = enumerate(zip(self.index, self.frequencies, strict=True))
        return [self._after(i, index, frequency, horizon) for i, (index, frequency) in several]

    def _after(
        self, series: int, index: np.ndarray, frequency: Frequency | None, horizon: int
    ) -> np.ndarray:
        if frequency is None and index.dtype.kind != "M":
            frequency = Frequency("fixed", 1)
        if frequency is None:
            raise DataError(
                f"{self.title(series)}: has one date, expected at least two to know the step "
                "between"
            )
        try:
            return frequency.after(index, horizon)
        except (ValueError, OverflowError) as error:
            raise DataError(
                f"{self.title(series)}: {horizon} steps after {shown_time(index[-1])} is no date: "
                f"{error}"
            ) from None

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
        horizon = len(forecasts[0]) if len(forecasts) else 0
        expected = (len(self.series), horizon, len(names))
        shapes = {np.shape(forecast) for forecast in forecasts}
        if len(forecasts) != len(self.series) or shapes != {expected[1:]}:
            raise DataError(
                f"forecasts has {len(forecasts)} series of shapes {sorted(shapes)}, expected "
                f"{expected[0]} of shape (horizon, {expected[2]})"
            )
        if self.kind == "array":
            return np.asarray(forecasts[0])
        pandas = optional("pandas", "a frame of forecasts")
        frames = []
        after = self.continued(horizon) if times is None else [times] * len(self.series)
        for i, index in enumerate(after):
            frame = pandas.DataFrame(np.asarray(forecasts[i]), columns=list(names))
            when = pandas.Index(index, name=self.time_name)
            if self.timezone is not None:
                when = when.tz_localize("UTC").tz_convert(self.timezone)
            if self.in_index:
                frame.index = when
            else:
                frame.insert(0, self.time_name, when)
            if self.ids is not None:
                frame.insert(0, self.id_name, self.ids[i])
            frames.append(frame)
        return frames[0] if self.kind == "wide" else pandas.concat(frames, ignore_index=True)
