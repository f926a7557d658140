"""S6 and Mamba: a linear system for each channel, with a sample-dependent step, input and output.

    x_n = exp(d_n A) x_{n-1} + d_n u_n B_n,    y_n = C_n . x_n + D u_n,    A < 0,
    d_n = softplus(W_d (W u_n)_d + b),    B_n = (W u_n)_B,    C_n = (W u_n)_C,

where W has a row for each of the r numbers that determine the steps of all channels, r being a
sixteenth of the channels, and a row for each entry of B_n and C_n. With irregular times, d_n is
multiplied by the time since the previous sample.

Mamba has this system between a short convolution and a gate. With [x, z] = W_in u, and a
convolution of each channel of x over the last `conv_size` samples:

    y = W_out (S6(silu(conv(x))) * silu(z)),

where x and z have `expansion` times as many channels as u. (Gu and Dao, Mamba: Linear-Time Sequence
Modeling with Selective State Spaces, 2023.)
"""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, PRNGKeyArray

from linoss import _checks
from linoss._arrays import align, steps
from linoss.nn._samples import Samples
from linoss.nn.mixers._mixer import (
    AbstractMixer,
    Hidden,
    move_to_front,
    refuse,
    uniform,
)
from linoss.nn.mixers._s5 import log_timesteps
from linoss.scan import loop_over_time


class SelectiveModes(eqx.Module):
    """log(-A), and the parameters of the steps: W_d, with r columns, and b."""

    log_decay: Float[Array, "channels states"]
    step_weight: Float[Array, "channels r"]
    step_bias: Float[Array, " channels"]


class SelectiveSystem(eqx.Module):
    """The selective system of an S6 layer, or inside a Mamba layer."""

    modes: SelectiveModes
    selection: Float[Array, "selected channels"]
    feedthrough: Float[Array, " channels"]

    def __init__(self, channels: int, state_size: int, rank: int, *, key: PRNGKeyArray):
        step_key, weight_key, select_key = jax.random.split(key, 3)
        steps = jnp.exp(log_timesteps(step_key, (channels,)))
        order = jnp.arange(1, state_size + 1, dtype=steps.dtype)
        self.modes = SelectiveModes(
            jnp.tile(jnp.log(order), (channels, 1)),
            uniform(weight_key, (channels, rank), rank),
            steps + jnp.log(-jnp.expm1(-steps)),  # the inverse of softplus
        )
        self.selection = uniform(select_key, (rank + 2 * state_size, channels), channels)
        self.feedthrough = jnp.ones(channels)

    def init_state(self, batch_shape: tuple[int, ...]) -> Float[Array, "*batch states channels"]:
        """Zeros."""
        channels, states = self.modes.log_decay.shape
        return jnp.zeros((*batch_shape, states, channels), self.feedthrough.dtype)

    def __call__(
        self,
        u: Float[Array, "*batch time channels"],
        state: Float[Array, "*batch states channels"],
        intervals: Float[Array, "*batch time"] | None,
        mask: Bool[Array, "*batch time"] | None,
    ) -> tuple[Array, Array]:
        """y, and the state after the last sample."""
        states, rank = self.modes.log_decay.shape[1], self.modes.step_weight.shape[1]
        parts, B, C = jnp.split(u @ self.selection.T, [rank, rank + states], axis=-1)
        raw = parts @ self.modes.step_weight.T
        delta = jax.nn.softplus(raw + align(self.modes.step_bias, raw))
        if intervals is not None:
            delta = delta * intervals[..., None]
        A = -jnp.exp(self.modes.log_decay).T

        def advance(x: Array, sample: Any) -> tuple[Array, Array]:
            u, delta, B, C = sample
            delta, push = delta[..., None, :], (delta * u)[..., None, :]
            x = jnp.exp(delta * align(A, x)) * x + push * B[..., None]
            return x, jnp.einsum("...k,...kc->...c", C, x)

        y, final = loop_over_time(advance, state, (u, delta, B, C), mask)
        return y + u * align(self.feedthrough, u), final


class AbstractSelective(AbstractMixer):
    """A layer with a selective system, which runs from the first sample to the last."""

    name: eqx.AbstractClassVar[str]
    """The name in the settings."""
    supports_irregular_times: eqx.AbstractClassVar[bool]

    @abc.abstractmethod
    def run(self, u: Array, mask: Array | None, intervals: Any, state: Any) -> tuple[Hidden, Any]:
        """`mix`, from the first sample to the last."""

    def mix(self, u: Hidden, samples: Samples, state: Any, *, reverse: bool) -> tuple[Hidden, Any]:
        """The features after mixing, and the state after the last sample."""
        refuse(samples, self.name, irregular=self.supports_irregular_times)
        state = self.init_state(u.shape[:-2]) if state is None else state
        mask, intervals = samples.mask, samples.intervals_after() if reverse else samples.intervals
        if reverse:
            u = jnp.flip(u, axis=-2)
            mask, intervals = jax.tree.map(lambda x: jnp.flip(x, axis=-1), (mask, intervals))
        y, state = self.run(u, mask, intervals, state)
        return (jnp.flip(y, axis=-2) if reverse else y), state


