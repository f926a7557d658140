"""One LinOSS layer: y'' = -A y + B u + b, x = C y + D u."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, PRNGKeyArray

from linoss import _checks
from linoss._checks import AnyArray
from linoss._settings import Feedthrough
from linoss.dynamics import Oscillators, Transition, VaryingTransition
from linoss.nn._split import WHOLE, Split
from linoss.scan import (
    end_of_segments,
    oscillator_scan,
    state_before_piece,
    state_before_regular_piece,
)


class LayerState(eqx.Module):
    """What a layer remembers between calls."""

    oscillators: Float[Array, "*batch m 2"]
    """[z, y] of each oscillator; with complex projections, of the real and the imaginary parts."""
    interval: Float[Array, "*batch"]
    """The last sampling interval, and 0 before any sample. Only Verlet asks for it."""


class LinOSSLayer(eqx.Module):
    """Oscillators between an input and an output projection.

    Complex B and C are kept and computed as real pairs: the step is real, so a complex oscillator
    is two real ones that share A and dt, driven by B_re u and B_im u and read out as
    C_re y_re - C_im y_im (the minus sign is part of the stored weight).

    ```python
    >>> import jax, jax.numpy as jnp, linoss
    >>> layer = linoss.LinOSSLayer(8, 16, key=jax.random.key(0))
    >>> x, state = layer(jnp.ones((3, 100, 8)))
    >>> x.shape, state.oscillators.shape
    ((3, 100, 8), (3, 32, 2))

    ```
    """

    oscillators: Oscillators
    input_weight: Float[Array, "pairs hidden"]
    output_weight: Float[Array, "hidden pairs"]
    feedthrough: Float[Array, " hidden"] | Float[Array, "hidden hidden"] | None
    bias: Float[Array, " pairs"] | None

    def __init__(
        self,
        hidden_size: int,
        state_size: int,
        *,
        complex_projections: bool = True,
        feedthrough: Feedthrough = "vector",
        bias: bool = False,
        key: PRNGKeyArray,
        **oscillator_options: Any,
    ):
        """**Arguments:**

        - `hidden_size`: number of channels in and out.
        - `state_size`: number of oscillators; a complex one counts once.
        - `complex_projections`: B and C complex, as in the published runs, or real, as in the text.
        - `feedthrough`: D as a `"vector"`, `"dense"`, or `"none"`.
        - `bias`: with the constant force b.
        - everything else goes to [`linoss.Oscillators`][].
        """
        _checks.positive_integer("hidden_size", hidden_size)
        _checks.one_of("feedthrough", feedthrough, ("vector", "dense", "none"))
        oscillator_key, in_key, out_key, through_key, bias_key = jax.random.split(key, 5)
        self.oscillators = Oscillators(state_size, key=oscillator_key, **oscillator_options)
        pairs = 2 * state_size if complex_projections else state_size
        self.input_weight = _uniform(in_key, (pairs, hidden_size), hidden_size)
        self.output_weight = _uniform(out_key, (hidden_size, pairs), state_size)
        if feedthrough == "vector":
            self.feedthrough = jax.random.normal(through_key, (hidden_size,))
        elif feedthrough == "dense":
            self.feedthrough = _uniform(through_key, (hidden_size, hidden_size), hidden_size)
        else:
            self.feedthrough = None
        self.bias = _uniform(bias_key, (pairs,), hidden_size) if bias else None

    def init_state(self, batch_shape: tuple[int, ...] = ()) -> LayerState:
        """All oscillators at rest."""
        pairs, dtype = self.input_weight.shape[0], self.input_weight.dtype
        return LayerState(jnp.zeros((*batch_shape, pairs, 2), dtype), jnp.zeros(batch_shape, dtype))

    def __call__(
        self,
        u: Float[AnyArray, "*batch time hidden"],
        *,
        state: LayerState | None = None,
        mask: Bool[AnyArray, "*batch time"] | None = None,
        intervals: Float[AnyArray, "*batch time"] | None = None,
        reverse: bool = False,
        engine: str = "auto",
        split: Split = WHOLE,
    ) -> tuple[Float[Array, "*batch time hidden"], LayerState]:
        """x = C y + D u for a whole sequence, and the state after it.

        For `mask`, `reverse` and `engine` see [`linoss.oscillator_scan`][]; `intervals`, for
        irregular sampling, is the time since the sample before in units of the usual one. Where
        time is split over devices, the state after it is that after this device's piece.
        """
        u = _checks.floating("u", u)
        _checks.shape("u", u, ("...", "time", self.input_weight.shape[1]))
        mask = None if mask is None else jnp.asarray(mask)
        if intervals is not None:
            intervals = _checks.floating("intervals", intervals)
            _checks.shape("intervals", intervals, u.shape[:-1])
            _checks.nonnegative("intervals", intervals, allow_zero=False)
        if state is None:
            state = self.init_state(u.shape[:-2])
        if reverse and intervals is not None:
            intervals = _intervals_after(intervals, mask, split)
        order = -1 if reverse else 1
        transition, force, state = self._forces(u, state, mask, intervals, order, split)
        options = {"mask": mask, "reverse": reverse, "engine": engine}
        start = state.oscillators
        if split.time is not None:
            start = state_before_piece(
                transition, force, initial_state=start, time_axis=split.time, **options
            )
        y, oscillators = oscillator_scan(transition, force, initial_state=start, **options)
        x = y @ self.output_weight.T
        if self.feedthrough is not None:
            x = x + (u * self.feedthrough if self.feedthrough.ndim == 1 else u @ self.feedthrough.T)
        interval = last_interval(state.interval, u.shape[:-1], mask, intervals, order)
        return x, LayerState(oscillators, interval)

    def start_of_piece(
        self,
        u: Float[Array, "batch time hidden"],
        mean: Float[Array, " hidden"],
        scale: Float[Array, " hidden"],
        state: Float[Array, "batch m 2"],
        mask: Bool[Array, "batch time"] | None,
        engine: str,
        time_axis: str,
    ) -> Float[Array, "batch m 2"]:
        """Where time is split: the state before this device's piece of regular samples, whose input
        is scale (u - mean); `state` is that before the whole. Not for Verlet."""
        arrays, static = eqx.partition(self, eqx.is_array)
        mask = None if mask is None else jnp.broadcast_to(mask, u.shape[:-1])

        def advance(weights: Any, u: Array, mask: Array | None, state: Array) -> Array:
            arrays, mean, scale = weights
            layer: LinOSSLayer = eqx.combine(arrays, static)
            x, start = (u - mean) * scale, LayerState(state, jnp.zeros(u.shape[:1], u.dtype))
            transition, force, _ = layer._forces(x, start, mask, None, 1, WHOLE)
            options = {"initial_state": state, "mask": mask, "engine": engine}
            return oscillator_scan(transition, force, **options)[1]

        rest = jnp.zeros_like(state)
        end: Any = end_of_segments(advance, (arrays, mean, scale), u, mask, rest)
        copies = self.input_weight.shape[0] // self.oscillators.state_size
        transition = self.oscillators.transition(None, copies)
        assert isinstance(transition, Transition)
        return state_before_regular_piece(
            transition,
            end,
            time=u.shape[1],
            initial_state=state,
            mask=mask,
            time_axis=time_axis,
        )

    def _forces(
        self,
        u: Array,
        state: LayerState,
        mask: Array | None,
        intervals: Array | None,
        order: int,
        split: Split,
    ) -> tuple[Transition | VaryingTransition, Array, LayerState]:
        """The oscillators' step, what drives them, and the state with the interval before."""
        copies = self.input_weight.shape[0] // self.oscillators.state_size
        transition = self.oscillators.transition(intervals, copies)
        force = u @ self.input_weight.T
        if self.bias is not None:
            force = force + self.bias
        if transition.onset != 1:
            none = jnp.zeros_like(state.interval)
            here = last_interval(none, u.shape[:-1], mask, intervals, order)
            before = split.before(here, state.interval, reverse=order < 0)
            state = LayerState(state.oscillators, before)
            force = _weigh_first(force, before, mask, intervals, order)
        return transition, force, state


