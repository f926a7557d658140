"""The native solver: the recurrence and its adjoint in C++.

The kernels store the state at the start of each tile and recompute the others in the backward pass.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from linoss import kernels
from linoss.dynamics import Step
from linoss.scan._adjoint import Gradients, Solver, steps_with_pull_back
from linoss.scan._recurrence import Recurrence, Sampling, State


@dataclass(frozen=True)
class Native(Solver):
    """A loop over time in C++, vectorised over oscillators, threaded over sequences.

    A constant step is passed once, together with the mask; varying steps are passed for every
    sample and include the mask.
    """

    def run(
        self, recurrence: Recurrence, sampling: Sampling, force: Array, start: State
    ) -> tuple[Array, State, Array]:
        """The residuals are the states at the start of each tile."""
        batch, time, m = force.shape
        shape = partial(jax.ShapeDtypeStruct, dtype=force.dtype)
        results = (
            shape(force.shape),
            shape((batch, m, 2)),
            shape((batch, kernels.tiles(time), 2, m)),
        )
        steps, mask, _ = _arguments(recurrence, sampling, force)
        positions, end, kept = kernels.call(
            f"linoss_scan_forward_{force.dtype}",
            results,
            *(force, steps, mask, jnp.stack(start, axis=-1)),
        )
        return positions, (end[..., 0], end[..., 1]), kept

    def pull_back(
        self,
        recurrence: Recurrence,
        sampling: Sampling,
        force: Array,
        kept: Array,
        d_positions: Array,
        d_end: State,
    ) -> Gradients:
        """The adjoint recurrence, tile by tile."""
        steps, mask, pull_back = _arguments(recurrence, sampling, force)
        end = jnp.stack(d_end, axis=-1)
        shape = partial(jax.ShapeDtypeStruct, dtype=force.dtype)
        results = (shape(force.shape), shape(steps.shape), shape(end.shape))
        d_force, d_steps, d_start = kernels.call(
            f"linoss_scan_backward_{force.dtype}",
            results,
            *(force, steps, mask, kept, d_positions, end),
        )
        d_recurrence, d_intervals = pull_back(d_steps)
        start = (d_start[..., 0], d_start[..., 1])
        return Gradients(d_force, d_recurrence, d_intervals, start)


def _arguments(
    recurrence: Recurrence, sampling: Sampling, force: Array
) -> tuple[Array, Array, Any]:
    """Steps with rows zz, zy, yz, yy, fz, fy along the first axis, the mask as bytes, and the
    function that maps gradients of the steps to those of the parameters."""
    mask, shape, masked = jnp.zeros((0, 0), jnp.uint8), force.shape, sampling
    if recurrence.scheme is None:
        shape, masked = force.shape[-1:], Sampling(None, None)
        if sampling.mask is not None:
            mask = jnp.broadcast_to(sampling.mask[..., 0], force.shape[:2]).astype(jnp.uint8)
    steps, pull_back = steps_with_pull_back(recurrence, masked, shape)
    structure = jax.tree.structure(steps)

    def from_rows(d_rows: Array) -> Any:
        d_steps: Step = jax.tree.unflatten(structure, list(d_rows))
        return pull_back(d_steps)

    return jnp.stack(jax.tree.leaves(steps)), mask, from_rows
