"""A mixer and a scheme as a user writes them, in a module of their own."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp

from linoss.dynamics import SCHEMES
from linoss.nn import AbstractMixer


class Decay(AbstractMixer):
    """x_n = (x_{n-1} + u_n) / 2."""

    hidden_size: int = eqx.field(static=True)
    gain: jax.Array

    def __init__(self, hidden_size, *, key, spread=1.0):
        self.hidden_size = hidden_size
        self.gain = spread * jax.random.normal(key, (hidden_size,))

    def init_state(self, batch_shape):
        return jnp.zeros((*batch_shape, self.hidden_size))

    def mix(self, u, samples, state, *, reverse):
        state = self.init_state(u.shape[:-2]) if state is None else state

        def step(x, u):
            x = (x + u) / 2
            return x, x

        state, x = jax.lax.scan(step, state, jnp.moveaxis(u, -2, 0), reverse=reverse)
        return jnp.moveaxis(x, 0, -2) * self.gain, state

    def native(self):
        return None


OWN = replace(SCHEMES["im"], native=None)
