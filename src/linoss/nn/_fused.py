"""A whole block in one native pass over tiles of time that stay in cache.

The plain block of `_block.py` is the definition; this computes the same, values and gradients,
dropout included. For the backward pass it keeps the block's input and the oscillators' states at
the start of each tile, and computes the rest again.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float, UInt8, UInt32

from linoss import _kernels


def fused_block(
    rate: float,
    u: Float[Array, "batch time hidden"],
    mean: Float[Array, " hidden"],
    scale: Float[Array, " hidden"],
    input_weight: Float[Array, "m hidden"],
    bias: Float[Array, " m"],
    step: Float[Array, "6 m"],
    output_weight: Float[Array, "hidden m"],
    feedthrough: Float[Array, " hidden"],
    glu_weight: Float[Array, "2*hidden hidden"],
    glu_bias: Float[Array, " 2*hidden"],
    words: UInt32[Array, "4"],
    mask: UInt8[Array, "_ _"],
    start: Float[Array, "batch m 2"],
) -> tuple[Float[Array, "batch time hidden"], Float[Array, "batch m 2"]]:
    """The block's output and final state. `scale` is one over the norm's deviation."""
    weights = (mean, scale, input_weight, bias, step, output_weight, feedthrough, glu_weight)
    return _block(rate, u, (*weights, glu_bias), words, mask, start)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _block(
    rate: float, u: Array, weights: tuple[Array, ...], words: Array, mask: Array, start: Array
) -> tuple[Array, Array]:
    return _forward(rate, u, weights, words, mask, start)[0]


def _forward(
    rate: float, u: Array, weights: tuple[Array, ...], words: Array, mask: Array, start: Array
) -> tuple[Any, Any]:
    batch, time, _ = u.shape
    shape = partial(jax.ShapeDtypeStruct, dtype=jnp.float32)
    results = (
        shape(u.shape),
        shape(start.shape),
        shape((batch, _kernels.tiles(time), 2, start.shape[1])),
    )
    arguments = (u, *weights, words, mask, start)
    out, final, kept = _kernels.call(
        "linoss_block_forward", results, *arguments, rate=np.float32(rate)
    )
    return (out, final), (u, weights, words, mask, kept)


def _backward(rate: float, residuals: Any, cotangents: Any) -> tuple[Any, ...]:
    u, weights, words, mask, kept = residuals
    d_out, d_final = cotangents
    shape = partial(jax.ShapeDtypeStruct, dtype=jnp.float32)
    results = tuple(shape(x.shape) for x in (u, *weights, d_final))
    arguments = (u, *weights, words, mask, kept, d_out, d_final)
    d_u, *d_weights, d_start = _kernels.call(
        "linoss_block_backward", results, *arguments, rate=np.float32(rate)
    )
    return d_u, tuple(d_weights), None, None, d_start


_block.defvjp(_forward, _backward)
