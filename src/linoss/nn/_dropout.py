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
    x = (x ^ (x >> 16)) * jnp.uint32(0x7FEB352D)
    x = x + words[1]
    x = (x ^ (x >> 15)) * jnp.uint32(0x846CA68B)
    return x ^ (x >> 16)


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
