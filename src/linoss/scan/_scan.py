"""`oscillator_scan`: one step, a whole sequence, and the derivative of it."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float

from linoss import _checks
from linoss.dynamics._transition import Transition, VaryingTransition
from linoss.dynamics._verlet import kick_weights
from linoss.scan._engines import solve_by_doubling, solve_in_chunks
from linoss.scan._recurrence import Recurrence, Samples, State, add, apply

ENGINES = ("auto", "sequential", "associative", "chunked")


class Piece(NamedTuple):
    """`count` segments of `size` steps, each solved in `chunks` (0: by doubling)."""

    count: int
    size: int
    chunks: int


def oscillator_scan(
    transition: Transition | VaryingTransition,
    force: Float[Array, "*batch time m"],
    *,
    initial_state: Float[Array, "*batch m 2"] | None = None,
    mask: Bool[Array, "*batch time"] | None = None,
    reverse: bool = False,
    engine: str = "auto",
    forward_mode: bool = False,
) -> tuple[Float[Array, "*batch time m"], Float[Array, "*batch m 2"]]:
    """Run oscillators over a sequence of forces: x_n = M x_{n-1} + F b_n, x = [z, y].

    **Arguments:**

    - `transition`: one step, from [`linoss.discretize`][].
    - `force`: b, `(..., time, m)`.
    - `initial_state`: [z, y] before the first step, `(..., m, 2)`: what an earlier call returned,
      so that pieces of a sequence give what the whole gives. By default, rest.
    - `mask`: `(..., time)`, False where a sample is missing: that step leaves the state untouched
      and its force, whatever it is, has no effect.
    - `reverse`: run from the last sample to the first; the final state is then the first sample's.
    - `engine`: `"sequential"`, a loop over time; `"chunked"`, pieces of the sequence side by side,
      for narrow banks; `"associative"`, the paper's parallel scan, for accelerators; `"auto"`.
      They compute the same values and gradients to rounding.
    - `forward_mode`: differentiate by JAX's own rules rather than by the adjoint recurrence, so
      that `jax.jvp` and higher derivatives work; `jax.grad` then keeps all states in memory.

    **Returns:** positions y, `(..., time, m)`, and the final state [z, y], `(..., m, 2)`.

    Half-precision forces are accumulated in the transition's precision.

    ```python
    >>> import jax.numpy as jnp, linoss
    >>> step = linoss.discretize("im", frequency=[1.0], timestep=1.0)
    >>> positions, state = linoss.oscillator_scan(step, jnp.ones((3, 1)))
    >>> positions[:, 0]
    Array([0.5 , 1.  , 1.25], dtype=float32)

    ```
    """
    if not isinstance(transition, Transition | VaryingTransition):
        raise ValueError(
            f"transition is a {type(transition).__name__}, expected what linoss.discretize returns"
        )
    _checks.one_of("engine", engine, ENGINES)
    force = _checks.floating("force", force)
    m = transition.state_size
    _checks.shape("force", force, ("...", "time", m))
    *leading, time, _ = force.shape
    if time == 0:
        raise ValueError(f"force has shape {force.shape}, expected at least one step of time")
    leading = tuple(leading)

    forcing_dtype = jax.tree.leaves(transition)[0].dtype
    dtype = jnp.promote_types(force.dtype, forcing_dtype)
    half = jnp.finfo(force.dtype).bits < 32
    out_dtype = force.dtype if half else dtype

    samples = Samples(
        intervals=_flat_intervals(transition, leading, time, dtype),
        mask=_flat_mask(mask, leading, time),
    )
    start = _flat_state(initial_state, leading, m, dtype)
    flat_force = force.reshape(-1, time, m).astype(dtype)
    if reverse:
        flat_force, samples = jax.tree.map(partial(jnp.flip, axis=1), (flat_force, samples))
    if samples.mask is not None:  # a missing force may be anything, NaN included
        flat_force = jnp.where(samples.mask, flat_force, 0)
    flat_force = _weighted(transition, samples, flat_force, at_rest=initial_state is None)

    if isinstance(transition, Transition):
        recurrence = Recurrence(transition.step, None)
    else:
        parameters = (transition.frequency, transition.timestep, transition.damping)
        recurrence = Recurrence(parameters, transition.scheme)
    recurrence = jax.tree.map(lambda x: x.astype(dtype), recurrence)
    varies = samples.intervals is not None or samples.mask is not None
    plan = _plan(engine, flat_force.shape, varies)
    if forward_mode:
        positions, final, _ = _forward(plan, recurrence, samples, flat_force, start)
    else:
        positions, final = _scan(plan, recurrence, samples, flat_force, start)
    if reverse:
        positions = jnp.flip(positions, axis=1)
    final_state = jnp.stack(final, axis=-1).reshape(*leading, m, 2)
    return positions.astype(out_dtype).reshape(*leading, time, m), final_state


def _flat_intervals(
    transition: Transition | VaryingTransition, leading: tuple[int, ...], time: int, dtype: Any
) -> Array | None:
    if isinstance(transition, Transition):
        return None
    intervals = transition.intervals
    *batch, samples, _ = intervals.shape
    if samples != time or not _broadcasts(tuple(batch), leading):
        raise ValueError(
            f"timestep has shape {intervals.shape}, expected (..., time, 1) or (..., time, m) for a "
            f"force with leading axes {leading} and {time} steps"
        )
    return _flatten(intervals.astype(dtype), leading, 2)


def _flat_mask(mask: Any, leading: tuple[int, ...], time: int) -> Array | None:
    if mask is None:
        return None
    if getattr(mask, "dtype", None) != bool:
        raise ValueError(f"mask has dtype {getattr(mask, 'dtype', type(mask))}, expected bool")
    if mask.ndim < 1 or mask.shape[-1] != time or not _broadcasts(mask.shape[:-1], leading):
        raise ValueError(f"mask has shape {mask.shape}, expected {(*leading, time)}")
    return _flatten(jnp.asarray(mask)[..., None], leading, 2)


def _flat_state(state: Any, leading: tuple[int, ...], m: int, dtype: Any) -> State:
    if state is None:
        state = jnp.zeros((m, 2), dtype)
    state = _checks.floating("initial_state", state)
    if state.shape[-2:] != (m, 2) or not _broadcasts(state.shape[:-2], leading):
        raise ValueError(
            f"initial_state has shape {state.shape}, expected (..., m, 2) = {(*leading, m, 2)}"
        )
    state = jnp.broadcast_to(state, (*leading, m, 2)).reshape(-1, m, 2).astype(dtype)
    return state[..., 0], state[..., 1]


def _broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    pairs = zip(shape[::-1], to[::-1], strict=False)
    return len(shape) <= len(to) and all(size in (1, target) for size, target in pairs)


def _flatten(x: Array, leading: tuple[int, ...], trailing: int) -> Array:
    """One batch axis in front: of size 1 if `x` is the same for the whole batch."""
    axes = x.shape[: x.ndim - trailing]
    if all(size == 1 for size in axes):
        return x.reshape(1, *x.shape[x.ndim - trailing :])
    return jnp.broadcast_to(x, (*leading, *x.shape[x.ndim - trailing :])).reshape(
        -1, *x.shape[x.ndim - trailing :]
    )


def _weighted(
    transition: Transition | VaryingTransition, samples: Samples, force: Array, *, at_rest: bool
) -> Array:
    """Forces as the scheme weighs them; only Verlet's are not all one."""
    if transition.onset == 1.0:
        return force
    if samples.intervals is not None:
        force = force * kick_weights(samples.intervals, samples.mask)
    if not at_rest:
        return force
    if samples.mask is None:
        return force.at[:, 0].multiply(transition.onset)
    index = jnp.arange(force.shape[1])[:, None]
    first = samples.mask & (index == jnp.argmax(samples.mask, axis=1, keepdims=True))
    return jnp.where(first, transition.onset * force, force)


