"""A linear answer for all steps ahead from the end of a window.

Features are the last values of each target, and means over longer and longer parts of the past;
each step ahead of each variable is a ridge regression on them. Its penalty, and the share of its
answer that is used, are those that did best on held-out windows, for parts of the horizon at a
time: far ahead little can be known, and the share falls to 0.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from linoss.estimators._known import known_mean
from linoss.training import Windows

_MOST_FEATURES = 400
_MOST_WINDOWS = 4096
_HELD_OUT = 256
_AT_ONCE = 256
_PENALTIES = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
_SHARES = np.linspace(0, 1, 6)
_WINDOWS_OF_A_PART = 32
_MOST_PARTS = 8
_WORTH = 0.01  # share of the error by which an answer has to do better to be used


@dataclass(frozen=True, eq=False)
class Direct:
    """The linear answer."""

    blocks: tuple[tuple[int, int], ...]
    """Lags (from, to) of each mean; (0, 1) is the last value."""
    columns: tuple[int, ...]
    """Those of the targets."""
    horizon: int
    weights: np.ndarray
    """(targets * blocks + 1, horizon * targets), float32, the last row for the constant."""

    def features(self, past: np.ndarray) -> np.ndarray:
        """(batch, targets * blocks + 1) of pasts (batch, past, columns), NaN where missing."""
        return _features(past[..., list(self.columns)], self.blocks)

    def __call__(self, past: np.ndarray) -> np.ndarray:
        """(batch, horizon, targets), in double precision."""
        answers = self.features(past) @ self.weights.astype(np.float64)
        return answers.reshape(len(past), self.horizon, len(self.columns))


def lag_blocks(past: int, targets: int) -> tuple[tuple[int, int], ...]:
    """Single lags as far as there may be features, then blocks that grow with the lag."""
    if past * targets <= _MOST_FEATURES:
        return tuple((i, i + 1) for i in range(past))
    ends = [0]
    while ends[-1] < past:
        ends.append(min(past, ends[-1] + max(1, ends[-1] // 2)))
    return tuple(itertools.pairwise(ends))


def _features(past: np.ndarray, blocks: tuple[tuple[int, int], ...]) -> np.ndarray:
    length = past.shape[1]
    values = np.nan_to_num(past.astype(np.float64))
    parts = [values[:, length - end : length - start].mean(axis=1) for start, end in blocks]
    return np.concatenate([*parts, np.ones((len(past), 1))], axis=1)


@dataclass(frozen=True, eq=False)
class LinearSums:
    """Sums of products of features and labels, from which any penalty's weights follow."""

    blocks: tuple[tuple[int, int], ...]
    values: np.ndarray
    vectors: np.ndarray
    products: np.ndarray
    scale: np.ndarray
    columns: tuple[int, ...]
    horizon: int

    @property
    def targets(self) -> int:
        """Number of targets."""
        return len(self.columns)

    def solve(self, penalty: float) -> np.ndarray:
        """Weights (features, horizon * targets)."""
        inner = self.vectors.T @ self.products
        return (self.vectors @ (inner / (self.values + penalty)[:, None])) * self.scale[:, None]


def sums_of(windows: Windows) -> LinearSums:
    """The sums over windows, which are read some at a time."""
    targets = len(windows.target_columns)
    blocks = lag_blocks(windows.past, targets)
    size = targets * len(blocks) + 1
    gram, products = np.zeros((size, size)), np.zeros((size, windows.horizon * targets))
    count = 0
    for past, labels in batches(windows, _MOST_WINDOWS):
        features = _features(past[..., list(windows.target_columns)], blocks)
        answers = np.nan_to_num(labels).reshape(len(labels), -1)
        gram += features.T @ features
        products += features.T @ answers
        count += len(features)
    gram, products = gram / count, products / count
    scale = np.sqrt(np.diag(gram))
    scale = np.where(scale > 0, 1 / np.maximum(scale, 1e-300), 0)
    values, vectors = np.linalg.eigh(gram * scale[:, None] * scale)
    products *= scale[:, None]
    return LinearSums(
        blocks,
        np.maximum(values, 0),
        vectors,
        products,
        scale,
        windows.target_columns,
        windows.horizon,
    )


