"""Pooling: from the features of all samples to those of a whole sequence.

| | features of a sequence |
|---|---|
| `mean` | their mean |
| `last` | those of the last sample |
| `max` | the maximum of each |

Several, such as `"mean+max"`, are concatenated. Features of a sequence without samples are 0. The
summary of a sequence is that of its pieces, joined: of the shards of devices, or of all samples up
to each one.
"""

from collections.abc import Callable
from functools import reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float

from linoss._arrays import steps
from linoss.nn._samples import Split

Values = Float[Array, "*batch time hidden"]
Pooled = Float[Array, "*batch hidden"]
Summary = tuple[Float[Array, "*batch n"], ...]
"""Arrays with one axis after those of the batch."""


class Pooling(NamedTuple):
    """A pooling over time."""

    summary: Callable[[Values, Bool[Array, "*batch time"]], Summary]
    """That of the present samples."""
    join: Callable[[Summary, Summary], Summary]
    """The summary of two pieces, in the order of time."""
    features: Callable[[Summary], Pooled]
    """The pooled features."""

    def whole(self, values: Values, present: Bool[Array, "*batch time"], split: Split) -> Pooled:
        """The pooled features of each sequence."""
        summary = self.summary(values, present)
        if split.time is not None:
            shards, number = jax.lax.all_gather(summary, split.time), jax.lax.axis_size(split.time)
            summary = reduce(self.join, [tuple(x[i] for x in shards) for i in range(number)])
        return self.features(summary)

    def init_state(self, batch_shape: tuple[int, ...], hidden: int, dtype: jnp.dtype) -> Summary:
        """The summary of no samples."""
        none = jnp.zeros((*batch_shape, 1, hidden), dtype)
        return self.summary(none, jnp.zeros((*batch_shape, 1), bool))

    def run(
        self, values: Values, present: Bool[Array, "*batch time"], state: Summary
    ) -> tuple[Values, Summary]:
        """The pooled features up to each sample of a piece, and the summary after it."""
        samples = self.summary(values[..., None, :], present[..., None])
        pairs = zip(state, samples, strict=True)
        pieces = tuple(jnp.concatenate([x[..., None, :], y], axis=-2) for x, y in pairs)
        sums = jax.lax.associative_scan(self.join, pieces, axis=values.ndim - 2)
        return self.features(tuple(x[..., 1:, :] for x in sums)), tuple(x[..., -1, :] for x in sums)


def _sum(values: Values, present: Bool[Array, "*batch time"]) -> Summary:
    """The sum of the samples and their number, and the rounding errors of both."""
    total = jnp.sum(jnp.where(present[..., None], values, 0), axis=-2)
    count = jnp.sum(present, axis=-1).astype(total.dtype)
    total = jnp.concatenate([total, count[..., None]], axis=-1)
    return total, jnp.zeros_like(total)


def _add(one: Summary, two: Summary) -> Summary:
    """Knuth's exact sum of two numbers and its error, so that long streams lose nothing."""
    total = one[0] + two[0]
    added = total - one[0]
    return total, one[1] + two[1] + ((one[0] - (total - added)) + (two[0] - added))


def _mean(summary: Summary) -> Pooled:
    count = jnp.maximum(sum(x[..., -1:] for x in summary), 1)
    return sum((x[..., :-1] / count for x in summary), jnp.zeros_like(count))


def _last(values: Values, present: Bool[Array, "*batch time"]) -> Summary:
    """The last sample, and whether there is any."""
    count = jnp.max(jnp.where(present, 1 + steps(*present.shape), 0), axis=-1)
    index = jnp.maximum(count - 1, 0)[..., None, None]
    last, there = jnp.take_along_axis(values, index, axis=-2)[..., 0, :], (count > 0)[..., None]
    return (jnp.concatenate([jnp.where(there, last, 0), there.astype(values.dtype)], axis=-1),)


def _maximum(values: Values, present: Bool[Array, "*batch time"]) -> Summary:
    return (jnp.max(jnp.where(present[..., None], values, -jnp.inf), axis=-2),)


POOLINGS = {
    "mean": Pooling(_sum, _add, _mean),
    "last": Pooling(
        _last,
        lambda one, two: (jnp.where(two[0][..., -1:] > 0, two[0], one[0]),),
        lambda summary: summary[0][..., :-1],
    ),
    "max": Pooling(
        _maximum,
        lambda one, two: (jnp.maximum(one[0], two[0]),),
        lambda summary: jnp.where(jnp.isneginf(summary[0]), 0, summary[0]),
    ),
}
