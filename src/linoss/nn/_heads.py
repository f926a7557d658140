"""Heads: from features at every step to outputs.

A head computes the output for a whole sequence (`__call__`), or one at every step from the samples
so far (`run`), with a state. The last output of `run` equals that of `__call__`.
"""

import abc
from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, PRNGKeyArray

from linoss._arrays import steps
from linoss._settings import PoolingName
from linoss.kernels import HeadArrays
from linoss.nn._operations import affine, as_arrays
from linoss.nn._passes import Features
from linoss.nn._pooling import POOLINGS, Pooling
from linoss.nn._samples import WHOLE, Samples


class Ahead(NamedTuple):
    """Inputs for the steps of the forecast horizon."""

    values: Float[Array, "*batch horizon in"] | None = None
    """Values known in advance; zeros if None."""
    intervals: Float[Array, "*batch horizon"] | None = None
    """Their intervals, if samples have intervals; ones if None."""


class AbstractHead(eqx.Module):
    """Maps the features of the last block to outputs."""

    outputs_along_time: eqx.AbstractClassVar[bool]
    """Whether outputs have a time axis that is split over devices like that of samples."""
    horizon: eqx.AbstractVar[int | None]
    """The number of steps to forecast; None if the head does not forecast."""

    decoder: eqx.AbstractVar[eqx.nn.Linear]

    def native(self) -> HeadArrays:
        """The parts that compute `run`: a decoder, unless there are others."""
        return HeadArrays(as_arrays(self.decoder), "", False)

    def prepare(self, samples: Samples, ahead: Ahead) -> Samples:
        """The samples of this device that the model reads, with missing ones masked.

        A forecasting head receives whole sequences on each device, and appends the forecast
        horizon.
        """
        return samples.joined()

    @abc.abstractmethod
    def __call__(self, features: Features, samples: Samples) -> Float[Array, "..."]:
        """The outputs for whole sequences."""

    def decode(self, features: Float[Array, "*batch hidden"]) -> Float[Array, "*batch out"]:
        """The outputs for features."""
        return affine(self.decoder, features)

    def init_state(self, batch_shape: tuple[int, ...]) -> Any:
        """The state before the first sample; without pooling, none."""

    def run(
        self, features: Features, samples: Samples, state: Any
    ) -> tuple[Float[Array, "*batch time out"], Any]:
        """The output at each step of a piece, not only at every k-th, and the state after it; of a
        forecasting head, outputs at steps without input are forecasts."""
        return self.decode(features.values), None


class PooledHead(AbstractHead):
    """One output for each sequence, from features pooled over time."""

    outputs_along_time = False
    horizon = None
    decoder: eqx.nn.Linear
    pooling: PoolingName = eqx.field(static=True)

    def __init__(self, hidden_size: int, out_size: int, pooling: PoolingName, *, key: PRNGKeyArray):
        self.pooling = pooling
        self.decoder = eqx.nn.Linear(len(self._poolings) * hidden_size, out_size, key=key)

    @property
    def _poolings(self) -> list[Pooling]:
        return [POOLINGS[name] for name in self.pooling.split("+")]

    def native(self) -> HeadArrays:
        """The pooling of all samples so far."""
        return HeadArrays(as_arrays(self.decoder), self.pooling, False)

    def __call__(self, features: Features, samples: Samples) -> Float[Array, "*batch out"]:
        """The output for each sequence."""
        if self.pooling == "mean" and features.means is not None:
            return affine(self.decoder, features.means)
        present, split = samples.present, samples.split
        pooled = [pool.whole(features.values, present, split) for pool in self._poolings]
        return affine(self.decoder, jnp.concatenate(pooled, axis=-1))

    def init_state(self, batch_shape: tuple[int, ...]) -> tuple[Any, ...]:
        """No samples seen."""
        weight = self.decoder.weight
        hidden_size = weight.shape[1] // len(self._poolings)
        return tuple(p.init_state(batch_shape, hidden_size, weight.dtype) for p in self._poolings)

    def run(
        self, features: Features, samples: Samples, state: tuple[Any, ...]
    ) -> tuple[Float[Array, "*batch time out"], tuple[Any, ...]]:
        """The output after each step."""
        pairs, present = zip(self._poolings, state, strict=True), samples.present
        ran = [pool.run(features.values, present, before) for pool, before in pairs]
        pooled, state = zip(*ran, strict=True)
        return affine(self.decoder, jnp.concatenate(pooled, axis=-1)), state


