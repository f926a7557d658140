"""Ridge regression with the penalty selected by leave-one-out cross-validation.

For standardised features X, weights w with a mean of 1, and targets Y of n cases the coefficients
minimise

    sum_i w_i |y_i - b - x_i B|² + penalty p |B|²,

for p features, with an intercept b that is not penalised. After standardisation, features of less
expected importance are multiplied by an importance below 1. Z is X with rows times v = sqrt(w). The
constant is a direction without variance, Z'v = 0; with G = (Z Z'/p + v v'/n + penalty)^-1 it has an
eigenvalue of 1 + penalty, and c = G v (Y - mean) is as without v v'. The leave-one-out prediction
for case i differs from y_i by

    c_i / (v_i (G_ii - w_i / (n (1 + penalty)))).

With more cases than features the same follows from the p x p matrix (Z'Z/p + penalty)^-1.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky, get_lapack_funcs
from threadpoolctl import threadpool_limits

PENALTIES = np.logspace(-4, 2, 13)
_COARSE = 3  # try every third penalty, then the neighbours of the best
_EXACT = 4096  # size of the largest matrix in double precision, and most leave-one-out cases
_SMALL = 1e10  # products of a matrix that one thread computes in a fraction of a second
_LIMITED = Lock()  # the number of threads of linear algebra is one for the whole process


@dataclass(frozen=True, eq=False)
class Ridge:
    """A fitted ridge regression."""

    mean: np.ndarray
    """(features,), float32."""
    scale: np.ndarray
    """(features,), float32: importance / deviation; 0 for a constant feature."""
    coefficients: np.ndarray
    """(features, outputs), of standardised features."""
    intercept: np.ndarray
    """(outputs,)"""
    penalty: float

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """Predictions `(cases, outputs)`; the intercept where features are NaN.

        Summed in double precision, so that a prediction does not depend on the other cases.
        """
        weights, constant = self._line
        predictions = features.astype(np.float64) @ weights + constant
        return np.where(np.isnan(predictions), self.intercept, predictions)

    @cached_property
    def _line(self) -> tuple[np.ndarray, np.ndarray]:
        """Weights and constant for unscaled features."""
        weights = self.scale[:, None].astype(np.float64) * self.coefficients
        return weights, self.intercept - self.mean.astype(np.float64) @ weights

    def __getstate__(self) -> dict[str, Any]:
        """Only the fields, so that predicting does not change the pickle."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def fit_ridge(
    features: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray | None = None,
    importance: np.ndarray | float = 1.0,
) -> tuple[Ridge, np.ndarray, np.ndarray]:
    """Fit to features `(cases, p)`, float32, which are overwritten, and targets `(cases, k)`.

    **Returns:** the regression; cases, a subset of very many; and their leave-one-out predictions
    `(cases, k)`. These have the intercept of all cases: that of a fit without a case is biased
    against its label, so that with two classes of equal size and uninformative features it would
    always favour the other class.

    Several targets are scaled by their variance for the selection of the penalty. Small problems
    are solved by one thread: on a busy machine, threads wait for each other much longer than that.
    """
    n, p = features.shape
    if n * p * min(n, p) > _SMALL:
        return _fit_ridge(features, targets, weights, importance)
    with one_thread():
        return _fit_ridge(features, targets, weights, importance)


@contextmanager
def one_thread() -> Iterator[None]:
    """Linear algebra by one thread."""
    with _LIMITED, threadpool_limits(1, "blas"):
        yield


def _fit_ridge(
    features: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray | None,
    importance: np.ndarray | float,
) -> tuple[Ridge, np.ndarray, np.ndarray]:
    n, p = features.shape
    w = np.ones(n) if weights is None else weights * (n / weights.sum())
    mean, scale = standardise(features, w, importance)
    intercept = w @ targets / n
    spread = np.sqrt(w @ (targets - intercept) ** 2 / n)
    root = np.sqrt(w)[:, None]
    z = features if weights is None else np.multiply(features, root.astype(np.float32), features)
    target = (targets - intercept) * root
    system = (_Dual if n <= p else _Primal)(z, target, w)
    tried: dict[int, tuple[float, np.ndarray, np.ndarray]] = {}

    def try_penalty(i: int) -> None:
        if i in tried or not 0 <= i < len(PENALTIES):
            return
        try:
            solution, errors = system.solve(PENALTIES[i])
        except LinAlgError:  # penalty below the rounding error of the matrix
            return
        rows = system.cases
        loss = np.sum(w[rows, None] * (errors / np.where(spread > 0, spread, 1)) ** 2)
        tried[i] = float(loss), solution, targets[rows] - errors

    for i in range(0, len(PENALTIES), _COARSE):
        try_penalty(i)
    best = min(tried, key=lambda i: tried[i][0])
    try_penalty(best - 1)
    try_penalty(best + 1)
    best = min(tried, key=lambda i: tried[i][0])
    _, solution, held_out = tried[best]
    rows, w = system.cases, w[system.cases, None]
    held_out += w * (targets[rows] - intercept) / (n - w)
    nothing = (
        np.abs(held_out - intercept) < 1e-6 * spread
    )  # but rounding, which depends on the target
    held_out = np.where(nothing, intercept, held_out)
    coefficients = system.coefficients(solution)
    ridge = Ridge(mean, scale, coefficients, intercept, float(PENALTIES[best]))
    return ridge, system.cases, held_out


