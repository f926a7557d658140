"""One Mamba layer: a selective system between a short convolution and a gate.

With [x, z] = W_in u, and a convolution of each channel of x over the last `conv_size` samples:

    y = W_out (S6(silu(conv(x))) * silu(z)),

where x and z have `expansion` times as many channels as u, and S6 is the system of `_s6.py`. (Gu
and Dao, Mamba: Linear-Time Sequence Modeling with Selective State Spaces, 2023.)
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int, PRNGKeyArray

from linoss import _checks
from linoss._arrays import align, steps
from linoss.nn._samples import Samples
from linoss.nn.mixers._mixer import AbstractMixer, refuse_intervals, refuse_split_time
from linoss.nn.mixers._s6 import SelectiveSystem, uniform


class MambaState(eqx.Module):
    """The state of a layer between two pieces of a sequence."""

    recent: Float[Array, "*batch recent channels"]
    """The last inputs of the convolution."""
    system: Float[Array, "*batch states channels"]


class MambaLayer(AbstractMixer):
    """A Mamba layer.

    ```python
    >>> import jax, jax.numpy as jnp
    >>> from linoss.nn import MambaLayer, Samples
    >>> layer = MambaLayer(8, 16, key=jax.random.key(0))
    >>> u = jnp.ones((3, 100, 8))
    >>> x, state = layer.mix(u, Samples(u), None, reverse=False)
    >>> x.shape, state.recent.shape, state.system.shape
    ((3, 100, 8), (3, 3, 16), (3, 16, 16))

    ```
    """

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

    def mix(
        self,
        u: Float[Array, "*batch time hidden"],
        samples: Samples,
        state: Any,
        *,
        reverse: bool,
    ) -> tuple[Float[Array, "*batch time hidden"], MambaState]:
        """The features after mixing, and the state after the last sample.

        Missing samples are excluded from the convolution's window: present samples are moved to the
        front first, and the outputs back to their positions.
        """
        refuse_split_time(samples, "mamba")
        refuse_intervals(samples, "mamba")
        state = self.init_state(u.shape[:-2]) if state is None else state
        mask, order = samples.mask, None
        if reverse:
            u = jnp.flip(u, axis=-2)
            mask = None if mask is None else jnp.flip(mask, axis=-1)
        if mask is not None:
            order = jnp.argsort(~mask, axis=-1, stable=True)
            u = jnp.take_along_axis(u, order[..., None], axis=-2)
        y, state = self._run(u, mask, state, samples.engine)
        if order is not None:
            y = jnp.take_along_axis(y, jnp.argsort(order, axis=-1)[..., None], axis=-2)
        return (jnp.flip(y, axis=-2) if reverse else y), state

    def native(self) -> None:
        """None: kernels and exports do not know it."""

    def _run(
        self, u: Array, mask: Bool[Array, "*batch time"] | None, state: MambaState, engine: str
    ) -> tuple[Array, MambaState]:
        """`mix` with the present samples at the front; the mask gives their number."""
        time = u.shape[-2]
        x, gate = jnp.split(u @ self.input_weight.T, 2, axis=-1)
        known = jnp.concatenate([state.recent, x], axis=-2)
        size = self.conv_weight.shape[0]
        terms = (
            known[..., k : k + time, :] * align(self.conv_weight[k], known) for k in range(size)
        )
        x = jax.nn.silu(sum(terms, align(self.bias, known)))
        count = present = None
        if mask is not None:
            count = jnp.sum(mask, axis=-1)
            present = steps(*mask.shape) < count[..., None]
        y, system = self.system(x, state.system, None, present, engine)
        y = (y * jax.nn.silu(gate)) @ self.output_weight.T
        return y, MambaState(_last(known, size - 1, count), system)


def _last(known: Array, number: int, count: Int[Array, "*batch"] | None) -> Array:
    """The last inputs of the convolution, after `count` present samples."""
    if count is None:
        return known[..., known.shape[-2] - number :, :]
    index = count[..., None] + steps(*count.shape, number)
    return jnp.take_along_axis(known, index[..., None], axis=-2)
