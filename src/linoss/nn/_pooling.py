"""Pooling: from the features of all samples to those of a whole sequence.

| | features of a sequence |
|---|---|
| `mean` | their mean |
| `last` | those of the last sample |
| `max` | the maximum of each |
| `attention` | Σ aₙ xₙ / Σ aₙ with aₙ = exp(w·xₙ), with learned w |

Several, such as `"mean+max"`, are concatenated. Features of a sequence without samples are 0.
"""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int

from linoss._arrays import steps
from linoss.nn._samples import Samples

Values = Float[Array, "*batch time hidden"]
Pooled = Float[Array, "*batch hidden"]


class PooledState(eqx.Module):
    """The pooled features so far, and the number of samples."""

    pooled: Float[Array, "*batch hidden"]
    count: Int[Array, "*batch"]


class AbstractPooling(eqx.Module):
    """A pooling over time."""

    @abc.abstractmethod
    def whole(self, values: Values, means: Pooled | None, samples: Samples) -> Pooled:
        """The pooled features of each sequence; `means` are those of this device's samples, if
        known."""

    def init_state(self, batch_shape: tuple[int, ...], hidden: int, dtype: Any) -> Any:
        """The state before the first sample."""
        return PooledState(
            jnp.zeros((*batch_shape, hidden), dtype), jnp.zeros(batch_shape, jnp.int32)
        )

    @abc.abstractmethod
    def run(self, values: Values, present: Bool[Array, "*batch time"], state: Any) -> Any:
        """The pooled features up to each sample of a piece, and the state after it."""


class Mean(AbstractPooling):
    """The mean."""

    def whole(self, values: Values, means: Pooled | None, samples: Samples) -> Pooled:
        """The mean of all present samples."""
        count = samples.count_along_time()
        if means is None:
            where = None if samples.mask is None else samples.mask[..., None]
            total = jnp.sum(values, axis=-2, where=where)
            means = total / jnp.maximum(count, 1)[..., None].astype(total.dtype)
        return samples.split.time_means(means, count)

    def run(
        self, values: Values, present: Bool[Array, "*batch time"], state: PooledState
    ) -> tuple[Values, PooledState]:
        """The running mean."""
        count = _counted(present, state.count)
        added = jnp.cumsum(jnp.where(present[..., None], values, 0), axis=-2)
        total = state.pooled[..., None, :] + added
        means = total / jnp.maximum(count, 1)[..., None].astype(total.dtype)
        return means, PooledState(total[..., -1, :], count[..., -1])


class Last(AbstractPooling):
    """The last sample."""

    def whole(self, values: Values, means: Pooled | None, samples: Samples) -> Pooled:
        """The features of the last present sample."""
        if samples.mask is None:
            present, last = jnp.ones(values.shape[:-2], bool), values[..., -1, :]
        else:
            count = jnp.max(jnp.where(samples.mask, 1 + steps(*samples.mask.shape), 0), axis=-1)
            index = jnp.maximum(count - 1, 0)[..., None, None]
            present, last = count > 0, jnp.take_along_axis(values, index, axis=-2)[..., 0, :]
        chosen = samples.split.is_last(present)
        return samples.split.sum_over_time(jnp.where(chosen[..., None], last, 0))

    def run(
        self, values: Values, present: Bool[Array, "*batch time"], state: PooledState
    ) -> tuple[Values, PooledState]:
        """The last present sample so far."""
        known = jnp.concatenate([state.pooled[..., None, :], values], axis=-2)
        index = jnp.where(present, 1 + steps(*present.shape), 0)
        last = jax.lax.cummax(index, axis=index.ndim - 1)
        features = jnp.take_along_axis(known, last[..., None], axis=-2)
        return features, PooledState(features[..., -1, :], _counted(present, state.count)[..., -1])


