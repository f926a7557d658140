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
from linoss.nn._samples import Samples

_EPSILON = 1e-5
_KEEP = {"running": 0.99, "batch": 0.9}

Hidden = Float[Array, "*batch time hidden"]


class AbstractNorm(eqx.Module):
    """Normalises features `(..., time, hidden)`, and may update statistics in training."""

    @property
    @abc.abstractmethod
    def epsilon_over_channels(self) -> float:
        """The epsilon of a norm over the channels of each sample; 0 for a norm (x - mean) * scale
        with one mean and scale for each channel.
        """

    @abc.abstractmethod
    def __call__(
        self,
        x: Hidden,
        samples: Samples,
        *,
        training: bool,
        moments: Float[Array, "2 hidden"] | None = None,
    ) -> tuple[Hidden, "AbstractNorm"]:
        """The normalised features, and the norm with updated statistics.

        `moments` are mean and variance of this device's features, if they are already computed.
        """

    @abc.abstractmethod
    def mean_and_scale(
        self,
        x: Hidden,
        samples: Samples,
        *,
        training: bool,
        moments: Float[Array, "2 hidden"] | None = None,
    ) -> tuple[Float[Array, " hidden"], Float[Array, " hidden"], "AbstractNorm"]:
        """Mean and scale of each channel, and the norm with updated statistics.

        For a norm over channels, its shift and scale. `moments` are mean and variance of this
        device's features, if they are already computed.
        """

    @abc.abstractmethod
    def trainable(self) -> Any:
        """This norm with True for each array that is trained, and False for statistics."""


class NoNorm(AbstractNorm):
    """The identity."""

    @property
    def epsilon_over_channels(self) -> float:
        """0: mean 0 and scale 1."""
        return 0.0

    def __call__(
        self, x: Hidden, samples: Samples, *, training: bool, moments: Any = None
    ) -> tuple[Hidden, "NoNorm"]:
        """The unchanged features."""
        return x, self

    def mean_and_scale(
        self, x: Hidden, samples: Samples, *, training: bool, moments: Any = None
    ) -> tuple[Float[Array, " hidden"], Float[Array, " hidden"], "NoNorm"]:
        """0 and 1."""
        return jnp.zeros(x.shape[-1], x.dtype), jnp.ones(x.shape[-1], x.dtype), self

    def trainable(self) -> "NoNorm":
        """Nothing is trained."""
        return self


class LayerNorm(AbstractNorm):
    """Normalises each sample over channels, with learned scale and shift."""

    scale: Float[Array, " hidden"]
    shift: Float[Array, " hidden"]

    def __init__(self, hidden_size: int):
        self.scale, self.shift = jnp.ones(hidden_size), jnp.zeros(hidden_size)

    @property
    def epsilon_over_channels(self) -> float:
        """The epsilon added to the variance."""
        return _EPSILON

    def __call__(
        self, x: Hidden, samples: Samples, *, training: bool, moments: Any = None
    ) -> tuple[Hidden, "LayerNorm"]:
        """The normalised features, and the unchanged norm."""
        mean = jnp.mean(x, axis=-1, keepdims=True)
        variance = jnp.var(x, axis=-1, keepdims=True)
        normal = (x - mean) / jnp.sqrt(variance + _EPSILON)
        return normal * align(self.scale, x) + align(self.shift, x), self

    def mean_and_scale(
        self, x: Hidden, samples: Samples, *, training: bool, moments: Any = None
    ) -> tuple[Float[Array, " hidden"], Float[Array, " hidden"], "LayerNorm"]:
        """Shift and scale."""
        return self.shift, self.scale, self

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

    @property
    def epsilon_over_channels(self) -> float:
        """0: one mean and scale for each channel."""
        return 0.0

    def __call__(
        self,
        x: Hidden,
        samples: Samples,
        *,
        training: bool,
        moments: Float[Array, "2 hidden"] | None = None,
    ) -> tuple[Hidden, "BatchNorm"]:
        """The normalised features, and the norm with updated statistics."""
        mean, scale, updated = self.mean_and_scale(x, samples, training=training, moments=moments)
        return (x - align(mean, x)) * align(scale, x), updated

    def mean_and_scale(
        self,
        x: Hidden,
        samples: Samples,
        *,
        training: bool,
        moments: Float[Array, "2 hidden"] | None = None,
    ) -> tuple[Float[Array, " hidden"], Float[Array, " hidden"], "BatchNorm"]:
        """Mean and inverse standard deviation, and the norm with updated statistics."""
        running = (jax.lax.stop_gradient(self.mean), jax.lax.stop_gradient(self.variance))
        if not training:
            return running[0], jax.lax.rsqrt(running[1] + _EPSILON), self
        if moments is None:
            moments = _moments(x, samples)
        moments = samples.split.moments(moments, samples.count())
        batch = (moments[0], moments[1])
        keep = _KEEP[self.kind]
        mean, variance = (
            jnp.where(self.fresh, b, keep * r + (1 - keep) * b)
            for r, b in zip(running, batch, strict=True)
        )
        updated = eqx.tree_at(
            lambda norm: (norm.mean, norm.variance, norm.fresh),
            self,
            jax.lax.stop_gradient((mean, variance, jnp.zeros_like(self.fresh))),
        )
        mean, variance = (mean, variance) if self.kind == "running" else batch
        return mean, jax.lax.rsqrt(variance + _EPSILON), updated

    def trainable(self) -> "BatchNorm":
        """Nothing is trained: the arrays are statistics."""
        return jax.tree.map(lambda _: False, self)


def _moments(x: Hidden, samples: Samples) -> Float[Array, "2 hidden"]:
    """Mean and variance of each channel over all present samples; 0 if there are none."""
    axes, count = tuple(range(x.ndim - 1)), jnp.maximum(samples.count(), 1).astype(x.dtype)
    where = None if samples.mask is None else samples.mask[..., None]
    mean = jnp.sum(x, axes, where=where) / count
    return jnp.stack([mean, jnp.sum((x - align(mean, x)) ** 2, axes, where=where) / count])


def make_norm(kind: NormKind | None, hidden_size: int) -> AbstractNorm:
    """The norm of that name."""
    if kind is None:
        return NoNorm()
    return LayerNorm(hidden_size) if kind == "layer" else BatchNorm(hidden_size, kind)
