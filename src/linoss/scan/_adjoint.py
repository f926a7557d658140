"""The recurrence over a whole sequence, in segments, and its derivative by the adjoint recurrence.

A segment's states exist only while it is worked on. The forward pass keeps the state at the start
of each segment; the backward pass computes the states of one segment at a time again from there.
"""

from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from linoss.dynamics._scheme import Step
from linoss.scan._engines import solve_by_doubling, solve_in_chunks
from linoss.scan._recurrence import Recurrence, Samples, State


class Piece(NamedTuple):
    """So many segments of `size` steps, each solved in so many chunks (0: by doubling)."""

    segments: int
    size: int
    chunks: int


Plan = tuple[Piece, ...]


def run(
    plan: Plan, recurrence: Recurrence, samples: Samples, force: Array, state: State
) -> tuple[Array, State, list[State]]:
    """Positions, the final state, and the states at the start of each piece's segments."""
    positions, checkpoints = jnp.zeros_like(force), []
    for piece, offset in _with_offsets(plan):
        starts = tuple(jnp.zeros((piece.segments, *x.shape), x.dtype) for x in state)
        advance = partial(_run_segment, piece, offset, recurrence, samples, force)
        state, positions, starts = _loop(piece.segments, advance, (state, positions, starts))
        checkpoints.append(starts)
    return positions, state, checkpoints


def _run_segment(
    piece: Piece,
    offset: int,
    recurrence: Recurrence,
    samples: Samples,
    force: Array,
    i: Any,
    carry: tuple[State, Array, State],
) -> tuple[State, Array, State]:
    state, positions, starts = carry
    at = offset + i * piece.size
    b, here = _cut(force, at, piece.size), samples.piece(at, piece.size)
    (_, y), end = _solve(piece, recurrence, here, b, state, adjoint=False)
    starts = (starts[0].at[i].set(state[0]), starts[1].at[i].set(state[1]))
    return end, _paste(positions, y, at), starts


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def run_with_adjoint(
    plan: Plan, recurrence: Recurrence, samples: Samples, force: Array, start: State
) -> tuple[Array, State]:
    """Positions and the final state, differentiated by the adjoint recurrence."""
    positions, final, _ = run(plan, recurrence, samples, force, start)
    return positions, final


def _forward(
    plan: Plan, recurrence: Recurrence, samples: Samples, force: Array, start: State
) -> tuple[Any, Any]:
    positions, final, checkpoints = run(plan, recurrence, samples, force, start)
    return (positions, final), (recurrence, samples, force, checkpoints)


def _backward(plan: Plan, residuals: Any, cotangents: Any) -> tuple[Any, ...]:
    recurrence, samples, force, checkpoints = residuals
    d_positions, d_final = cotangents
    empty = jax.tree.map(jnp.zeros_like, (force, recurrence, samples.intervals))
    carry = (d_final, *empty)
    stretches = list(zip(_with_offsets(plan), checkpoints, strict=True))
    for (piece, offset), starts in reversed(stretches):
        advance = partial(
            _pull_back_segment, piece, offset, recurrence, samples, force, d_positions, starts
        )
        carry = _loop(piece.segments, advance, carry)
    d_start, d_force, d_recurrence, d_intervals = carry
    return d_recurrence, Samples(d_intervals, None), d_force, d_start


run_with_adjoint.defvjp(_forward, _backward)


def _pull_back_segment(
    piece: Piece,
    offset: int,
    recurrence: Recurrence,
    samples: Samples,
    force: Array,
    d_positions: Array,
    starts: State,
    i: Any,
    carry: tuple[State, Array, Recurrence, Any],
) -> tuple[State, Array, Recurrence, Any]:
    """One segment of the backward pass; `i` counts from the last segment.

    With lambda_n the derivative of the loss by x_n, all paths included, mu_n = M_n^T lambda_n is
    what reaches x_{n-1}. So lambda_n = mu_{n+1} + e_y dL/dy_n, where mu runs backwards like x
    forwards, and dL/db_n = F_n . lambda_n, dL/dF_n = lambda_n b_n, dL/dM_n = lambda_n x_{n-1}^T.
    """
    mu_end, d_force, d_recurrence, d_intervals = carry
    i = piece.segments - 1 - i
    at = offset + i * piece.size
    b, dy = _cut(force, at, piece.size), _cut(d_positions, at, piece.size)
    here, start = samples.piece(at, piece.size), (starts[0][i], starts[1][i])

    (zs, ys), _ = _solve(piece, recurrence, here, b, start, adjoint=False)
    (mu_z, mu_y), mu_start = _solve(piece, recurrence, here, dy, mu_end, adjoint=True)
    before = (_delay(start[0], zs), _delay(start[1], ys))
    lambdas = (_hasten(mu_z, mu_end[0]), _hasten(mu_y, mu_end[1]) + dy)

    def steps(recurrence: Recurrence, intervals: Array | None) -> Step:
        step = recurrence.step(Samples(intervals, here.mask))
        return jax.tree.map(lambda x: jnp.broadcast_to(x, b.shape), step)

    step, pull_back = jax.vjp(steps, recurrence, here.intervals)
    (lz, ly), (z, y), (fz, fy) = lambdas, before, step.forcing
    d_step = Step(((lz * z, lz * y), (ly * z, ly * y)), (lz * b, ly * b))
    d_recurrence_here, d_intervals_here = pull_back(d_step)
    d_force = _paste(d_force, fz * lz + fy * ly, at)
    d_recurrence = jax.tree.map(jnp.add, d_recurrence, d_recurrence_here)
    if d_intervals is not None:
        d_intervals = _paste(d_intervals, d_intervals_here, at)
    return mu_start, d_force, d_recurrence, d_intervals


def _solve(piece: Piece, *problem: Any, adjoint: bool) -> tuple[State, State]:
    if piece.chunks == 0:
        return solve_by_doubling(*problem, adjoint=adjoint)
    return solve_in_chunks(*problem, adjoint=adjoint, chunks=piece.chunks)


def _with_offsets(plan: Plan) -> list[tuple[Piece, int]]:
    """Each piece with the time at which it starts."""
    sizes = [piece.segments * piece.size for piece in plan]
    return list(zip(plan, accumulate(sizes[:-1], initial=0), strict=True))


def _loop(count: int, body: Any, carry: Any) -> Any:
    return body(0, carry) if count == 1 else jax.lax.fori_loop(0, count, body, carry)


def _cut(x: Array, at: Any, size: int) -> Array:
    return jax.lax.dynamic_slice_in_dim(x, at, size, axis=1)


def _paste(x: Array, piece: Array, at: Any) -> Array:
    return jax.lax.dynamic_update_slice_in_dim(x, piece, at, axis=1)


def _delay(first: Array, x: Array) -> Array:
    """x one step later, with `first` in front."""
    return jnp.concatenate([first[:, None], x[:, :-1]], axis=1)


def _hasten(x: Array, last: Array) -> Array:
    """x one step earlier, with `last` at the end."""
    return jnp.concatenate([x[:, 1:], last[:, None]], axis=1)
