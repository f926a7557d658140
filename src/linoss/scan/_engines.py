"""Solvers in plain JAX: a loop over time, parallel chunks of time, or the parallel scan.

Each runs x_n = M_n x_{n-1} + F_n b_n forwards, or, with `adjoint=True`, the recurrence of the
sensitivities backwards, which has the same form. Both return all states and the last one.

Quantities that accumulate errors are in double precision: products of many M, whose error enters at
every use and shifts the phase in one direction (single precision would lose three digits over
50,000 steps), and the state of the loop.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from linoss.dynamics import Step
from linoss.scan._adjoint import Gradients, Solver, steps_with_pull_back
from linoss.scan._recurrence import (
    Matrix,
    Recurrence,
    Sampling,
    State,
    add,
    apply,
    is_constant,
    multiply,
    push,
)


@dataclass(frozen=True)
class JaxSolver(Solver):
    """All states of a segment in JAX; the sensitivities follow from the same recurrence."""

    chunks: int
    """Number of parallel chunks, a divisor of the segment's size; 0 for the parallel scan."""

    def run(
        self, recurrence: Recurrence, sampling: Sampling, force: Array, start: State
    ) -> tuple[Array, State, State]:
        """The residual is the state at the start of the segment."""
        (_, y), end = self._solve(recurrence, sampling, force, start, adjoint=False)
        return y, end, start

    def pull_back(
        self,
        recurrence: Recurrence,
        sampling: Sampling,
        force: Array,
        kept: State,
        d_positions: Array,
        d_end: State,
    ) -> Gradients:
        """The adjoint recurrence.

        Let lambda_n be the total derivative of the loss with respect to x_n, and mu_n = M_n^T
        lambda_n its contribution to that of x_{n-1}. Then lambda_n = mu_{n+1} + e_y dL/dy_n, mu
        runs backwards as x runs forwards, and dL/db_n = F_n . lambda_n, dL/dF_n = lambda_n b_n,
        dL/dM_n = lambda_n x_{n-1}^T.
        """
        b, dy, problem = force, d_positions, (recurrence, sampling)
        (zs, ys), _ = self._solve(*problem, b, kept, adjoint=False)
        (mu_z, mu_y), mu_start = self._solve(*problem, dy, d_end, adjoint=True)
        z, y = _later(kept[0], zs), _later(kept[1], ys)
        lz, ly = _earlier(mu_z, d_end[0]), _earlier(mu_y, d_end[1]) + dy

        step, pull_back = steps_with_pull_back(*problem, b.shape)
        fz, fy = step.forcing
        d_step = Step(((lz * z, lz * y), (ly * z, ly * y)), (lz * b, ly * b))
        d_recurrence, d_intervals = pull_back(d_step)
        return Gradients(fz * lz + fy * ly, d_recurrence, d_intervals, mu_start)

    def _solve(self, *problem: Any, adjoint: bool) -> tuple[State, State]:
        """All states of a segment, and the last one."""
        if self.chunks == 0:
            return _solve_by_doubling(*problem, adjoint=adjoint)
        return _solve_in_chunks(self.chunks, *problem, adjoint=adjoint)


def _later(first: Array, x: Array) -> Array:
    """x one step later, with `first` in front."""
    return jnp.concatenate([first[:, None], x[:, :-1]], axis=1)


def _earlier(x: Array, last: Array) -> Array:
    """x one step earlier, with `last` at the end."""
    return jnp.concatenate([x[:, 1:], last[:, None]], axis=1)


