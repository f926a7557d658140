"""Norms over channels that ignore missing samples."""

import abc
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float

from linoss._arrays import align
from linoss._settings import NormKind
from linoss.kernels import Normalization
from linoss.nn._samples import Samples

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

    @abc.abstractmethod
    def native(self) -> Normalization:
        """The norm in inference."""

    @abc.abstractmethod
    def update(self, moments: Moments, samples: Samples) -> tuple[Normalization, "AbstractNorm"]:
        """The norm in training, for features with these moments on this device, and the norm with
        updated statistics."""

    @abc.abstractmethod
    def trainable(self) -> Any:
        """This norm with True for each array that is trained, and False for statistics."""


class NoNorm(AbstractNorm):
    """The identity."""

    def native(self) -> Normalization:
        """Mean 0 and scale 1."""
        return Normalization(0.0, 1.0)

    def update(self, moments: Moments, samples: Samples) -> tuple[Normalization, "NoNorm"]:
        """The same."""
        return self.native(), self

    def trainable(self) -> "NoNorm":
        """Nothing is trained."""
        return self


class LayerNorm(AbstractNorm):
    """Normalises each sample over channels, with learned scale and shift."""

    scale: Float[Array, " hidden"]
    shift: Float[Array, " hidden"]

    def __init__(self, hidden_size: int):
        self.scale, self.shift = jnp.ones(hidden_size), jnp.zeros(hidden_size)

    def native(self) -> Normalization:
        """The shift is the mean after normalisation."""
        return Normalization(self.shift, self.scale, _EPSILON)

    def update(self, moments: Moments, samples: Samples) -> tuple[Normalization, "LayerNorm"]:
        """The same."""
        return self.native(), self

    def trainable(self) -> "LayerNorm":
        """Scale and shift."""
        return jax.tree.map(lambda _: True, self)


class BatchNorm(AbstractNorm):
    """Normalises each channel over batch and time, without learned scale and shift.

    Inference uses running statistics r, which the first batch initialises and each later one
    updates. Training normalises with the statistics of the batch (`"batch"`; r <- 0.9 r + 0.1
    batch), or, as in the published runs, with the updated r (`"running"`; r <- 0.99 r + 0.01
    batch), where gradients flow through the batch term.
    """

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

    def trainable(self) -> "BatchNorm":
        """Nothing is trained: the arrays are statistics."""
        return jax.tree.map(lambda _: False, self)


def _of_statistics(mean: Array, variance: Array) -> Normalization:
    return Normalization(mean, jax.lax.rsqrt(variance + _EPSILON))


def make_norm(kind: NormKind | None, hidden_size: int) -> AbstractNorm:
    """The norm of that name."""
    if kind is None:
        return NoNorm()
    return LayerNorm(hidden_size) if kind == "layer" else BatchNorm(hidden_size, kind)