def _uniform(key: PRNGKeyArray, shape: tuple[int, ...], fan: int) -> Array:
    return jax.random.uniform(key, shape, minval=-(fan**-0.5), maxval=fan**-0.5)


def _weigh_first(
    force: Array, previous: Array, mask: Array | None, intervals: Array | None, order: int
) -> Array:
    """Verlet's first force: half its weight from rest, (h_0 + h_1) / (2 h_1) after a step h_0."""
    samples = force.shape[:-1]
    index = jnp.arange(samples[-1])[::order]
    present = jnp.ones(samples, bool) if mask is None else jnp.broadcast_to(mask, samples)
    first = jnp.argmin(jnp.where(present, index, samples[-1]), axis=-1, keepdims=True)
    step = jnp.ones((), force.dtype) if intervals is None else intervals
    weight = (previous[..., None] + step) / (2 * step)
    is_first = present & (jnp.arange(samples[-1]) == first)
    return force * jnp.where(is_first, weight, 1)[..., None]


def last_interval(
    previous: Array,
    samples: tuple[int, ...],
    mask: Array | None,
    intervals: Array | None,
    order: int,
) -> Array:
    """The interval of the last sample that was there, or `previous` if none was."""
    steps = jnp.ones((), previous.dtype) if intervals is None else intervals
    steps = jnp.broadcast_to(steps, samples).astype(previous.dtype)
    if mask is None:
        return steps[..., -1 if order == 1 else 0]
    present = jnp.broadcast_to(mask, samples)
    index = jnp.arange(samples[-1])[::order]
    last = jnp.argmax(jnp.where(present, index, -1), axis=-1, keepdims=True)
    step = jnp.take_along_axis(steps, last, axis=-1)[..., 0]
    return jnp.where(jnp.any(present, axis=-1), step, previous)


def _intervals_after(intervals: Array, mask: Array | None, split: Split) -> Array:
    """The time to the next sample that is there, for a run in reverse; the last has the first's."""
    time = intervals.shape[-1]
    mask = jnp.ones(intervals.shape, bool) if mask is None else mask
    shape = jnp.broadcast_shapes(intervals.shape, mask.shape)
    intervals = jnp.broadcast_to(intervals, shape)
    there = jnp.where(jnp.broadcast_to(mask, shape), jnp.arange(time), time)
    following = jax.lax.cummin(there, axis=there.ndim - 1, reverse=True)
    following = jnp.concatenate([following[..., 1:], jnp.full_like(there[..., :1], time)], axis=-1)
    own = jnp.min(there, axis=-1, keepdims=True)
    first = jnp.take_along_axis(intervals, jnp.minimum(own, time - 1), axis=-1)
    if split.time is not None:
        offer = jnp.where(own < time, first, 0)
        first = split.first_of_all(offer, first)
        first = split.before(offer, first, reverse=True)
    known = jnp.take_along_axis(intervals, jnp.minimum(following, time - 1), axis=-1)
    return jnp.where(following < time, known, first)
