"""Encoder and whole blocks in native passes over tiles of time that stay in cache.

The block of `_block.py` in plain JAX is the definition; the native one computes the same values and
gradients, dropout included. For the backward pass it keeps the block's input and the oscillators'
states at the start of each tile, and recomputes the rest. A pass also computes mean and variance of
each channel of its output, for the norm of the next block.

Both kernels have a custom derivative, because each has a backward pass of its own in C++.
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
from linoss.dynamics import Transition
from linoss.nn._mixer import Projections
from linoss.nn._samples import Samples
from linoss.scan import OscillatorState, end_of_segments, scan_forces, state_before_shard


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

    `mean` and `scale` are those of the norm. `words` are two words for each dropout, the index of
    the first sample, and the number of samples from one sequence to the next.
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
    if isinstance(cotangents[0], SymbolicZero):  # only the means were used
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
    """W u + b, and its mean and variance over all present samples."""
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
    # The gradient of u is seldom used; if it is not, the compiler removes these lines.
    there = jnp.ones(u.shape[0], bool) if mask.size == 0 else mask > 0
    slope = 2 * d_moments[1] / jnp.maximum(jnp.sum(there), 1)
    share = d_moments[0] / jnp.maximum(jnp.sum(there), 1)
    pull = share + slope * (u @ weight.T + bias - moments[0])
    d_u = (d_out + jnp.where(there[:, None], pull, 0)) @ weight
    return d_u, d_weight, d_bias, None


encode.defvjp(_encode_forward, _encode_backward)


def start_of_shard(
    projections: Projections,
    step: Float[Array, "6 m"],
    u: Float[Array, "batch time hidden"],
    mean: Float[Array, " hidden"],
    scale: Float[Array, " hidden"],
    start: Float[Array, "batch m 2"],
    samples: Samples,
) -> Float[Array, "batch m 2"]:
    """The state before this device's shard, if time is split; `start` is that before the whole."""
    time_axis = samples.split.time
    if time_axis is None:
        return start
    transition = Transition(step[:4].T.reshape(-1, 2, 2), step[4:].T)
    mask = None if samples.mask is None else samples.mask.reshape(u.shape[:2])
    weights = (transition, projections.input_weight, projections.bias, mean, scale)
    end: Any = end_of_segments(_advance, weights, u, mask, jnp.zeros_like(start))
    return state_before_shard(
        transition, end, time=u.shape[1], initial_state=start, mask=mask, time_axis=time_axis
    )


def _advance(weights: Any, u: Array, mask: Array | None, state: Array) -> Array:
    """The state after a segment."""
    transition, B, bias, mean, scale = weights
    force, before = ((u - mean) * scale) @ B.T + bias, OscillatorState(state, None)
    return scan_forces(transition, force, before, mask=mask, engine="native")[1].oscillators
