"""Operations of a block: products in the precision of the model, and dropout.

The random bits of dropout are a function of (key, position) only, by a counter-based generator of a
few integer operations, so that the native kernels draw the same mask from the words of the key.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, PRNGKeyArray, UInt32

from linoss._arrays import align
from linoss._settings import PrecisionName
from linoss.nn._samples import WHOLE, Split


def affine(linear: eqx.nn.Linear, x: Float[Array, "*batch in"]) -> Float[Array, "*batch out"]:
    """W x + b on the last axis."""
    assert linear.bias is not None
    product = x @ linear.weight.T
    return product + align(linear.bias, product)


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


def key_words(key: PRNGKeyArray) -> UInt32[Array, "2"]:
    """Two random words, drawn with a key."""
    return jax.random.bits(key, (2,), jnp.uint32)


def random_bits(words: UInt32[Array, "2"], position: UInt32[Array, "..."]) -> UInt32[Array, "..."]:
    """32 random bits for each position: two rounds of shift and multiply, each with a key word.

    Both rounds are bijective, so different positions have different bits.
    """
    x = position ^ words[0]
    x = (x ^ (x >> 16)) * jnp.uint32(0x7FEB352D)
    x = x + words[1]
    x = (x ^ (x >> 15)) * jnp.uint32(0x846CA68B)
    return x ^ (x >> 16)


def dropout(
    x: Float[Array, "*batch time channel"],
    rate: float,
    words: UInt32[Array, "2"] | None,
    split: Split = WHOLE,
    *,
    shared: bool = False,
) -> Float[Array, "*batch time channel"]:
    """Zero each element with probability `rate`, and scale the others to preserve the mean.

    Positions are counted in the whole batch, of which `x` may be this device's shard; or, if
    `shared`, in each sequence, so that all have the same mask.
    """
    if words is None or rate == 0:
        return x
    *batch, time, channels = x.shape
    origin, stride = split.first_sample(math.prod(batch), time, shared=shared)
    row = jnp.arange(math.prod(batch), dtype=jnp.uint32).reshape(*batch, 1, 1)
    step, channel = (jnp.arange(size, dtype=jnp.uint32) for size in (time, channels))
    sample = origin + row * stride + align(step[:, None], x)
    position = sample * jnp.uint32(channels) + align(channel, x)
    keep = random_bits(words, position) >= jnp.uint32(min(round(rate * 2**32), 2**32 - 1))
    return jnp.where(keep, x / (1 - rate), 0)


def words_of_block(words: UInt32[Array, "2"]) -> UInt32[Array, "4"]:
    """Two random words for each of the two dropouts of a block."""
    return jnp.concatenate([words, words ^ jnp.uint32(0x9E3779B9)])
