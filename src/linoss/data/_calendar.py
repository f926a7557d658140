"""The step of an index of dates or numbers: filling gaps, and continuing the index."""

from collections.abc import Callable
from typing import Any

import numpy as np

from linoss.data._errors import DataError, optional
from linoss.data._times import shown_time

_EVEN = 1e-6  # relative tolerance of steps of floating-point times


def fill_gaps(
    where: Callable[[int], str], index: np.ndarray, values: np.ndarray
) -> tuple[np.ndarray, np.ndarray, Any]:
    """Fill the gaps of a sorted index. Also returns the median step of an irregular index, else
    None.

    Gaps in a regular step become missing samples; gaps in calendar steps (months, working days) are
    not filled. Samples that are not on a grid, or fill less than half of it, keep their times.
    `where` gives the location of a sample, for errors.
    """
    if len(index) < 2 or _frequency(index) is not None:
        return index, values, None
    distances, steps = index - index[0], np.diff(index)
    zero, step = distances[0], steps.min()
    overflown = (steps <= zero) | (distances[1:] <= zero)
    if overflown.any():
        sample = int(np.argmax(overflown)) + 1
        raise DataError(
            f"{where(sample)}: {shown_time(index[sample])} comes after "
            f"{shown_time(index[sample - 1])}, expected times that are less far apart"
        )
    usual = np.sort(steps)[len(steps) // 2]
    if index.dtype.kind == "f":
        return index, values, None if np.ptp(steps) <= _EVEN * step else usual
    if (distances % step != zero).any():
        return index, values, usual
    positions = (distances // step).astype(np.int64)
    length = int(positions[-1]) + 1
    if length == len(index) or length > 2 * len(index):
        return index, values, None if length == len(index) else usual
    filled = np.full((length, *values.shape[1:]), np.nan)
    filled[positions] = values
    return index[0] + step * np.arange(length), filled, None


def go_on(where: str, index: np.ndarray, horizon: int, step: Any = None) -> np.ndarray:
    """The `horizon` entries after an index, by `step` or by its regular step."""
    ahead = np.arange(1, horizon + 1)
    if step is not None:
        return index[-1] + step * ahead
    if index.dtype.kind != "M":
        return index[-1] + (index[-1] - index[-2] if len(index) > 1 else 1) * ahead
    if len(index) < 2:
        raise DataError(f"{where}: has one date, expected at least two to know the step between")
    frequency = _frequency(index)
    if frequency is None:
        return index[-1] + (index[-1] - index[-2]) * ahead
    pandas = optional("pandas", "going on with dates")
    try:
        dates = pandas.date_range(index[-1], periods=horizon + 1, freq=frequency)
    except (ValueError, OverflowError) as error:
        raise DataError(
            f"{where}: {horizon} steps after {shown_time(index[-1])} is no date: {error}"
        ) from None
    return dates[1:].to_numpy()


def _frequency(index: np.ndarray) -> Any:
    """pandas' frequency of dates; None for an irregular step and for numbers."""
    if index.dtype.kind != "M" or len(index) < 3:
        return None
    pandas = optional("pandas", "finding the step between dates")
    return pandas.infer_freq(pandas.DatetimeIndex(index))
