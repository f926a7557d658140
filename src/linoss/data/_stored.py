"""Cases on disk, read on access."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from linoss.data._errors import DataError

_FAITHFUL = 1e-4  # largest rounding error of float32, relative to a channel's range in a case


def as_values(array: np.ndarray) -> np.ndarray:
    """Values (..., time, channels) in C order, in float32 if that preserves the signal.

    float32 would lose a small signal with a large offset; values then stay in float64. Overflow
    gives infinite values without a warning.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        values = np.ascontiguousarray(array, np.float32)
        if array.dtype.itemsize < 4 or array.dtype == np.float32 or np.isinf(values).any():
            return values
        wide = np.ascontiguousarray(array, np.float64)
        change = np.fmax.reduce(np.abs(wide - values), axis=-2)
        extent = np.fmax.reduce(wide, axis=-2) - np.fmin.reduce(wide, axis=-2)
    return wide if (change > _FAITHFUL * extent)[extent > 0].any() else values


def as_case(where: str, array: np.ndarray) -> np.ndarray:
    """Convert (channels, length) to (length, channels), see `as_values`; raise for infinite
    values."""
    values = as_values(array.T)
    infinite = np.isinf(values)
    if infinite.any():
        position, channel = np.argwhere(infinite)[0]
        raise DataError(
            f"{where}: the value of channel {channel} at position {position} is "
            f"{array[channel, position]}, expected a finite number below 3.4e38; remove it, or "
            "write NaN for a missing value"
        )
    return values


class StoredCases(Sequence[np.ndarray]):
    """The cases of a memory-mapped array (cases, channels, time).

    A case is read, converted and checked on access.
    """

    def __init__(self, array: np.ndarray, source: str, indices: np.ndarray | None = None):
        self._array = array
        self._source = source
        self._indices = np.arange(len(array)) if indices is None else indices

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.pick(np.arange(len(self))[index])
        case = self._indices[index]
        return as_case(f"{self._source}, case {case}", np.asarray(self._array[case]))

    @property
    def lengths(self) -> np.ndarray:
        """The length of each case, without reading it."""
        return np.full(len(self), self._array.shape[2])

    @property
    def num_channels(self) -> int:
        """The number of channels, without reading a case."""
        return self._array.shape[1]

    def pick(self, indices: np.ndarray) -> "StoredCases":
        """Some of the cases, still on disk."""
        return StoredCases(self._array, self._source, self._indices[indices])
