"""Losses, and helpers shared by objectives.

An objective converts labels to arrays of targets and weights on the host. The compiled loss depends
only on these, so that runs with other classes and scales share a compiled program.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from jaxtyping import Float

from linoss import _checks
from linoss.nn import LinOSSConfig
from linoss.training._inputs import AnyBatch, Cases
from linoss.training._scaling import Scaling


@dataclass(frozen=True)
class Loss:
    """The compiled part of an objective: a weighted mean over all targets."""

    kind: Literal["cross-entropy", "squared", "pinball"]
    smoothing: float = 0.0
    floor: float = 0.0
    """Added to each probability before its logarithm."""
    levels: tuple[float, ...] = (0.5,)
    """The levels of quantiles, with 0.5 in the middle."""

    def __call__(
        self, outputs: Float[Array, "..."], targets: Array, weights: Float[Array, "..."]
    ) -> Float[Array, ""]:
        """sum(weights * errors) / sum(weights)."""
        if self.kind == "cross-entropy":
            classes = jax.nn.one_hot(targets, outputs.shape[-1], dtype=outputs.dtype)
            logs = jax.nn.log_softmax(outputs)
            if self.floor:  # log(p + floor), accurate for p near 1
                logs = jnp.logaddexp(logs, math.log(self.floor))
            errors = -jnp.sum(optax.smooth_labels(classes, self.smoothing) * logs, axis=-1)
        elif self.kind == "squared":
            errors = (outputs - targets) ** 2
        else:
            errors = _pinball(outputs, targets, self.levels)
        total = jnp.sum(weights)
        return jnp.sum(weights * errors) / jnp.where(total > 0, total, 1)


def _pinball(outputs: Array, targets: Array, levels: tuple[float, ...]) -> Array:
    """Twice the pinball loss, averaged over levels; for the median alone, the absolute error."""
    short = targets[..., None] - quantiles(outputs, len(levels), jnp)
    share = jnp.asarray(levels, short.dtype).reshape((1,) * (short.ndim - 1) + (-1,))
    return jnp.mean(2 * jnp.maximum(share * short, (share - 1) * short), axis=-1)


def quantiles(outputs: Any, count: int, numbers: Any = np) -> Any:
    """Quantiles `(..., variables, count)` from outputs `(..., variables * count)`; they never
    cross.

    The output in the middle is the median. Going outwards, the distance to the next quantile is the
    softplus of its output. `numbers` is NumPy or jax.numpy.
    """
    parts = outputs.reshape((*outputs.shape[:-1], -1, count))
    middle = count // 2
    distance = numbers.logaddexp(parts, 0)
    median = parts[..., middle : middle + 1]
    below = median - numbers.cumsum(distance[..., middle - 1 :: -1], axis=-1)[..., ::-1]
    above = median + numbers.cumsum(distance[..., middle + 1 :], axis=-1)
    return numbers.concatenate([below, median, above] if middle else [median], axis=-1)


def labels_of(cases: Cases, name: str) -> Any:
    """The labels of cases. Raises if there are none."""
    labels = getattr(cases, "labels", None)
    if labels is None:
        raise ValueError(f"{name} has no labels, expected a label a case")
    return labels


def scaled_targets(
    targets: np.ndarray, scaling: Scaling | None, dtype: Any
) -> tuple[np.ndarray, np.ndarray]:
    is_known = ~np.isnan(targets)
    scaled = targets if scaling is None else scaling.apply(targets)
    return np.where(is_known, scaled, 0).astype(dtype), is_known.astype(dtype)


def case_weights(batch: AnyBatch, weights: np.ndarray) -> np.ndarray:
    """Weights of targets `(cases, ...)`, multiplied by those of the cases."""
    own = getattr(batch, "weights", None)
    return weights if own is None else weights * own.reshape(-1, *[1] * (weights.ndim - 1))


def sum_of_errors(errors: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    counts = weights > 0
    return float(np.sum(errors, where=counts)), float(np.count_nonzero(counts))


def check_sizes(config: LinOSSConfig, task: str, out_size: int) -> None:
    _checks.one_of("the model's task", config.task, (task,))
    if config.out_size != out_size:
        raise ValueError(f"the model's out_size is {config.out_size}, expected {out_size}")