def _solve_in_chunks(
    chunks: int,
    recurrence: Recurrence,
    sampling: Sampling,
    force: Array,
    start: State,
    *,
    adjoint: bool,
) -> tuple[State, State]:
    """Run all chunks from rest, compute their initial states from the final ones and the products
    of M, and run all chunks again from these states."""
    batch, time, m = force.shape
    length = time // chunks
    force, sampling = jax.tree.map(
        lambda x: x.reshape(x.shape[0], chunks, length, x.shape[-1]), (force, sampling)
    )

    def advance(i: Array, state: State) -> tuple[Array, Matrix, State]:
        n = length - 1 - i if adjoint else i
        at_n = partial(jax.lax.dynamic_index_in_dim, index=n, axis=2, keepdims=False)
        make_step = recurrence.adjoint_step if adjoint else recurrence.step
        matrix, forcing = make_step(jax.tree.map(at_n, sampling))
        return n, matrix, add(apply(matrix, state), push(forcing, at_n(force)))

    def run(i: Array, carry: tuple[State, State]) -> tuple[State, State]:
        state, states = carry
        n, _, state = advance(i, state)
        write = partial(jax.lax.dynamic_update_index_in_dim, index=n, axis=2)
        z, y = (x.astype(force.dtype) for x in state)
        return state, (write(states[0], z), write(states[1], y))

    with jax.enable_x64(True):
        if chunks == 1:
            starts, final = double_precision((start[0][:, None], start[1][:, None])), None
        else:
            products, ends = _run_from_rest(advance, length, (batch, chunks, m), force.dtype)
            starts, final = _join(products, ends, start, reverse=adjoint)
        empty = jnp.zeros_like(force)
        (z, y), (zs, ys) = jax.lax.fori_loop(0, length, run, (starts, (empty, empty)))
        if final is None:
            final = (z[:, 0].astype(force.dtype), y[:, 0].astype(force.dtype))
    return (zs.reshape(batch, time, m), ys.reshape(batch, time, m)), final


def _run_from_rest(
    advance: Callable[[Array, State], tuple[Array, Matrix, State]],
    length: int,
    shape: tuple[int, int, int],
    dtype: Any,
) -> tuple[Matrix, State]:
    """The product of all M of a chunk, and the chunk's end state from rest."""
    rest = (jnp.zeros(shape, dtype), jnp.zeros(shape, dtype))
    _, matrix, _ = advance(jnp.asarray(0), rest)
    if is_constant(matrix):
        ends = jax.lax.fori_loop(0, length, lambda i, state: advance(i, state)[2], rest)
        return _power(double_precision(matrix), length), ends

    def run(i: Array, carry: tuple[Matrix, State]) -> tuple[Matrix, State]:
        product, state = carry
        _, matrix, state = advance(i, state)
        return multiply(double_precision(matrix), product), state

    one, zero = jnp.ones(shape, jnp.float64), jnp.zeros(shape, jnp.float64)
    return jax.lax.fori_loop(0, length, run, (((one, zero), (zero, one)), rest))


def double_precision(matrix: Any) -> Any:
    """Convert to double precision."""
    return jax.tree.map(lambda x: x.astype(jnp.float64), matrix)


