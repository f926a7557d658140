"""The final state of a long sequence whose forces never exist as a whole."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

SEGMENT = 1024
"""Steps that are computed at once."""


def end_of_segments(advance: Callable[[Any, Array], Array], inputs: Any, start: Array) -> Array:
    """The state after the last segment, where `advance(inputs, state)` runs over one segment.

    `inputs` is a tree of arrays `(batch, time, ...)`. What `advance` computes from it (a norm, a
    projection) exists for one segment at a time, and again in the backward pass.
    """
    advance = jax.checkpoint(advance)
    time = jax.tree.leaves(inputs)[0].shape[1]
    whole = time - time % SEGMENT

    def in_segments(x: Array) -> Array:
        return jnp.moveaxis(x[:, :whole].reshape(x.shape[0], -1, SEGMENT, *x.shape[2:]), 1, 0)

    state = start
    if whole:
        segments = jax.tree.map(in_segments, inputs)
        state, _ = jax.lax.scan(lambda state, x: (advance(x, state), None), state, segments)
    if whole < time:
        state = advance(jax.tree.map(lambda x: x[:, whole:], inputs), state)
    return state
