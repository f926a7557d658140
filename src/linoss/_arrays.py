"""Explicit broadcasting and type conversion, instead of JAX's implicit promotion."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array


def align(x: Array, like: Array) -> Array:
    """Prepend axes of size 1 to `x`, up to the rank of `like`."""
    return jax.lax.broadcast_to_rank(x, like.ndim)


def fit(x: Array, like: Array) -> Array:
    """Convert `x` to the rank and dtype of `like`."""
    return align(x.astype(like.dtype), like)


def steps(*shape: int) -> Array:
    """An array of that shape with 0, 1, 2, ... along the last axis."""
    return jax.lax.broadcasted_iota(int, shape, len(shape) - 1)


def common_dtype(*arrays: Any) -> Any:
    """The dtype of a result of arrays of several dtypes."""
    with jax.numpy_dtype_promotion("standard"):
        return jnp.result_type(*arrays)


def common(*arrays: Array) -> tuple[Array, ...]:
    """Convert arrays to a common dtype, and all but scalars to a common rank."""
    dtype, rank = common_dtype(*arrays), max(x.ndim for x in arrays)
    typed = (x if x.dtype == dtype else x.astype(dtype) for x in arrays)
    return tuple(jax.lax.broadcast_to_rank(x, rank) if x.ndim else x for x in typed)
