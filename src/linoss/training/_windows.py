"""Windows of long series for forecasting, extracted on access."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from linoss import _checks

Normalization = Literal["none", "level", "deviation", "difference"]
"""The normalisation of the targets of a window, see [`linoss.training.Windows`][]."""
_SOME, _SOME_NUMBERS = 512, 10**7  # most windows for computing deviations


@dataclass(frozen=True, eq=False)
class WindowBatch:
    """A batch of windows: pasts in `values`, futures in `future` and `labels`."""

    values: np.ndarray
    """(batch, time, columns), 0 for missing values and padding."""
    lengths: np.ndarray
    """(batch,), int32, the number of samples of each past without padding."""
    observed: np.ndarray | None
    """(batch, time, columns), False for missing values and padding; None if none are missing."""
    future: np.ndarray
    """(batch, horizon, columns), 0 where not known in advance."""
    future_observed: np.ndarray
    """(batch, horizon, columns), False where not known in advance."""
    labels: np.ndarray
    """(batch, horizon, targets), NaN where unknown; relative to `known`, in units of `unit`."""
    known: np.ndarray
    """(batch, horizon, targets), the base forecast to which the model's output is added."""
    unit: np.ndarray
    """(batch, 1, targets)"""
    times: np.ndarray | None = None
    """(batch, time), sampling times; None for regular sampling."""
    future_times: np.ndarray | None = None
    """(batch, horizon), if there are times."""