class StepHead(AbstractHead):
    """An output at every k-th step, with or without a final tanh."""

    outputs_along_time = True
    horizon = None
    decoder: eqx.nn.Linear
    every: int = eqx.field(static=True)
    squash: bool = eqx.field(static=True)

    def __init__(
        self, hidden_size: int, out_size: int, every: int, squash: bool, *, key: PRNGKeyArray
    ):
        self.decoder = eqx.nn.Linear(hidden_size, out_size, key=key)
        self.every, self.squash = every, squash

    def native(self) -> HeadArrays:
        """The decoder, with or without tanh."""
        return HeadArrays(as_arrays(self.decoder), "", self.squash)

    def __call__(self, features: Features, samples: Samples) -> Float[Array, "*batch outputs out"]:
        """The outputs at steps k, 2k, 3k, ... of the sequence."""
        return self.decode(features.values[..., self.every - 1 :: self.every, :])

    def decode(self, features: Float[Array, "*batch hidden"]) -> Float[Array, "*batch out"]:
        """The outputs, with or without tanh."""
        outputs = affine(self.decoder, features)
        return jnp.tanh(outputs) if self.squash else outputs


class ForecastHead(AbstractHead):
    """An output for each of the `horizon` steps after a sequence."""

    outputs_along_time = False
    decoder: eqx.nn.Linear
    horizon: int = eqx.field(static=True)

    def __init__(self, hidden_size: int, out_size: int, horizon: int, *, key: PRNGKeyArray):
        self.decoder = eqx.nn.Linear(hidden_size, out_size, key=key)
        self.horizon = horizon  # pyright: ignore[reportIncompatibleVariableOverride]

    def prepare(self, samples: Samples, ahead: Ahead) -> Samples:
        """The samples with the forecast horizon, `ahead` or zeros, appended to each sequence."""
        *batch, time, channels = samples.values.shape
        future, after = ahead.values, ahead.intervals
        if future is None:
            future = jnp.zeros((*batch, self.horizon, channels), samples.values.dtype)
        values = jnp.concatenate([samples.values, future], axis=-2)
        added = [(0, 0)] * len(batch) + [(0, self.horizon)]
        mask, intervals, lengths = samples.mask, samples.intervals, samples.lengths
        mask = None if mask is None else jnp.pad(mask, added, constant_values=True)
        if intervals is not None:
            after = jnp.ones((*batch, self.horizon), intervals.dtype) if after is None else after
            intervals = jnp.concatenate([intervals, after], axis=-1)
        if lengths is not None:
            position = steps(*batch, time + self.horizon)
            beyond = position - lengths[..., None]
            source = jnp.where(beyond < 0, position, time + jnp.minimum(beyond, self.horizon - 1))
            values = jnp.take_along_axis(values, source[..., None], axis=-2)
            mask = None if mask is None else mask | (beyond >= 0)
            if intervals is not None:
                intervals = jnp.take_along_axis(intervals, source, axis=-1)
            lengths = lengths + self.horizon
        whole = replace(
            samples, values=values, mask=mask, intervals=intervals, lengths=lengths, split=WHOLE
        )
        return whole.joined().shard(samples.split)

    def __call__(self, features: Features, samples: Samples) -> Float[Array, "*batch horizon out"]:
        """The forecasts, from the features of the extended sequences."""
        values, split, lengths = features.values, samples.split, samples.lengths
        if lengths is None and split.time is None:
            return affine(self.decoder, values[..., -self.horizon :, :])
        start, total = split.steps_before(values.shape[-2])
        if lengths is None:
            lengths = jnp.full(values.shape[:-2], total)
        index = lengths[..., None] - self.horizon + steps(*lengths.shape, self.horizon) - start
        here = (index >= 0) & (index < values.shape[-2])
        index = jnp.clip(index, 0, values.shape[-2] - 1)
        chosen = jnp.take_along_axis(values, index[..., None], axis=-2)
        return affine(self.decoder, split.sum_over_time(jnp.where(here[..., None], chosen, 0)))
