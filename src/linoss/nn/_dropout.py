"""Dropout by a counter-based generator: a mask is a function of (key, position) only.

The random bits take a few integer operations for each element, so dropout is one pass over the
array, and the native kernels compute the same mask from the two words of the key.
"""

import math

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, PRNGKeyArray, UInt32

from linoss._arrays import align
from linoss.nn._split import WHOLE, Split


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
) -> Float[Array, "*batch time channel"]:
    """Zero each element with probability `rate`, and scale the others to preserve the mean.

    Positions are counted in the whole batch, of which `x` may be this device's shard.
    """
    if words is None or rate == 0:
        return x
    *batch, time, channels = x.shape
    origin, stride = split.first_sample(math.prod(batch), time)
    row = jnp.arange(math.prod(batch), dtype=jnp.uint32).reshape(*batch, 1, 1)
    step, channel = (jnp.arange(size, dtype=jnp.uint32) for size in (time, channels))
    sample = origin + row * stride + align(step[:, None], x)
    position = sample * jnp.uint32(channels) + align(channel, x)
    keep = random_bits(words, position) >= jnp.uint32(min(round(rate * 2**32), 2**32 - 1))
    return jnp.where(keep, x / (1 - rate), 0)