class S6Layer(AbstractSelective):
    """A selective system applied to the channels directly; Mamba has one inside.

    ```python
    >>> import jax, jax.numpy as jnp
    >>> from linoss.nn import S6Layer
    >>> layer = S6Layer(8, 16, key=jax.random.key(0))
    >>> x, state = layer(jnp.ones((3, 100, 8)))
    >>> x.shape, state.shape
    ((3, 100, 8), (3, 16, 8))

    ```
    """

    name = "s6"
    supports_irregular_times = True
    hidden_size: int = eqx.field(static=True)
    system: SelectiveSystem

    def __init__(self, hidden_size: int, state_size: int, *, key: PRNGKeyArray):
        """**Arguments:**

        - `hidden_size`: number of channels in and out.
        - `state_size`: number of states of each channel.
        """
        _checks.positive_integer("hidden_size", hidden_size)
        self.hidden_size = hidden_size
        _checks.positive_integer("state_size", state_size)
        self.system = SelectiveSystem(hidden_size, state_size, -(-hidden_size // 16), key=key)

    def init_state(self, batch_shape: tuple[int, ...] = ()) -> Float[Array, "*batch states hidden"]:
        """Zeros."""
        return self.system.init_state(batch_shape)

    def run(
        self, u: Array, mask: Array | None, intervals: Array | None, state: Array
    ) -> tuple[Hidden, Float[Array, "*batch states hidden"]]:
        """The system alone."""
        return self.system(u, state, intervals, mask)


class MambaState(eqx.Module):
    """The state of a layer between two pieces of a sequence."""

    recent: Float[Array, "*batch recent channels"]
    """The last inputs of the convolution."""
    system: Float[Array, "*batch states channels"]


class MambaLayer(AbstractSelective):
    """A Mamba layer.

    ```python
    >>> import jax, jax.numpy as jnp
    >>> from linoss.nn import MambaLayer
    >>> layer = MambaLayer(8, 16, key=jax.random.key(0))
    >>> x, state = layer(jnp.ones((3, 100, 8)))
    >>> x.shape, state.recent.shape, state.system.shape
    ((3, 100, 8), (3, 3, 16), (3, 16, 16))

    ```
    """

    name = "mamba"
    supports_irregular_times = False
    hidden_size: int = eqx.field(static=True)
    input_weight: Float[Array, "2*channels hidden"]
    conv_weight: Float[Array, "conv_size channels"]
    bias: Float[Array, " channels"]
    system: SelectiveSystem
    output_weight: Float[Array, "hidden channels"]

    def __init__(
        self,
        hidden_size: int,
        state_size: int,
        *,
        conv_size: int = 4,
        expansion: int = 2,
        key: PRNGKeyArray,
    ):
        """**Arguments:**

        - `hidden_size`: number of channels in and out.
        - `state_size`: number of states of each inner channel.
        - `conv_size`: kernel size of the convolution.
        - `expansion`: number of inner channels for each channel.
        """
        _checks.positive_integer("hidden_size", hidden_size)
        self.hidden_size = hidden_size
        _checks.positive_integer("state_size", state_size)
        _checks.positive_integer("conv_size", conv_size)
        _checks.positive_integer("expansion", expansion)
        channels = expansion * hidden_size
        in_key, conv_key, bias_key, system_key, out_key = jax.random.split(key, 5)
        self.input_weight = uniform(in_key, (2 * channels, hidden_size), hidden_size)
        self.conv_weight = uniform(conv_key, (conv_size, channels), conv_size)
        self.bias = uniform(bias_key, (channels,), conv_size)
        self.system = SelectiveSystem(channels, state_size, -(-hidden_size // 16), key=system_key)
        self.output_weight = uniform(out_key, (hidden_size, channels), channels)

    def init_state(self, batch_shape: tuple[int, ...] = ()) -> MambaState:
        """Zeros."""
        size, channels = self.conv_weight.shape
        recent = jnp.zeros((*batch_shape, size - 1, channels), self.bias.dtype)
        return MambaState(recent, self.system.init_state(batch_shape))

    def run(
        self, u: Array, mask: Array | None, intervals: None, state: MambaState
    ) -> tuple[Hidden, MambaState]:
        """The layer without missing samples in the window of the convolution: present samples are
        moved to the front first, and the outputs back to their positions."""
        count, place = None, None
        if mask is not None:
            (order, place), count = move_to_front(mask), jnp.sum(mask, axis=-1)
            u = jnp.take_along_axis(u, order[..., None], axis=-2)
            mask = steps(*mask.shape) < count[..., None]
        time = u.shape[-2]
        x, gate = jnp.split(u @ self.input_weight.T, 2, axis=-1)
        known = jnp.concatenate([state.recent, x], axis=-2)
        size = self.conv_weight.shape[0]
        terms = (
            known[..., k : k + time, :] * align(self.conv_weight[k], known) for k in range(size)
        )
        x = jax.nn.silu(sum(terms, align(self.bias, known)))
        y, system = self.system(x, state.system, None, mask)
        y = (y * jax.nn.silu(gate)) @ self.output_weight.T
        if place is not None:
            y = jnp.take_along_axis(y, place[..., None], axis=-2)
        index = steps(*y.shape[:-2], size - 1) + (time if count is None else count[..., None])
        recent = jnp.take_along_axis(known, index[..., None], axis=-2)  # the last inputs
        return y, MambaState(recent, system)
