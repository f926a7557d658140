"""The frequency of an index of dates or numbers: its grid, gaps in it, and its continuation.

A frequency is found from an index that may have gaps (holidays, missing months), and then belongs
to a series: forecasts continue it, and other data are laid on its grid.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from linoss.data._raw_files import DataError, optional
from linoss.data._times import shown_time

_EVEN = 1e-6  # relative tolerance of steps of floating-point times
_WORKING_DAYS = "1111100"
_FEWEST_CHANCES = 3  # times that a weekday did not occur, after which it is left out
_SHORTEST_MONTH = 28


@dataclass(frozen=True)
class Frequency:
    """The distance between samples: a fixed step, days of the week, months, or irregular.

    ```python
    >>> import numpy as np
    >>> from linoss.data import Frequency
    >>> days = np.array(["2024-05-02", "2024-05-03", "2024-05-06"], "datetime64[D]")
    >>> working = Frequency.of(days)
    >>> str(working), working.after(days[-1:], 5)[-1]
    ('working days', np.datetime64('2024-05-13'))

    ```
    """

    unit: Literal["fixed", "days", "months", "irregular"]
    step: Any
    """The step of times, in their unit, the median of an irregular one; or a number of days or
    months."""
    pattern: str = ""
    """Of days: which of the week, from Monday, such as `"1111100"`. Of months: `"first"` or
    `"last"` for a working day, otherwise the day of the month."""
    zone: str | None = None
    """The time zone of days and months."""

    @classmethod
    def of(cls, index: np.ndarray, zone: str | None = None) -> "Frequency | None":
        """The frequency of an increasing index, dates in UTC; None for a single sample."""
        if len(index) < 2:
            return None
        steps = np.diff(index)
        usual = np.sort(steps)[len(steps) // 2]
        fixed = cls("fixed", steps.min())
        if index.dtype.kind == "f" and np.ptp(steps) <= _EVEN * steps.min():
            return cls("fixed", steps[-1])
        candidates = [fixed] if index.dtype.kind == "i" else []
        if index.dtype.kind == "M":
            is_daily = steps.min() > np.timedelta64(22, "h")
            candidates = [*(_of_days(index, zone) if is_daily else ()), fixed]
        for candidate in candidates:
            places = candidate.places(index)
            if places is not None and places[-1] < 2 * len(index):
                return candidate
        return cls("irregular", usual)

    @property
    def is_regular(self) -> bool:
        """Whether samples lie on a grid."""
        return self.unit != "irregular"

    def __str__(self) -> str:
        if self.unit == "days" and self.pattern:
            is_working = self.pattern == _WORKING_DAYS
            return "working days" if is_working else f"days of the week {self.pattern}"
        if self.unit in ("days", "months"):
            return f"{self.step} {self.unit}" if self.step > 1 else self.unit
        is_date = isinstance(self.step, np.timedelta64)
        step = str(self.step.astype("timedelta64[s]")) if is_date else f"{self.step:g}"
        return f"steps of {step}" if self.is_regular else "irregular steps"

    def matches(self, other: "Frequency") -> bool:
        """Whether two frequencies are equal, those of floating-point times to rounding."""
        if (self.unit, self.pattern) != (other.unit, other.pattern):
            return False
        if self.unit == "fixed" and not isinstance(self.step, np.timedelta64):
            return bool(np.isclose(float(self.step), float(other.step)))
        return self.step == other.step and (self.unit == "fixed" or self.zone == other.zone)

    def places(self, index: np.ndarray) -> np.ndarray | None:
        """The places of samples on the grid that begins with the first; None if some are not."""
        if self.unit == "irregular" or (self.unit == "fixed" and index.dtype.kind == "f"):
            return None
        if self.unit == "fixed":
            distances = index - index[0]
            is_on_grid = not (distances % self.step != distances[0]).any()
            return (distances // self.step).astype(np.int64) if is_on_grid else None
        days, times = _days(index, self.zone)
        if (times != times[0]).any():
            return None
        if self.unit == "months":
            months = days.astype("datetime64[M]")
            if (self._days_of(months) != days).any():
                return None
            places, step = (months - months[0]).astype(np.int64), self.step
        elif self.pattern:
            if not np.is_busday(days, self.pattern).all():
                return None
            places, step = np.busday_count(days[0], days, self.pattern), 1
        else:
            places, step = (days - days[0]).astype(np.int64), self.step
        return None if (places % step).any() else places // step

    def after(self, index: np.ndarray, count: int) -> np.ndarray:
        """The `count` entries after an index."""
        return self._grid(index[-1:], np.arange(1, count + 1))

    def _grid(self, start: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Entries of the grid that begins with the only entry of `start`."""
        if self.unit in ("fixed", "irregular"):
            grid = start + self.step * places
            if (grid < start).any():
                raise OverflowError("it is beyond the last time")
            return grid
        days, times = _days(start, self.zone)
        if self.unit == "months":
            days = self._days_of(days.astype("datetime64[M]") + self.step * places)
        elif self.pattern:
            days = np.busday_offset(days, places, roll="backward", weekmask=self.pattern)
        else:
            days = days + self.step * places
        local = days.astype(start.dtype) + times
        if (local.astype("datetime64[D]") != days).any():
            raise OverflowError("it is beyond the last date")
        return _in_utc(local, self.zone).astype(start.dtype)

    def _days_of(self, months: np.ndarray) -> np.ndarray:
        """The day of each month."""
        first, following = (each.astype("datetime64[D]") for each in (months, months + 1))
        if self.pattern == "first":
            return np.busday_offset(first, 0, roll="forward")
        if self.pattern == "last":
            return np.busday_offset(following, -1, roll="forward")
        return np.minimum(first + int(self.pattern) - 1, following - 1)

    def fill(self, index: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Add samples without values at the gaps of an index on the grid."""
        places = self.places(index)
        if places is None or places[-1] == len(index) - 1:
            return index, values
        filled = np.full((places[-1] + 1, *values.shape[1:]), np.nan)
        filled[places] = values
        return self._grid(index[:1], np.arange(len(filled))), filled


def _of_days(index: np.ndarray, zone: str | None) -> list[Frequency]:
    """Candidates of dates that are at least a day apart, the most regular first."""
    days, _ = _days(index, zone)
    gaps = np.diff(days).astype(np.int64)
    plain = Frequency("days", int(gaps.min()), zone=zone)
    if gaps.min() >= _SHORTEST_MONTH:
        months = days.astype("datetime64[M]")
        step = int(np.gcd.reduce(np.diff(months).astype(np.int64)))
        in_month = (days - months.astype("datetime64[D]")).astype(np.int64) + 1
        is_end = (days + 1).astype("datetime64[M]") > months
        patterns = ["31" if is_end.all() else str(in_month.max()), "last", "first"]
        return [*(Frequency("months", step, each, zone) for each in patterns), plain]
    if len(gaps) > 1 and np.ptp(gaps) == 0:
        return [plain]
    week = np.arange(7)
    every = np.arange(days[0], days[-1] + 1)
    counts = [
        np.sum((each.astype(np.int64) + 3) % 7 == week[:, None], axis=1) for each in (days, every)
    ]
    chances = np.where(counts[0] > 0, 0, counts[1])
    is_left_out = chances >= _FEWEST_CHANCES
    is_left_out[5:] |= chances[5:].min() > 0  # the weekend
    mask = "".join("0" if each else "1" for each in is_left_out)
    return [*([Frequency("days", 1, mask, zone)] if "0" in mask else []), plain]


def _days(index: np.ndarray, zone: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Days in a time zone, and times of the day."""
    local = index
    if zone is not None:
        pandas = optional("pandas", "time zones")
        dates = pandas.DatetimeIndex(index, tz="UTC").tz_convert(zone)
        local = dates.tz_localize(None).to_numpy().astype(index.dtype)
    days = local.astype("datetime64[D]")
    return days, local - days


def _in_utc(local: np.ndarray, zone: str | None) -> np.ndarray:
    """Dates in UTC; an hour that a clock skips is the next one, one that it repeats the first."""
    if zone is None:
        return local
    dates = optional("pandas", "time zones").DatetimeIndex(local)
    first = np.ones(len(local), bool)
    dates = dates.tz_localize(zone, ambiguous=first, nonexistent="shift_forward")
    return dates.tz_convert("UTC").tz_localize(None).to_numpy()


def fill_gaps(
    where: str, index: np.ndarray, values: np.ndarray, zone: str | None
) -> tuple[np.ndarray, np.ndarray, Frequency | None]:
    """Fill the gaps of a sorted index, and find its frequency.

    Samples that are not on a grid, or fill less than half of it, keep their times. `where` is the
    series, for errors.
    """
    distances, steps = index - index[0], np.diff(index)
    overflown = (steps <= distances[0]) | (distances[1:] <= distances[0])
    for sample in np.flatnonzero(overflown)[:1]:
        raise DataError(
            f"{where}: {shown_time(index[sample + 1])} comes after {shown_time(index[sample])}, "
            "expected times that are less far apart"
        )
    frequency = Frequency.of(index, zone)
    index, values = (index, values) if frequency is None else frequency.fill(index, values)
    return index, values, frequency


def lay(
    frequency: Frequency, index: np.ndarray, values: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """Lay samples on the grid of a frequency; None if they are not on it, or fill less than half.

    Samples without values may be those that filled the gaps of another grid.
    """
    for kept in (np.ones(len(index), bool), ~np.isnan(values).all(axis=1)):
        places = frequency.places(index[kept]) if kept.any() else None
        if places is not None and places[-1] < 2 * len(places):
            return frequency.fill(index[kept], values[kept])
    return None
