"""Engine "native": the recurrence in C++, with the adjoint recurrence for its derivative.

The kernels keep the state at the start of each tile of time and compute the others again in the
backward pass, as the segments of the other engines do.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float

from linoss import _kernels
from linoss.dynamics._scheme import Step
from linoss.scan._recurrence import Recurrence, Samples, State

_SEGMENT = 1024  # steps whose matrices exist at a time, where they vary


def run_natively(
    recurrence: Recurrence, samples: Samples, force: Float[Array, "batch time m"], start: State
) -> tuple[Float[Array, "batch time m"], State]:
    """Positions and the final state."""
    state = jnp.stack(start, axis=-1)
    if recurrence.scheme is None:
        step = _rows(recurrence.parameters)
        positions, state = _scan(step, _mask_bytes(samples.mask, force), force, state)
    else:
        positions, state = _run_varying(recurrence, samples, force, state)
    return positions, (state[..., 0], state[..., 1])


def _run_varying(
    recurrence: Recurrence, samples: Samples, force: Array, state: Array
) -> tuple[Array, Array]:
    """Segment by segment; the matrices of a segment are made for it, and again to differentiate."""

    @jax.checkpoint
    def run(state: Array, segment: tuple[Array, Samples]) -> tuple[Array, Array]:
        b, here = segment
        step = jax.tree.map(lambda x: jnp.broadcast_to(x, b.shape), recurrence.step(here))
        positions, state = _scan(_rows(step), jnp.zeros((0, 0), jnp.uint8), b, state)
        return state, positions

    batch, time, m = force.shape
    whole = time // _SEGMENT * _SEGMENT

    def segments(x: Array) -> Array:
        pieces = x[:, :whole].reshape(x.shape[0], -1, _SEGMENT, x.shape[-1])
        return jnp.moveaxis(pieces, 1, 0)

    parts = []
    if whole:
        state, positions = jax.lax.scan(run, state, jax.tree.map(segments, (force, samples)))
        parts.append(jnp.moveaxis(positions, 0, 1).reshape(batch, whole, m))
    if whole < time:
        rest = jax.tree.map(lambda x: x[:, whole:], (force, samples))
        state, positions = run(state, rest)
        parts.append(positions)
    return jnp.concatenate(parts, axis=1), state


def _rows(step: Step) -> Array:
    """zz, zy, yz, yy, fz, fy along a first axis."""
    return jnp.stack(jnp.broadcast_arrays(*jax.tree.leaves(step)))


def _mask_bytes(mask: Bool[Array, "#batch time 1"] | None, force: Array) -> Array:
    if mask is None:
        return jnp.zeros((0, 0), jnp.uint8)
    return jnp.broadcast_to(mask[..., 0], force.shape[:2]).astype(jnp.uint8)


@jax.custom_vjp
def _scan(step: Array, mask: Array, force: Array, start: Array) -> tuple[Array, Array]:
    return _forward(step, mask, force, start)[0]


def _forward(step: Array, mask: Array, force: Array, start: Array) -> tuple[Any, Any]:
    batch, time, m = force.shape
    shape = partial(jax.ShapeDtypeStruct, dtype=force.dtype)
    results = (
        shape(force.shape),
        shape((batch, m, 2)),
        shape((batch, _kernels.tiles(time), 2, m)),
    )
    name = f"linoss_scan_forward_{force.dtype}"
    positions, final, kept = _kernels.call(name, results, force, step, mask, start)
    return (positions, final), (step, mask, force, kept)


def _backward(residuals: Any, cotangents: Any) -> tuple[Any, ...]:
    step, mask, force, kept = residuals
    d_positions, d_final = cotangents
    shape = partial(jax.ShapeDtypeStruct, dtype=force.dtype)
    results = (shape(force.shape), shape(step.shape), shape(d_final.shape))
    name = f"linoss_scan_backward_{force.dtype}"
    d_force, d_step, d_start = _kernels.call(
        name, results, force, step, mask, kept, d_positions, d_final
    )
    return d_step, None, d_force, d_start


_scan.defvjp(_forward, _backward)
