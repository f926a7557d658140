"""Windows of long series for forecasting, cut out on access."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from linoss import _checks


@dataclass(frozen=True, eq=False)
class WindowBatch:
    """A batch of windows: pasts in `values`, what follows them in `future` and `labels`."""

    values: np.ndarray
    """(batch, time, columns), zeros where missing and where padded."""
    lengths: np.ndarray
    """(batch,), int32, how many samples of each past are real."""
    observed: np.ndarray | None
    """(batch, time, columns), False where missing and where padded; None if none is missing."""
    future: np.ndarray
    """(batch, horizon, columns), zeros where not known in advance."""
    future_observed: np.ndarray
    """(batch, horizon, columns), False where not known in advance."""
    labels: np.ndarray
    """(batch, horizon, targets), NaN where not known."""
    times: None = None
    """Steps are taken as evenly spaced."""


@dataclass(frozen=True, eq=False)
class Windows:
    """A view of long series as cases: `past` steps to read, `horizon` steps to forecast.

    ```python
    >>> import numpy as np
    >>> from linoss.training import Windows
    >>> series = np.arange(100.0)[:, None]
    >>> windows = Windows([series], past=24, horizon=6)
    >>> len(windows)
    71
    >>> batch = windows.batch(np.array([0, 70]))
    >>> batch.values.shape, batch.labels[1, :, 0].tolist()
    ((2, 24, 1), [94.0, 95.0, 96.0, 97.0, 98.0, 99.0])

    ```
    """

    series: Sequence[np.ndarray]
    """Arrays `(time, columns)`, NaN where missing. They are not copied."""
    past: int
    """Steps to read."""
    horizon: int
    """Steps to forecast."""
    targets: tuple[int, ...] | None = None
    """Columns to forecast; None for all that are not known in advance."""
    known: tuple[int, ...] = ()
    """Columns that are known in advance: given to the model in the future, too."""
    stride: int = 1
    """Steps from the start of one window to that of the next."""
    min_past: int | None = None
    """A series too short for a whole window gives one with at least so many steps of past; by
    default it gives none."""
    only_last: bool = False
    """Only the last window of each series."""
    names: tuple[Any, ...] | None = None
    """Names of the columns, for messages."""

    def __post_init__(self) -> None:
        for name in ("past", "horizon", "stride"):
            _checks.positive_integer(name, getattr(self, name))
        if self.min_past is not None:
            _checks.positive_integer("min_past", self.min_past)
        if not len(self.series):
            raise ValueError("series is empty, expected at least one array (time, columns)")
        for i, array in enumerate(self.series):
            _checks.shape(f"series[{i}]", array, ("time", np.shape(self.series[0])[-1]))
            if array.dtype.kind != "f":
                raise ValueError(f"series[{i}] has dtype {array.dtype}, expected floating point")
        for name in ("targets", "known"):
            for column in getattr(self, name) or ():
                if not 0 <= column < self.num_channels:
                    raise ValueError(
                        f"{name} has {column!r}, expected columns 0 to {self.num_channels - 1}"
                    )
        both = set(self.target_columns) & set(self.known)
        if both:
            raise ValueError(f"column {min(both)} is in targets and in known, expected in one")
        if not self.target_columns:
            raise ValueError("all columns are known in advance, expected some to forecast")
        if not len(self):
            longest = max(len(array) for array in self.series)
            raise ValueError(
                f"past is {self.past} and horizon {self.horizon}, but the longest series has "
                f"{longest} steps: no window fits; make past shorter, or allow shorter ones "
                "with min_past"
            )

    @property
    def num_channels(self) -> int:
        """Columns of every series."""
        return self.series[0].shape[1]

    @property
    def target_columns(self) -> tuple[int, ...]:
        """The columns to forecast."""
        if self.targets is not None:
            return self.targets
        return tuple(i for i in range(self.num_channels) if i not in self.known)

    @property
    def values(self) -> Sequence[np.ndarray]:
        """The series."""
        return self.series

    @cached_property
    def _ends(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For each series: how many windows come before its own, where its first past ends, and
        how many it has; a past ends where the future begins."""
        last = np.array([len(array) - self.horizon for array in self.series])
        first = np.minimum(last, self.past)
        least = self.past if self.min_past is None else min(self.min_past, self.past)
        counts = np.where(first >= least, (last - first) // self.stride + 1, 0)
        if self.only_last:
            first, counts = last, np.minimum(counts, 1)
        return np.concatenate([[0], np.cumsum(counts)]), first, counts

    def __len__(self) -> int:
        return int(self._ends[0][-1])

    @property
    def lengths(self) -> np.ndarray:
        """(windows,), steps of past."""
        return self._lengths

    @cached_property
    def _lengths(self) -> np.ndarray:
        _, first, counts = self._ends
        return np.minimum(np.repeat(first, counts), self.past)

    def locate(self, indices: Any) -> tuple[np.ndarray, np.ndarray]:
        """Of each window its series, and the step at which its future begins."""
        before, first, _ = self._ends
        indices = np.asarray(indices)
        which = np.searchsorted(before, indices, side="right") - 1
        return which, first[which] + (indices - before[which]) * self.stride

    def batch(self, indices: Any, length: int | None = None) -> WindowBatch:
        """The windows at `indices`, their pasts padded at the end to `length`."""
        which, ends = self.locate(indices)
        lengths = np.minimum(ends, self.past).astype(np.int32)
        length = int(lengths.max()) if length is None else length
        dtype = np.result_type(*{array.dtype for array in self.series}, np.float32)
        past = np.full((len(ends), length, self.num_channels), np.nan, dtype)
        future = np.empty((len(ends), self.horizon, self.num_channels), dtype)
        for row, (i, end, steps) in enumerate(zip(which, ends, lengths, strict=True)):
            past[row, :steps] = self.series[i][end - steps : end]
            future[row] = self.series[i][end : end + self.horizon]
        observed, there = ~np.isnan(past), np.arange(length) < lengths[:, None]
        complete = np.array_equal(observed, np.broadcast_to(there[..., None], observed.shape))
        given = np.zeros(future.shape, bool)
        for column in self.known:
            given[..., column] = ~np.isnan(future[..., column])
        return WindowBatch(
            values=np.where(observed, past, 0),
            lengths=lengths,
            observed=None if complete else observed,
            future=np.where(given, future, 0),
            future_observed=given,
            labels=future[..., list(self.target_columns)],
        )
