"""The recurrence over a whole sequence, in segments, and its derivative by the adjoint recurrence.

All engines share this custom derivative; each provides a `Solver` for one segment. The forward pass
stores the residuals of the solver (a state per segment or tile); the backward pass visits the
segments in reverse order and recomputes their states.
"""

import abc
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from linoss.dynamics import Step
from linoss.scan._recurrence import Recurrence, Sampling, State

SEGMENT = 1024
"""Number of steps of a segment."""


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


class Schedule(NamedTuple):
    """How a sequence is solved."""

    solver: Solver
    size: int
    """Steps of a segment; the last one may have fewer."""


def run(
    schedule: Schedule, recurrence: Recurrence, sampling: Sampling, force: Array, state: State
) -> tuple[Array, State, list[Any]]:
    """Positions, the final state, and the residuals of the segments."""

    def advance(size: int, carry: Any, segment: Any) -> Any:
        (state, positions), (at, _) = carry, segment
        b, samples = _cut(force, at, size), sampling.cut(at, size)
        y, state, kept = schedule.solver.run(recurrence, samples, b, state)
        return (state, _paste(positions, y, at)), kept

    start = (state, jnp.zeros_like(force))
    (state, positions), kept = _visit(advance, start, force.shape[1], schedule.size)
    return positions, state, kept


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def run_with_adjoint(
    schedule: Schedule, recurrence: Recurrence, sampling: Sampling, force: Array, start: State
) -> tuple[Array, State]:
    """Positions and the final state, differentiated by the adjoint recurrence."""
    positions, final, _ = run(schedule, recurrence, sampling, force, start)
    return positions, final


def _forward(
    schedule: Schedule, recurrence: Recurrence, sampling: Sampling, force: Array, start: State
) -> tuple[Any, Any]:
    positions, final, kept = run(schedule, recurrence, sampling, force, start)
    return (positions, final), (recurrence, sampling, force, kept)


def _backward(schedule: Schedule, residuals: Any, cotangents: Any) -> tuple[Any, ...]:
    recurrence, sampling, force, kept = residuals
    d_positions, d_final = cotangents

    def pull_back(size: int, carry: Any, segment: Any) -> Any:
        (d_end, d_force, d_recurrence, d_intervals), (at, kept) = carry, segment
        b, dy = _cut(force, at, size), _cut(d_positions, at, size)
        d = schedule.solver.pull_back(recurrence, sampling.cut(at, size), b, kept, dy, d_end)
        d_recurrence = jax.tree.map(jnp.add, d_recurrence, d.recurrence)
        if d.intervals is not None:
            d_intervals = _paste(d_intervals, d.intervals, at)
        return (d.start, _paste(d_force, d.force, at), d_recurrence, d_intervals), None

    zeros = jax.tree.map(jnp.zeros_like, (force, recurrence, sampling.intervals))
    time = force.shape[1]
    carry, _ = _visit(pull_back, (d_final, *zeros), time, schedule.size, kept, reverse=True)
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


def _visit(
    body: Any, carry: Any, time: int, size: int, kept: Any = None, *, reverse: bool = False
) -> tuple[Any, list[Any]]:
    """`body(size, carry, (at, kept))` for each segment; what it keeps of the whole segments, and
    of the last one if it is shorter."""
    whole, last = divmod(time, size)
    parts = [(size, jnp.arange(whole) * size)] if whole else []
    parts += [(last, jnp.array([whole * size]))] if last else []
    outputs, kept = [], kept or [None] * len(parts)
    for (size, at), kept_here in list(zip(parts, kept, strict=True))[:: -1 if reverse else 1]:
        carry, output = _loop(partial(body, size), carry, (at, kept_here), reverse=reverse)
        outputs.append(output)
    return carry, outputs


def _loop(body: Any, carry: Any, xs: Any, *, reverse: bool) -> tuple[Any, Any]:
    """`jax.lax.scan`, without a loop for a single iteration."""
    if len(xs[0]) > 1:
        return jax.lax.scan(body, carry, xs, reverse=reverse)
    carry, output = body(carry, jax.tree.map(lambda x: x[0], xs))
    return carry, jax.tree.map(lambda x: x[None], output)


def _cut(x: Array, at: Any, size: int) -> Array:
    return jax.lax.dynamic_slice_in_dim(x, at, size, axis=1)


def _paste(x: Array, part: Array, at: Any) -> Array:
    return jax.lax.dynamic_update_slice_in_dim(x, part, at, axis=1)