def batches(windows: Windows, most: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Aligned pasts and labels of at most so many windows, some at a time."""
    chosen = np.unique(np.linspace(0, len(windows) - 1, most).astype(int))
    for start in range(0, len(chosen), _AT_ONCE):
        kept: list[np.ndarray] = []

        def keep(past: np.ndarray, kept: list[np.ndarray] = kept) -> Any:
            kept.append(past)
            return np.zeros((len(past), windows.horizon, len(windows.target_columns)))

        batch = replace(windows, first=keep).batch(chosen[start : start + _AT_ONCE])
        yield kept[0], batch.labels


@dataclass(frozen=True, eq=False)
class LinearChoice:
    """Which penalty, and which share of the answer, for each step ahead and variable."""

    penalty: np.ndarray
    """(horizon, targets), places in the list of penalties."""
    share: np.ndarray
    """(horizon, targets)"""

    def weights(self, sums: LinearSums) -> Direct:
        """The linear answer of this choice."""
        size = (-1, sums.horizon, sums.targets)
        weights = np.zeros((len(sums.scale), sums.horizon, sums.targets), np.float32)
        for place, penalty in enumerate(_PENALTIES):
            chosen = (self.penalty == place) & (self.share > 0)
            if chosen.any():
                found = sums.solve(penalty).reshape(size)
                weights[:, chosen] = found[:, chosen] * self.share[chosen]
        flat = weights.reshape(len(weights), -1)
        return Direct(sums.blocks, sums.columns, sums.horizon, flat)


def choose(sums: LinearSums, held_out: Windows) -> LinearChoice:
    """What does best on held-out windows."""
    past, labels = (np.concatenate(x) for x in zip(*batches(held_out, _HELD_OUT), strict=True))
    features = _features(past[..., list(sums.columns)], sums.blocks)
    answers = np.stack([features @ sums.solve(penalty) for penalty in _PENALTIES])
    answers = answers.reshape(len(_PENALTIES), *labels.shape)
    penalty = np.zeros((sums.horizon, sums.targets), np.int64)
    share = np.zeros((sums.horizon, sums.targets))
    for rows, columns in parts_of(len(labels), sums.horizon, sums.targets):
        truth = labels[:, rows][..., columns]
        errors = np.array(
            [
                [absolute_error(truth, s * answer[:, rows][..., columns]) for s in _SHARES]
                for answer in answers
            ]
        )
        if np.isnan(errors).all():
            continue
        best = np.unravel_index(np.nanargmin(errors), errors.shape)
        if errors[best] < (1 - _WORTH) * errors[0, 0]:
            penalty[rows, columns], share[rows, columns] = best[0], _SHARES[best[1]]
    return LinearChoice(penalty, share)


def absolute_error(truth: np.ndarray, answer: np.ndarray) -> float:
    """The mean absolute error; NaN without any value."""
    return float(known_mean(np.abs(truth - answer)))


def parts_of(windows: int, horizon: int, targets: int) -> Iterator[tuple[slice, slice]]:
    """Parts of the horizon, and variables, that are decided upon together: more for more windows.

    Parts grow with the distance.
    """
    parts = int(np.clip(windows // _WINDOWS_OF_A_PART, 1, min(_MOST_PARTS, horizon)))
    ends = np.unique(np.round(np.geomspace(1, horizon, parts + 1)).astype(int))
    ends = np.concatenate([[0], ends[1:]]) if len(ends) > 1 else np.array([0, horizon])
    several = [slice(i, i + 1) for i in range(targets)] if parts > 1 else [slice(None)]
    for start, end in itertools.pairwise(ends):
        for columns in several:
            yield slice(int(start), int(end)), columns
