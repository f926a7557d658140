"""Ranks and types of arrays that meet in a formula, written out instead of promoted by JAX."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array


def align(x: Array, like: Array) -> Array:
    """`x` with axes of size 1 in front, up to the rank of `like`."""
    return jax.lax.broadcast_to_rank(x, like.ndim)


def fit(x: Array, like: Array) -> Array:
    """`x` in the rank and the precision of `like`."""
    return align(x.astype(like.dtype), like)


def steps(*shape: int) -> Array:
    """0, 1, 2, ... along the last axis of an array of that shape."""
    return jax.lax.broadcasted_iota(int, shape, len(shape) - 1)


def common_dtype(*arrays: Any) -> Any:
    """The type of results of arrays of several types."""
    with jax.numpy_dtype_promotion("standard"):
        return jnp.result_type(*arrays)


def common(*arrays: Array) -> tuple[Array, ...]:
    """The arrays in a common type, and all but scalars in a common rank."""
    dtype, rank = common_dtype(*arrays), max(x.ndim for x in arrays)
    typed = (x if x.dtype == dtype else x.astype(dtype) for x in arrays)
    return tuple(jax.lax.broadcast_to_rank(x, rank) if x.ndim else x for x in typed)