def _power(matrix: Matrix, exponent: int) -> Matrix:
    """M^exponent, by squaring."""
    if exponent == 1:
        return matrix
    half = _power(matrix, exponent // 2)
    square = multiply(half, half)
    return multiply(square, matrix) if exponent % 2 else square


def _join(products: Matrix, ends: State, start: State, *, reverse: bool) -> tuple[State, State]:
    """The state at the start of each chunk, and at the end of the last."""

    def join(state: State, chunk: tuple[Matrix | None, State]) -> tuple[State, State]:
        product, end = chunk
        return add(apply(product or products, state), end), state

    chunk_first = partial(jax.tree.map, lambda x: jnp.moveaxis(x, 1, 0))
    chunks = (None if is_constant(products) else chunk_first(products), chunk_first(ends))
    last, (zs, ys) = jax.lax.scan(join, double_precision(start), chunks, reverse=reverse)
    starts = (jnp.moveaxis(zs, 0, 1), jnp.moveaxis(ys, 0, 1))
    return jax.tree.map(lambda x: x.astype(start[0].dtype), (starts, last))


def _solve_by_doubling(
    recurrence: Recurrence, sampling: Sampling, force: Array, start: State, *, adjoint: bool
) -> tuple[State, State]:
    """The parallel scan with (M_1, f_1) . (M_2, f_2) = (M_2 M_1, M_2 f_1 + f_2).

    If M is constant, all products on one level of the tree are the same power of M, and only the
    forces are arrays over time.
    """
    matrix, forcing = (recurrence.adjoint_step if adjoint else recurrence.step)(sampling)
    along_time = partial(jnp.flip, axis=1) if adjoint else lambda x: x
    fz, fy = push(forcing, force)
    forced = (along_time(fz), along_time(fy))
    if is_constant(matrix):
        first = add(apply(matrix, start), (forced[0][:, 0], forced[1][:, 0]))
        zs, ys = (x.at[:, 0].set(x0) for x, x0 in zip(forced, first, strict=True))
        zs, ys = _double(_powers_of_two(matrix, force.shape[1]), (zs, ys))
    else:
        with jax.enable_x64(True):
            wide = jax.tree.map(lambda x: along_time(jnp.broadcast_to(x, force.shape)), matrix)
            products, states = jax.lax.associative_scan(
                _compose, double_precision((wide, forced)), axis=1
            )
            begin = double_precision((start[0][:, None], start[1][:, None]))
            states = add(apply(products, begin), states)
            zs, ys = (x.astype(force.dtype) for x in states)
    return (along_time(zs), along_time(ys)), (zs[:, -1], ys[:, -1])


def _compose(first: tuple[Matrix, State], second: tuple[Matrix, State]) -> tuple[Matrix, State]:
    return multiply(second[0], first[0]), add(apply(second[0], first[1]), second[1])


def _powers_of_two(matrix: Matrix, time: int) -> list[tuple[Matrix, Matrix]]:
    """M, M^2, M^4, ... up to the length of the sequence, each as a rounded value and its error."""
    dtype, powers = matrix[0][0].dtype, []
    with jax.enable_x64(True):
        power = double_precision(matrix)
        while time > 1:
            rounded = jax.tree.map(lambda x: x.astype(dtype), power)
            error = jax.tree.map(lambda x, r: (x - r.astype(x.dtype)).astype(dtype), power, rounded)
            powers.append((rounded, error))
            power, time = multiply(power, power), time // 2
    return powers


def _double(powers: list[tuple[Matrix, Matrix]], forced: State) -> State:
    """All states of x_n = M x_{n-1} + f_n: first every second one, by pairs of steps, then the
    others."""
    if not powers:
        return forced
    (matrix, error), *further = powers
    even = (forced[0][:, 0::2], forced[1][:, 0::2])
    odd = (forced[0][:, 1::2], forced[1][:, 1::2])

    def advance(state: State, length: int) -> State:
        z, y = state[0][:, :length], state[1][:, :length]
        return add(apply(matrix, (z, y)), apply(error, (z, y)))

    at_odd = _double(further, add(advance(even, odd[0].shape[1]), odd))
    before = advance(at_odd, even[0].shape[1] - 1)
    at_even = add(even, (_delay(before[0]), _delay(before[1])))
    return _interleave(at_even[0], at_odd[0]), _interleave(at_even[1], at_odd[1])


def _delay(x: Array) -> Array:
    """Shift by one step along time, with zeros first."""
    return jnp.pad(x, ((0, 0), (1, 0), (0, 0)))


def _interleave(even: Array, odd: Array) -> Array:
    """even_0, odd_0, even_1, odd_1, ... along time."""
    time = even.shape[1] + odd.shape[1]
    zero = jnp.zeros((), even.dtype)
    none = (0, 0, 0)
    spread_even = jax.lax.pad(even, zero, (none, (0, 1 - time % 2, 1), none))
    spread_odd = jax.lax.pad(odd, zero, (none, (1, time % 2, 1), none))
    return spread_even + spread_odd
