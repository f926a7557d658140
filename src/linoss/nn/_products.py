"""Matrix products of a block, in the precision of the model."""

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from linoss._settings import PrecisionName


def product(
    x: Float[Array, "*batch in"], weight: Float[Array, "out in"], precision: PrecisionName
) -> Float[Array, "*batch out"]:
    """x W^T, in the precision of its factors or with factors rounded to bfloat16."""
    return _rounded(x, weight) if precision == "bfloat16" else x @ weight.T


@jax.custom_vjp
def _rounded(x: Array, weight: Array) -> Array:
    """The derivative also rounds the factors of its products, but not their sums; the derivative of
    a cast would do the reverse."""
    return _multiply(x, weight.T)


def _forward(x: Array, weight: Array) -> tuple[Array, tuple[Array, Array]]:
    return _multiply(x, weight.T), (x, weight)


def _backward(factors: tuple[Array, Array], d: Array) -> tuple[Array, Array]:
    x, weight = factors
    rows, d_rows = (array.reshape(-1, array.shape[-1]) for array in (x, d))
    return _multiply(d, weight), _multiply(d_rows.T, rows)


_rounded.defvjp(_forward, _backward)


def _multiply(a: Array, b: Array) -> Array:
    a16, b16 = (factor.astype(jnp.bfloat16) for factor in (a, b))
    return jnp.matmul(a16, b16, preferred_element_type=a.dtype)
