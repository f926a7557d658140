"""`oscillator_scan`: from one step to a whole sequence."""

import os
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float

from linoss import _checks, _kernels
from linoss._checks import AnyArray
from linoss.dynamics._transition import Transition, VaryingTransition
from linoss.dynamics._verlet import kick_weights
from linoss.scan._adjoint import Piece, Plan, run, run_with_adjoint
from linoss.scan._native import run_natively
from linoss.scan._pieces import (
    end_from_rest,
    join_pieces,
    nearest_before,
    power_of_step,
    product_of_steps,
)
from linoss.scan._recurrence import Recurrence, Samples, State

ENGINES = ("sequential", "chunked", "associative", "native")


def engines() -> tuple[str, ...]:
    """The engines that this install has: `"native"` is there if its kernels were built.

    ```python
    >>> import linoss
    >>> linoss.engines()[:3]
    ('sequential', 'chunked', 'associative')

    ```
    """
    return ENGINES if _kernels.usable() else ENGINES[:3]


def resolve_engine(engine: str, *, forward_mode: bool = False) -> str:
    """The engine to use: the one asked for, or in place of `"auto"` that of `LINOSS_ENGINE`.

    `"auto"` stays where the choice depends on shapes, which is where there are no kernels.
    """
    _checks.one_of("engine", engine, ("auto", *ENGINES))
    if engine == "auto":
        engine = os.environ.get("LINOSS_ENGINE", "auto")
        _checks.one_of("LINOSS_ENGINE", engine, ("auto", *ENGINES))
        if engine == "native" and (forward_mode or not _kernels.usable()):
            return "auto"
        if engine == "auto" and _kernels.usable() and not forward_mode:
            return "native"
        return engine
    if engine == "native" and not _kernels.usable():
        raise ValueError(
            "engine is 'native', expected one of linoss.engines(): its kernels are there if linoss "
            "was installed where a C++ compiler is found, and JAX runs on a CPU"
        )
    if engine == "native" and forward_mode:
        raise ValueError("engine is 'native', expected another one for forward_mode=True")
    return engine


def oscillator_scan(
    transition: Transition | VaryingTransition,
    force: Float[AnyArray, "*batch time m"],
    *,
    initial_state: Float[AnyArray, "*batch m 2"] | None = None,
    mask: Bool[AnyArray, "*batch time"] | None = None,
    reverse: bool = False,
    engine: str = "auto",
    forward_mode: bool = False,
    time_axis: str | None = None,
) -> tuple[Float[Array, "*batch time m"], Float[Array, "*batch m 2"]]:
    """Run oscillators over a sequence of forces: x_n = M x_{n-1} + F b_n, x = [z, y].

    **Arguments:**

    - `transition`: one step, from [`linoss.discretize`][].
    - `force`: b, `(..., time, m)`.
    - `initial_state`: [z, y] before the first step, `(..., m, 2)`: what an earlier call returned,
      so that pieces of a sequence give what the whole gives. By default, rest. For `"verlet"` the
      velocity is the one before the kick of the next force, and the first force after a given
      state is weighed as if a step as long had come before it; [`linoss.LinOSSLayer`][] also
      carries the step before, which matters where timesteps vary or nothing was seen yet.
    - `mask`: `(..., time)`, False where a sample is missing: that step leaves the state untouched
      and its force, whatever it is, has no effect; no time passes.
    - `reverse`: run from the last sample to the first; the final state is then the first sample's.
    - `engine`: `"native"`, a loop over time in C++; `"sequential"`, a loop in JAX; `"chunked"`,
      pieces of the sequence side by side, for narrow banks; `"associative"`, the paper's parallel
      scan, for accelerators; `"auto"`, the best that is there, or what the environment variable
      `LINOSS_ENGINE` says. They compute the same values and gradients to rounding.
    - `forward_mode`: differentiate by JAX's own rules rather than by the adjoint recurrence, so
      that `jax.jvp` and higher derivatives work; `jax.grad` then keeps all states in memory.
    - `time_axis`: inside `jax.shard_map`, the name of the mesh's axis along which time is split.
      `force` and `mask` are then this device's piece of the sequence, `initial_state` and what is
      returned as the final state are those of the whole.

    **Returns:** positions y, `(..., time, m)`, and the final state [z, y], `(..., m, 2)`.

    Half-precision forces are accumulated in the transition's precision.

    ```python
    >>> import jax.numpy as jnp, linoss
    >>> step = linoss.discretize("im", stiffness=[1.0], timestep=1.0)
    >>> positions, state = linoss.oscillator_scan(step, jnp.ones((3, 1)))
    >>> positions[:, 0]
    Array([0.5 , 1.  , 1.25], dtype=float32)

    ```
    """
    if not isinstance(transition, Transition | VaryingTransition):
        raise ValueError(
            f"transition is a {type(transition).__name__}, expected what linoss.discretize returns"
        )
    engine = resolve_engine(engine, forward_mode=bool(forward_mode))
    force = _checks.floating("force", force)
    m = transition.state_size
    _checks.shape("force", force, ("...", "time", m))
    time = force.shape[-2]
    leading = force.shape[:-2]
    if time == 0:
        raise ValueError(f"force has shape {force.shape}, expected at least one step of time")
    _check_intervals(transition, leading, time)
    _check_mask(mask, leading, time)
    _check_state(initial_state, leading, m)
    return _scan(
        transition,
        force,
        initial_state,
        mask,
        reverse=bool(reverse),
        engine=engine,
        forward_mode=bool(forward_mode),
        time_axis=time_axis,
    )


