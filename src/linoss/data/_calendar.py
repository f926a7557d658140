"""The regular step of an index of dates or whole numbers: filling gaps, and continuing."""

from collections.abc import Callable
from typing import Any

import numpy as np

from linoss.data._errors import DataError, optional
from linoss.data._times import shown_span, shown_time


def fill_gaps(
    where: Callable[[int], str], index: np.ndarray, values: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """A sorted index and its values with a regular step: gaps become missing samples.

    `where` gives the place of a sample, for errors. Steps of the calendar (months, working days)
    are regular, but gaps in them are not filled.
    """
    if len(index) < 2 or _frequency(index) is not None:
        return index, values
    distances, steps = index - index[0], np.diff(index)
    zero, step = distances[0], steps.min()
    uneven = (steps <= zero) | (distances[1:] <= zero)  # overflow
    if not uneven.any():
        uneven = distances[1:] % step != zero
    if uneven.any():
        sample = int(np.argmax(uneven)) + 1
        raise DataError(
            f"{where(sample)}: {shown_time(index[sample])} comes after "
            f"{shown_time(index[sample - 1])}, where other times are {shown_span(step)} apart, "
            "expected a regular step; resample the series"
        )
    positions = (distances // step).astype(np.int64)
    length = int(positions[-1]) + 1
    if length == len(index):
        return index, values
    if length > 2 * len(index):
        raise DataError(
            f"{where(len(index) - 1)}: the times from {shown_time(index[0])} to "
            f"{shown_time(index[-1])} have {length} steps of {shown_span(step)}, but only "
            f"{len(index)} samples, expected at least half of them; resample the series with a "
            "longer step"
        )
    filled = np.full((length, *values.shape[1:]), np.nan)
    filled[positions] = values
    return index[0] + step * np.arange(length), filled


def go_on(where: str, index: np.ndarray, horizon: int) -> np.ndarray:
    """The `horizon` entries after a regular index."""
    ahead = np.arange(1, horizon + 1)
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
    """pandas' name for the step of dates; None for an irregular step and for numbers."""
    if index.dtype.kind != "M" or len(index) < 3:
        return None
    pandas = optional("pandas", "finding the step between dates")
    return pandas.infer_freq(pandas.DatetimeIndex(index))
