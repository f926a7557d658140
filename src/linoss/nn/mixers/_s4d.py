"""One S4D layer: a separate diagonal linear system in continuous time for each channel.

    x' = L x + u,    y = 2 Re(c . x) + D u,    L diagonal with m/2 complex numbers,

with zero-order hold as in `_s5.py` and one timestep for each channel. The layer does not mix
channels; the GLU does. Initially L_k = -1/2 + i pi k. (Gu, Gupta, Goel and Re, On the
Parameterization and Initialization of Diagonal State Space Models, 2022: S4D-Lin.)
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Complex, Float, PRNGKeyArray

from linoss import _checks
from linoss._arrays import align
from linoss.nn._samples import Samples
from linoss.nn.mixers._mixer import AbstractMixer, Hidden, held
from linoss.nn.mixers._s5 import check_pairs, log_timesteps
from linoss.scan import SEGMENT, as_complex, as_pairs, diagonal_scan


class S4DModes(eqx.Module):
    """log(-Re L) and Im L of each channel's modes, and log d of each channel."""

    log_decay: Float[Array, "hidden m"]
    frequency: Float[Array, "hidden m"]
    log_timestep: Float[Array, " hidden"]

    @property
    def spectrum(self) -> Complex[Array, "hidden m"]:
        """L."""
        return jax.lax.complex(-jnp.exp(self.log_decay), self.frequency)


class S4DLayer(AbstractMixer):
    """A diagonal linear system for each channel.

    To save memory, states are computed for one segment of time at once, and recomputed in the
    backward pass.
    """

    hidden_size: int = eqx.field(static=True)
    modes: S4DModes
    output_weight: Float[Array, "hidden pairs"]
    feedthrough: Float[Array, " hidden"]

    def __init__(self, hidden_size: int, state_size: int, *, key: PRNGKeyArray):
        """**Arguments:**

        - `hidden_size`: number of channels in and out.
        - `state_size`: number of real states of each channel, m; even.
        """
        _checks.positive_integer("hidden_size", hidden_size)
        self.hidden_size = hidden_size
        _checks.positive_integer("state_size", state_size)
        check_pairs("s4d", state_size)
        m = state_size // 2
        step_key, out_key, through_key = jax.random.split(key, 3)
        self.modes = S4DModes(
            jnp.full((hidden_size, m), jnp.log(0.5)),
            jnp.tile(jnp.pi * jnp.arange(m, dtype=jnp.zeros(()).dtype), (hidden_size, 1)),
            log_timesteps(step_key, (hidden_size,)),
        )
        self.output_weight = jax.random.normal(out_key, (hidden_size, 2 * m)) * 0.5**0.5
        self.feedthrough = jax.random.normal(through_key, (hidden_size,))

    def init_state(self, batch_shape: tuple[int, ...] = ()) -> Float[Array, "*batch pairs"]:
        """Zeros: real parts of all modes of all channels, then imaginary parts."""
        return jnp.zeros((*batch_shape, self.output_weight.size), self.output_weight.dtype)

    def mix(
        self, u: Hidden, samples: Samples, state: Any, *, reverse: bool
    ) -> tuple[Hidden, Float[Array, "*batch pairs"]]:
        """The features after mixing, and the state after the last sample."""
        state = self.init_state(u.shape[:-2]) if state is None else state
        intervals = samples.intervals_after() if reverse else samples.intervals
        time, axis = u.shape[-2], samples.split.time
        driving, mask = samples.forces(u), samples.moving
        if time <= SEGMENT or axis is not None:
            options = {"reverse": reverse, "engine": samples.engine, "time_axis": axis}
            y, state = self._segment(driving, mask, intervals, state, **options)
            return y + u * align(self.feedthrough, u), state
        number = -(-time // SEGMENT)
        mask = jnp.ones(u.shape[:-1], bool) if mask is None else mask
        cut = jax.tree.map(lambda x: _segments(x, u.ndim - 2, number), (driving, mask, intervals))

        @jax.checkpoint
        def advance(state: Array, here: Any) -> tuple[Array, Array]:
            u, mask, intervals = here
            how = {"reverse": reverse, "engine": samples.engine}
            y, state = self._segment(u, mask, intervals, state, **how)
            return state, y

        state, y = jax.lax.scan(advance, state, cut, reverse=reverse)
        y = jnp.moveaxis(y, 0, u.ndim - 2)
        y = y.reshape(*u.shape[:-2], number * SEGMENT, -1)[..., :time, :]
        return y + u * align(self.feedthrough, u), state

    def _segment(
        self,
        u: Array,
        mask: Array | None,
        intervals: Array | None,
        state: Array,
        *,
        time_axis: str | None = None,
        **how: Any,
    ) -> tuple[Array, Array]:
        """2 Re(c . x) for a segment of samples, and the state after it."""
        factor, gain = held(
            self.modes.spectrum,
            jnp.broadcast_to(jnp.exp(self.modes.log_timestep)[:, None], self.modes.frequency.shape),
            intervals,
        )
        driven = u[..., None].astype(gain.dtype)
        force = as_pairs(_flat(align(gain, driven) * driven))
        states, after = diagonal_scan(
            as_pairs(_flat(factor)), force, state, mask=mask, time_axis=time_axis, **how
        )
        x = as_complex(states).reshape(*u.shape, -1)
        return 2 * jnp.sum((align(as_complex(self.output_weight), x) * x).real, axis=-1), after


def _flat(x: Array) -> Array:
    """The modes of all channels in one row."""
    return x.reshape(*x.shape[:-2], -1)


def _segments(x: Array, axis: int, number: int) -> Array:
    """Divide time into equal segments, the last padded with zeros, as the first axis."""
    missing = number * SEGMENT - x.shape[axis]
    x = jnp.pad(x, [(0, missing if i == axis else 0) for i in range(x.ndim)])
    x = x.reshape(*x.shape[:axis], number, SEGMENT, *x.shape[axis + 1 :])
    return jnp.moveaxis(x, axis, 0)
