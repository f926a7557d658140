"""Dropout by a counter-based generator: a mask is a function of (key, position), nothing else.

Bits come from a few integer operations per element, so that dropout costs a pass over the array and
no more, and any other program that knows the two words of the key can compute the same mask.
"""

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, PRNGKeyArray, UInt32


def key_words(key: PRNGKeyArray) -> UInt32[Array, "2"]:
    """Two words that stand for a key."""
    return jax.random.bits(key, (2,), jnp.uint32)


def random_bits(words: UInt32[Array, "2"], position: UInt32[Array, "..."]) -> UInt32[Array, "..."]:
    """32 random bits a position: two rounds of shift and multiply, a word of the key before each.

    Both rounds are one-to-one, so no two positions share their bits by construction.
    """
    x = position ^ words[0]
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        x = (x ^ (x >> shift)) * jnp.uint32(factor)
    x = x + words[1]
    for shift, factor in ((15, 0x2C1B3C6D), (12, 0x297A2D39), (15, 1)):
        x = (x ^ (x >> shift)) * jnp.uint32(factor)
    return x


def dropout(
    x: Float[Array, "*batch time channel"], rate: float, words: UInt32[Array, "2"] | None
) -> Float[Array, "*batch time channel"]:
    """Zero each element with probability `rate`, scale the others to keep the mean."""
    if words is None or rate == 0:
        return x
    position = jnp.zeros(x.shape, jnp.uint32)
    stride = 1
    for axis in reversed(range(x.ndim)):
        position += jax.lax.broadcasted_iota(jnp.uint32, x.shape, axis) * jnp.uint32(stride % 2**32)
        stride *= x.shape[axis]
    keep = random_bits(words, position) >= jnp.uint32(min(round(rate * 2**32), 2**32 - 1))
    return jnp.where(keep, x / (1 - rate), 0)
