"""Encoder and whole blocks as native passes over tiles of time that fit in the cache.

The plain JAX block of `_block.py` is the reference; the native one computes the same values and
gradients, including dropout. For the backward pass it stores the block's input, the oscillators'
states at the start of each tile, and as many products as memory allows (`_keep.py`); it recomputes
the rest. A pass also computes mean and variance of each channel of its output, for the norm of the
next block.

Each pass has a custom derivative, because its backward pass is also in C++.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.custom_derivatives import SymbolicZero, custom_vjp_primal_tree_values
from jaxtyping import Float, UInt8, UInt32

from linoss import kernels
from linoss._arrays import align
from linoss._settings import PrecisionName
from linoss.dynamics import Transition
from linoss.nn._keep import Kept
from linoss.nn._products import product
from linoss.nn._samples import Samples
from linoss.scan import OscillatorState, end_of_segments, scan_forces, state_before_shard


class Form(NamedTuple):
    """Static arguments of a native pass."""

    dropout: float = 0.0
    epsilon: float = 0.0
    """The epsilon of a norm over channels, see `AbstractNorm.epsilon_over_channels`."""
    scheme: str = ""
    """The scheme of the steps, see `Scheme.native`; empty for a constant step that is given."""
    half: bool = False
    """Whether products round their factors to bfloat16."""
    keep: Kept = Kept.NONE
    """The products that the forward pass stores for the backward pass."""

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes of the kernel call."""
        return {"epsilon": np.float64(self.epsilon), "scheme": self.scheme, "half": self.half}


class MixerWeights(NamedTuple):
    """Weights of norm and mixer in a native pass."""

    mean: Float[Array, " hidden"]
    """The mean of the norm; the shift of a norm over channels."""
    scale: Float[Array, " hidden"]
    input_weight: Float[Array, "m hidden"]
    bias: Float[Array, " m"]
    step: Float[Array, "rows m"]
    """See `AbstractMixer.step_rows`."""
    output_weight: Float[Array, "hidden m"]
    feedthrough: Float[Array, " hidden"] | Float[Array, "hidden hidden"]


class GLUWeights(NamedTuple):
    """Weights of the rest of a block."""

    weight: Float[Array, "2*hidden hidden"]
    bias: Float[Array, " 2*hidden"]


class Visits(NamedTuple):
    """The samples in the order in which oscillators visit them; unused arrays are empty."""

    mask: UInt8[Array, "_ _"]
    intervals: Float[Array, "_ _"]
    weights: Float[Array, "_ _"]
    """Weights of forces."""


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def fused_block(
    form: Form,
    u: Float[Array, "batch time hidden"],
    mixer: MixerWeights,
    glu: GLUWeights,
    words: UInt32[Array, "6"],
    visits: Visits,
    extra: Float[Array, "_ _ _"],
    start: Float[Array, "batch m 2"],
) -> tuple[
    Float[Array, "batch time hidden"],
    Float[Array, "batch m 2"],
    Float[Array, "batch hidden"],
    Float[Array, "2 hidden"],
]:
    """The block's output, its final state, the output's mean over each sequence, and its mean and
    variance over all samples.

    `words` are two random words for each dropout, the index of the first sample, and the number of
    samples from one sequence to the next. `extra`, which may be empty, is added before GELU.
    """
    form = form._replace(keep=Kept.NONE)
    return _run(form, u, mixer, glu, words, visits, extra, start)[:4]


def _run(form: Form, u: Array, *arguments: Any) -> Any:
    *_, start = arguments
    batch, time, hidden = u.shape
    width = form.keep.width(hidden, start.shape[1])
    results = (
        _shape(u.shape),
        _shape(start.shape),
        _shape((batch, hidden)),
        _shape((2, hidden)),
        _shape((batch, kernels.tiles(time), 2, start.shape[1])),
        _shape((batch, time, width) if width else (0, 0, 0)),
    )
    return kernels.call(
        "linoss_block_forward",
        results,
        u,
        *jax.tree.leaves(arguments),
        rate=np.float64(form.dropout),
        keep=np.int64(form.keep),
        **form.attributes,
    )


def _forward(form: Form, *arguments: Any) -> tuple[Any, Any]:
    *given, start = custom_vjp_primal_tree_values(arguments)
    *results, kept, record = _run(form, *given, start)
    return tuple(results), (given, kept, record, results[-1])


