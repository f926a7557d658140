"""Standardisation of channels, and its inverse."""

import functools
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Float64

from linoss import _checks
from linoss._plain import plain
from linoss.training._devices import channels_of, gather, share


class _Sums(NamedTuple):
    """For each channel the number of values, their mean, the sum of squared deviations, the
    rounding error of the dtype, the minimum and the maximum."""

    number: np.ndarray
    mean: np.ndarray
    squares: np.ndarray
    rounding: np.ndarray
    lowest: np.ndarray
    highest: np.ndarray

    @classmethod
    def none(cls, channels: int) -> "_Sums":
        """The sums of no values."""
        return cls(*np.zeros((4, channels)), *np.full((2, channels), np.nan))

    @classmethod
    def of(cls, array: np.ndarray) -> "_Sums":
        """The sums of one case."""
        is_known = ~np.isnan(array)
        count, known = (
            np.count_nonzero(is_known, axis=0),
            np.where(is_known, array, 0).astype(np.float64),
        )
        mean = known.sum(axis=0) / np.maximum(count, 1)
        squares = np.where(is_known, (known - mean) ** 2, 0).sum(axis=0)
        rounding = np.full(len(mean), np.finfo(array.dtype).eps)
        extremes = np.fmin.reduce(array), np.fmax.reduce(array)
        return cls(count, mean, squares, rounding, *extremes)

    def combined(self, other: "_Sums") -> "_Sums":
        """The sums of the values of both."""
        count, shift = self.number + other.number, other.mean - self.mean
        share = other.number / np.maximum(count, 1)
        squares = self.squares + other.squares + shift**2 * self.number * share
        rounding = np.maximum(self.rounding, other.rounding)
        extremes = np.fmin(self.lowest, other.lowest), np.fmax(self.highest, other.highest)
        return _Sums(count, self.mean + shift * share, squares, rounding, *extremes)

    @property
    def rows(self) -> np.ndarray:
        """(6, channels)."""
        return np.stack(np.broadcast_arrays(*self)).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Scaling:
    """(x - mean) / deviation, channel by channel.

    ```python
    >>> import numpy as np
    >>> from linoss.training import Scaling
    >>> scaling = Scaling.from_sequences([np.array([[1.0, 7.0], [3.0, np.nan]])])
    >>> scaling.mean, scaling.deviation  # a channel that never changes is only shifted
    (array([2., 7.]), array([1., 1.]))
    >>> scaling.undo(scaling.apply(np.array([5.0, 6.0])))
    array([5., 6.])

    ```
    """

    mean: Float64[np.ndarray, " channels"]
    deviation: Float64[np.ndarray, " channels"]

    def __post_init__(self) -> None:
        _checks.shape("mean", self.mean, ("channels",))
        _checks.shape("deviation", self.deviation, self.mean.shape)
        if not np.isfinite(self.mean).all():
            raise ValueError("mean has entries that are not finite, expected finite numbers")
        if not (np.isfinite(self.deviation) & (self.deviation > 0)).all():
            raise ValueError("deviation has entries that are not finite and > 0")

    @classmethod
    def from_sequences(
        cls,
        values: Iterable[np.ndarray],
        names: Sequence[Any] | None = None,
        kind: str = "channel",
    ) -> "Scaling":
        """The scaling for arrays `(time, channels)`, read one at a time. NaN is ignored.

        A channel that is constant or has no value has a deviation of 1. With several processes,
        each reads its part. Raises `ValueError` for data from which nothing can be learned, and
        warns if this holds for some channels, which it names by `kind` and name.
        """
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            sums = cls._sums(values)
            deviation = np.sqrt(sums.squares / np.maximum(sums.number, 1))
        constant = deviation <= 4 * sums.rounding * np.abs(sums.mean)
        _check_sums(sums, deviation, constant, names, kind)
        return cls(sums.mean, np.where(constant, 1.0, deviation))

    @staticmethod
    def _sums(values: Iterable[np.ndarray]) -> _Sums:
        sums = _Sums.none(channels_of(values))
        for case, array in share(values):
            if np.isinf(array).any():
                step, channel = (int(i) for i in np.argwhere(np.isinf(array))[0])
                raise ValueError(
                    f"case {case} has an infinite value at step {step} in channel {channel}, "
                    "expected numbers, or NaN where a value is missing"
                )
            sums = sums.combined(_Sums.of(array))
        return functools.reduce(_Sums.combined, (_Sums(*each) for each in gather(sums.rows)))

    def apply(self, values: Float[np.ndarray, "... channels"]) -> Float64[np.ndarray, "..."]:
        """Scale, in double precision."""
        return (values - self.mean) / self.deviation

    def undo(self, values: Float[np.ndarray, "... channels"]) -> Float64[np.ndarray, "..."]:
        """Convert back to the units of the data."""
        return values * self.deviation + self.mean

    def pick(self, channels: Iterable[int]) -> "Scaling":
        """The scaling of a subset of the channels."""
        chosen = list(channels)
        return Scaling(self.mean[chosen], self.deviation[chosen])

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values, for JSON."""
        return plain(self)

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> "Scaling":
        """The inverse of `to_dict`."""
        return cls(**{name: np.array(values, np.float64) for name, values in record.items()})


def _check_sums(
    sums: _Sums,
    deviation: np.ndarray,
    constant: np.ndarray,
    names: Sequence[Any] | None,
    kind: str,
) -> None:
    """Raise for values from which nothing can be learned; warn if this holds for some channels."""

    def name(channel: int) -> str:
        return f"{kind} {channel if names is None else repr(names[channel])}"

    empty = sums.number == 0
    if empty.all():
        raise ValueError(f"every value of every {kind} is missing, expected some values")
    for channel in np.flatnonzero(empty).tolist():
        warnings.warn(f"{name(channel)} has no values; remove it", stacklevel=5)
    for channel in np.flatnonzero(~empty & ~np.isfinite(deviation)).tolist():
        raise ValueError(
            f"{name(channel)} has values from {sums.lowest[channel]:.4g} to "
            f"{sums.highest[channel]:.4g}, expected numbers below 1e150; divide them by a constant"
        )
    for channel in np.flatnonzero(constant & (sums.highest > sums.lowest)).tolist():
        lowest, highest = sums.lowest[channel], sums.highest[channel]
        warnings.warn(
            f"{name(channel)} has values from {lowest:.17g} to {highest:.17g}, whose differences "
            "are below rounding error; subtract an offset, or multiply by a constant",
            stacklevel=5,
        )
