"""Operations of a block: norms that ignore missing samples, products in the precision of the model,
and dropout.

The random bits of dropout are a function of (key, position) only, by a counter-based generator of a
few integer operations, so that the native kernels draw the same mask from the words of the key.
"""

import abc
import math
from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, PRNGKeyArray, UInt32

from linoss._arrays import align
from linoss._settings import NormKind, PrecisionName
from linoss.kernels import Affine, Normalization
from linoss.nn._samples import WHOLE, Samples, Split

# ---- Products ----


def as_arrays(linear: eqx.nn.Linear) -> Affine:
    """W and b."""
    assert linear.bias is not None
    return Affine(linear.weight, linear.bias)


def affine(linear: eqx.nn.Linear, x: Float[Array, "*batch in"]) -> Float[Array, "*batch out"]:
    """W x + b on the last axis."""
    weight, bias = as_arrays(linear)
    product = x @ weight.T
    return product + align(bias, product)


def product(
    x: Float[Array, "*batch in"], weight: Float[Array, "out in"], precision: PrecisionName
) -> Float[Array, "*batch out"]:
    """x W^T, in the precision of its factors or with factors rounded to bfloat16."""
    return _rounded(x, weight) if precision == "bfloat16" else x @ weight.T


@jax.custom_vjp
def _rounded(x: Array, weight: Array) -> Array:
    """The derivative also rounds the factors of its products, but not their sums; the derivative of
    a cast would do the reverse."""
    return _multiply(x, weight.T)


def _backward(factors: tuple[Array, Array], d: Array) -> tuple[Array, Array]:
    x, weight = factors
    rows, d_rows = (array.reshape(-1, array.shape[-1]) for array in (x, d))
    return _multiply(d, weight), _multiply(d_rows.T, rows)


_rounded.defvjp(lambda x, weight: (_multiply(x, weight.T), (x, weight)), _backward)


def _multiply(a: Array, b: Array) -> Array:
    a16, b16 = (factor.astype(jnp.bfloat16) for factor in (a, b))
    return jnp.matmul(a16, b16, preferred_element_type=a.dtype)


# ---- Norms ----

_EPSILON = 1e-5
_KEEP = {"running": 0.99, "batch": 0.9}

Hidden = Float[Array, "*batch time hidden"]
Moments = Float[Array, "2 hidden"]


def normalize(norm: Normalization, x: Hidden) -> Hidden:
    """The normalised features."""
    mean, scale = (align(jnp.asarray(value, x.dtype), x) for value in norm[:2])
    if norm.epsilon == 0:
        return (x - mean) * scale
    center = jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.var(x, axis=-1, keepdims=True)
    return (x - center) / jnp.sqrt(variance + norm.epsilon) * scale + mean


def channel_moments(x: Hidden, samples: Samples) -> Moments:
    """Mean and variance of each channel over this device's present samples; 0 if there are none."""
    axes, count = tuple(range(x.ndim - 1)), jnp.maximum(samples.count(), 1).astype(x.dtype)
    where = None if samples.mask is None else samples.mask[..., None]
    mean = jnp.sum(x, axes, where=where) / count
    return jnp.stack([mean, jnp.sum((x - align(mean, x)) ** 2, axes, where=where) / count])


class AbstractNorm(eqx.Module):
    """Normalises features `(..., time, hidden)`, and may update statistics in training."""

    trained: ClassVar[bool] = True
    """Whether the arrays are trained; otherwise they are statistics."""

    @abc.abstractmethod
    def native(self) -> Normalization:
        """The norm in inference."""

    def update(self, moments: Moments, samples: Samples) -> tuple[Normalization, "AbstractNorm"]:
        """The norm in training, for features with these moments on this device, and the norm with
        updated statistics."""
        return self.native(), self


class NoNorm(AbstractNorm):
    """The identity."""

    def native(self) -> Normalization:
        """Mean 0 and scale 1."""
        return Normalization(0.0, 1.0)