def _backward(form: Form, residuals: Any, cotangents: Any) -> tuple[Any, ...]:
    given, kept, record, moments = residuals
    u, mixer, glu, words, visits, extra = given
    if isinstance(cotangents[0], SymbolicZero):  # only the means have gradients
        cotangents = (jnp.zeros((0, 0, 0), jnp.float32), *cotangents[1:])
    d_out, d_final, d_means, d_moments = (
        jnp.zeros(d.shape, jnp.float32) if isinstance(d, SymbolicZero) else d for d in cotangents
    )
    wanted = (u, *mixer, *glu, visits.intervals, visits.weights, extra, d_final)
    d_u, *d_all = kernels.call(
        "linoss_block_backward",
        tuple(_shape(x.shape) for x in wanted),
        *jax.tree.leaves(given),
        *(kept, record, moments, d_out, d_final, d_means, d_moments),
        rate=np.float64(form.dropout),
        keep=np.int64(form.keep),
        **form.attributes,
    )
    *d_weights, d_gate, d_gate_bias, d_intervals, d_forces, d_extra, d_start = d_all
    d_visits = Visits(_no_gradient(visits.mask), d_intervals, d_forces)
    d_glu = GLUWeights(d_gate, d_gate_bias)
    return d_u, MixerWeights(*d_weights), d_glu, _no_gradient(words), d_visits, d_extra, d_start


fused_block.defvjp(_forward, _backward, symbolic_zeros=True)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def fused_mixer(
    form: Form, u: Float[Array, "batch time hidden"], mixer: MixerWeights, visits: Visits
) -> Float[Array, "batch time hidden"]:
    """Norm and mixer alone, from the last sample to the first, from rest."""
    return _mix_forward(form, u, mixer, visits)[0]


def _mix_forward(form: Form, u: Array, mixer: MixerWeights, visits: Visits) -> tuple[Any, Any]:
    batch, time, _ = u.shape
    results = (_shape(u.shape), _shape((batch, kernels.tiles(time), 2, mixer.bias.size)))
    out, kept = kernels.call("linoss_mix_forward", results, u, *mixer, *visits, **form.attributes)
    return out, (u, mixer, visits, kept)


def _mix_backward(form: Form, residuals: Any, d_out: Array) -> tuple[Any, ...]:
    u, mixer, visits, kept = residuals
    results = tuple(_shape(x.shape) for x in (u, *mixer, visits.intervals, visits.weights))
    d_u, *d_weights, d_intervals, d_forces = kernels.call(
        "linoss_mix_backward", results, u, *mixer, *visits, kept, d_out, **form.attributes
    )
    d_visits = Visits(_no_gradient(visits.mask), d_intervals, d_forces)
    return d_u, MixerWeights(*d_weights), d_visits


fused_mixer.defvjp(_mix_forward, _mix_backward)

_shape = partial(jax.ShapeDtypeStruct, dtype=jnp.float32)


def _no_gradient(integers: Array) -> Any:
    return np.zeros(integers.shape, jax.dtypes.float0)


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
    results = (_shape((u.shape[0], bias.size)), _shape((2, bias.size)))
    out, moments = kernels.call("linoss_encode_forward", results, u, weight, bias, mask)
    return (out, moments), (u, weight, bias, mask, moments)


def _encode_backward(residuals: Any, cotangents: Any) -> tuple[Any, ...]:
    u, weight, bias, mask, moments = residuals
    d_out, d_moments = cotangents
    d_weight, d_bias = kernels.call(
        "linoss_encode_backward",
        (_shape(weight.shape), _shape(bias.shape)),
        *(*residuals, d_out, d_moments),
    )
    # The gradient of u is rarely used; if it is not, the compiler removes these lines.
    there = jnp.ones(u.shape[0], bool) if mask.size == 0 else mask > 0
    count = jnp.maximum(jnp.sum(there), 1).astype(u.dtype)
    share, slope = d_moments[:1] / count, 2 * d_moments[1:] / count
    pull = share + slope * (u @ weight.T + bias[None] - moments[:1])
    d_u = (d_out + jnp.where(there[:, None], pull, 0)) @ weight
    return d_u, d_weight, d_bias, None


encode.defvjp(_encode_forward, _encode_backward)


def start_of_shard(
    mixer: MixerWeights,
    u: Float[Array, "batch time hidden"],
    start: Float[Array, "batch m 2"],
    samples: Samples,
) -> Float[Array, "batch m 2"]:
    """The state before this device's shard, if time is split; `start` is the state before the
    sequence."""
    time_axis = samples.split.time
    if time_axis is None:
        return start
    transition = Transition(mixer.step[:4].T.reshape(-1, 2, 2), mixer.step[4:].T)
    mask = None if samples.mask is None else samples.mask_bytes()
    weights = (transition, mixer.input_weight, mixer.bias, mixer.mean, mixer.scale)
    advance = partial(_advance, samples.precision)
    end: Any = end_of_segments(advance, weights, u, mask, jnp.zeros_like(start))
    moving = None if mask is None else mask > 0
    return state_before_shard(
        transition, end, time=u.shape[1], initial_state=start, mask=moving, time_axis=time_axis
    )


def _advance(
    precision: PrecisionName, weights: Any, u: Array, mask: Array | None, state: Array
) -> Array:
    """The state after a segment."""
    transition, B, bias, mean, scale = weights
    force = product((u - align(mean, u)) * align(scale, u), B, precision)
    force, before, moving = force + align(bias, force), OscillatorState(state, None), None
    if mask is not None:
        force, moving = jnp.where(mask[..., None] == 1, force, 0), mask > 0
    return scan_forces(transition, force, before, mask=moving, engine="native")[1].oscillators
