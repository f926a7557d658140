"""Gated recurrent layers: LSTM and GRU, with the cells of Equinox, in a loop over time.

(Hochreiter and Schmidhuber, Long Short-Term Memory, 1997; Cho and others, Learning Phrase
Representations using RNN Encoder-Decoder, 2014.)
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import PRNGKeyArray

from linoss import _checks
from linoss.nn._samples import Samples
from linoss.nn.mixers._mixer import AbstractMixer, Hidden, refuse
from linoss.scan import loop_over_time


class GatedLayer(AbstractMixer):
    """An LSTM, or a GRU; the output at a sample is h."""

    hidden_size: int = eqx.field(static=True)
    cell: eqx.nn.LSTMCell | eqx.nn.GRUCell

    def __init__(self, hidden_size: int, *, gru: bool = False, key: PRNGKeyArray):
        _checks.positive_integer("hidden_size", hidden_size)
        self.hidden_size = hidden_size
        self.cell = (eqx.nn.GRUCell if gru else eqx.nn.LSTMCell)(hidden_size, hidden_size, key=key)

    def init_state(self, batch_shape: tuple[int, ...] = ()) -> Array | tuple[Array, Array]:
        """Zeros: h, and c of an LSTM."""
        zeros = jnp.zeros((*batch_shape, self.hidden_size), self.cell.weight_ih.dtype)
        return zeros if isinstance(self.cell, eqx.nn.GRUCell) else (zeros, zeros)

    def mix(self, u: Hidden, samples: Samples, state: Any, *, reverse: bool) -> tuple[Hidden, Any]:
        """h of every sample, and the state after the last one."""
        refuse(samples, "gru" if isinstance(self.cell, eqx.nn.GRUCell) else "lstm")
        cell: Any = self.cell
        for _ in u.shape[:-2]:
            cell = jax.vmap(cell)

        def advance(state: Any, sample: Array) -> tuple[Any, Array]:
            state = cell(sample, state)
            return state, jax.tree.leaves(state)[0]

        state = self.init_state(u.shape[:-2]) if state is None else state
        return loop_over_time(advance, state, u, samples.mask, reverse=reverse)
