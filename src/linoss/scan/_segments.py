"""The final state of a long sequence, with forces computed one segment at a time.

The operations before the forces (a norm, a projection) are computed for one segment at a time, and
recomputed in the backward pass. The derivative is custom because `jax.lax.scan` would copy the
sequences and their gradient into segments.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Shaped

SEGMENT = 1024
"""Number of steps of a segment."""

Advance = Callable[[Any, Array, Array | None, Array], Array]
"""(weights, a segment of the sequences, its mask, state before it) -> state after it."""


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def end_of_segments(
    advance: Advance,
    weights: Any,
    u: Float[Array, "batch time channel"],
    mask: Shaped[Array, "batch time"] | None,
    start: Array,
) -> Array:
    """The state after the last segment."""
    return _forward(advance, weights, u, mask, start)[0]


def _forward(
    advance: Advance, weights: Any, u: Array, mask: Array | None, start: Array
) -> tuple[Array, Any]:
    whole, rest = divmod(u.shape[1], SEGMENT)

    def run(i: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        state, starts = carry
        starts = starts.at[i].set(state)
        segment, mask_here = _cut((u, mask), i * SEGMENT, SEGMENT)
        return advance(weights, segment, mask_here, state), starts

    starts = jnp.zeros((whole, *start.shape), start.dtype)
    last, starts = _loop(whole, run, (start, starts))
    end = last
    if rest:
        segment, mask_here = _cut((u, mask), whole * SEGMENT, rest)
        end = advance(weights, segment, mask_here, last)
    return end, (weights, u, mask, starts, last)


def _backward(advance: Advance, residuals: Any, d_end: Array) -> tuple[Any, ...]:
    weights, u, mask, starts, last = residuals
    whole, rest = divmod(u.shape[1], SEGMENT)

    def pull_back(at: Any, size: int, state: Array, carry: Any) -> Any:
        d_state, d_weights, d_u = carry
        segment, mask_here = _cut((u, mask), at, size)
        run = partial(_with_mask, advance, mask_here)
        _, pull = jax.vjp(run, weights, segment, state)
        added, d_segment, d_state = pull(d_state)
        d_weights = jax.tree.map(jnp.add, d_weights, added)
        return d_state, d_weights, jax.lax.dynamic_update_slice_in_dim(d_u, d_segment, at, axis=1)

    def run(i: Array, carry: Any) -> Any:
        place = whole - 1 - i
        return pull_back(place * SEGMENT, SEGMENT, starts[place], carry)

    carry = (d_end, *jax.tree.map(jnp.zeros_like, (weights, u)))
    if rest:
        carry = pull_back(whole * SEGMENT, rest, last, carry)
    d_start, d_weights, d_u = _loop(whole, run, carry)
    return d_weights, d_u, None, d_start


end_of_segments.defvjp(_forward, _backward)


def _loop(count: int, body: Any, carry: Any) -> Any:
    return jax.lax.fori_loop(0, count, body, carry) if count else carry


def _with_mask(advance: Advance, mask: Array | None, weights: Any, u: Array, state: Array) -> Array:
    return advance(weights, u, mask, state)


def _cut(arrays: Any, at: Any, size: int) -> Any:
    return jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, at, size, axis=1), arrays)