@dataclass(frozen=True, eq=False)
class Windows:
    """A view of long series as cases: `past` input steps and `horizon` steps to forecast.

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
    """Number of input steps."""
    horizon: int
    """Number of steps to forecast."""
    targets: tuple[int, ...] | None = None
    """Columns to forecast; None for all columns that are not known in advance."""
    known: tuple[int, ...] = ()
    """Columns that are known in advance: inputs of the model also in the future."""
    stride: int = 1
    """Steps from the start of one window to that of the next."""
    min_past: int | None = None
    """The shortest past of a window: a series that is too short for `past` steps gives one window
    with at least this many. By default it gives none."""
    only_last: bool = False
    """Use only the last window of each series."""
    chosen: np.ndarray | None = None
    """Indices of a subset of all these windows; None for all."""
    normalize: Normalization = "none"
    """The normalisation of the targets of each window: none; relative to their last value
    (`"level"`), also with differences as inputs (`"difference"`); or relative to their mean, in
    units of their standard deviation (`"deviation"`)."""
    first: Callable[[np.ndarray], np.ndarray] | None = None
    """A function that gives a base forecast `(batch, horizon, targets)` for pasts `(batch, past,
    columns)`, NaN where missing; labels are relative to it."""
    times: Sequence[np.ndarray] | None = None
    """Arrays `(time,)` of sampling times; None for regular sampling."""

    def __post_init__(self) -> None:
        _checks.one_of("normalize", self.normalize, get_args(Normalization))
        for name in ("past", "horizon", "stride"):
            _checks.positive_integer(name, getattr(self, name))
        if self.min_past is not None:
            _checks.positive_integer("min_past", self.min_past)
        if not len(self.series):
            raise ValueError("series is empty, expected at least one array (time, columns)")
        for i, array in enumerate(self.series):
            _checks.shape(f"series[{i}]", array, ("time", np.shape(self.series[0])[-1]))
        if not self.target_columns or set(self.target_columns) & set(self.known):
            raise ValueError(
                f"targets is {self.targets} and known {self.known}, expected some targets, and "
                "none of them known in advance"
            )
        if not len(self):
            longest = max(len(array) for array in self.series)
            raise ValueError(
                f"past is {self.past} and horizon {self.horizon}, but the longest series has "
                f"{longest} steps: no window fits; make past shorter, or allow shorter ones "
                "with min_past"
            )

    @property
    def num_channels(self) -> int:
        """Number of columns."""
        return self.series[0].shape[1]

    @property
    def target_columns(self) -> tuple[int, ...]:
        """The columns to forecast."""
        if self.targets is not None:
            return self.targets
        return tuple(i for i in range(self.num_channels) if i not in self.known)

    @property
    def values(self) -> Sequence[np.ndarray]:
        """The series; if windows are normalised, some of their pasts."""
        return self.series if self.normalize == "none" else self._some_pasts

    @property
    def relative(self) -> bool:
        """Whether labels are relative to a base forecast."""
        return self.normalize != "none" or self.first is not None

    def some_labels(self) -> np.ndarray:
        """`(steps, targets)`, the concatenated labels of some windows."""
        labels = self.batch(self._some).labels
        return labels.reshape(-1, labels.shape[-1])

    @property
    def _some(self) -> np.ndarray:
        most = max(1, min(_SOME, _SOME_NUMBERS // (self.horizon * self.num_channels)))
        return np.unique(np.linspace(0, len(self) - 1, most).astype(int))

    @cached_property
    def _some_pasts(self) -> Sequence[np.ndarray]:
        batch = self.batch(self._some)
        is_sample = np.arange(batch.values.shape[1]) < batch.lengths[:, None]
        observed = is_sample[..., None] if batch.observed is None else batch.observed
        pasts = np.where(observed, batch.values, np.nan)
        return [past[:steps] for past, steps in zip(pasts, batch.lengths, strict=True)]

    @cached_property
    def _ends(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For each series: the number of windows before its own, the step at which its first future
        begins, and the number of its windows."""
        last = np.array([len(array) - self.horizon for array in self.series])
        first = np.minimum(last, self.past)
        least = self.past if self.min_past is None else min(self.min_past, self.past)
        counts = np.where(first >= least, (last - first) // self.stride + 1, 0)
        if self.only_last:
            first, counts = last, np.minimum(counts, 1)
        return np.concatenate([[0], np.cumsum(counts)]), first, counts

    def __len__(self) -> int:
        return int(self._ends[0][-1]) if self.chosen is None else len(self.chosen)

    @cached_property
    def lengths(self) -> np.ndarray:
        """(windows,), the number of input steps."""
        return np.minimum(self.locate(np.arange(len(self)))[1], self.past)

    def locate(self, indices: Any) -> tuple[np.ndarray, np.ndarray]:
        """The series of each window, and the step at which its future begins."""
        before, first, _ = self._ends
        indices = np.asarray(indices if self.chosen is None else self.chosen[indices])
        which = np.searchsorted(before, indices, side="right") - 1
        return which, first[which] + (indices - before[which]) * self.stride

    def find(self, series: Any, ends: Any) -> np.ndarray:
        """The inverse of `locate`: windows by their series and the step at which their future
        begins."""
        before, first, counts = self._ends
        series, ends = np.asarray(series), np.asarray(ends)
        places, remainder = np.divmod(ends - first[series], self.stride)
        absent = (places < 0) | (places >= counts[series]) | (remainder != 0)
        if absent.any():
            where = int(np.argmax(absent))
            raise ValueError(f"no window of series {series[where]} begins at step {ends[where]}")
        return before[series] + places

    def batch(self, indices: Any, length: int | None = None) -> WindowBatch:
        """The windows at `indices`, their pasts padded at the end to `length`."""
        which, ends = self.locate(indices)
        lengths = np.minimum(ends, self.past).astype(np.int32)
        length = int(lengths.max()) if length is None else length
        dtype = np.result_type(*{array.dtype for array in self.series}, np.float32)
        past = np.full((len(ends), length, self.num_channels), np.nan, dtype)
        future = np.empty((len(ends), self.horizon, self.num_channels), dtype)
        times, after = np.zeros((len(ends), length)), np.zeros((len(ends), self.horizon))
        for row, (i, end, steps) in enumerate(zip(which, ends, lengths, strict=True)):
            past[row, :steps] = self.series[i][end - steps : end]
            future[row] = self.series[i][end : end + self.horizon]
            if self.times is not None:
                times[row, :steps] = self.times[i][end - steps : end]
                after[row] = self.times[i][end : end + self.horizon]
        known, unit = self._relate(past, lengths)
        observed, is_sample = ~np.isnan(past), np.arange(length) < lengths[:, None]
        complete = np.array_equal(observed, np.broadcast_to(is_sample[..., None], observed.shape))
        given = np.zeros(future.shape, bool)
        for column in self.known:
            given[..., column] = ~np.isnan(future[..., column])
        return WindowBatch(
            values=np.where(observed, past, 0),
            lengths=lengths,
            observed=None if complete else observed,
            future=np.where(given, future, 0),
            future_observed=given,
            labels=(future[..., list(self.target_columns)] - known) / unit,
            known=known,
            unit=unit,
            times=None if self.times is None else times,
            future_times=None if self.times is None else after,
        )

    def _relate(self, past: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Normalise targets of pasts in place; return the base forecast and its unit."""
        columns = list(self.target_columns)
        offset = np.zeros((len(past), 1, len(columns)), past.dtype)
        unit = np.ones_like(offset)
        targets = past[..., columns]
        if self.normalize == "deviation":
            observed = ~np.isnan(targets)
            count = np.maximum(observed.sum(axis=1, keepdims=True), 1)
            offset = np.nansum(targets, axis=1, keepdims=True) / count
            squares = np.nansum((targets - offset) ** 2, axis=1, keepdims=True) / count
            floor = 1e-6 * (1 + np.abs(offset))
            unit = np.where(squares > floor**2, np.sqrt(squares), 1).astype(past.dtype)
        elif self.normalize != "none":
            offset = _last_values(targets)
        if self.normalize == "difference":
            targets = np.diff(targets, axis=1, prepend=targets[:, :1])
        else:
            targets = (targets - offset) / unit
        past[..., columns] = targets
        if self.first is None:
            return np.broadcast_to(offset, (len(past), self.horizon, len(columns))), unit
        aligned = np.full((len(past), self.past, past.shape[-1]), np.nan, past.dtype)
        for row, steps in enumerate(lengths):
            aligned[row, self.past - steps :] = past[row, :steps]
        return offset + unit * self.first(aligned), unit


def _last_values(targets: np.ndarray) -> np.ndarray:
    """(batch, 1, targets), the last value that is not missing; 0 if all are missing."""
    observed = ~np.isnan(targets)
    last = np.max(
        np.where(observed, np.arange(targets.shape[1])[:, None], 0), axis=1, keepdims=True
    )
    return np.nan_to_num(np.take_along_axis(targets, last, axis=1))
