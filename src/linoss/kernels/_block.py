"""Encoder and whole blocks as native passes over tiles of time that fit in the cache.

The plain block of `linoss.nn` is the reference: a native pass computes the same values and
gradients, including dropout. For the backward pass it stores the block's input, the states at the
start of each tile, and as many products as memory allows (`kept_products`); it recomputes the
others. It also computes mean and variance of each channel of its output, for the norm of the next
block.
"""

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.custom_derivatives import SymbolicZero, custom_vjp_primal_tree_values
from jaxtyping import Float, UInt8, UInt32

from linoss._settings import PrecisionName
from linoss.kernels._arrays import (
    Affine,
    BlockArrays,
    Kept,
    LinearRecurrence,
    Normalization,
    Timing,
    native_scheme,
    stack_leaves,
)
from linoss.kernels._library import call, tiles

# ---- Passes ----


class BlockOutputs(NamedTuple):
    """The results of a pass."""

    values: Float[Array, "*batch time hidden"]
    state: Float[Array, "*batch m 2"]
    """The final state."""
    means: Float[Array, "*batch hidden"]
    """The mean of `values` over the present samples of each sequence."""
    moments: Float[Array, "2 hidden"]
    """Their mean and variance over all present samples."""


def run_block(
    block: BlockArrays,
    u: Float[Array, "*batch time hidden"],
    timing: Timing,
    start: Float[Array, "*batch m 2"] | None,
    random: UInt32[Array, "6"],
    *,
    precision: PrecisionName = "float32",
    keep: Kept = Kept.NONE,
    added: Float[Array, "*batch time hidden"] | None = None,
) -> BlockOutputs:
    """A block from a state; `added` is added before GELU. Without mixers, norm and oscillators are
    left out.

    `random` is two random words for each dropout, the index of the first sample, and the number of
    samples from one sequence to the next. `keep` selects the products to store.
    """
    *batch, time, hidden = u.shape
    sequences = u.reshape(math.prod(batch), time, hidden)
    scheme, mixer, epsilon = "", _no_mixer(hidden), 0.0
    if block.mixers:
        scheme, mixer = mixer_arrays(block.mixers[0], block.norm)
        epsilon = block.norm.epsilon
    else:
        keep &= Kept.GATES
    state = jnp.zeros((*batch, 0, 2), u.dtype) if start is None else start
    flat = state.reshape(math.prod(batch), *state.shape[-2:])
    paired = scheme == _PAIRS
    half, gelu = precision == "bfloat16", block.approximate
    form = Form(scheme, epsilon, half, gelu, block.dropout, keep)
    none = jnp.zeros((0, 0, 0), u.dtype)
    extra = none if added is None else added.reshape(sequences.shape)
    arguments = (mixer, _order(timing), block.glu, random, extra)
    results: Any = fused_block(form, sequences, *arguments, _as_y(flat) if paired else flat)
    values, final, means, moments = results
    final = _from_y(final, flat.shape[1]) if paired else final
    means = means.reshape(*batch, hidden)
    return BlockOutputs(values.reshape(u.shape), final.reshape(state.shape), means, moments)


def run_backwards(
    block: BlockArrays,
    u: Float[Array, "*batch time hidden"],
    timing: Timing,
    *,
    precision: PrecisionName = "float32",
) -> Float[Array, "*batch time hidden"]:
    """Norm and the mixer that reads backwards, from rest; intervals are those after each sample."""
    scheme, mixer = mixer_arrays(block.mixers[1], block.norm)
    mask, intervals, weights = _order(timing)
    order = _Order(jnp.flip(mask, 1), jnp.flip(intervals, 1), weights)
    form = Form(scheme, block.norm.epsilon, precision == "bfloat16")
    out: Any = fused_mixer(form, u.reshape(-1, *u.shape[-2:]), mixer, order)
    return out.reshape(u.shape)


def encode(
    encoder: Affine, u: Float[Array, "*batch time in"], timing: Timing
) -> tuple[Float[Array, "*batch time hidden"], Float[Array, "2 hidden"]]:
    """W u + b, and its mean and variance over all present samples."""
    rows, mask = u.reshape(-1, u.shape[-1]), timing.bytes.reshape(-1)
    hidden, moments = fused_encoder(rows, *encoder, mask)
    return hidden.reshape(*u.shape[:-1], -1), moments


# ---- Layouts of arguments ----

_PAIRS = "pairs"
_VECTOR = 8  # pairs that kernels compute together


class Form(NamedTuple):
    """Static arguments of a kernel."""

    scheme: str = ""
    """The formulas of the steps, see `Scheme.native`; `pairs`; or empty for a constant step."""
    epsilon: float = 0.0
    half: bool = False
    """Whether products round their factors to bfloat16."""
    approximate: bool = False
    dropout: float = 0.0
    keep: Kept = Kept.NONE

    @property
    def attributes(self) -> dict[str, Any]:
        """Those of the handlers."""
        wide = {name: np.float64(getattr(self, name)) for name in ("epsilon", "dropout")}
        return {**self._asdict(), **wide, "keep": np.int64(self.keep)}


