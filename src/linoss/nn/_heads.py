"""Heads: from features at every step to outputs.

A head computes the output for a whole sequence (`__call__`), or one at every step from the samples
so far (`run`), with a state. The last output of `run` equals that of `__call__`.
"""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, PRNGKeyArray

from linoss._arrays import steps
from linoss.kernels import HeadArrays
from linoss.nn._config import LinOSSConfig
from linoss.nn._operations import affine, as_arrays
from linoss.nn._passes import Features
from linoss.nn._pooling import POOLINGS, Pooling
from linoss.nn._samples import Samples

Ahead = tuple[Float[Array, "*batch horizon in"] | None, Float[Array, "*batch horizon"] | None]
"""Values known in advance, zeros if None, and the intervals of the horizon, ones if None."""


class Head(eqx.Module):
    """Maps the features of the last block to outputs: for each sequence, from features pooled over
    time; at every k-th step, with or without a final tanh; or for each of the `horizon` steps after
    a sequence."""

    decoder: eqx.nn.Linear
    pooling: str = eqx.field(static=True)
    """Empty if the decoder reads the features of single steps."""
    every: int | None = eqx.field(static=True)
    squash: bool = eqx.field(static=True)
    horizon: int | None = eqx.field(static=True)

    def __init__(self, config: LinOSSConfig, *, key: PRNGKeyArray):
        self.every, self.squash, self.horizon = config.every, config.squash, config.horizon
        pooled = config.every is None and config.horizon is None
        self.pooling = config.pooling if pooled else ""
        width = max(len(self._poolings), 1) * config.hidden_size
        self.decoder = eqx.nn.Linear(width, config.out_size, key=key)

    @property
    def _poolings(self) -> list[Pooling]:
        return [POOLINGS[name] for name in self.pooling.split("+") if name]

    def native(self) -> HeadArrays:
        """The parts that compute `run`."""
        return HeadArrays(as_arrays(self.decoder), self.pooling, self.squash)

    def _decode(self, features: Float[Array, "*batch hidden"]) -> Float[Array, "*batch out"]:
        outputs = affine(self.decoder, features)
        return jnp.tanh(outputs) if self.squash else outputs

    def __call__(self, features: Features, samples: Samples) -> Float[Array, "..."]:
        """The outputs for whole sequences: `(*batch, out)`, or `(*batch, steps, out)`."""
        if self.every is not None:
            return self._decode(features.values[..., self.every - 1 :: self.every, :])
        if self.horizon is not None:
            return self._decode(self._ahead(features.values, samples, self.horizon))
        if self.pooling == "mean" and features.means is not None:
            return self._decode(features.means)
        present, split = samples.present, samples.split
        pooled = [pool.whole(features.values, present, split) for pool in self._poolings]
        return self._decode(jnp.concatenate(pooled, axis=-1))

    def init_state(self, batch_shape: tuple[int, ...]) -> tuple[Any, ...]:
        """The state before the first sample; without pooling, none."""
        out_axis = self.decoder.weight.shape[1] // max(len(self._poolings), 1)
        dtype = self.decoder.weight.dtype
        return tuple(pool.init_state(batch_shape, out_axis, dtype) for pool in self._poolings)

    def run(
        self, features: Features, samples: Samples, state: tuple[Any, ...]
    ) -> tuple[Float[Array, "*batch time out"], tuple[Any, ...]]:
        """The output at each step of a piece, not only at every k-th, and the state after it; of a
        forecasting head, outputs at steps without input are forecasts."""
        if not self.pooling:
            return self._decode(features.values), ()
        pairs, present = zip(self._poolings, state, strict=True), samples.present
        ran = [pool.run(features.values, present, before) for pool, before in pairs]
        pooled, state = zip(*ran, strict=True)
        return self._decode(jnp.concatenate(pooled, axis=-1)), state

    def prepare(self, samples: Samples, ahead: Ahead) -> Samples:
        """The samples of this device that the model reads, with missing ones masked; a forecasting
        head appends the horizon, `ahead` or zeros, to each sequence."""
        if self.horizon is None:
            return samples.joined()
        horizon = self.horizon
        *batch, time, channels = samples.values.shape
        future, after = ahead
        if future is None:
            future = jnp.zeros((*batch, horizon, channels), samples.values.dtype)
        values = jnp.concatenate([samples.values, future], axis=-2)
        added = [(0, 0)] * len(batch) + [(0, horizon)]
        mask, intervals, lengths = samples.mask, samples.intervals, samples.lengths
        mask = None if mask is None else jnp.pad(mask, added, constant_values=True)
        if intervals is not None:
            after = jnp.ones((*batch, horizon), intervals.dtype) if after is None else after
            intervals = jnp.concatenate([intervals, after], axis=-1)
        if lengths is not None:
            position = steps(*batch, time + horizon)
            beyond = position - lengths[..., None]
            source = jnp.where(beyond < 0, position, time + jnp.minimum(beyond, horizon - 1))
            values = jnp.take_along_axis(values, source[..., None], axis=-2)
            mask = None if mask is None else mask | (beyond >= 0)
            if intervals is not None:
                intervals = jnp.take_along_axis(intervals, source, axis=-1)
            lengths = lengths + horizon
        changed = {"values": values, "mask": mask, "intervals": intervals, "lengths": lengths}
        return replace(samples, **changed).joined()

    def _ahead(self, values: Array, samples: Samples, horizon: int) -> Array:
        """The features of the horizon."""
        if samples.lengths is None:
            return values[..., -horizon:, :]
        index = samples.lengths[..., None] - horizon + steps(*samples.lengths.shape, horizon)
        return jnp.take_along_axis(values, index[..., None], axis=-2)