class Max(AbstractPooling):
    """The maximum of each feature."""

    def whole(self, values: Values, means: Pooled | None, samples: Samples) -> Pooled:
        """The maximum over all present samples."""
        if samples.mask is not None:
            values = jnp.where(samples.mask[..., None], values, -jnp.inf)
        largest = samples.split.max_over_time(jnp.max(values, axis=-2))
        return jnp.where(jnp.isneginf(largest), 0, largest)

    def run(
        self, values: Values, present: Bool[Array, "*batch time"], state: PooledState
    ) -> tuple[Values, PooledState]:
        """The running maximum."""
        before = jnp.where(state.count[..., None] > 0, state.pooled, -jnp.inf)[..., None, :]
        known = jnp.where(present[..., None], values, -jnp.inf)
        largest = jnp.maximum(jax.lax.cummax(known, axis=known.ndim - 2), before)
        largest = jnp.where(jnp.isneginf(largest), 0, largest)
        return largest, PooledState(largest[..., -1, :], _counted(present, state.count)[..., -1])


class AttentionState(eqx.Module):
    """Running sums: the largest exponent t, Σ exp(w·xₙ - t) and Σ exp(w·xₙ - t) xₙ."""

    top: Float[Array, "*batch"]
    total: Float[Array, "*batch"]
    pooled: Float[Array, "*batch hidden"]


class Attention(AbstractPooling):
    """A mean with learned weights, initially equal for all samples."""

    query: Float[Array, " hidden"]

    def whole(self, values: Values, means: Pooled | None, samples: Samples) -> Pooled:
        """Σ aₙ xₙ / Σ aₙ."""
        score, split = values @ self.query, samples.split
        if samples.mask is not None:
            score = jnp.where(samples.mask, score, -jnp.inf)
        top = split.max_over_time(jnp.max(jax.lax.stop_gradient(score), axis=-1))
        share = jnp.exp(score - jnp.where(jnp.isneginf(top), 0, top)[..., None])
        if samples.mask is not None:
            values = jnp.where(samples.mask[..., None], values, 0)
        total = split.sum_over_time(jnp.sum(share, axis=-1))
        pooled = split.sum_over_time(jnp.einsum("...t,...th->...h", share, values))
        return pooled / jnp.where(total > 0, total, 1)[..., None]

    def init_state(self, batch_shape: tuple[int, ...], hidden: int, dtype: Any) -> AttentionState:
        """No samples seen."""
        none = jnp.zeros(batch_shape, dtype)
        return AttentionState(none, none, jnp.zeros((*batch_shape, hidden), dtype))

    def run(
        self, values: Values, present: Bool[Array, "*batch time"], state: AttentionState
    ) -> tuple[Values, AttentionState]:
        """Running sums, rescaled when the largest exponent rises."""
        one, axis = present.astype(values.dtype), present.ndim - 1
        pieces = AttentionState(values @ self.query, one, values * one[..., None])
        pieces = jax.tree.map(
            lambda before, piece: jnp.concatenate([jnp.expand_dims(before, axis), piece], axis),
            state,
            pieces,
        )
        sums = jax.lax.associative_scan(_joined, pieces, axis=axis)
        sums = jax.tree.map(lambda x: jax.lax.slice_in_dim(x, 1, None, axis=axis), sums)
        pooled = sums.pooled / jnp.where(sums.total > 0, sums.total, 1)[..., None]
        return pooled, jax.tree.map(lambda x: jax.lax.index_in_dim(x, -1, axis, False), sums)


def _joined(one: AttentionState, two: AttentionState) -> AttentionState:
    """Combine two states; one without samples does not affect the exponent."""
    top = jnp.where(
        one.total == 0, two.top, jnp.where(two.total == 0, one.top, jnp.maximum(one.top, two.top))
    )
    first = jnp.where(one.total == 0, 0, jnp.exp(jnp.minimum(one.top - top, 0)))
    second = jnp.where(two.total == 0, 0, jnp.exp(jnp.minimum(two.top - top, 0)))
    return AttentionState(
        top,
        first * one.total + second * two.total,
        first[..., None] * one.pooled + second[..., None] * two.pooled,
    )


def _counted(present: Bool[Array, "*batch time"], before: Int[Array, "*batch"]) -> Array:
    return before[..., None] + jnp.cumsum(present, axis=-1, dtype=before.dtype)


def make_poolings(name: str, hidden: int) -> tuple[AbstractPooling, ...]:
    """The poolings of a name, such as `"mean+max"`."""
    kinds: dict[str, Any] = {
        "mean": Mean,
        "last": Last,
        "max": Max,
        "attention": lambda: Attention(jnp.zeros(hidden)),
    }
    return tuple(kinds[way]() for way in name.split("+"))
