"""The engines, and the choice of one: a loop in C++, a loop in JAX, the parallel scan.

Quantities that accumulate errors are in double precision: products of many M, whose error enters at
every use and shifts the phase in one direction (single precision would lose three digits over
50,000 steps), and the state of the loop.
"""

import os
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from linoss import _checks, kernels
from linoss.dynamics import Step
from linoss.scan._adjoint import SEGMENT, Gradients, Schedule, Solver, steps_with_pull_back
from linoss.scan._recurrence import (
    Matrix,
    Recurrence,
    Sampling,
    State,
    add,
    apply,
    double_precision,
    multiply,
    push,
)

ENGINES = ("sequential", "associative", "native")


def engines() -> tuple[str, ...]:
    """The available engines; `"native"` is one of them if its kernels were built.

    ```python
    >>> import linoss
    >>> linoss.engines()[:2]
    ('sequential', 'associative')

    ```
    """
    return ENGINES if kernels.usable() else ENGINES[:-1]


def resolve_engine(engine: str, *, forward_mode: bool = False) -> str:
    """Validate the name of an engine, and resolve `"auto"` as far as possible without shapes.

    `"auto"` becomes the engine of the environment variable `LINOSS_ENGINE` if it is set, else
    `"native"` if its kernels are usable; otherwise it stays `"auto"`.
    """
    _checks.one_of("engine", engine, ("auto", *ENGINES))
    if engine == "auto":
        engine = os.environ.get("LINOSS_ENGINE", "auto")
        _checks.one_of("LINOSS_ENGINE", engine, ("auto", *ENGINES))
        if engine not in ("auto", "native"):
            return engine
        return "native" if kernels.usable() and not forward_mode else "auto"
    if engine == "native" and not kernels.usable():
        raise ValueError(
            "engine is 'native', expected one of linoss.engines(): the native kernels need an "
            "install with a C++ compiler, and JAX on a CPU"
        )
    if engine == "native" and forward_mode:
        raise ValueError("engine is 'native', expected another one for forward_mode=True")
    return engine


def make_schedule(engine: str, time: int, *, varying: bool) -> Schedule:
    """The solver of a sequence, and the length of its segments.

    Without kernels, a CPU runs the loop in JAX, and accelerators the parallel scan.
    """
    if engine == "auto":
        engine = "sequential" if jax.default_backend() == "cpu" else "associative"
    if engine == "native":
        return Schedule(Native(), min(time, SEGMENT) if varying else time)
    if engine == "sequential":
        return Schedule(JaxSolver(parallel=False), min(time, 256))
    return Schedule(JaxSolver(parallel=True), min(time, SEGMENT))


@dataclass(frozen=True)
class Native(Solver):
    """A loop over time in C++, vectorised over oscillators, threaded over sequences.

    A constant step is passed once, together with the mask; varying steps are passed for every
    sample and include the mask. The residuals are the states at the start of each tile.
    """

    def run(
        self, recurrence: Recurrence, sampling: Sampling, force: Array, start: State
    ) -> tuple[Array, State, Array]:
        """See `kernels.oscillators`."""
        steps, mask, _ = self._arguments(recurrence, sampling, force)
        begin = jnp.stack(start, axis=-1)
        positions, end, kept = kernels.oscillators(force, steps, mask, begin)
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
        steps, mask, pull_back = self._arguments(recurrence, sampling, force)
        d_force, d_steps, d_start = kernels.oscillators_back(
            force, steps, mask, kept, d_positions, jnp.stack(d_end, axis=-1)
        )
        (zz, zy, yz, yy, fz, fy) = d_steps
        d_recurrence, d_intervals = pull_back(Step(((zz, zy), (yz, yy)), (fz, fy)))
        return Gradients(d_force, d_recurrence, d_intervals, (d_start[..., 0], d_start[..., 1]))

    def _arguments(
        self, recurrence: Recurrence, sampling: Sampling, force: Array
    ) -> tuple[Array, Array | None, Any]:
        """The steps in rows, the mask, and what maps gradients of steps to those of parameters."""
        mask, shape = None, force.shape
        if recurrence.scheme is None:
            if sampling.mask is not None:
                mask = jnp.broadcast_to(sampling.mask[..., 0], force.shape[:2])
            shape, sampling = force.shape[-1:], Sampling(None, None)
        steps, pull_back = steps_with_pull_back(recurrence, sampling, shape)
        return jnp.stack(jax.tree.leaves(steps)), mask, pull_back


@dataclass(frozen=True)
class JaxSolver(Solver):
    """All states of a segment in JAX; the sensitivities follow from the same recurrence."""

    parallel: bool
    """By the parallel scan, or by a loop."""

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

    def _solve(
        self,
        recurrence: Recurrence,
        sampling: Sampling,
        force: Array,
        start: State,
        *,
        adjoint: bool,
    ) -> tuple[State, State]:
        """All states of a segment, and the last one.

        Forwards x_n = M_n x_{n-1} + F_n b_n, or, with `adjoint`, the sensitivities backwards.
        """
        solve = _in_parallel if self.parallel else _in_order
        make_step = recurrence.adjoint_step if adjoint else recurrence.step
        with jax.enable_x64(True):
            return solve(make_step, sampling, force, start, reverse=adjoint)


def _later(first: Array, x: Array) -> Array:
    """x one step later, with `first` in front."""
    return jnp.concatenate([first[:, None], x[:, :-1]], axis=1)


def _earlier(x: Array, last: Array) -> Array:
    """x one step earlier, with `last` at the end."""
    return jnp.concatenate([x[:, 1:], last[:, None]], axis=1)


def _in_order(
    make_step: Any, sampling: Sampling, force: Array, start: State, *, reverse: bool
) -> tuple[State, State]:
    time = force.shape[1]

    def advance(i: Array, carry: tuple[State, State]) -> tuple[State, State]:
        state, (zs, ys) = carry
        n = time - 1 - i if reverse else i
        at_n = partial(jax.lax.dynamic_index_in_dim, index=n, axis=1, keepdims=False)
        matrix, forcing = make_step(jax.tree.map(at_n, sampling))
        state = add(apply(matrix, state), push(forcing, at_n(force)))
        write = partial(jax.lax.dynamic_update_index_in_dim, index=n, axis=1)
        z, y = (x.astype(force.dtype) for x in state)
        return state, (write(zs, z), write(ys, y))

    states = (jnp.zeros_like(force), jnp.zeros_like(force))
    carry = jax.lax.fori_loop(0, time, advance, (double_precision(start), states))
    last, states = carry
    return states, jax.tree.map(lambda x: x.astype(force.dtype), last)


def _in_parallel(
    make_step: Any, sampling: Sampling, force: Array, start: State, *, reverse: bool
) -> tuple[State, State]:
    """The parallel scan with (M_1, f_1) . (M_2, f_2) = (M_2 M_1, M_2 f_1 + f_2)."""
    matrix, forcing = make_step(sampling)
    matrix = jax.tree.map(lambda x: jnp.broadcast_to(x, force.shape), matrix)
    steps = double_precision((matrix, push(forcing, force)))
    products, states = jax.lax.associative_scan(_compose, steps, reverse=reverse, axis=1)
    begin = double_precision((start[0][:, None], start[1][:, None]))
    states = jax.tree.map(lambda x: x.astype(force.dtype), add(apply(products, begin), states))
    end = 0 if reverse else -1
    return states, (states[0][:, end], states[1][:, end])


def _compose(first: tuple[Matrix, State], second: tuple[Matrix, State]) -> tuple[Matrix, State]:
    return multiply(second[0], first[0]), add(apply(second[0], first[1]), second[1])