class MixerArrays(NamedTuple):
    """Norm and mixer as a kernel takes them."""

    mean: Float[Array, " hidden"]
    scale: Float[Array, " hidden"]
    input_weight: Float[Array, "m hidden"]
    bias: Float[Array, " m"]
    step: Float[Array, "rows m"]
    """zz, zy, yz, yy, fz, fy of M and F; of a scheme, A, timestep, G and the longest step; of
    `pairs`, the factors of a state and of its partner."""
    output_weight: Float[Array, "hidden m"]
    feedthrough: Float[Array, " hidden"] | Float[Array, "hidden hidden"]


class _Order(NamedTuple):
    """The samples in the order in which states visit them; unused arrays are empty."""

    mask: UInt8[Array, "_ _"]
    """See `Timing.bytes`."""
    intervals: Float[Array, "_ _"]
    weights: Float[Array, "_ _"]


def _order(timing: Timing) -> _Order:
    none = jnp.zeros((0, 0), jnp.float32)
    times = (timing.intervals, timing.weights)
    return _Order(timing.bytes, *(none if x is None else x.reshape(-1, x.shape[-1]) for x in times))


def mixer_arrays(mixer: LinearRecurrence, norm: Normalization) -> tuple[str, MixerArrays]:
    """The scheme of a mixer, and its arrays."""
    step, B, bias, C = mixer.step, mixer.input_weight, mixer.bias, mixer.output_weight
    hidden = B.shape[1]
    mean, scale = (jnp.broadcast_to(jnp.asarray(x, B.dtype), (hidden,)) for x in norm[:2])
    scheme = native_scheme(step) or ""
    if mixer.is_paired:
        scheme, (zz, zy, yz, yy, *_) = _PAIRS, jax.tree.leaves(mixer.regular_step.step)
        rows = jnp.stack([jnp.concatenate([zz, yy]), jnp.concatenate([zy, yz])])
        rows, B, bias, C = _fill(rows, 1), _fill(B, 0), _fill(bias, 0), _fill(C, 1)
    elif scheme:
        *parameters, longest = step.parameters  # pyright: ignore
        longest = jnp.full_like(parameters[0], jnp.inf) if longest is None else longest
        rows = jnp.stack([*parameters, longest])
    else:
        rows = stack_leaves(mixer.regular_step.step)
    return scheme, MixerArrays(mean, scale, B, bias, rows, C, mixer.feedthrough)


def _no_mixer(hidden: int) -> MixerArrays:
    zero, none = jnp.zeros(hidden, jnp.float32), jnp.zeros(0, jnp.float32)
    B, step, C = (none.reshape(shape) for shape in ((0, hidden), (6, 0), (hidden, 0)))
    return MixerArrays(zero, zero, B, none, step, C, zero)


