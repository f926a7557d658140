"""`oscillator_scan`: the recurrence over a whole sequence."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float

from linoss import _checks
from linoss._arrays import common_dtype
from linoss._checks import AnyArray
from linoss.dynamics import Transition, VaryingTransition
from linoss.scan._adjoint import run, run_with_adjoint
from linoss.scan._engines import make_schedule, resolve_engine
from linoss.scan._recurrence import Recurrence, Sampling, State
from linoss.scan._shards import (
    join_shards,
    last_nonzero,
    nearest_before,
    product_of_steps,
)


class OscillatorState(eqx.Module):
    """The state of oscillators between two pieces of a sequence."""

    oscillators: Float[Array, "*batch m 2"]
    """[z, y] of each oscillator."""
    interval: Float[Array, "*batch #m"] | None
    """The last sampling interval, 0 before the first sample. Used only by schemes with weights of
    forces; for these, None means an interval as long as the first."""


def at_rest(
    weighs: bool, batch_shape: tuple[int, ...], state_size: int, dtype: Any
) -> OscillatorState:
    """The state before the first sample; `weighs` says whether the scheme has weights of forces."""
    interval = jnp.zeros((*batch_shape, 1), dtype) if weighs else None
    return OscillatorState(jnp.zeros((*batch_shape, state_size, 2), dtype), interval)


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
    - `initial_state`: [z, y] before the first step, `(..., m, 2)`, for example the final state of
      the previous piece of a sequence. By default, rest. For `"verlet"` the velocity is the one
      before the impulse of the next force, and the first force after a given state has the weight
      for a previous interval of the same length; [`linoss.LinOSSLayer`][] also carries that
      interval.
    - `mask`: `(..., time)`, False where a sample is missing: the state does not change, and the
      force is ignored, even if it is NaN.
    - `reverse`: run from the last sample to the first; the final state is the one after the first
      sample.
    - `engine`: `"native"`, a loop over time in C++; `"sequential"`, a loop in JAX;
      `"associative"`, the paper's parallel scan, for accelerators; `"auto"`, the fastest
      available, or the one in the environment variable `LINOSS_ENGINE`. All compute the same
      values and gradients up to rounding.
    - `forward_mode`: differentiate by JAX's rules instead of the adjoint recurrence, so that
      `jax.jvp` and higher-order derivatives work; `jax.grad` then stores all states, and does not
      work with `"associative"` in single precision.
    - `time_axis`: inside `jax.shard_map`, the mesh axis along which time is split. `force` and
      `mask` are then this device's shard, while the initial and final state are those of whole
      sequences.

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
    _check(transition, mask, initial_state, leading, time)
    positions, final = scan_forces(
        transition,
        force,
        None if initial_state is None else OscillatorState(jnp.asarray(initial_state), None),
        mask=None if mask is None else jnp.asarray(mask),
        reverse=bool(reverse),
        engine=engine,
        forward_mode=bool(forward_mode),
        time_axis=time_axis,
    )
    return positions, final.oscillators


@partial(jax.jit, static_argnames=("reverse", "engine", "forward_mode", "time_axis"))
def scan_forces(
    transition: Transition | VaryingTransition,
    force: Float[Array, "*batch time m"],
    start: OscillatorState | None,
    *,
    mask: Bool[Array, "*batch time"] | None,
    reverse: bool = False,
    engine: str,
    forward_mode: bool = False,
    time_axis: str | None = None,
) -> tuple[Float[Array, "*batch time m"], OscillatorState]:
    """`oscillator_scan` without validation, with the complete state between two pieces."""
    recurrence, sampling, b, state, interval = _prepare(transition, force, start, mask, reverse)
    if transition.weigh is not None:
        weights, interval = _force_weights(
            transition.weigh,
            b.shape[1],
            sampling,
            interval,
            b.dtype,
            time_axis=time_axis,
            reverse=reverse,
        )
        b = b * weights
    schedule = make_schedule(engine, b.shape[1], varying=sampling.intervals is not None)

    def solve(force: Array, state: State) -> tuple[Array, State]:
        if forward_mode:
            return run(schedule, recurrence, sampling, force, state)[:2]
        result: Any = run_with_adjoint(schedule, recurrence, sampling, force, state)
        return result

    final = None
    if time_axis is not None:
        end_from_rest = solve(b, jax.tree.map(jnp.zeros_like, state))[1]
        product = product_of_steps(recurrence, sampling, b, lambda b, x: solve(b, x)[1])
        state, final = join_shards(time_axis, product, end_from_rest, state, reverse=reverse)
    positions, end = solve(b, state)
    return _finish(positions, end if final is None else final, interval, force, reverse)


def weights_of_forces(
    weigh: Callable[[Array, Array], Array],
    start: OscillatorState,
    intervals: Float[Array, "*batch time"] | None,
    mask: Bool[Array, "*batch time"] | None,
    *,
    time: int,
    reverse: bool,
) -> tuple[Float[Array, "sequences time"], OscillatorState]:
    """The weight of each force, in the order in which samples are visited, and `start` with the
    last interval of the sequence."""
    leading, dtype = start.oscillators.shape[:-2], start.oscillators.dtype
    sampling = Sampling(
        None if intervals is None else intervals.reshape(-1, time, 1),
        None if mask is None else mask.reshape(-1, time, 1),
    )
    if reverse:
        sampling = jax.tree.map(partial(jnp.flip, axis=1), sampling)
    carried = None if start.interval is None else start.interval.reshape(-1, 1, 1)
    weights, final = _force_weights(weigh, time, sampling, carried, dtype)
    sequences = math.prod(leading)
    final = jnp.broadcast_to(final[:, 0], (sequences, 1)).reshape(*leading, 1)
    weights = jnp.broadcast_to(weights[..., 0], (sequences, time))
    return weights, OscillatorState(start.oscillators, final)


def _force_weights(
    weigh: Callable[[Array, Array], Array],
    time: int,
    sampling: Sampling,
    carried: Float[Array, "#batch 1 #m"] | None,
    dtype: Any,
    *,
    time_axis: str | None = None,
    reverse: bool = False,
) -> tuple[Float[Array, "#batch time #m"], Float[Array, "#batch 1 #m"]]:
    """The weight of each force, and the interval of the last sample.

    `carried` is the interval before the first sample; None means one of the same length. Masked
    samples are skipped: the previous sample is the last present one, which may be on an earlier
    device if time is split over devices.
    """
    intervals = sampling.intervals
    here = jnp.ones((1, time, 1), dtype) if intervals is None else intervals
    index = jnp.arange(time)[None, :, None]
    present = index if sampling.mask is None else jnp.where(sampling.mask, index, -1)
    last = jax.lax.cummax(present, axis=1)
    previous = jnp.concatenate([jnp.full_like(last[:, :1], -1), last[:, :-1]], axis=1)
    own = jnp.where(last[:, -1:] < 0, 0, _at(here, last[:, -1:]))
    first, final = here if carried is None else carried, own
    if time_axis is not None:
        earlier = nearest_before(time_axis, own, reverse=reverse)
        first = jnp.where(earlier > 0, earlier, first)
        final = last_nonzero(time_axis, own, reverse=reverse)
    weights = weigh(jnp.where(previous < 0, first, _at(here, previous)), here)
    if carried is not None:
        final = jnp.where(final > 0, final, carried)
    return weights, final


def _at(intervals: Array, index: Array) -> Array:
    return jnp.take_along_axis(intervals, jnp.maximum(index, 0), axis=1)


def _prepare(
    transition: Transition | VaryingTransition,
    force: Array,
    start: OscillatorState | None,
    mask: Array | None,
    reverse: bool,
) -> tuple[Recurrence, Sampling, Array, State, Array | None]:
    """Convert the arguments to one batch axis, in the order in which samples are visited."""
    *leading, time, m = force.shape
    if isinstance(transition, Transition):
        recurrence, intervals = Recurrence(transition.step, None), None
    else:
        recurrence = Recurrence(transition.parameters, transition.scheme)
        intervals = transition.intervals
    dtype = common_dtype(force.dtype, jax.tree.leaves(transition)[0].dtype)
    recurrence = jax.tree.map(lambda x: x.astype(dtype), recurrence)
    sampling = Sampling(
        None if intervals is None else _flatten(intervals.astype(dtype), leading),
        None if mask is None else _flatten(mask[..., None], leading),
    )
    b = force.reshape(-1, time, m).astype(dtype)
    if reverse:
        b, sampling = jax.tree.map(partial(jnp.flip, axis=1), (b, sampling))
    if sampling.mask is not None:  # a missing force may be NaN
        b = jnp.where(sampling.mask, b, 0)
    if start is None:
        start = at_rest(transition.weigh is not None, tuple(leading), m, dtype)
    state = jnp.broadcast_to(start.oscillators.astype(dtype), (*leading, m, 2)).reshape(-1, m, 2)
    interval = start.interval
    if interval is not None:
        interval = _flatten(interval[..., None, :].astype(dtype), leading)
    return recurrence, sampling, b, (state[..., 0], state[..., 1]), interval


def _finish(
    positions: Array, state: State, interval: Array | None, force: Array, reverse: bool
) -> tuple[Array, OscillatorState]:
    """Convert results to the caller's shape, order and precision."""
    leading = force.shape[:-2]
    if reverse:
        positions = jnp.flip(positions, axis=1)
    half = jnp.finfo(force.dtype).bits < 32
    positions = positions.astype(force.dtype if half else positions.dtype).reshape(force.shape)
    oscillators = jnp.stack(state, axis=-1)
    if interval is not None:
        interval = jnp.broadcast_to(interval[:, 0], (oscillators.shape[0], interval.shape[-1]))
        interval = interval.reshape(*leading, -1)
    oscillators = oscillators.reshape(*leading, *oscillators.shape[1:])
    return positions, OscillatorState(oscillators, interval)


