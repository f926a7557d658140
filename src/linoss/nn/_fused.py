"""Encoder and whole blocks in native passes over tiles of time that stay in cache.

The plain block of `_block.py` is the definition; this computes the same, values and gradients,
dropout included. For the backward pass it keeps the block's input and the oscillators' states at
the start of each tile, and computes the rest again. Mean and variance of each channel of what comes
out are found while it is still in cache: the next block's norm asks for them.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.custom_derivatives import SymbolicZero, custom_vjp_primal_tree_values
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
    words: UInt32[Array, "6"],
    mask: UInt8[Array, "_ _"],
    start: Float[Array, "batch m 2"],
) -> tuple[
    Float[Array, "batch time hidden"],
    Float[Array, "batch m 2"],
    Float[Array, "batch hidden"],
    Float[Array, "2 hidden"],
]:
    """The block's output, its final state, the output's mean over each sequence, and its mean and
    variance over all samples.

    `scale` is one over the norm's deviation. `words`: two for each dropout, then the number of the
    first sample and of samples from one sequence to the next, by which dropout counts.
    """
    weights = (mean, scale, input_weight, bias, step, output_weight, feedthrough, glu_weight)
    return _block(rate, u, (*weights, glu_bias), words, mask, start)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _block(
    rate: float, u: Array, weights: tuple[Array, ...], words: Array, mask: Array, start: Array
) -> tuple[Array, Array, Array, Array]:
    return _run(rate, u, weights, words, mask, start)[:4]


def _run(
    rate: float, u: Array, weights: tuple[Array, ...], words: Array, mask: Array, start: Array
) -> Any:
    batch, time, hidden = u.shape
    shape = partial(jax.ShapeDtypeStruct, dtype=jnp.float32)
    results = (
        shape(u.shape),
        shape(start.shape),
        shape((batch, hidden)),
        shape((2, hidden)),
        shape((batch, _kernels.tiles(time), 2, start.shape[1])),
    )
    arguments = (u, *weights, words, mask, start)
    return _kernels.call("linoss_block_forward", results, *arguments, rate=np.float64(rate))


def _forward(rate: float, *arguments: Any) -> tuple[Any, Any]:
    u, weights, words, mask, start = custom_vjp_primal_tree_values(arguments)
    *results, kept = _run(rate, u, weights, words, mask, start)
    return tuple(results), (u, weights, words, mask, kept, results[-1])


def _backward(rate: float, residuals: Any, cotangents: Any) -> tuple[Any, ...]:
    u, weights, words, mask, kept, moments = residuals
    if isinstance(cotangents[0], SymbolicZero):  # only the means were used: nothing to read
        cotangents = (jnp.zeros((0, 0, 0), jnp.float32), *cotangents[1:])
    d_out, d_final, d_means, d_moments = (
        jnp.zeros(d.shape, jnp.float32) if isinstance(d, SymbolicZero) else d for d in cotangents
    )
    shape = partial(jax.ShapeDtypeStruct, dtype=jnp.float32)
    results = tuple(shape(x.shape) for x in (u, *weights, d_final))
    arguments = (u, *weights, words, mask, kept, moments, d_out, d_final, d_means, d_moments)
    d_u, *d_weights, d_start = _kernels.call(
        "linoss_block_backward", results, *arguments, rate=np.float64(rate)
    )
    return d_u, tuple(d_weights), None, None, d_start


_block.defvjp(_forward, _backward, symbolic_zeros=True)


@jax.custom_vjp
def encode(
    u: Float[Array, "samples in"],
    weight: Float[Array, "hidden in"],
    bias: Float[Array, " hidden"],
    mask: UInt8[Array, " _"],
) -> tuple[Float[Array, "samples hidden"], Float[Array, "2 hidden"]]:
    """W u + b, and its mean and variance over all samples that are there."""
    return _encode_forward(u, weight, bias, mask)[0]


def _encode_forward(u: Array, weight: Array, bias: Array, mask: Array) -> tuple[Any, Any]:
    shape = partial(jax.ShapeDtypeStruct, dtype=jnp.float32)
    results = (shape((u.shape[0], bias.size)), shape((2, bias.size)))
    out, moments = _kernels.call("linoss_encode_forward", results, u, weight, bias, mask)
    return (out, moments), (u, weight, bias, mask, moments)


def _encode_backward(residuals: Any, cotangents: Any) -> tuple[Any, ...]:
    u, weight, bias, mask, moments = residuals
    d_out, d_moments = cotangents
    shape = partial(jax.ShapeDtypeStruct, dtype=jnp.float32)
    d_weight, d_bias = _kernels.call(
        "linoss_encode_backward",
        (shape(weight.shape), shape(bias.shape)),
        *(*residuals, d_out, d_moments),
    )
    # The gradient of u is seldom asked for; where it is not, the compiler drops these lines.
    there = jnp.ones(u.shape[0], bool) if mask.size == 0 else mask > 0
    slope = 2 * d_moments[1] / jnp.maximum(jnp.sum(there), 1)
    share = d_moments[0] / jnp.maximum(jnp.sum(there), 1)
    pull = share + slope * (u @ weight.T + bias - moments[0])
    d_u = (d_out + jnp.where(there[:, None], pull, 0)) @ weight
    return d_u, d_weight, d_bias, None


encode.defvjp(_encode_forward, _encode_backward)
