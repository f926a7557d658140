"""Losses, and helpers that objectives share.

An objective makes arrays of targets and weights from labels, on the host. The compiled loss depends
on nothing else, so that runs with other classes and scales share a compiled program.
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
    """The compiled part of an objective: a mean over all targets, by weight."""

    kind: Literal["cross-entropy", "squared", "absolute"]
    smoothing: float = 0.0
    floor: float = 0.0
    """Added to each probability before its logarithm."""

    def __call__(
        self, answers: Float[Array, "..."], targets: Array, weights: Float[Array, "..."]
    ) -> Float[Array, ""]:
        """sum(weights * errors) / sum(weights)."""
        if self.kind == "cross-entropy":
            classes = jax.nn.one_hot(targets, answers.shape[-1], dtype=answers.dtype)
            logs = jax.nn.log_softmax(answers)
            if self.floor:  # log(p + floor), without the rounding of a probability near 1
                logs = jnp.logaddexp(logs, math.log(self.floor))
            errors = -jnp.sum(optax.smooth_labels(classes, self.smoothing) * logs, axis=-1)
        else:
            difference = answers - targets
            errors = difference**2 if self.kind == "squared" else jnp.abs(difference)
        total = jnp.sum(weights)
        return jnp.sum(weights * errors) / jnp.where(total > 0, total, 1)


def labels_of(cases: Cases, name: str) -> Any:
    """The labels of cases; refuses cases without."""
    labels = getattr(cases, "labels", None)
    if labels is None:
        raise ValueError(f"{name} has no labels, expected a label a case")
    return labels


def scaled_targets(
    targets: np.ndarray, scaling: Scaling | None, dtype: Any
) -> tuple[np.ndarray, np.ndarray]:
    there = ~np.isnan(targets)
    scaled = targets if scaling is None else scaling.apply(targets)
    return np.where(there, scaled, 0).astype(dtype), there.astype(dtype)


def case_weights(batch: AnyBatch, weights: np.ndarray) -> np.ndarray:
    """Weights of targets `(cases, ...)`, times those of the cases."""
    own = getattr(batch, "weights", None)
    return weights if own is None else weights * own.reshape(-1, *[1] * (weights.ndim - 1))


def sum_of_errors(errors: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    there = weights > 0
    return float(np.sum(errors, where=there)), float(np.count_nonzero(there))


def check_sizes(config: LinOSSConfig, task: str, out_size: int) -> None:
    _checks.one_of("the model's task", config.task, (task,))
    if config.out_size != out_size:
        raise ValueError(f"the model's out_size is {config.out_size}, expected {out_size}")
