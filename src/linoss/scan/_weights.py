"""Weights of forces, for schemes whose forces act on both sides of a sample."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from linoss.scan._recurrence import Sampling
from linoss.scan._shards import last_nonzero, nearest_before


def force_weights(
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
