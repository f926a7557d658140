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

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, fields
from functools import cache, cached_property, partial
from threading import RLock
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky, get_lapack_funcs
from threadpoolctl import threadpool_limits

PENALTIES = np.logspace(-4, 2, 13)
_COARSE = 3  # try every third penalty, then the neighbours of the best
_EXACT = 4096  # size of the largest matrix in double precision, and most leave-one-out cases
_SMALL = 1e10  # products of a matrix that one thread computes in a fraction of a second
_LIMITED = RLock()  # the number of threads of linear algebra is one for the whole process


@dataclass(frozen=True, eq=False)
class Ridge:
    """A fitted ridge regression."""

    mean: np.ndarray
    """(features,)"""
    scale: np.ndarray
    """(features,): importance / deviation; 0 for a constant feature."""
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
        features = features.astype(np.float64)
        is_one = len(features) == 1  # threads wait for each other much longer than that
        products = np.einsum("ij,jk", features, weights) if is_one else features @ weights
        predictions = products + constant
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
    importance: Any = 1.0,
    penalties: np.ndarray = PENALTIES,
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
    w = np.ones(n) if weights is None else weights * (n / weights.sum())
    with one_thread() if n * p * min(n, p) <= _SMALL else nullcontext():
        mean, scale = standardise(features, w, importance)
        z = features if weights is None else features * np.sqrt(w[:, None], dtype=np.float32)
        cases = np.arange(n)
        target, intercept, spread = centred(targets, w)
        if n <= p:
            c, penalty, held_out = fit_kernel(_in_precision(z @ z.T / p), targets, w, penalties)
            coefficients = z.T @ (c / spread).astype(np.float32) / np.float32(p) * spread
        else:
            cases = np.linspace(0, n - 1, min(n, _EXACT)).astype(int)
            gram, moments = _in_precision(z.T @ z / p), z.T @ target / p
            solve = partial(_primal, gram, moments, z[cases], target[cases], w[cases], n)
            best = _select(solve, targets[cases], w[cases], n, intercept, spread, penalties)
            coefficients, penalty, held_out = best
    return Ridge(mean, scale, coefficients, intercept, penalty), cases, held_out


def fit_sums(
    products: np.ndarray,
    squares: np.ndarray,
    importance: np.ndarray,
    sample: np.ndarray,
    targets: np.ndarray,
) -> tuple[Ridge, np.ndarray]:
    """Fit to sums over cases of (1, features)' (1, features, targets), in double precision.

    `squares` are means of squared targets. **Returns:** the regression, and leave-one-out
    predictions of a sample of the cases.
    """
    count, p, w = int(products[0, 0]), len(importance), np.ones(len(sample))
    mean = products[0, 1:] / count
    covariance = products[1:, 1:] / count - np.outer(mean[:p], mean)
    deviation = np.sqrt(np.maximum(covariance.diagonal(), 0))
    changes = deviation > 1e-7 + 1e-5 * np.abs(mean[:p])
    scale = np.where(changes, importance / np.where(changes, deviation, 1), 0)
    covariance *= count / p * scale[:, None]
    gram, moments, intercept = covariance[:, :p] * scale, covariance[:, p:], mean[p:]
    spread = np.sqrt(np.maximum(squares - intercept**2, 0))
    spread = np.where(spread > 0, spread, 1)
    z, target = (sample - mean[:p]) * scale, (targets - intercept) / spread
    solve = partial(_primal, gram, moments / spread, z, target, w, count)
    solution, penalty, held_out = _select(solve, targets, w, count, intercept, spread)
    return Ridge(mean[:p], scale, solution, intercept, penalty), held_out


def fit_kernel(
    kernel: np.ndarray, targets: np.ndarray, w: np.ndarray, penalties: np.ndarray = PENALTIES
) -> tuple[np.ndarray, float, np.ndarray]:
    """c, the penalty, and leave-one-out predictions, from Z Z'/p, which is overwritten."""
    target, intercept, spread = centred(targets, w)
    solve = partial(leave_one_out_errors, with_constant(kernel, w), target, w)
    return _select(solve, targets, w, len(w), intercept, spread, penalties)


def centred(targets: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """v (Y - mean) / deviation, the mean, and the deviation; 1 for a constant target."""
    intercept = w @ targets / len(w)
    target = (targets - intercept) * np.sqrt(w)[:, None]
    spread = np.sqrt(np.sum(target**2, axis=0) / len(w))
    spread = np.where(spread > 0, spread, 1)
    return target / spread, intercept, spread


def _select(
    solve: Callable[[float], tuple[np.ndarray, np.ndarray]],
    targets: np.ndarray,
    w: np.ndarray,
    count: int,
    intercept: np.ndarray,
    spread: np.ndarray,
    penalties: np.ndarray = PENALTIES,
) -> tuple[np.ndarray, float, np.ndarray]:
    """The solution and the penalty with the smallest leave-one-out errors, and predictions."""

    @cache
    def tried(i: int) -> tuple[float, Any, Any]:
        try:
            solution, errors = solve(penalties[i])
        except LinAlgError:  # penalty below the rounding error of the matrix
            return np.inf, None, None
        return float(w @ np.sum(errors**2, axis=1)), solution * spread, targets - errors * spread

    best = min(range(0, len(penalties), _COARSE), key=lambda i: tried(i)[0])
    beside = range(max(best - 1, 0), min(best + 2, len(penalties)))
    best = min(beside, key=lambda i: tried(i)[0])
    _, solution, held_out = tried(best)
    w = w[:, None]
    held_out = held_out + w * (targets - intercept) / (count - w)
    is_rounding = np.abs(held_out - intercept) < 1e-6 * spread  # which depends on the target
    return solution, float(penalties[best]), np.where(is_rounding, intercept, held_out)


@contextmanager
def one_thread() -> Iterator[None]:
    """Linear algebra by one thread."""
    with _LIMITED, threadpool_limits(1, "blas"):
        yield


def standardise(
    features: np.ndarray, w: np.ndarray, importance: Any
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


def _primal(
    gram: np.ndarray,
    moments: np.ndarray,
    z: np.ndarray,
    target: np.ndarray,
    w: np.ndarray,
    count: int,
    penalty: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients from Z'Z/p and Z'v(Y - mean)/p of `count` cases; errors of some of them."""
    factor = _factor(gram, penalty)
    solution = cho_solve((factor, True), moments.astype(factor.dtype), check_finite=False)
    roots = _triangular_inverse(factor) @ z.T
    leverage = np.einsum("ij,ij->j", roots, roots) / len(roots) + w / count
    errors = target - z @ solution
    return solution, errors / (np.sqrt(w) * np.maximum(1 - leverage, 1e-12))[:, None]


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