def state_before_piece(
    transition: Transition | VaryingTransition,
    force: Float[Array, "*batch time m"],
    *,
    initial_state: Float[Array, "*batch m 2"],
    mask: Bool[Array, "*batch time"] | None,
    reverse: bool,
    engine: str,
    time_axis: str,
) -> Float[Array, "*batch m 2"]:
    """Where time is split: the state from which this device's piece starts.

    `initial_state` is the one before the whole sequence. As in `oscillator_scan` after a given
    state, Verlet's first force of a piece has its weight already.
    """
    recurrence, samples, b, start = _prepare(
        transition, force, initial_state, mask, reverse=reverse
    )
    if transition.onset != 1:
        b = _weigh(b, samples, 1.0, None, reverse=reverse)
    run = partial(_run, resolve_engine(engine), False, recurrence, samples)
    start, _ = _join(time_axis, recurrence, samples, b, start, run, reverse=reverse)
    return jnp.stack(start, axis=-1).reshape(initial_state.shape)


def state_before_regular_piece(
    transition: Transition,
    end: Float[Array, "batch m 2"],
    *,
    time: int,
    initial_state: Float[Array, "batch m 2"],
    mask: Bool[Array, "batch time"] | None,
    time_axis: str,
) -> Float[Array, "batch m 2"]:
    """The same for a piece of which `end` is known: where it ends if it starts at rest."""
    mask = None if mask is None else mask[..., None]
    product = power_of_step(transition.step.matrix, mask, time)
    ends, starts = (end[..., 0], end[..., 1]), (initial_state[..., 0], initial_state[..., 1])
    start, _ = join_pieces(time_axis, product, ends, starts)
    return jnp.stack(start, axis=-1)


def _join(
    time_axis: str,
    recurrence: Recurrence,
    samples: Samples,
    force: Array,
    start: State,
    run: Any,
    *,
    reverse: bool,
) -> tuple[State, State]:
    def end(force: Array, start: State) -> State:
        return run(force, start)[1]

    product = product_of_steps(recurrence, samples, force, end)
    piece = (product, end_from_rest(force, start, end))
    return join_pieces(time_axis, *piece, start, reverse=reverse)


class _Problem(NamedTuple):
    """A scan with one batch axis, from the first sample in its order to the last."""

    recurrence: Recurrence
    samples: Samples
    force: Array
    start: State