def standardise(
    features: np.ndarray, w: np.ndarray, importance: np.ndarray | float
) -> tuple[np.ndarray, np.ndarray]:
    """Standardise in place; return mean and importance / deviation of each feature.

    No case is farther from the mean than sqrt(n) deviations, as without weights: a feature that
    differs only in cases of small weight would multiply their influence.
    """
    w, equal = w.astype(np.float32) / np.float32(len(w)), bool((w == w[0]).all())
    mean = w @ features
    features -= mean
    deviation = np.sqrt(np.einsum("i,ij,ij->j", w, features, features))
    if not equal:
        farthest = np.abs(features[w > 0]).max(axis=0)
        deviation = np.maximum(deviation, farthest / np.sqrt(np.float32(len(w))))
    changes = deviation > 1e-7 + 1e-5 * np.abs(mean)  # by more than rounding error
    scale = np.where(changes, importance / np.where(changes, deviation, 1), 0)
    scale = scale.astype(np.float32)
    features *= scale
    return mean, scale


class _Dual:
    """For at most as many cases as features: an n x n matrix."""

    def __init__(self, z: np.ndarray, target: np.ndarray, w: np.ndarray):
        self.cases, self._z, self._target, self._w = np.arange(len(z)), z, target, w
        self._gram = with_constant(_in_precision(z @ z.T / z.shape[1]), w)

    def solve(self, penalty: float) -> tuple[np.ndarray, np.ndarray]:
        return leave_one_out_errors(self._gram, self._target, self._w, penalty)

    def coefficients(self, c: np.ndarray) -> np.ndarray:
        return self._z.T @ c.astype(np.float32) / np.float32(self._z.shape[1])


def with_constant(gram: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Z Z'/p + v v'/n, in place."""
    gram += np.sqrt(np.outer(w, w)).astype(gram.dtype) / len(w)
    return gram


def leave_one_out_errors(
    gram: np.ndarray, target: np.ndarray, w: np.ndarray, penalty: float
) -> tuple[np.ndarray, np.ndarray]:
    """c = G v (Y - mean), and c_i / (v_i (G_ii - w_i / (n (1 + penalty)))), as above."""
    factor = _factor(gram, penalty)
    c = cho_solve((factor, True), target.astype(factor.dtype), check_finite=False)
    inverse = _triangular_inverse(factor)
    diagonal = np.einsum("ij,ij->j", inverse, inverse) - w / (len(w) * (1 + penalty))
    return c, c / (np.sqrt(w) * np.maximum(diagonal, 1e-12))[:, None]


class _Primal:
    """For more cases than features: a p x p matrix; leave-one-out for a subset of very many
    cases."""

    def __init__(self, z: np.ndarray, target: np.ndarray, w: np.ndarray):
        p, self._w = z.shape[1], w
        self.cases = np.linspace(0, len(z) - 1, min(len(z), _EXACT)).astype(int)
        self._z, self._target = z[self.cases], target[self.cases]
        self._gram = _in_precision(z.T @ z / p)
        self._moments = z.T @ target / p

    def solve(self, penalty: float) -> tuple[np.ndarray, np.ndarray]:
        factor = _factor(self._gram, penalty)
        solution = cho_solve((factor, True), self._moments.astype(factor.dtype), check_finite=False)
        roots, w = _triangular_inverse(factor) @ self._z.T, self._w[self.cases]
        leverage = np.einsum("ij,ij->j", roots, roots) / len(roots) + w / len(self._w)
        errors = self._target - self._z @ solution
        errors /= (np.sqrt(w) * np.maximum(1 - leverage, 1e-12))[:, None]
        return solution, errors

    def coefficients(self, solution: np.ndarray) -> np.ndarray:
        return solution.astype(np.float32)


def _in_precision(gram: np.ndarray) -> np.ndarray:
    return gram.astype(np.float64) if len(gram) <= _EXACT else gram


def _factor(gram: np.ndarray, penalty: float) -> np.ndarray:
    """The lower triangle L of L L' = gram + penalty."""
    matrix = gram.copy(order="F")
    matrix.flat[:: len(matrix) + 1] += penalty
    return cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)


def _triangular_inverse(factor: np.ndarray) -> Any:
    (invert,) = get_lapack_funcs(("trtri",), (factor,))
    return np.tril(invert(factor, lower=1)[0])
