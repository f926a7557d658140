"""The encoder and the blocks of a model: from samples to features, plainly or by kernels."""

import math
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, UInt32

from linoss import kernels
from linoss.nn._operations import (
    AbstractNorm,
    affine,
    as_arrays,
    channel_moments,
    normalize,
    words_of_block,
)
from linoss.nn._samples import Samples
from linoss.scan import weights_of_forces

if TYPE_CHECKING:
    from linoss.nn._block import Block

Norms = tuple[AbstractNorm, ...]
Hidden = Float[Array, "*batch time hidden"]


class Features(NamedTuple):
    """The output of the last block."""

    values: Float[Array, "*batch time hidden"]
    means: Float[Array, "*batch hidden"] | None = None
    """Their means over this device's present samples, if a native pass computed them."""


def run_blocks(
    blocks: "tuple[Block, ...]",
    u: Float[Array, "*batch time channels"],
    samples: Samples,
    states: Any,
    words: UInt32[Array, "blocks 2"] | None = None,
    *,
    encoder: eqx.nn.Linear | None = None,
) -> tuple[Features, Any, Norms]:
    """Encoder and blocks: features, states after the samples, and updated norms.

    With `words`, the random bits of dropout, the model is in training mode and returns no states.
    """
    if samples.engine == "native":
        described, irregular = [b.native() for b in blocks], samples.intervals is not None
        time_split = samples.split.time is not None
        if kernels.can_run(described[0], u, irregular=irregular, time_split=time_split):
            included = kernels.includes_mixers(described[0], irregular=irregular)
            return _by_kernels(blocks, described, u, samples, states, words, encoder, included)
    hidden = u if encoder is None else affine(encoder, u)
    if len(blocks) == 1 and words is None:  # a loop would be compiled for each call
        state = jax.tree.map(lambda x: x[0], states)
        hidden, state, norm = blocks[0].run(hidden, samples, state)
        return Features(hidden), stack([state]), (norm,)
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


def stack(trees: Any) -> Any:
    """Stack trees of equal structure along a new first axis."""
    return jax.tree.map(lambda *x: jnp.stack(x), *trees)


# ---- By kernels ----


def _by_kernels(
    blocks: "tuple[Block, ...]",
    described: list[kernels.BlockArrays],
    u: Array,
    samples: Samples,
    states: Any,
    words: Array | None,
    encoder: eqx.nn.Linear | None,
    included: bool,
) -> tuple[Features, Any, Norms]:
    """`run_blocks` by native passes, each of which computes the moments for the next norm;
    `included` is whether they include the mixers."""
    training = words is not None
    if encoder is None:
        hidden, moments = u, channel_moments(u, samples)
    else:
        hidden, moments = kernels.encode(as_arrays(encoder), u, samples.timing())
    keep = kernels.kept_products(
        samples.memory if training else 0,
        samples=math.prod(hidden.shape[:-1]),
        hidden=hidden.shape[-1],
        pairs=described[0].mixers[0].bias.size if included else 0,
        blocks=len(blocks),
        precision=samples.precision,
    )
    sizes = (math.prod(hidden.shape[:-2]), hidden.shape[-2])
    finals, norms, means = [], [], None
    for i, (block, arrays) in enumerate(zip(blocks, described, strict=True)):
        state = None if states is None else jax.tree.map(lambda x, i=i: x[i], states)
        norm, random = block.norm, jnp.zeros(4, jnp.uint32)
        if words is not None:
            normalization, norm = block.norm.update(moments, samples)
            arrays = arrays._replace(norm=normalization, dropout=block.dropout)
            random = words_of_block(words[i])
        position = samples.split.first_sample(*sizes, shared=block.shared_dropout)
        run = partial(
            kernels.run_block,
            random=jnp.concatenate([random, position]),
            precision=samples.precision,
            keep=keep[i],
        )
        if included:
            outputs, state = _whole_block(block, arrays, hidden, samples, state, run)
        else:
            y, state = block.mix(normalize(arrays.norm, hidden), samples, state)
            arrays = arrays._replace(mixers=())
            timing = samples.timing()._replace(intervals=None)
            outputs = run(arrays, hidden, timing, None, added=y.astype(hidden.dtype))
        hidden, _, means, moments = outputs
        finals.append(state)
        norms.append(norm)
    return Features(hidden, means), stack(finals), tuple(norms)


def _whole_block(
    block: "Block", arrays: kernels.BlockArrays, u: Array, samples: Samples, state: Any, run: Any
) -> tuple[Any, Any]:
    """A pass with its mixers, and the state of the first one."""
    added, batch = None, u.shape[:-2]
    if block.backward_mixer is not None:
        at_rest = block.backward_mixer.init_state(batch)
        timing, _ = _timing(arrays.mixers[1], samples, at_rest, reverse=True)
        added = kernels.run_backwards(arrays, u, timing, precision=samples.precision)
    state = block.mixer.init_state(batch) if state is None else state
    timing, after = _timing(arrays.mixers[0], samples, state, reverse=False)
    outputs = run(arrays, u, timing, jax.tree.leaves(state)[0], added=added)
    _, *others = jax.tree.leaves(after)
    return outputs, jax.tree.unflatten(jax.tree.structure(after), [outputs.state, *others])


def _timing(
    mixer: kernels.LinearRecurrence, samples: Samples, state: Any, *, reverse: bool
) -> tuple[kernels.Timing, Any]:
    """The samples with weights of forces, and the state with the last interval."""
    timing, weigh = samples.timing(reverse=reverse), mixer.step.weigh
    if weigh is None:
        return timing, state
    time, moving = samples.values.shape[-2], samples.moving
    weights, state = weights_of_forces(
        weigh, state, timing.intervals, moving, time=time, reverse=reverse
    )
    return timing._replace(weights=weights), state
