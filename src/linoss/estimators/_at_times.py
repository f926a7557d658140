"""Forecasts at arbitrary future times, between the steps of the data.

Trend and seasons are evaluated at these times; the model's contribution is linearly interpolated
between forecast steps.
"""

from typing import Any

import numpy as np

from linoss._extras import optional
from linoss.data import DataError, Table
from linoss.estimators._adjustment import Adjustment
from linoss.estimators._seasons import Seasons


def future_times(at: Any, context: Table) -> np.ndarray:
    """Validate times: increasing, of the kind of the index, and after the end of every series."""
    last = max(index[-1] for index in context.index)
    if context.index[0].dtype.kind == "M":
        pandas = optional("pandas", "dates", "data")
        try:
            several = [pandas.Timestamp(each) for each in (at if np.ndim(at) else [at])]
        except (TypeError, ValueError, OverflowError) as error:
            raise DataError(f"at cannot be read as dates: {str(error).splitlines()[0]}") from None
        zones = sorted({str(each.tz) for each in several})
        if len(zones) > 1:
            raise DataError(f"at has the time zones {', '.join(zones)}, expected one")
        dates = pandas.DatetimeIndex(several)
        if (dates.tz is None) != (context.timezone is None):
            zone = "no time zone" if dates.tz is None else f"the time zone {dates.tz}"
            raise DataError(f"at has {zone}, expected dates as those of the data")
        times = (
            dates if dates.tz is None else dates.tz_convert("UTC").tz_localize(None)
        ).to_numpy()
    else:
        times = np.atleast_1d(np.asarray(at))
        if times.dtype.kind not in "iuf" or not np.isfinite(times).all():
            raise DataError("at is not numbers, expected times as those of the data")
    if not len(times) or times.ndim != 1:
        raise DataError("at is empty, expected times after the end of the data")
    unsorted = times[1:] <= times[:-1]
    if unsorted.any():
        place = int(np.argmax(unsorted))
        before, after = _shown(times[place]), _shown(times[place + 1])
        raise DataError(f"at has {after} after {before}, expected increasing times")
    if times[0] <= last:
        raise DataError(
            f"at has {_shown(times[0])}, expected times after the end of the data, {_shown(last)}"
        )
    return times


def _shown(time: Any) -> str:
    dated = np.asarray(time).dtype.kind == "M"
    return str(np.datetime_as_string(time, unit="s")).replace("T", " ") if dated else f"{time:g}"


def steps_until(context: Table, times: np.ndarray) -> int:
    """The number of forecast steps that covers all times, in all series."""
    steps = 1
    while any(index[-1] < times[-1] for index in context.continued(steps)):
        steps *= 2
    grids = context.continued(steps)
    return int(max(np.searchsorted(index, times[-1]) for index in grids)) + 1


def between_steps(
    adjustment: Adjustment,
    where: tuple[Seasons, np.ndarray],
    end: tuple[Any, np.ndarray],
    ahead: tuple[np.ndarray, np.ndarray],
    times: np.ndarray,
) -> np.ndarray:
    """Interpolated values (times, targets, ...); `end` is time and value before the steps
    `ahead`."""
    (seasons, deviation), (last, value), (grid, values) = where, end, ahead
    more = (...,) + (None,) * (values.ndim - 2)
    known = np.zeros((len(grid), 0))
    numbers = adjustment.clock.numbers
    flat = values.reshape(len(grid), len(deviation), -1)
    slices = [adjustment.transform(flat[..., i]) for i in range(flat.shape[-1])]
    rest = np.stack(slices, axis=-1) - seasons(grid, known)[..., None]
    now = adjustment.transform(value[None]) - seasons(np.array([last]), known[:1])
    start = np.where(np.isnan(now)[..., None], rest[:1], now[..., None])
    rest = np.concatenate([np.broadcast_to(start, (1, *rest.shape[1:])), rest])
    moments = numbers(np.concatenate([np.array([last]), grid]))
    found = np.stack(
        [np.interp(numbers(times), moments, column) for column in rest.reshape(len(moments), -1).T],
        axis=1,
    ).reshape(len(times), *values.shape[1:])
    expected = seasons(times, np.zeros((len(times), 0)))
    return adjustment.undo(deviation, found / deviation[more], expected)
