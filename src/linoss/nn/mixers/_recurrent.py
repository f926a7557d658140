"""Gated recurrent layers: LSTM and GRU, with the cells of Equinox.

LSTM, with [i, f, g, o] = W u_n + R h_{n-1} + b:

    c_n = sigmoid(f) c_{n-1} + sigmoid(i) tanh(g),    h_n = sigmoid(o) tanh(c_n).

GRU, with [r, z, g] = W u_n + b and [r', z', g'] = R h_{n-1}:

    new = tanh(g + sigmoid(r + r') (g' + b')),    h_n = new + sigmoid(z + z') (h_{n-1} - new).

The output at a sample is h_n. W u is one product for all samples; only R h is computed in the loop
over time. (Hochreiter and Schmidhuber, Long Short-Term Memory, 1997; Cho and others, Learning
Phrase Representations using RNN Encoder-Decoder, 2014.)
"""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, PRNGKeyArray

from linoss import _checks
from linoss._arrays import align
from linoss.nn._samples import Samples
from linoss.nn.mixers._mixer import AbstractMixer, Hidden, refuse_intervals, refuse_split_time
from linoss.scan import loop_over_time


class AbstractRecurrent(AbstractMixer):
    """A gated recurrent layer: a loop over time."""

    name: eqx.AbstractClassVar[str]
    """The name in the settings."""
    cell: eqx.AbstractVar[Any]
    """A cell of Equinox."""

    @abc.abstractmethod
    def advance(self, gates: Float[Array, "*batch gates"], state: Any) -> Any:
        """The state after a sample, h first, from W u_n + b and the state before it."""

    def mix(self, u: Hidden, samples: Samples, state: Any, *, reverse: bool) -> tuple[Hidden, Any]:
        """h of every sample, and the state after the last one."""
        refuse_split_time(samples, self.name)
        refuse_intervals(samples, self.name)
        gates = u @ self.cell.weight_ih.T

        def advance(state: Any, gates: Array) -> tuple[Any, Array]:
            after = self.advance(gates, state)
            return after, jax.tree.leaves(after)[0]

        start = self.init_state(u.shape[:-2]) if state is None else state
        gates = gates + align(self.cell.bias, gates)
        return loop_over_time(advance, start, gates, samples.mask, reverse=reverse)


class LSTMLayer(AbstractRecurrent):
    """Long short-term memory."""

    name = "lstm"
    hidden_size: int = eqx.field(static=True)
    cell: eqx.nn.LSTMCell

    def __init__(self, hidden_size: int, *, key: PRNGKeyArray):
        _checks.positive_integer("hidden_size", hidden_size)
        self.hidden_size = hidden_size
        self.cell = eqx.nn.LSTMCell(hidden_size, hidden_size, key=key)

    def init_state(self, batch_shape: tuple[int, ...] = ()) -> tuple[Array, Array]:
        """h and c, zeros."""
        zeros = jnp.zeros((*batch_shape, self.hidden_size), self.cell.weight_ih.dtype)
        return zeros, zeros

    def advance(self, gates: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        """One step."""
        h, c = state
        i, f, g, o = jnp.split(gates + h @ self.cell.weight_hh.T, 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        return jax.nn.sigmoid(o) * jnp.tanh(c), c


class GRULayer(AbstractRecurrent):
    """Gated recurrent units."""

    name = "gru"
    hidden_size: int = eqx.field(static=True)
    cell: eqx.nn.GRUCell

    def __init__(self, hidden_size: int, *, key: PRNGKeyArray):
        _checks.positive_integer("hidden_size", hidden_size)
        self.hidden_size = hidden_size
        self.cell = eqx.nn.GRUCell(hidden_size, hidden_size, key=key)

    def init_state(self, batch_shape: tuple[int, ...] = ()) -> Array:
        """h, zeros."""
        return jnp.zeros((*batch_shape, self.hidden_size), self.cell.weight_ih.dtype)

    def advance(self, gates: Array, state: Array) -> Array:
        """One step."""
        assert self.cell.bias_n is not None
        r, z, g = jnp.split(gates, 3, axis=-1)
        from_r, from_z, from_g = jnp.split(state @ self.cell.weight_hh.T, 3, axis=-1)
        from_g = from_g + align(self.cell.bias_n, from_g)
        new = jnp.tanh(g + jax.nn.sigmoid(r + from_r) * from_g)
        return new + jax.nn.sigmoid(z + from_z) * (state - new)
