"""Heads: from features at every step to answers.

A head answers in two ways: once for a whole sequence (`__call__`), and at every step with what has
been seen until then (`run`), carrying a state. The last running answer is the whole one's.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int, PRNGKeyArray

from linoss._settings import Pooling
from linoss.nn._split import WHOLE, Split
from linoss.scan import nearest_before

Features = Float[Array, "*batch time hidden"]
Mask = Bool[Array, "*batch time"] | None


def affine(linear: eqx.nn.Linear, x: Float[Array, "*batch in"]) -> Float[Array, "*batch out"]:
    """W x + b on the last axis."""
    assert linear.bias is not None
    return x @ linear.weight.T + linear.bias


class PooledState(eqx.Module):
    """The features summed up (or the last ones), and how many there were."""

    pooled: Float[Array, "*batch hidden"]
    count: Int[Array, "*batch"]


class PooledHead(eqx.Module):
    """One answer a sequence, from its mean or its last features: classes, or numbers.

    Where no sample is there, the features are zero.
    """

    decoder: eqx.nn.Linear
    pooling: Pooling = eqx.field(static=True)

    def __init__(self, hidden_size: int, out_size: int, pooling: Pooling, *, key: PRNGKeyArray):
        self.decoder = eqx.nn.Linear(hidden_size, out_size, key=key)
        self.pooling = pooling

    def init_state(self, batch_shape: tuple[int, ...]) -> PooledState:
        """Nothing seen."""
        hidden_size, dtype = self.decoder.weight.shape[1], self.decoder.weight.dtype
        return PooledState(
            jnp.zeros((*batch_shape, hidden_size), dtype), jnp.zeros(batch_shape, jnp.int32)
        )

    def __call__(
        self,
        features: Features,
        mask: Mask,
        means: Float[Array, "*batch hidden"] | None = None,
        split: Split = WHOLE,
    ) -> Float[Array, "*batch out"]:
        """The answer for each whole sequence; `means` are the features' own, where known."""
        if self.pooling == "mean":
            count = features.shape[-2] if mask is None else jnp.sum(mask, axis=-1)
            if means is None:
                where = None if mask is None else mask[..., None]
                total = jnp.sum(features, axis=-2, where=where)
                means = total / jnp.maximum(jnp.asarray(count), 1)[..., None]
            pooled = split.time_means(means, jnp.broadcast_to(count, means.shape[:-1]))
        else:
            pooled = _last(features, mask, split)
        return affine(self.decoder, pooled)

    def run(
        self, features: Features, mask: Mask, state: PooledState
    ) -> tuple[Float[Array, "*batch time out"], PooledState]:
        """The answer after each step."""
        there = jnp.ones(features.shape[:-1], bool) if mask is None else mask
        count = state.count[..., None] + jnp.cumsum(there, axis=-1, dtype=jnp.int32)
        if self.pooling == "mean":
            added = jnp.cumsum(jnp.where(there[..., None], features, 0), axis=-2)
            pooled = state.pooled[..., None, :] + added
            answers = affine(self.decoder, pooled / jnp.maximum(count, 1)[..., None])
        else:
            known = jnp.concatenate([state.pooled[..., None, :], features], axis=-2)
            index = jnp.where(there, jnp.arange(1, there.shape[-1] + 1), 0)
            last = jax.lax.cummax(index, axis=index.ndim - 1)
            pooled = jnp.take_along_axis(known, last[..., None], axis=-2)
            answers = affine(self.decoder, pooled)
        return answers, PooledState(pooled[..., -1, :], count[..., -1])


def _last(features: Features, mask: Mask, split: Split) -> Float[Array, "*batch hidden"]:
    """The features of the last sample that is there; 0 if none is."""
    if mask is None:
        there, last = jnp.ones(features.shape[:-2], int), features[..., -1, :]
    else:
        there = jnp.max(jnp.where(mask, jnp.arange(1, mask.shape[-1] + 1), 0), axis=-1)
        index = jnp.maximum(there - 1, 0)[..., None, None]
        last = jnp.take_along_axis(features, index, axis=-2)[..., 0, :]
    is_last = there > 0
    if split.time is not None:  # not if a later piece has one
        later = nearest_before(split.time, there, reverse=True)
        is_last &= later == 0
    return split.sum_over_time(jnp.where(is_last[..., None], last, 0))


