"""Standardisation of channels, and its inverse."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Float64

from linoss import _checks
from linoss._plain import plain


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

        A channel that is constant or has no value has a deviation of 1. Raises `ValueError` for
        data from which nothing can be learned, and warns if this holds for some channels, which it
        names by `kind` and name.
        """
        count = mean = squares = np.zeros(1)
        lowest, highest, rounding = np.full(1, np.inf), np.full(1, -np.inf), 0.0
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            for case, array in enumerate(values):
                if np.isinf(array).any():
                    step, channel = (int(i) for i in np.argwhere(np.isinf(array))[0])
                    raise ValueError(
                        f"case {case} has an infinite value at step {step} in channel {channel}, "
                        "expected numbers, or NaN where a value is missing"
                    )
                is_known = ~np.isnan(array)
                known = np.where(is_known, array, 0).astype(np.float64)
                before, own = count, np.count_nonzero(is_known, axis=0)
                count = before + own
                center = known.sum(axis=0) / np.maximum(own, 1)
                shift, share = center - mean, own / np.maximum(count, 1)
                own_squares = np.where(is_known, (known - center) ** 2, 0).sum(axis=0)
                squares = squares + own_squares + shift**2 * before * share
                mean = mean + shift * share
                lowest = np.fmin(lowest, np.fmin.reduce(array))
                highest = np.fmax(highest, np.fmax.reduce(array))
                rounding = max(rounding, float(np.finfo(array.dtype).eps))
            deviation = np.sqrt(squares / np.maximum(count, 1))
        is_constant = deviation <= 4 * rounding * np.abs(mean)
        is_lost, is_huge = is_constant & (highest > lowest), (count > 0) & ~np.isfinite(deviation)
        if not count.any():
            raise ValueError(f"every value of every {kind} is missing, expected some values")
        for i in np.flatnonzero((count == 0) | is_huge | is_lost).tolist():
            name = f"{kind} {i if names is None else repr(names[i])}"
            if count[i] == 0:
                warnings.warn(f"{name} has no values; remove it", stacklevel=3)
                continue
            if is_huge[i]:
                raise ValueError(
                    f"{name} has values from {lowest[i]:.4g} to {highest[i]:.4g}, expected numbers "
                    "below 1e150; divide them by a constant"
                )
            warnings.warn(
                f"{name} has values from {lowest[i]:.17g} to {highest[i]:.17g}, whose differences "
                "are below rounding error; subtract an offset, or multiply by a constant",
                stacklevel=3,
            )
        return cls(mean, np.where(is_constant, 1.0, deviation))

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
