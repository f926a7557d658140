"""Conversion of a batch of data to the arguments of a model."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from linoss import _checks
from linoss._plain import plain
from linoss.data import Batch, Sequences
from linoss.training._scaling import Scaling
from linoss.training._windows import WindowBatch, Windows

Cases = Sequences | Windows
"""Training data: [`linoss.data.Sequences`][] or [`linoss.training.Windows`][]."""
AnyBatch = Batch | WindowBatch
_SHORTEST_RUNG = 16
_EVEN = 0.01  # relative tolerance of evenly spaced times


@dataclass(frozen=True, eq=False, kw_only=True)
class Inputs:
    """Conversion of data to the inputs of a model.

    The channels of the model are, in this order: time (if `time_channel`), the channels of the
    data, and for each of them an indicator that is 1 where its value is missing (if `indicators`).
    A missing value is 0 after scaling; a sample without any value is masked. With `patch`, that
    many samples form one step of the model; the last patch of a case is padded with zeros.

    ```python
    >>> import numpy as np
    >>> import linoss.data
    >>> from linoss.training import Inputs
    >>> cases = linoss.data.sequences([np.ones((2, 50)), np.array([[1, np.nan, 3], [4, 5, 6.0]])])
    >>> inputs = Inputs.from_sequences(cases, time_channel=True)
    >>> inputs.in_size
    5
    >>> {name: x.shape for name, x in inputs(cases.batch([0, 1])).items() if x is not None}
    {'u': (2, 50, 5), 'lengths': (2,), 'mask': (2, 50)}

    ```
    """

    channels: int
    """Number of channels of the data."""
    lengths: tuple[int, int]
    """The shortest and the longest training case."""
    scaling: Scaling | None = None
    """The scaling of each channel; None for unscaled values."""
    indicators: bool = False
    """Whether each channel has an indicator channel, 1 where its value is missing."""
    time_channel: bool = False
    """Whether there is a first channel t / L: the time since the first sample divided by the
    longest training length."""
    interval: int | float | None = None
    """The median sampling interval, for irregular sampling; None for regular sampling."""
    patch: int = 1
    """Number of samples that form one step of the model."""

    def __post_init__(self) -> None:
        _checks.positive_integer("channels", self.channels)
        shortest, longest = self.lengths
        _checks.positive_integer("lengths[0]", shortest)
        _checks.number("lengths[1]", longest, "a number >= lengths[0]", lambda x: x >= shortest)
        _checks.boolean_option("indicators", self.indicators)
        _checks.boolean_option("time_channel", self.time_channel)
        _checks.positive_integer("patch", self.patch)
        if self.interval is not None:
            _checks.positive_number("interval", self.interval)
            if self.patch > 1:
                raise ValueError(
                    f"patch is {self.patch}, but the times are not evenly spaced; use patch=1"
                )
        if self.scaling is not None:
            _checks.shape("scaling.mean", self.scaling.mean, (self.channels,))

    @classmethod
    def from_sequences(
        cls,
        cases: Cases,
        *,
        scale: bool = True,
        indicators: bool | None = None,
        time_channel: bool = False,
        irregular: bool | None = None,
        patch: int = 1,
    ) -> "Inputs":
        """The inputs for training cases, which are read one at a time.

        **Arguments:**

        - `cases`: [`linoss.data.Sequences`][] or [`linoss.training.Windows`][].
        - `scale`: standardise each channel.
        - `indicators`: add indicators; by default if a value is missing.
        - `time_channel`: see above.
        - `irregular`: use intervals; by default if the times are not evenly spaced.
        - `patch`: see above.
        """
        if not len(cases):
            raise ValueError("cases is empty, expected at least one")
        if indicators is None:
            indicators = any(bool(np.isnan(array).any()) for array in cases.values)
        times, names = getattr(cases, "times", None), getattr(cases, "names", None)
        if irregular and times is None:
            raise ValueError("irregular is True, but the cases have no times")
        interval = None
        if times is not None and irregular is not False:
            interval, even = usual_interval(times)
            interval = None if even and not irregular else interval
        return cls(
            channels=int(cases.num_channels),
            lengths=(int(np.min(cases.lengths)), int(np.max(cases.lengths))),
            scaling=Scaling.from_sequences(cases.values, names) if scale else None,
            indicators=indicators,
            time_channel=time_channel,
            interval=interval,
            patch=patch,
        )

    @property
    def in_size(self) -> int:
        """Number of channels of the model's input."""
        return self.patch * self._width

    @property
    def _width(self) -> int:
        """Number of channels for one sample."""
        return self.channels * (1 + self.indicators) + self.time_channel

    @property
    def irregular(self) -> bool:
        """Whether intervals between samples are an input of the model."""
        return self.interval is not None

    def ignores_times(self, cases: Cases) -> bool:
        """Whether cases have irregular times that a model trained on regular ones would ignore."""
        times = getattr(cases, "times", None)
        return times is not None and not self.irregular and not usual_interval(times)[1]

    @cached_property
    def _plain(self) -> bool:
        """Whether the training cases had no padding and no missing values."""
        return self.lengths[0] == self.lengths[1] and not self.indicators

    def padded_length(self, length: int) -> int:
        """The padded length of a case with that length.

        One of 16, 24, 32, 48, 64, 96, ..., but no more than the longest training case needs.
        """
        rung = _SHORTEST_RUNG
        while rung < length:
            rung = rung * 3 // 2 if rung & (rung - 1) == 0 else rung * 4 // 3
        return min(rung, self.lengths[1]) if length <= self.lengths[1] else rung

    def masked(self, batch: AnyBatch) -> np.ndarray:
        """The cases of a batch that need a mask, which depends only on the case and the training
        data."""
        if not self._plain:
            return np.ones(len(batch.lengths), bool)
        shorter = batch.lengths < batch.values.shape[1]
        if batch.observed is None:
            return shorter
        return shorter | ~batch.observed.any(axis=-1).all(axis=-1)

    def __call__(
        self, batch: AnyBatch, *, masked: bool = True, dtype: Any = np.float32
    ) -> dict[str, np.ndarray | None]:
        """The arguments of the model for a batch; without lengths and mask if not `masked`."""
        _checks.shape("batch.values", batch.values, ("cases", "time", self.channels))
        inside = np.arange(batch.values.shape[1]) < batch.lengths[:, None]
        present = inside
        if batch.observed is not None:
            present = inside & batch.observed.any(axis=-1)
        observed = present[..., None] if batch.observed is None else batch.observed
        time, intervals = np.arange(batch.values.shape[1])[None], None
        if self.interval is not None:
            if batch.times is None:
                raise ValueError("the cases have no times, but the training cases had")
            time = (batch.times - batch.times[:, :1]) / self.interval
            intervals = _intervals(time, present).astype(dtype)
        future, after = None, None
        if isinstance(batch, WindowBatch):
            if self.patch > 1:
                raise ValueError(f"patch is {self.patch}, expected 1 for forecasts")
            ahead = batch.lengths[:, None] + np.arange(batch.future.shape[1])
            if self.interval is not None:
                assert batch.times is not None
                assert batch.future_times is not None
                ahead = (batch.future_times - batch.times[:, :1]) / self.interval
                last = np.max(np.where(present, time, -np.inf), axis=1, keepdims=True)
                last = np.where(np.isfinite(last), last, ahead[:, :1] - 1)
                after = np.diff(ahead, axis=1, prepend=last).astype(dtype)
            future = self.arrange(batch.future, batch.future_observed, ahead, dtype)
        u = self.arrange(batch.values, observed, time, dtype)
        if self.patch > 1:
            u[~inside] = 0
        return {
            "u": self.patches(u),
            "lengths": -(-batch.lengths // self.patch) if masked else None,
            "mask": np.asarray(self.patches(present[..., None]).any(axis=-1)) if masked else None,
            "intervals": intervals,
            "future": future,
            "future_intervals": after,
        }

    def patches(self, samples: np.ndarray) -> np.ndarray:
        """Convert samples `(cases, time, n)` to patches `(cases, time / patch, patch n)`."""
        if self.patch == 1:
            return samples
        cases, time, n = samples.shape
        filled = np.pad(samples, ((0, 0), (0, -time % self.patch), (0, 0)))
        return filled.reshape(cases, -1, self.patch * n)

    def arrange(
        self, values: np.ndarray, observed: np.ndarray, time: np.ndarray, dtype: Any = np.float32
    ) -> np.ndarray:
        """The model's channels of samples `(cases, time, channels)`, scaled.

        `time` is the time since the first sample, in median intervals.
        """
        scaled = values if self.scaling is None else self.scaling.apply(values)
        u = np.empty((*values.shape[:2], self._width), dtype)
        if self.time_channel:
            u[..., 0] = time / self.lengths[1]
        with np.errstate(over="ignore"):  # an overflow makes the loss infinite
            u[..., self.of_values] = np.where(observed, scaled, 0)
        if self.indicators:
            u[..., self.of_values.stop :] = ~observed
        return u

    @property
    def of_values(self) -> slice:
        """The indices of the data's values among the channels of a sample."""
        return slice(int(self.time_channel), int(self.time_channel) + self.channels)

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values, for JSON."""
        return plain(self)

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> "Inputs":
        """The inverse of `to_dict`."""
        shortest, longest = record["lengths"]
        scaling = None if record["scaling"] is None else Scaling.from_dict(record["scaling"])
        return cls(**{**record, "lengths": (shortest, longest), "scaling": scaling})


def usual_interval(times: Any) -> tuple[float, bool]:
    """The median over cases of the median interval, and whether all intervals equal it."""
    steps = [np.diff(t) for t in times if len(t) > 1]
    if not steps:
        return 1.0, True
    usual = float(np.median([np.median(step) for step in steps]))
    return usual, all(bool(np.all(np.abs(step - usual) <= _EVEN * usual)) for step in steps)


def _intervals(time: np.ndarray, present: np.ndarray) -> np.ndarray:
    """Time since the last present sample; 1 for the first sample, and for missing ones."""
    seen = np.maximum.accumulate(np.where(present, time, -np.inf), axis=1)
    before = np.concatenate([np.full((len(time), 1), -np.inf), seen[:, :-1]], axis=1)
    intervals = np.where(present & np.isfinite(before), time - before, 1.0)
    if not (intervals > 0).all():
        row, step = (int(i) for i in np.argwhere(~(intervals > 0))[0])
        raise ValueError(
            f"times do not increase at step {step} of case {row} of a batch, expected each time "
            "to be later than the one before"
        )
    return intervals
