"""The importance of groups of features, by leave-one-out predictions.

A group is one statistic over one window of time: the whole, a half or a quarter. Features of group
g are multiplied by sqrt(a_g), so that the kernel matrix of all features is the sum of a_g K_g.
Beginning with the whole sequence, each a_g in turn is set to 0, divided or multiplied by 4, if this
lowers the squared leave-one-out errors by more than a standard error of the mean difference. A few
hundred cases and a part of the oscillators decide.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError

from linoss.features import STATISTICS
from linoss.fitted._ridge import (
    PENALTIES,
    leave_one_out_errors,
    one_thread,
    standardise,
    with_constant,
)

MOST_CASES = 256  # that decide
_FEWEST_CASES = 10
_START = {"lateness": 0.25}  # the beginning of many recordings is arbitrary
_FACTOR, _FIRST = 4.0, 1.0
_SWEEPS, _WORTH = 3, 0.005  # sweeps go on while they lower the error by this part of it


@dataclass(frozen=True, eq=False)
class Deciding:
    """Cases that decide, and their squared leave-one-out errors by importance and penalty."""

    kernels: np.ndarray
    """(groups, cases, cases)"""
    targets: np.ndarray
    """(cases, outputs)"""
    weights: np.ndarray

    @classmethod
    def of(
        cls,
        features: np.ndarray,
        targets: np.ndarray,
        weights: np.ndarray | None,
        cases: np.ndarray,
    ) -> "Deciding":
        """From features `(cases, groups, n)` of some of the cases; without value, they are NaN."""
        w = np.ones(len(cases)) if weights is None else weights[cases]
        w, kernels = np.where(np.isfinite(features[:, 0, 0]), w, 0.0), []
        for group in range(features.shape[1]):
            z = np.nan_to_num(features[:, group])
            standardise(z, w / w.mean(), 1.0)
            kernels.append((z @ z.T / z.shape[1]).astype(float))
        return cls(np.stack(kernels), targets, w)

    @property
    def is_enough(self) -> bool:
        """Whether there are cases enough to decide."""
        return int((self.weights > 0).sum()) >= _FEWEST_CASES

    def importance(self, cases: np.ndarray | None = None) -> np.ndarray:
        """The importance of each group, by all cases or a subset of them."""
        start = np.zeros(len(self.kernels))
        start[: len(STATISTICS)] = [_START.get(name, 1.0) for name in STATISTICS]
        if not self.is_enough:
            return start
        used = np.flatnonzero(self.weights > 0 if cases is None else cases & (self.weights > 0))
        w = self.weights[used] / self.weights[used].mean()
        mean = w @ self.targets[used] / len(w)
        spread = np.sqrt(w @ (self.targets[used] - mean) ** 2 / len(w))
        target = (self.targets[used] - mean) / np.where(spread > 0, spread, 1)
        kernels = self.kernels[:, used[:, None], used] * np.sqrt(np.outer(w, w))
        with one_thread():
            return _descend(_Errors(kernels, target * np.sqrt(w)[:, None], w), start)


@dataclass(frozen=True, eq=False)
class _Errors:
    """Squared leave-one-out errors of each case, by kernel matrix and penalty."""

    kernels: np.ndarray
    """(groups, cases, cases), of rows times the roots of the weights of cases."""
    target: np.ndarray
    weights: np.ndarray

    def __call__(self, kernel: np.ndarray, penalty: float) -> np.ndarray:
        try:
            gram = with_constant(kernel.copy(), self.weights)
            errors = leave_one_out_errors(gram, self.target, self.weights, penalty)[1]
        except LinAlgError:  # penalty below the rounding error of the matrix
            return np.full(len(self.weights), np.inf)
        return self.weights * np.sum(errors**2, axis=1)

    def best_penalty(self, kernel: np.ndarray) -> float:
        """The penalty with the smallest error."""
        return min(PENALTIES[::2], key=lambda penalty: self(kernel, penalty).mean())


def _descend(errors: _Errors, importance: np.ndarray) -> np.ndarray:
    """Change one importance after the other while this lowers the errors."""
    total = np.tensordot(importance, errors.kernels, 1)
    for _ in range(_SWEEPS):
        penalty = errors.best_penalty(total / importance.sum())
        before = now = errors(total / importance.sum(), penalty)
        for group, kernel in enumerate(errors.kernels):
            a = importance[group]
            best = now, a
            for value in {0.0, a / _FACTOR, a * _FACTOR or _FIRST} - {a}:
                if (size := importance.sum() + value - a) <= 0:
                    continue
                loss = errors((total + (value - a) * kernel) / size, penalty)
                gain = now - loss
                is_worth = gain.mean() > gain.std() / np.sqrt(len(gain))
                if is_worth and loss.mean() < best[0].mean():
                    best = loss, value
            now, importance[group] = best
            total += (importance[group] - a) * kernel
        if now.mean() > (1 - _WORTH) * before.mean():
            break
    return importance