class LayerNorm(AbstractNorm):
    """Normalises each sample over channels, with learned scale and shift."""

    scale: Float[Array, " hidden"]
    shift: Float[Array, " hidden"]

    def __init__(self, hidden_size: int):
        self.scale, self.shift = jnp.ones(hidden_size), jnp.zeros(hidden_size)

    def native(self) -> Normalization:
        """The shift is the mean after normalisation."""
        return Normalization(self.shift, self.scale, _EPSILON)


class BatchNorm(AbstractNorm):
    """Normalises each channel over batch and time, without learned scale and shift.

    Inference uses running statistics r, which the first batch initialises and each later one
    updates. Training normalises with the statistics of the batch (`"batch"`; r <- 0.9 r + 0.1
    batch), or, as in the published runs, with the updated r (`"running"`; r <- 0.99 r + 0.01
    batch), where gradients flow through the batch term.
    """

    trained: ClassVar[bool] = False
    mean: Float[Array, " hidden"]
    variance: Float[Array, " hidden"]
    fresh: Bool[Array, ""]
    kind: Literal["batch", "running"] = eqx.field(static=True)

    def __init__(self, hidden_size: int, kind: Literal["batch", "running"]):
        self.mean, self.variance = jnp.zeros(hidden_size), jnp.ones(hidden_size)
        self.fresh, self.kind = jnp.array(True), kind

    def native(self) -> Normalization:
        """The running statistics."""
        return _of_statistics(*jax.lax.stop_gradient((self.mean, self.variance)))

    def update(self, moments: Moments, samples: Samples) -> tuple[Normalization, "BatchNorm"]:
        """The statistics of the batch, or the updated running ones."""
        batch, keep = samples.split.moments(moments, samples.count()), _KEEP[self.kind]
        running = jax.lax.stop_gradient((self.mean, self.variance))
        mean, variance = (
            jnp.where(self.fresh, b, keep * r + (1 - keep) * b)
            for r, b in zip(running, batch, strict=True)
        )
        updated = eqx.tree_at(
            lambda norm: (norm.mean, norm.variance, norm.fresh),
            self,
            jax.lax.stop_gradient((mean, variance, jnp.zeros_like(self.fresh))),
        )
        return _of_statistics(*((mean, variance) if self.kind == "running" else batch)), updated


def _of_statistics(mean: Array, variance: Array) -> Normalization:
    return Normalization(mean, jax.lax.rsqrt(variance + _EPSILON))


def make_norm(kind: NormKind | None, hidden_size: int) -> AbstractNorm:
    """The norm of that name."""
    if kind is None:
        return NoNorm()
    return LayerNorm(hidden_size) if kind == "layer" else BatchNorm(hidden_size, kind)


# ---- Dropout ----


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
    *,
    shared: bool = False,
) -> Float[Array, "*batch time channel"]:
    """Zero each element with probability `rate`, and scale the others to preserve the mean.

    Positions are counted in the whole batch, of which `x` may be this device's shard; or, if
    `shared`, in each sequence, so that all have the same mask.
    """
    if words is None or rate == 0:
        return x
    *batch, time, channels = x.shape
    origin, stride = split.first_sample(math.prod(batch), time, shared=shared)
    row = jnp.arange(math.prod(batch), dtype=jnp.uint32).reshape(*batch, 1, 1)
    step, channel = (jnp.arange(size, dtype=jnp.uint32) for size in (time, channels))
    sample = origin + row * stride + align(step[:, None], x)
    position = sample * jnp.uint32(channels) + align(channel, x)
    keep = random_bits(words, position) >= jnp.uint32(min(round(rate * 2**32), 2**32 - 1))
    return jnp.where(keep, x / (1 - rate), 0)


def words_of_block(words: UInt32[Array, "2"]) -> UInt32[Array, "4"]:
    """Two random words for each of the two dropouts of a block."""
    return jnp.concatenate([words, words ^ jnp.uint32(0x9E3779B9)])
