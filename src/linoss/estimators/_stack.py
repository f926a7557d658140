"""How much the answers of each of several sources count, found from answers for left-out cases."""

from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

FLOOR = 1e-3
"""Added to probabilities before their logarithm: a source that is sure of a wrong class is not
infinitely wrong."""


def logarithms(probabilities: np.ndarray) -> np.ndarray:
    """log(p + 0.001)."""
    return np.log(probabilities + FLOOR)


def pool(logs: Any, weights: np.ndarray) -> np.ndarray:
    """Probabilities in proportion to exp(w_1 l_1 + w_2 l_2 + ...) of each case and class.

    `logs` is `(sources, cases, classes)`.
    """
    return softmax(np.tensordot(weights, np.asarray(logs), 1), axis=-1)


def fit_pool(logs: Any, truth: np.ndarray, case_weights: np.ndarray | None = None) -> np.ndarray:
    """The weights for which `pool` is likeliest, given the place of each case's class.

    One more case, of which all classes are true in equal parts, keeps them finite. None is below
    0.001, so that answers are not all the same where sources are no better than chance.
    """
    logs = np.asarray(logs, np.float64)
    sources, n, classes = logs.shape
    counts = np.ones(n) if case_weights is None else case_weights * (n / case_weights.sum())
    target = np.full((n, classes), 1 / classes) * counts[:, None] / (n + 1)
    target[np.arange(n), truth] += counts * n / (n + 1)

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        said = log_softmax(np.tensordot(weights, logs, 1), axis=-1)
        gap = counts[:, None] * np.exp(said) - target
        return -float(np.sum(target * said)) / n, np.einsum("snc,nc->s", logs, gap) / n

    bounds = [(1e-3, 1e3)] * sources
    found: Any = minimize(loss, np.full(sources, 1 / sources), jac=True, bounds=bounds)
    return found.x


def fit_mean(numbers: Any, truth: np.ndarray, case_weights: np.ndarray | None = None) -> np.ndarray:
    """The weights >= 0, with a sum of 1, of one or two sources whose mean is nearest to the truth.

    `numbers` is `(sources, cases, outputs)`; outputs count by their variance.
    """
    numbers = np.asarray(numbers, np.float64)
    if len(numbers) == 1:
        return np.ones(1)
    first, second = numbers
    spread = truth.var(axis=0)
    counts = np.ones(len(truth)) if case_weights is None else case_weights
    per = counts[:, None] / np.where(spread > 0, spread, 1)
    apart = np.sum(per * (first - second) ** 2)
    share = np.sum(per * (truth - second) * (first - second)) / apart if apart > 0 else 0.5
    share = float(np.clip(share, 0, 1))
    return np.array([share, 1 - share])
