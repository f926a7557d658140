"""Ensembles: weights fitted to held-out predictions, which members they keep, and streams.

Classes are pooled by their logarithms, p ~ exp(w_1 l_1 + w_2 l_2 + ...) with l = log(p + 0.001);
numbers by a weighted mean. With a single member the weight of classes is a temperature, which
calibrates its probabilities.
"""

import abc
import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

FLOOR = 1e-3
"""Added to probabilities before their logarithm, so that the loss of a confident error is
finite."""

_LEAST = 1e-3  # weight of a pool
_NAMES = {
    "oscillators": "the oscillators",
    "linoss": "the trained models",
    "ensemble": "the ensemble",
}


@dataclass(frozen=True)
class Choice:
    """The members of an ensemble that were kept, and the reason.

    ```python
    >>> from linoss.fitted import Choice
    >>> Choice.because("nothing was trained", "oscillators").why
    'Kept the oscillators: nothing was trained'

    ```
    """

    kept: str
    """`"oscillators"`, `"linoss"` for the trained models, or `"ensemble"`."""
    why: str
    """The reason, as a sentence."""
    scores: dict[str, float]
    """Accuracy or R² of each on held-out cases; empty without a comparison."""
    cases: int
    """Number of held-out cases."""

    @classmethod
    def because(
        cls, reason: str, kept: str, scores: dict[str, float] | None = None, cases: int = 0
    ) -> "Choice":
        """The choice for a reason."""
        return cls(kept, f"Kept {_NAMES[kept]}: {reason}", scores or {}, cases)

    @classmethod
    def by_weights(
        cls, weights: np.ndarray, scores: dict[str, float], cases: int, metric: str
    ) -> "Choice":
        """The choice that follows from the weights of the trained models and the oscillators."""
        trained, untrained = weights
        kept = "oscillators" if trained == 0 else "linoss" if untrained <= _LEAST else "ensemble"
        others = [f"{score:.4g} of {_NAMES[of]}" for of, score in scores.items() if of != kept]
        reason = (
            f"{metric} {scores[kept]:.4g} on {cases} held-out cases, against "
            f"{' and '.join(others)}; the trained models "
            f"{'do not help' if trained == 0 else 'help'} by more than a standard error"
        )
        return cls.because(reason, kept, scores, cases)


def logarithms(probabilities: Any) -> np.ndarray:
    """log(p + 0.001)."""
    return np.log(np.asarray(probabilities) + FLOOR)


def pool(logs: Any, weights: np.ndarray) -> np.ndarray:
    """Probabilities proportional to exp(w_1 l_1 + w_2 l_2 + ...) for each case and class.

    `logs` is `(members, cases, classes)`.
    """
    return softmax(np.tensordot(weights, np.asarray(logs), 1), axis=-1)


def fit_pool(logs: Any, truth: np.ndarray, case_weights: np.ndarray | None = None) -> np.ndarray:
    """The maximum-likelihood weights of `pool`, given the index of each case's class.

    An additional case with a uniform label keeps them finite. No weight is below 0.001, so that
    predictions differ even if the members are no better than chance.
    """
    logs = np.asarray(logs, np.float64)
    members, n, classes = logs.shape
    counts = np.ones(n) if case_weights is None else case_weights * (n / case_weights.sum())
    target = np.full((n, classes), 1 / classes) * counts[:, None] / (n + 1)
    target[np.arange(n), truth] += counts * n / (n + 1)

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        log_p = log_softmax(np.tensordot(weights, logs, 1), axis=-1)
        gap = counts[:, None] * np.exp(log_p) - target
        return -float(np.sum(target * log_p)) / n, np.einsum("snc,nc->s", logs, gap) / n

    bounds = [(_LEAST, 1e3)] * members
    result: Any = minimize(loss, np.full(members, 1 / members), jac=True, bounds=bounds)
    return result.x


def fit_mean(numbers: Any, truth: np.ndarray, case_weights: np.ndarray | None = None) -> np.ndarray:
    """The nonnegative weights with sum 1 of two members with the least squared error.

    `numbers` is `(2, cases, outputs)`; outputs are scaled by their variance.
    """
    first, second = np.asarray(numbers, np.float64)
    counts = np.ones(len(truth)) if case_weights is None else case_weights
    per = counts[:, None] / _spread(truth)
    apart = np.sum(per * (first - second) ** 2)
    share = np.sum(per * (truth - second) * (first - second)) / apart if apart > 0 else 0.5
    share = float(np.clip(share, 0, 1))
    return np.array([share, 1 - share])


def pool_losses(logs: Any, truth: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The negative log-likelihood of each case's class."""
    log_p = log_softmax(np.tensordot(weights, np.asarray(logs), 1), axis=-1)
    return -log_p[np.arange(len(truth)), truth]


def mean_losses(numbers: Any, truth: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The squared error of each case, in variances."""
    errors = np.tensordot(weights, np.asarray(numbers), 1) - truth
    return np.mean(errors**2 / _spread(truth), axis=1)


def is_better(losses: np.ndarray, others: np.ndarray) -> bool:
    """Whether losses are lower than others by more than a standard error of the mean difference."""
    gain = others - losses
    return bool(len(gain) > 1 and gain.mean() > gain.std(ddof=1) / np.sqrt(len(gain)))


def _spread(truth: np.ndarray) -> np.ndarray:
    spread = truth.var(axis=0)
    return np.where(spread > 0, spread, 1)


# ---- Streams: raw samples in, predictions for the sequence so far out, in constant memory ----


class AbstractPredictionStream(abc.ABC):
    """A streaming predictor: one sample in, one prediction out."""

    @abc.abstractmethod
    def __call__(self, sample: Any, time: float | None = None) -> np.ndarray:
        """Return the prediction after one more sample.

        **Arguments:**

        - `sample`: one number for each channel; NaN if it is missing.
        - `time`: the sampling time, required if those of the training were irregular.
        """

    def many(self, samples: np.ndarray, times: Sequence[float | None]) -> np.ndarray:
        """Return the predictions after each of several samples."""
        return np.stack([self(*sample) for sample in zip(samples, times, strict=True)])


class EnsembleStream(AbstractPredictionStream):
    """A stream that combines the predictions of several."""

    def __init__(
        self,
        members: Sequence[AbstractPredictionStream],
        combine: Callable[[list[np.ndarray]], np.ndarray],
    ):
        self._members, self._combine = members, combine

    def __deepcopy__(self, memo: dict[int, Any]) -> "EnsembleStream":
        """Copy the states; what does not change is shared."""
        return EnsembleStream(copy.deepcopy(self._members, memo), self._combine)

    def __call__(self, sample: Any, time: float | None = None) -> np.ndarray:
        """Return the combined prediction after one more sample."""
        return self._combine([member(sample, time)[None] for member in self._members])[0]

    def many(self, samples: np.ndarray, times: Sequence[float | None]) -> np.ndarray:
        """Return the predictions after each of several samples."""
        return self._combine([member.many(samples, times) for member in self._members])