class StepHead(eqx.Module):
    """An answer at every k-th step, with or without a final tanh."""

    decoder: eqx.nn.Linear
    every: int = eqx.field(static=True)
    squash: bool = eqx.field(static=True)

    def __init__(
        self, hidden_size: int, out_size: int, every: int, squash: bool, *, key: PRNGKeyArray
    ):
        self.decoder = eqx.nn.Linear(hidden_size, out_size, key=key)
        self.every, self.squash = every, squash

    def init_state(self, batch_shape: tuple[int, ...]) -> None:
        """Nothing is carried from step to step."""

    def __call__(self, features: Features, mask: Mask) -> Float[Array, "*batch answers out"]:
        """The answers at steps k, 2k, 3k, ... of the sequence."""
        return self._decode(features[..., self.every - 1 :: self.every, :])

    def run(
        self, features: Features, mask: Mask, state: None
    ) -> tuple[Float[Array, "*batch time out"], None]:
        """The answer at each step, whether it is a k-th one or not."""
        return self._decode(features), None

    def _decode(self, features: Array) -> Array:
        answers = affine(self.decoder, features)
        return jnp.tanh(answers) if self.squash else answers


class ForecastHead(eqx.Module):
    """An answer for each of the last `horizon` steps, where the input was masked with zeros."""

    decoder: eqx.nn.Linear
    horizon: int = eqx.field(static=True)

    def __init__(self, hidden_size: int, out_size: int, horizon: int, *, key: PRNGKeyArray):
        self.decoder = eqx.nn.Linear(hidden_size, out_size, key=key)
        self.horizon = horizon

    def init_state(self, batch_shape: tuple[int, ...]) -> None:
        """Nothing is carried from step to step."""

    def extend(
        self,
        u: Float[Array, "*batch past in"],
        future: Float[Array, "*batch horizon in"] | None,
        lengths: Int[Array, "*batch"] | None,
    ) -> Float[Array, "*batch time in"]:
        """The past, and after each sequence's last sample the future: given, or zeros."""
        *batch, time, channels = u.shape
        if future is None:
            future = jnp.zeros((*batch, self.horizon, channels), u.dtype)
        both = jnp.concatenate([u, future], axis=-2)
        if lengths is None:
            return both
        position = jnp.arange(time + self.horizon)
        ahead = position - lengths[..., None]
        source = jnp.where(ahead < 0, position, time + jnp.minimum(ahead, self.horizon - 1))
        return jnp.take_along_axis(both, source[..., None], axis=-2)

    def __call__(
        self, features: Features, lengths: Int[Array, "*batch"] | None, split: Split = WHOLE
    ) -> Float[Array, "*batch horizon out"]:
        """The forecasts, from the features of an extended sequence."""
        time = features.shape[-2]
        if lengths is None and split.time is None:
            return affine(self.decoder, features[..., -self.horizon :, :])
        start, total = split.steps_before(time)
        if lengths is None:
            lengths = jnp.full(features.shape[:-2], total - self.horizon)
        future = lengths[..., None] + jnp.arange(self.horizon) - start
        index = jnp.clip(future, 0, time - 1)[..., None]
        found = jnp.take_along_axis(features, index, axis=-2)
        here = (future >= 0) & (future < time)
        return affine(self.decoder, split.sum_over_time(jnp.where(here[..., None], found, 0)))

    def run(
        self, features: Features, mask: Mask, state: None
    ) -> tuple[Float[Array, "*batch time out"], None]:
        """What the decoder makes of each step; forecasts are those of steps without input."""
        return affine(self.decoder, features), None


Head = PooledHead | StepHead | ForecastHead