def _check(transition: Any, mask: Any, state: Any, leading: tuple[int, ...], time: int) -> None:
    """Raise for intervals, a mask or a state of another shape."""
    shape = () if isinstance(transition, Transition) else transition.intervals.shape
    if shape and (shape[-2] != time or not _broadcasts(shape[:-2], leading)):
        raise ValueError(
            f"timestep has shape {shape}, expected (..., time, 1) or (..., time, m) for a force "
            f"with leading axes {leading} and {time} steps"
        )
    if mask is not None:
        _checks.boolean("mask", mask)
        if mask.ndim < 1 or mask.shape[-1] != time or not _broadcasts(mask.shape[:-1], leading):
            raise ValueError(f"mask has shape {mask.shape}, expected {(*leading, time)}")
    if state is not None:
        shape, pairs = _checks.floating("initial_state", state).shape, (transition.state_size, 2)
        if shape[-2:] != pairs or not _broadcasts(shape[:-2], leading):
            raise ValueError(
                f"initial_state has shape {shape}, expected (..., m, 2) = {(*leading, *pairs)}"
            )


def _broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    pairs = zip(shape[::-1], to[::-1], strict=False)
    return len(shape) <= len(to) and all(size in (1, target) for size, target in pairs)


def _flatten(x: Array, leading: list[int]) -> Array:
    """Reshape to `(batch, time, channel)`, with a batch of 1 if `x` is the same for all
    sequences."""
    samples = x.shape[-2:]
    if x.size == samples[0] * samples[1]:
        return x.reshape(1, *samples)
    return jnp.broadcast_to(x, (*leading, *samples)).reshape(-1, *samples)