def _fill(pairs: Array, axis: int) -> Array:
    """Pad both halves with zeros to whole vectors."""
    widths = [(0, 0)] * pairs.ndim
    widths[axis] = (0, -(pairs.shape[axis] // 2) % _VECTOR)
    return jnp.concatenate([jnp.pad(half, widths) for half in jnp.split(pairs, 2, axis)], axis)


def _as_y(state: Float[Array, "batch m 2"]) -> Float[Array, "batch filled 2"]:
    """States of pairs: the kernel has each number as the y of one oscillator."""
    y = _fill(jnp.concatenate([state[..., 0], state[..., 1]], -1), 1)
    return jnp.stack([jnp.zeros_like(y), y], -1)


def _from_y(state: Float[Array, "batch filled 2"], m: int) -> Float[Array, "batch m 2"]:
    return jnp.stack([half[:, :m] for half in jnp.split(state[..., 1], 2, -1)], -1)


# ---- Kernels with their derivatives, whose backward passes are also in C++ ----

_shape = partial(jax.ShapeDtypeStruct, dtype=jnp.float32)


def _no_gradient(integers: Array) -> Any:
    return np.zeros(integers.shape, jax.dtypes.float0)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def fused_block(
    form: Form,
    u: Float[Array, "batch time hidden"],
    mixer: MixerArrays,
    order: _Order,
    glu: Affine,
    random: UInt32[Array, "6"],
    extra: Float[Array, "_ _ _"],
    start: Float[Array, "batch m 2"],
) -> tuple[
    Float[Array, "batch time hidden"],
    Float[Array, "batch m 2"],
    Float[Array, "batch hidden"],
    Float[Array, "2 hidden"],
]:
    """The fields of `BlockOutputs`."""
    form = form._replace(keep=Kept.NONE)
    return _run(form, u, mixer, order, glu, random, extra, start)[:4]


def _run(form: Form, u: Array, *arguments: Any) -> Any:
    *_, start = arguments
    batch, time, hidden = u.shape
    width = form.keep.width(hidden, start.shape[1])
    results = (
        _shape(u.shape),
        _shape(start.shape),
        _shape((batch, hidden)),
        _shape((2, hidden)),
        _shape((batch, tiles(time), 2, start.shape[1])),
        _shape((batch, time, width) if width else (0, 0, 0)),
    )
    return call(
        "linoss_block_forward",
        results,
        u,
        *jax.tree.leaves(arguments),
        **form.attributes,
    )


def _forward(form: Form, *arguments: Any) -> tuple[Any, Any]:
    *primal, start = custom_vjp_primal_tree_values(arguments)
    *results, kept, record = _run(form, *primal, start)
    return tuple(results), (primal, kept, record, results[-1])


def _backward(form: Form, residuals: Any, cotangents: Any) -> tuple[Any, ...]:
    primal, kept, record, moments = residuals
    u, mixer, order, glu, random, extra = primal
    if isinstance(cotangents[0], SymbolicZero):  # only the means have gradients
        cotangents = (jnp.zeros((0, 0, 0), jnp.float32), *cotangents[1:])
    d_out, d_final, d_means, d_moments = (
        jnp.zeros(d.shape, jnp.float32) if isinstance(d, SymbolicZero) else d for d in cotangents
    )
    results = (u, *mixer, order.intervals, order.weights, *glu, extra, d_final)
    d_u, *d_all = call(
        "linoss_block_backward",
        tuple(_shape(x.shape) for x in results),
        *jax.tree.leaves(primal),
        *(kept, record, moments, d_out, d_final, d_means, d_moments),
        **form.attributes,
    )
    *d_mixer, d_intervals, d_forces, d_gate, d_gate_bias, d_extra, d_start = d_all
    d_order = _Order(_no_gradient(order.mask), d_intervals, d_forces)
    d_glu = Affine(d_gate, d_gate_bias)
    return d_u, MixerArrays(*d_mixer), d_order, d_glu, _no_gradient(random), d_extra, d_start


fused_block.defvjp(_forward, _backward, symbolic_zeros=True)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def fused_mixer(
    form: Form, u: Float[Array, "batch time hidden"], mixer: MixerArrays, order: _Order
) -> Float[Array, "batch time hidden"]:
    """Norm and mixer alone, from the last sample to the first, from rest."""
    return _mix_forward(form, u, mixer, order)[0]


def _mix_forward(form: Form, u: Array, mixer: MixerArrays, order: _Order) -> tuple[Any, Any]:
    batch, time, _ = u.shape
    results = (_shape(u.shape), _shape((batch, tiles(time), 2, mixer.bias.size)))
    out, kept = call("linoss_mix_forward", results, u, *mixer, *order, **form.attributes)
    return out, (u, mixer, order, kept)


def _mix_backward(form: Form, residuals: Any, d_out: Array) -> tuple[Any, ...]:
    u, mixer, order, kept = residuals
    results = tuple(_shape(x.shape) for x in (u, *mixer, order.intervals, order.weights))
    d_u, *d_mixer, d_intervals, d_forces = call(
        "linoss_mix_backward", results, u, *mixer, *order, kept, d_out, **form.attributes
    )
    d_order = _Order(_no_gradient(order.mask), d_intervals, d_forces)
    return d_u, MixerArrays(*d_mixer), d_order


fused_mixer.defvjp(_mix_forward, _mix_backward)


@jax.custom_vjp
def fused_encoder(
    u: Float[Array, "samples in"],
    weight: Float[Array, "hidden in"],
    bias: Float[Array, " hidden"],
    mask: UInt8[Array, " _"],
) -> tuple[Float[Array, "samples hidden"], Float[Array, "2 hidden"]]:
    """W u + b, and its mean and variance over all present samples."""
    return _encode_forward(u, weight, bias, mask)[0]


def _encode_forward(u: Array, weight: Array, bias: Array, mask: Array) -> tuple[Any, Any]:
    results = (_shape((u.shape[0], bias.size)), _shape((2, bias.size)))
    out, moments = call("linoss_encode_forward", results, u, weight, bias, mask)
    return (out, moments), (u, weight, bias, mask, moments)


def _encode_backward(residuals: Any, cotangents: Any) -> tuple[Any, ...]:
    u, weight, bias, mask, moments = residuals
    d_out, d_moments = cotangents
    d_weight, d_bias = call(
        "linoss_encode_backward",
        (_shape(weight.shape), _shape(bias.shape)),
        *(*residuals, d_out, d_moments),
    )
    # The gradient of u is rarely used; if it is not, the compiler removes these lines.
    present = jnp.ones(u.shape[0], bool) if mask.size == 0 else mask == 1
    count = jnp.maximum(jnp.sum(present), 1).astype(u.dtype)
    share, slope = d_moments[:1] / count, 2 * d_moments[1:] / count
    pull = share + slope * (u @ weight.T + bias[None] - moments[:1])
    d_u = (d_out + jnp.where(present[:, None], pull, 0)) @ weight
    return d_u, d_weight, d_bias, None


fused_encoder.defvjp(_encode_forward, _encode_backward)
