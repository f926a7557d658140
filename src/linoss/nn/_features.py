"""The encoder and the blocks of a model: from samples to features."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import UInt32

from linoss.nn._block import Averages, Block
from linoss.nn._fused import encode
from linoss.nn._heads import Features, affine
from linoss.nn._keep import kept_products
from linoss.nn._norm import AbstractNorm
from linoss.nn._samples import Samples

Blocks = tuple[Block, ...]
Norms = tuple[AbstractNorm, ...]


def features(
    encoder: eqx.nn.Linear,
    blocks: Blocks,
    samples: Samples,
    states: Any,
    words: UInt32[Array, "blocks 2"] | None,
) -> tuple[Features, Any, Norms]:
    """Encoder and blocks: features, states after the samples, and updated norms.

    With `words`, the random bits of dropout, the model is in training mode and returns no states.
    """
    if blocks[0].is_fused(samples.values, samples):
        return _fused(encoder, blocks, samples, states, words)
    hidden = affine(encoder, samples.values)
    arrays, static = zip(*(eqx.partition(b, eqx.is_array) for b in blocks), strict=True)

    def run(hidden: Array, block: Any) -> Any:
        arrays, state, words = block
        hidden, state, norm = eqx.combine(arrays, static[0]).run(hidden, samples, state, words)
        return hidden, ((None, norm) if words is not None else (state, None))

    if words is not None:
        run = jax.checkpoint(run, prevent_cse=False)
    stacked = (stack(arrays), states, words)  # equal blocks: compile one, in a loop
    hidden, (states, norm) = jax.lax.scan(run, hidden, stacked)
    norms = tuple(
        block.norm if norm is None else jax.tree.map(lambda x, i=i: x[i], norm)
        for i, block in enumerate(blocks)
    )
    return Features(hidden), states, norms


def _fused(
    encoder: eqx.nn.Linear, blocks: Blocks, samples: Samples, states: Any, words: Array | None
) -> tuple[Features, Any, Norms]:
    """`features` by native passes, each of which computes the moments for the next norm."""
    *batch, time, channels = samples.values.shape
    assert encoder.bias is not None
    hidden, moments = encode(
        samples.values.reshape(-1, channels),
        encoder.weight,
        encoder.bias,
        samples.mask_bytes().reshape(-1),
    )
    hidden = hidden.reshape(*batch, time, -1)
    arrays, static = zip(*(eqx.partition(block, eqx.is_array) for block in blocks), strict=True)
    steps = jax.vmap(lambda block: eqx.combine(block, static[0]).step_rows(samples))(
        stack(arrays)
    )  # compiled once for all blocks
    finals, norms, averages = [], [], Averages(jnp.zeros(0), moments)
    keep = kept_products(
        0 if words is None else samples.memory,
        samples=math.prod(batch) * time,
        hidden=hidden.shape[-1],
        pairs=steps[0].shape[-1] if steps else 0,
        blocks=len(blocks),
        precision=samples.precision,
    )
    for i, block in enumerate(blocks):
        hidden, final, norm, averages = block.run_fused(
            hidden,
            samples,
            None if states is None else jax.tree.map(lambda x, i=i: x[i], states),
            None if words is None else words[i],
            moments=averages.moments,
            steps=tuple(rows[i] for rows in steps),
            keep=keep[i],
        )
        finals.append(final)
        norms.append(norm)
    return Features(hidden, averages.means), stack(finals), tuple(norms)


def stack(trees: Any) -> Any:
    """Stack trees of equal structure along a new first axis."""
    return jax.tree.map(lambda *x: jnp.stack(x), *trees)
