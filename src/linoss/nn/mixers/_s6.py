"""One S6 layer: a linear system for each channel, with a sample-dependent step, input and output.

    x_n = exp(d_n A) x_{n-1} + d_n u_n B_n,    y_n = C_n . x_n + D u_n,    A < 0,
    d_n = softplus(W_d (W u_n)_d + b),    B_n = (W u_n)_B,    C_n = (W u_n)_C,

where W has a row for each of the r numbers that determine the steps of all channels, r being a
sixteenth of the channels, and a row for each entry of B_n and C_n. With irregular times, d_n is
multiplied by the time since the previous sample. (Gu and Dao, Mamba: Linear-Time Sequence Modeling
with Selective State Spaces, 2023.)
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, PRNGKeyArray

from linoss import _checks
from linoss._arrays import align
from linoss.nn._samples import Samples
from linoss.nn.mixers._mixer import AbstractMixer, refuse_split_time
from linoss.nn.mixers._s5 import log_timesteps
from linoss.scan import selective_scan


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
        mask: Any,
        engine: str,
    ) -> tuple[Array, Array]:
        """y, and the state after the last sample."""
        time, channels = u.shape[-2:]
        states, rank = self.modes.log_decay.shape[1], self.modes.step_weight.shape[1]
        selected = u @ self.selection.T
        parts, B, C = jnp.split(selected, [rank, rank + states], axis=-1)
        raw = parts @ self.modes.step_weight.T
        delta = jax.nn.softplus(raw + align(self.modes.step_bias, raw))
        if intervals is not None:
            delta = delta * intervals[..., None]
        if mask is not None:
            delta = jnp.where(mask[..., None], delta, 0)
        A = -jnp.exp(self.modes.log_decay).T
        flat = (x.reshape(-1, time, x.shape[-1]) for x in (u, delta, B, C))
        u_flat, delta, B, C = flat
        start = state.reshape(-1, states, channels)
        y, final = selective_scan(u_flat, delta, A, B, C, start, engine=engine)
        y = y.reshape(u.shape) + u * align(self.feedthrough, u)
        return y, final.reshape(state.shape)


class S6Layer(AbstractMixer):
    """A selective system applied to the channels directly; Mamba has one inside.

    ```python
    >>> import jax, jax.numpy as jnp
    >>> from linoss.nn import S6Layer, Samples
    >>> layer = S6Layer(8, 16, key=jax.random.key(0))
    >>> u = jnp.ones((3, 100, 8))
    >>> x, state = layer.mix(u, Samples(u), None, reverse=False)
    >>> x.shape, state.shape
    ((3, 100, 8), (3, 16, 8))

    ```
    """

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

    def mix(
        self,
        u: Float[Array, "*batch time hidden"],
        samples: Samples,
        state: Any,
        *,
        reverse: bool,
    ) -> tuple[Float[Array, "*batch time hidden"], Float[Array, "*batch states hidden"]]:
        """The features after mixing, and the state after the last sample."""
        refuse_split_time(samples, "s6")
        state = self.init_state(u.shape[:-2]) if state is None else state
        intervals = samples.intervals_after() if reverse else samples.intervals
        mask = samples.mask
        if reverse:
            u = jnp.flip(u, axis=-2)
            mask, intervals = jax.tree.map(lambda x: jnp.flip(x, axis=-1), (mask, intervals))
        y, state = self.system(u, state, intervals, mask, samples.engine)
        return (jnp.flip(y, axis=-2) if reverse else y), state

    def native(self) -> None:
        """None: kernels and exports do not know it."""


def uniform(key: PRNGKeyArray, shape: tuple[int, ...], fan: int) -> Array:
    """Uniform between -1/sqrt(fan) and 1/sqrt(fan), where `fan` is the number of inputs."""
    return jax.random.uniform(key, shape, minval=-(fan**-0.5), maxval=fan**-0.5)