def _plan(engine: str, shape: tuple[int, ...], varies: bool) -> tuple[Piece, ...]:
    """How to cut a sequence: in segments, so that the backward pass holds the states of one only."""
    batch, time, m = shape
    width = max(batch * m, 1)
    if engine == "auto":
        if jax.default_backend() != "cpu":
            engine = "associative"
        else:
            engine = "chunked" if width < 512 and time >= 256 else "sequential"
    if engine == "associative":
        size = min(time, 1024) if varies else time
        chunks = 0
    elif engine == "sequential":
        size, chunks = min(time, 256), 1
    else:
        chunks = min(max(4096 // width, 8), 256, time)
        size = chunks * min(64, time // chunks)
    pieces = [Piece(time // size, size, chunks)]
    rest = time % size
    if chunks > 1 and rest >= 4 * chunks:
        pieces.append(Piece(1, rest - rest % chunks, chunks))
        rest %= chunks
    if rest:
        pieces.append(Piece(1, rest, min(chunks, 1)))
    return tuple(pieces)


def _solve(piece: Piece, *args: Any, adjoint: bool) -> tuple[State, State]:
    if piece.chunks == 0:
        return solve_by_doubling(*args, adjoint=adjoint)
    return solve_in_chunks(*args, adjoint=adjoint, chunks=piece.chunks)


def _loop(count: int, body: Any, carry: Any) -> Any:
    return body(0, carry) if count == 1 else jax.lax.fori_loop(0, count, body, carry)


def _forward(
    plan: tuple[Piece, ...], recurrence: Recurrence, samples: Samples, force: Array, state: State
) -> tuple[Array, State, tuple[State, ...]]:
    """Positions, the final state, and the states at the start of each piece's segments."""
    positions, checkpoints, offset = jnp.zeros_like(force), [], 0
    for piece in plan:

        def segment(i: Any, carry: Any, piece: Piece = piece, offset: int = offset) -> Any:
            state, positions, starts = carry
            at = offset + i * piece.size
            here = jax.lax.dynamic_slice_in_dim(force, at, piece.size, axis=1)
            (_, ys), end = _solve(
                piece, recurrence, samples.piece(at, piece.size), here, state, adjoint=False
            )
            positions = jax.lax.dynamic_update_slice_in_dim(positions, ys, at, axis=1)
            starts = jax.tree.map(lambda all, one: all.at[i].set(one), starts, state)
            return end, positions, starts

        starts = jax.tree.map(lambda x, n=piece.count: jnp.zeros((n, *x.shape), x.dtype), state)
        state, positions, starts = _loop(piece.count, segment, (state, positions, starts))
        checkpoints.append(starts)
        offset += piece.count * piece.size
    return positions, state, tuple(checkpoints)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _scan(
    plan: tuple[Piece, ...], recurrence: Recurrence, samples: Samples, force: Array, start: State
) -> tuple[Array, State]:
    positions, final, _ = _forward(plan, recurrence, samples, force, start)
    return positions, final


def _scan_forward(plan: Any, recurrence: Any, samples: Any, force: Any, start: Any) -> Any:
    positions, final, checkpoints = _forward(plan, recurrence, samples, force, start)
    return (positions, final), (recurrence, samples, force, checkpoints)


def _scan_backward(plan: tuple[Piece, ...], residuals: Any, cotangents: Any) -> Any:
    """The adjoint recurrence, segment by segment from the end.

    With lambda_n = dL/dx_n as a total derivative: mu_n = M_n^T lambda_n is what reaches x_{n-1},
    so lambda_n = mu_{n+1} + e_y dy_n, and dL/db_n = F_n . lambda_n, dL/dF_n = lambda_n b_n,
    dL/dM_n = lambda_n x_{n-1}^T. The states x are computed again from the segment's start.
    """
    recurrence, samples, force, checkpoints = residuals
    d_positions, mu = cotangents
    d_force = jnp.zeros_like(force)
    d_recurrence, d_intervals = jax.tree.map(jnp.zeros_like, (recurrence, samples.intervals))
    end = force.shape[1]
    for piece, starts in zip(plan[::-1], checkpoints[::-1], strict=True):
        offset = end - piece.count * piece.size

        def segment(
            i: Any, carry: Any, piece: Piece = piece, starts: Any = starts, offset: int = offset
        ) -> Any:
            mu, d_force, d_recurrence, d_intervals = carry
            i = piece.count - 1 - i
            at = offset + i * piece.size
            cut = partial(
                jax.lax.dynamic_slice_in_dim, start_index=at, slice_size=piece.size, axis=1
            )
            b, dy, here = cut(force), cut(d_positions), samples.piece(at, piece.size)
            start = jax.tree.map(lambda x: x[i], starts)
            states, _ = _solve(piece, recurrence, here, b, start, adjoint=False)
            mus, mu_start = _solve(piece, recurrence, here, dy, mu, adjoint=True)
            before = _shifted(states, first=start)
            sensitivity = add(_shifted(mus, last=mu), (jnp.zeros_like(dy), dy))
            d_b, d_rec, d_int = _local_gradients(recurrence, here, b, before, sensitivity)
            d_force = jax.lax.dynamic_update_slice_in_dim(d_force, d_b, at, axis=1)
            d_recurrence = jax.tree.map(jnp.add, d_recurrence, d_rec)
            if d_intervals is not None:
                d_intervals = jax.lax.dynamic_update_slice_in_dim(d_intervals, d_int, at, axis=1)
            return mu_start, d_force, d_recurrence, d_intervals

        carry = (mu, d_force, d_recurrence, d_intervals)
        mu, d_force, d_recurrence, d_intervals = _loop(piece.count, segment, carry)
        end = offset
    return d_recurrence, Samples(d_intervals, None), d_force, mu


def _shifted(states: State, first: State | None = None, last: State | None = None) -> State:
    """States moved by one along time, with one given at the free end."""
    if first is not None:
        moved = (jnp.concatenate([f[:, None], x[:, :-1]], 1) for x, f in zip(states, first))
    else:
        assert last is not None
        moved = (jnp.concatenate([x[:, 1:], f[:, None]], 1) for x, f in zip(states, last))
    z, y = moved
    return z, y


def _local_gradients(
    recurrence: Recurrence, samples: Samples, force: Array, before: State, sensitivity: State
) -> tuple[Array, Recurrence, Array | None]:
    """Gradients of x_n = M_n x_{n-1} + F_n b_n for b, the parameters and the intervals."""

    def steps(recurrence: Recurrence, intervals: Array | None) -> Any:
        step = recurrence.step(Samples(intervals, samples.mask))
        return jax.tree.map(lambda x: jnp.broadcast_to(x, force.shape), step)

    step, pull_back = jax.vjp(steps, recurrence, samples.intervals)
    (lz, ly), (z, y) = sensitivity, before
    fz, fy = step.forcing
    d_step = type(step)(((lz * z, lz * y), (ly * z, ly * y)), (lz * force, ly * force))
    d_recurrence, d_intervals = pull_back(d_step)
    return fz * lz + fy * ly, d_recurrence, d_intervals


_scan.defvjp(_scan_forward, _scan_backward)
