"""Norms over channels that know which samples are there."""

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float

from linoss._settings import NormKind
from linoss.nn._split import WHOLE, Split, present

EPSILON = 1e-5
_KEEP = {"running": 0.99, "batch": 0.9}


class LayerNorm(eqx.Module):
    """Each sample by its own mean and deviation over channels, with learned scale and shift."""

    scale: Float[Array, " hidden"]
    shift: Float[Array, " hidden"]

    def __init__(self, hidden_size: int):
        self.scale, self.shift = jnp.ones(hidden_size), jnp.zeros(hidden_size)

    def __call__(
        self,
        x: Float[Array, "*batch time hidden"],
        mask: Bool[Array, "*batch time"] | None,
        *,
        training: bool,
        split: Split = WHOLE,
    ) -> tuple[Float[Array, "*batch time hidden"], "LayerNorm"]:
        """The normalised samples, and the norm itself, which stays as it is."""
        mean = jnp.mean(x, axis=-1, keepdims=True)
        variance = jnp.var(x, axis=-1, keepdims=True)
        return (x - mean) / jnp.sqrt(variance + EPSILON) * self.scale + self.shift, self


class BatchNorm(eqx.Module):
    """Each channel by its mean and deviation over batch and time, without scale and shift.

    Evaluation uses running statistics r, which the first batch sets and each later one updates.
    Training normalises with the batch's own statistics (`"batch"`; r <- 0.9 r + 0.1 batch), or, as
    in the published runs, with the updated r (`"running"`; r <- 0.99 r + 0.01 batch), through whose
    batch share gradients flow.
    """

    mean: Float[Array, " hidden"]
    variance: Float[Array, " hidden"]
    fresh: Bool[Array, ""]
    kind: Literal["batch", "running"] = eqx.field(static=True)

    def __init__(self, hidden_size: int, kind: Literal["batch", "running"]):
        self.mean, self.variance = jnp.zeros(hidden_size), jnp.ones(hidden_size)
        self.fresh, self.kind = jnp.array(True), kind

    def __call__(
        self,
        x: Float[Array, "*batch time hidden"],
        mask: Bool[Array, "*batch time"] | None,
        *,
        training: bool,
        split: Split = WHOLE,
    ) -> tuple[Float[Array, "*batch time hidden"], "BatchNorm"]:
        """The normalised samples, and the norm with the statistics it has after them."""
        mean, variance, updated = self.statistics(x, mask, training=training, split=split)
        return (x - mean) * jax.lax.rsqrt(variance + EPSILON), updated

    def statistics(
        self,
        x: Float[Array, "*batch time hidden"],
        mask: Bool[Array, "*batch time"] | None,
        *,
        training: bool,
        split: Split = WHOLE,
        moments: Float[Array, "2 hidden"] | None = None,
    ) -> tuple[Float[Array, " hidden"], Float[Array, " hidden"], "BatchNorm"]:
        """Mean and variance to normalise with, and the norm with the statistics it has then.

        `moments` are the batch's mean and variance (of this device's piece), if they are known.
        """
        running = (jax.lax.stop_gradient(self.mean), jax.lax.stop_gradient(self.variance))
        if not training:
            return *running, self
        if moments is None:
            moments = _moments(x, mask)
        moments = split.moments(moments, present(mask, x.shape[:-1]))
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
        return *((mean, variance) if self.kind == "running" else batch), updated


def _moments(x: Array, mask: Array | None) -> Float[Array, "2 hidden"]:
    """Mean and variance of each channel over all samples that are there; 0 where none is."""
    axes, count = tuple(range(x.ndim - 1)), jnp.maximum(present(mask, x.shape[:-1]), 1)
    where = None if mask is None else jnp.broadcast_to(mask, x.shape[:-1])[..., None]
    mean = jnp.sum(x, axes, where=where) / count
    return jnp.stack([mean, jnp.sum((x - mean) ** 2, axes, where=where) / count])


Norm = LayerNorm | BatchNorm


def make_norm(kind: NormKind | None, hidden_size: int) -> Norm | None:
    """The norm of that name."""
    if kind is None:
        return None
    return LayerNorm(hidden_size) if kind == "layer" else BatchNorm(hidden_size, kind)
