"""The recurrence over a whole sequence, in segments, and its derivative by the adjoint recurrence.

All engines share this custom derivative; each provides a `Solver` for one segment. The forward pass
stores the residuals of the solver (a state per segment or tile); the backward pass visits the
segments in reverse order and recomputes their states.
"""

import abc
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from linoss.dynamics import Step
from linoss.scan._recurrence import Recurrence, Sampling, State


class Gradients(NamedTuple):
    """Gradients with respect to the inputs of one segment."""

    force: Array
    recurrence: Recurrence
    intervals: Array | None
    start: State


class Solver(abc.ABC):
    """The recurrence over one segment, and its vector-Jacobian product.

    Solvers are hashable, because they are static arguments.
    """

    @abc.abstractmethod
    def run(
        self, recurrence: Recurrence, sampling: Sampling, force: Array, start: State
    ) -> tuple[Array, State, Any]:
        """Positions, the state after the segment, and the residuals for `pull_back`."""

    @abc.abstractmethod
    def pull_back(
        self,
        recurrence: Recurrence,
        sampling: Sampling,
        force: Array,
        kept: Any,
        d_positions: Array,
        d_end: State,
    ) -> Gradients:
        """Gradients of the inputs, from those of the positions and of the state after the
        segment."""


class Segments(NamedTuple):
    """Consecutive segments of equal size, and their solver."""

    number: int
    size: int
    solver: Solver


Plan = tuple[Segments, ...]


def run(
    plan: Plan, recurrence: Recurrence, sampling: Sampling, force: Array, state: State
) -> tuple[Array, State, list[Any]]:
    """Positions, the final state, and the residuals of each solver."""
    positions, kept = jnp.zeros_like(force), []
    for (number, size, solver), offset in _with_offsets(plan):

        def advance(carry: Any, i: Any, size: int = size, solver: Solver = solver, o: int = offset):
            (state, positions), at = carry, o + i * size
            y, state, kept = solver.run(
                recurrence, sampling.cut(at, size), _cut(force, at, size), state
            )
            return (state, _paste(positions, y, at)), kept

        (state, positions), kept_here = _loop(advance, (state, positions), jnp.arange(number))
        kept.append(kept_here)
    return positions, state, kept


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def run_with_adjoint(
    plan: Plan, recurrence: Recurrence, sampling: Sampling, force: Array, start: State
) -> tuple[Array, State]:
    """Positions and the final state, differentiated by the adjoint recurrence."""
    positions, final, _ = run(plan, recurrence, sampling, force, start)
    return positions, final


def _forward(
    plan: Plan, recurrence: Recurrence, sampling: Sampling, force: Array, start: State
) -> tuple[Any, Any]:
    positions, final, kept = run(plan, recurrence, sampling, force, start)
    return (positions, final), (recurrence, sampling, force, kept)


def _backward(plan: Plan, residuals: Any, cotangents: Any) -> tuple[Any, ...]:
    recurrence, sampling, force, kept = residuals
    d_positions, d_final = cotangents
    carry = (d_final, *jax.tree.map(jnp.zeros_like, (force, recurrence, sampling.intervals)))
    for ((number, size, solver), offset), kept_here in zip(
        reversed(_with_offsets(plan)), reversed(kept), strict=True
    ):

        def pull_back(
            carry: Any, i: Any, size: int = size, solver: Solver = solver, o: int = offset
        ):
            (d_end, d_force, d_recurrence, d_intervals), (i, kept) = carry, i
            at = o + i * size
            b, dy = _cut(force, at, size), _cut(d_positions, at, size)
            found = solver.pull_back(recurrence, sampling.cut(at, size), b, kept, dy, d_end)
            d_recurrence = jax.tree.map(jnp.add, d_recurrence, found.recurrence)
            if found.intervals is not None:
                d_intervals = _paste(d_intervals, found.intervals, at)
            return (found.start, _paste(d_force, found.force, at), d_recurrence, d_intervals), None

        carry, _ = _loop(pull_back, carry, (jnp.arange(number), kept_here), reverse=True)
    d_start, d_force, d_recurrence, d_intervals = carry
    return d_recurrence, Sampling(d_intervals, None), d_force, d_start


run_with_adjoint.defvjp(_forward, _backward)


def steps_with_pull_back(
    recurrence: Recurrence, sampling: Sampling, shape: tuple[int, ...]
) -> tuple[Step, Any]:
    """The steps of a segment, with entries of that shape, and the function that maps their
    gradients to those of the recurrence's parameters and the intervals."""

    def steps(recurrence: Recurrence, intervals: Array | None) -> Step:
        step = recurrence.step(Sampling(intervals, sampling.mask))
        return jax.tree.map(lambda x: jnp.broadcast_to(x, shape), step)

    return jax.vjp(steps, recurrence, sampling.intervals)


def _with_offsets(plan: Plan) -> list[tuple[Segments, int]]:
    """Each group of segments with the index of its first sample."""
    sizes = [segments.number * segments.size for segments in plan]
    return list(zip(plan, accumulate(sizes[:-1], initial=0), strict=True))


def _loop(body: Any, carry: Any, xs: Any, *, reverse: bool = False) -> tuple[Any, Any]:
    """`jax.lax.scan`, without a loop for a single iteration."""
    if jax.tree.leaves(xs)[0].shape[0] > 1:
        return jax.lax.scan(body, carry, xs, reverse=reverse)
    carry, found = body(carry, jax.tree.map(lambda x: x[0], xs))
    return carry, jax.tree.map(lambda x: x[None], found)


def _cut(x: Array, at: Any, size: int) -> Array:
    return jax.lax.dynamic_slice_in_dim(x, at, size, axis=1)


def _paste(x: Array, part: Array, at: Any) -> Array:
    return jax.lax.dynamic_update_slice_in_dim(x, part, at, axis=1)