@partial(jax.jit, static_argnames=("reverse", "engine", "forward_mode", "time_axis"))
def _scan(
    transition: Transition | VaryingTransition,
    force: Array,
    initial_state: Array | None,
    mask: Array | None,
    *,
    reverse: bool,
    engine: str,
    forward_mode: bool,
    time_axis: str | None,
) -> tuple[Array, Array]:
    """The scan for arguments that are known to be good."""
    problem = _prepare(transition, force, initial_state, mask, reverse=reverse)
    recurrence, samples, b, start = problem
    if transition.onset != 1:
        onset = transition.onset if initial_state is None else 1.0
        b = _weigh(b, samples, onset, time_axis, reverse=reverse)
    run = partial(_run, engine, forward_mode, recurrence, samples)
    final = None
    if time_axis is not None:
        start, final = _join(time_axis, recurrence, samples, b, start, run, reverse=reverse)
    positions, end = run(b, start)
    return _finish(positions, end if final is None else final, force, reverse)


def _prepare(
    transition: Transition | VaryingTransition,
    force: Array,
    initial_state: Array | None,
    mask: Array | None,
    *,
    reverse: bool,
) -> _Problem:
    *leading, time, m = force.shape
    if isinstance(transition, Transition):
        recurrence, intervals = Recurrence(transition.step, None), None
    else:
        parameters = (transition.stiffness, transition.timestep, transition.damping)
        recurrence, intervals = Recurrence(parameters, transition.scheme), transition.intervals
    dtype = jnp.promote_types(force.dtype, jax.tree.leaves(transition)[0].dtype)
    recurrence = jax.tree.map(lambda x: x.astype(dtype), recurrence)
    samples = Samples(
        None if intervals is None else _flatten(intervals.astype(dtype), leading),
        None if mask is None else _flatten(mask[..., None], leading),
    )
    b = force.reshape(-1, time, m).astype(dtype)
    if reverse:
        b, samples = jax.tree.map(partial(jnp.flip, axis=1), (b, samples))
    if samples.mask is not None:  # a missing force may be anything, NaN included
        b = jnp.where(samples.mask, b, 0)
    start = jnp.zeros((m, 2), dtype) if initial_state is None else initial_state.astype(dtype)
    start = jnp.broadcast_to(start, (*leading, m, 2)).reshape(-1, m, 2)
    return _Problem(recurrence, samples, b, (start[..., 0], start[..., 1]))


def _run(
    engine: str,
    forward_mode: bool,
    recurrence: Recurrence,
    samples: Samples,
    force: Array,
    start: State,
) -> tuple[Array, State]:
    """Positions and the final state, by an engine."""
    if engine == "native":
        return run_natively(recurrence, samples, force, start)
    varies = samples.mask is not None or samples.intervals is not None
    plan = _plan(engine, force.shape, varies=varies)
    if forward_mode:
        positions, state, _ = run(plan, recurrence, samples, force, start)
        return positions, state
    result: Any = run_with_adjoint(plan, recurrence, samples, force, start)
    return result


def _finish(positions: Array, state: State, force: Array, reverse: bool) -> tuple[Array, Array]:
    """Results in the shape, order and precision of the caller."""
    if reverse:
        positions = jnp.flip(positions, axis=1)
    half = jnp.finfo(force.dtype).bits < 32
    positions = positions.astype(force.dtype if half else positions.dtype)
    final = jnp.stack(state, axis=-1)
    return positions.reshape(force.shape), final.reshape(*force.shape[:-2], *final.shape[1:])


def _check_intervals(
    transition: Transition | VaryingTransition, leading: tuple[int, ...], time: int
) -> None:
    if isinstance(transition, Transition):
        return
    shape = transition.intervals.shape
    if shape[-2] != time or not _broadcasts(shape[:-2], leading):
        raise ValueError(
            f"timestep has shape {shape}, expected (..., time, 1) or (..., time, m) for a force "
            f"with leading axes {leading} and {time} steps"
        )


