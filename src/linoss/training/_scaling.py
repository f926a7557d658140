"""Mean and deviation of each channel, and the way there and back."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Float64

from linoss import _checks


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
    def from_sequences(cls, values: Iterable[np.ndarray]) -> "Scaling":
        """Of arrays `(time, channels)`, read one at a time; what is NaN is left out.

        A channel that is constant, or has no value at all, keeps a deviation of 1.
        """
        count, mean, squares, rounding = np.zeros(()), np.zeros(()), np.zeros(()), 0.0
        for case, array in enumerate(values):
            there = ~np.isnan(array)
            if np.isinf(array).any():
                step, channel = (int(i) for i in np.argwhere(np.isinf(array))[0])
                raise ValueError(
                    f"case {case} has an infinite value at step {step} in channel {channel}, "
                    "expected numbers, or NaN where a value is missing"
                )
            rounding = max(rounding, float(np.finfo(array.dtype).eps))
            added = np.count_nonzero(there, axis=0)
            total, known = count + added, np.where(there, array, 0.0).astype(np.float64)
            new_mean = known.sum(axis=0) / np.maximum(added, 1)
            new_squares = np.where(there, (known - new_mean) ** 2, 0).sum(axis=0)
            shift = new_mean - mean
            share = added / np.maximum(total, 1)
            squares = squares + new_squares + shift**2 * count * share
            mean, count = mean + shift * share, total
        deviation = np.sqrt(squares / np.maximum(count, 1))
        constant = deviation <= 4 * rounding * np.abs(mean)
        return cls(np.atleast_1d(mean), np.atleast_1d(np.where(constant, 1.0, deviation)))

    def apply(self, values: Float[np.ndarray, "... channels"]) -> Float64[np.ndarray, "..."]:
        """Scaled, in double precision."""
        return (values - self.mean) / self.deviation

    def undo(self, values: Float[np.ndarray, "... channels"]) -> Float64[np.ndarray, "..."]:
        """Back to the units of the data."""
        return values * self.deviation + self.mean

    def pick(self, channels: Iterable[int]) -> "Scaling":
        """That of some of the channels."""
        chosen = list(channels)
        return Scaling(self.mean[chosen], self.deviation[chosen])

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return {"mean": self.mean.tolist(), "deviation": self.deviation.tolist()}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> "Scaling":
        """From what `to_dict` gave."""
        return cls(np.array(plain["mean"], np.float64), np.array(plain["deviation"], np.float64))
