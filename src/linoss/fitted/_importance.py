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
    centred,
    fit_kernel,
    leave_one_out_errors,
    one_thread,
    standardise,
    with_constant,
)

MOST_CASES = 256  # that decide
_FEWEST_CASES = 10
_FOLDS = 4
_START = {"lateness": 0.25}  # the beginning of many recordings is arbitrary
_FACTOR, _FIRST = 4.0, 1.0
_SWEEPS, _WORTH = 3, 0.005  # sweeps go on while they lower the error by this part of it


@dataclass(frozen=True, eq=False)
class Deciding:
    """Cases that decide, and their squared leave-one-out errors by importance and penalty."""

    kernels: np.ndarray
    """(groups, cases, cases), of rows times the roots of the weights of cases."""
    targets: np.ndarray
    """(cases, outputs)"""
    weights: np.ndarray

    @classmethod
    def of(cls, features: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> "Deciding":
        """From features `(cases, groups, n)`."""
        w, kernels = weights / weights.mean(), []
        with one_thread():
            for group in range(features.shape[1]):
                z = np.ascontiguousarray(features[:, group])
                standardise(z, w, 1.0)
                kernels.append((z @ z.T / z.shape[1]).astype(float) * np.sqrt(np.outer(w, w)))
        return cls(np.stack(kernels), targets, w)

    def importance(self) -> np.ndarray:
        """The importance of each group."""
        start = np.zeros(len(self.kernels))
        start[: len(STATISTICS)] = [_START.get(name, 1.0) for name in STATISTICS]
        if len(self.targets) < _FEWEST_CASES:
            return start
        with one_thread():
            return self._descend(start)

    def crossed(self) -> np.ndarray:
        """Leave-one-out predictions of each case, with the importance by the other folds."""
        fold = np.random.default_rng(0).permutation(len(self.targets)) % _FOLDS
        predictions = np.empty(self.targets.shape)
        for own in (fold == k for k in range(_FOLDS)):
            others = np.flatnonzero(~own)
            w = self.weights[others] / self.weights[others].mean()
            kernels = self.kernels[:, others[:, None], others]
            importance = Deciding(kernels, self.targets[others], w).importance()
            kernel = np.tensordot(importance / importance.sum(), self.kernels, 1)
            with one_thread():
                predictions[own] = fit_kernel(kernel, self.targets, self.weights)[2][own]
        return predictions

    def _descend(self, importance: np.ndarray) -> np.ndarray:
        """Change one importance after the other while this lowers the errors."""
        target, _, spread = centred(self.targets, self.weights)
        total = np.tensordot(importance, self.kernels, 1)

        def errors(kernel: np.ndarray, penalty: float) -> np.ndarray:
            """Squared errors of the cases."""
            gram = with_constant(kernel, self.weights)
            try:
                errors = leave_one_out_errors(gram, target / spread, self.weights, penalty)[1]
            except LinAlgError:  # penalty below the rounding error of the matrix
                return np.full(len(gram), np.inf)
            return self.weights * np.sum(errors**2, axis=1)

        for _ in range(_SWEEPS):
            kernel = total / importance.sum()
            penalty = min(PENALTIES[::2], key=lambda each: errors(kernel.copy(), each).mean())
            before = now = errors(kernel, penalty)
            for group, kernel in enumerate(self.kernels):
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