def _check_mask(mask: Any, leading: tuple[int, ...], time: int) -> None:
    if mask is None:
        return
    _checks.boolean("mask", mask)
    if mask.ndim < 1 or mask.shape[-1] != time or not _broadcasts(mask.shape[:-1], leading):
        raise ValueError(f"mask has shape {mask.shape}, expected {(*leading, time)}")


def _check_state(state: Any, leading: tuple[int, ...], m: int) -> None:
    if state is None:
        return
    shape = _checks.floating("initial_state", state).shape
    if shape[-2:] != (m, 2) or not _broadcasts(shape[:-2], leading):
        raise ValueError(
            f"initial_state has shape {shape}, expected (..., m, 2) = {(*leading, m, 2)}"
        )


def _broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    pairs = zip(shape[::-1], to[::-1], strict=False)
    return len(shape) <= len(to) and all(size in (1, target) for size, target in pairs)


def _flatten(x: Array, leading: list[int]) -> Array:
    """`(batch, time, channel)`, with a batch of 1 where `x` is the same for all."""
    samples = x.shape[-2:]
    if x.size == samples[0] * samples[1]:
        return x.reshape(1, *samples)
    return jnp.broadcast_to(x, (*leading, *samples)).reshape(-1, *samples)


def _weigh(
    force: Array, samples: Samples, onset: float, time_axis: str | None, *, reverse: bool
) -> Array:
    """Forces as Verlet weighs them, the first that is there by `onset`."""
    if samples.intervals is not None:
        force = force * kick_weights(samples.intervals, samples.mask)
    first = (
        jnp.zeros((1, 1, 1), int)
        if samples.mask is None
        else jnp.argmax(samples.mask, axis=1, keepdims=True)
    )
    weight: Any = onset
    if time_axis is not None:
        weight = _first_weight(samples, first, onset, time_axis, reverse=reverse)
    return jnp.where(jnp.arange(force.shape[1])[:, None] == first, weight * force, force)


def _first_weight(
    samples: Samples, first: Array, onset: float, time_axis: str, *, reverse: bool
) -> Array:
    """That of a piece's first force: `onset` if no piece before it has any."""
    if samples.intervals is None:
        last = here = jnp.ones((1, 1, 1))
    else:
        here = jnp.take_along_axis(samples.intervals, first, axis=1)
        last = samples.intervals[:, -1:]
    if samples.mask is not None:
        index = jnp.arange(samples.mask.shape[1])[:, None]
        at = jnp.max(jnp.where(samples.mask, index, 0), axis=1, keepdims=True)
        if samples.intervals is not None:
            last = jnp.take_along_axis(samples.intervals, at, axis=1)
        last = jnp.where(jnp.any(samples.mask, axis=1, keepdims=True), last, 0)
    before = nearest_before(time_axis, last, reverse=reverse)
    return jnp.where(before > 0, (before + here) / (2 * here), onset)


def _plan(engine: str, shape: tuple[int, ...], *, varies: bool) -> Plan:
    """How to cut a sequence into segments and these into chunks.

    A loop over time wants some thousand numbers a step to be worth its overhead: a narrow bank
    gets as many chunks side by side as that takes.
    """
    batch, time, m = shape
    width = max(batch * m, 1)
    if engine == "auto" and jax.default_backend() != "cpu":
        engine = "associative"
    elif engine == "auto":
        engine = "chunked" if width < 512 and time >= 256 else "sequential"
    if engine == "associative":
        chunks, size = 0, min(time, 1024) if varies else time
    elif engine == "sequential":
        chunks, size = 1, min(time, 256)
    else:
        chunks = min(max(4096 // width, 8), 256, time)
        size = chunks * min(64, time // chunks)
    plan = [Piece(time // size, size, chunks)]
    rest = time % size
    if chunks > 1 and rest >= 4 * chunks:
        plan.append(Piece(1, rest - rest % chunks, chunks))
        rest %= chunks
    if rest:
        plan.append(Piece(1, rest, min(chunks, 1)))
    return tuple(plan)
