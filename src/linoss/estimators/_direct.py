"""A linear forecast of all steps from the end of a window.

Features are the last values of each target, and means over increasingly long parts of the past. The
forecast is a ridge regression on them for each step of each variable, or, with little data,
exponential smoothing, which is also linear in the past. Held-out windows select one of these, and a
factor of the forecast (its share), for each part of the horizon: far ahead, where little is
predictable, the share falls to 0.
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
_SMOOTHINGS = (  # smoothing of level and trend, and the damping of the trend
    (0.1, 0.0, 0.0),
    (0.2, 0.0, 0.0),
    (0.4, 0.0, 0.0),
    (0.7, 0.0, 0.0),
    (1.0, 0.0, 0.0),
    (0.3, 0.1, 0.9),
    (0.6, 0.2, 0.9),
)
_SHARES = np.linspace(0, 1, 6)
_WINDOWS_OF_A_PART = 32
_MOST_PARTS = 8
_WORTH = 0.01  # minimum relative improvement of the error


@dataclass(frozen=True, eq=False)
class Direct:
    """The linear forecast."""

    blocks: tuple[tuple[int, int], ...]
    """Lags [from, to) of each mean; (0, 1) is the last value."""
    columns: tuple[int, ...]
    """The columns of the targets."""
    horizon: int
    weights: np.ndarray
    """(targets * blocks + 1, horizon * targets), float32, the last row for the constant."""

    def features(self, past: np.ndarray) -> np.ndarray:
        """Features (batch, targets * blocks + 1) of pasts (batch, past, columns), NaN where
        missing."""
        return _features(past[..., list(self.columns)], self.blocks)

    def __call__(self, past: np.ndarray) -> np.ndarray:
        """(batch, horizon, targets), in double precision."""
        answers = self.features(past) @ self.weights.astype(np.float64)
        return answers.reshape(len(past), self.horizon, len(self.columns))


def lag_blocks(past: int, targets: int) -> tuple[tuple[int, int], ...]:
    """Single lags as far as the number of features allows, then blocks that grow with the lag."""
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
    """Sums of products of features and labels, which determine the weights for any penalty."""

    blocks: tuple[tuple[int, int], ...]
    values: np.ndarray
    vectors: np.ndarray
    products: np.ndarray
    scale: np.ndarray
    columns: tuple[int, ...]
    horizon: int
    smoothing: np.ndarray
    """(smoothings,): mean absolute errors."""

    @property
    def targets(self) -> int:
        """Number of targets."""
        return len(self.columns)

    def weights(self, place: int) -> np.ndarray:
        """(features, horizon * targets) for a penalty, or, for later indices, a smoothing."""
        if place < len(_PENALTIES):
            return self.solve(_PENALTIES[place])
        smooth = smoothing_weights(self.blocks, self.horizon, *_SMOOTHINGS[place - len(_PENALTIES)])
        each = smooth[:, None, :, None] * np.eye(self.targets)[None, :, None, :]
        constant = np.zeros((1, self.horizon * self.targets))
        return np.concatenate([each.reshape(-1, constant.shape[1]), constant])

    def solve(self, penalty: float) -> np.ndarray:
        """Weights (features, horizon * targets)."""
        inner = self.vectors.T @ self.products
        return (self.vectors @ (inner / (self.values + penalty)[:, None])) * self.scale[:, None]


def sums_of(windows: Windows) -> LinearSums:
    """The sums over windows, read in batches."""
    targets = len(windows.target_columns)
    blocks = lag_blocks(windows.past, targets)
    size = targets * len(blocks) + 1
    gram, products = np.zeros((size, size)), np.zeros((size, windows.horizon * targets))
    count, errors = 0, []
    smooth = [smoothing_weights(blocks, windows.horizon, *each) for each in _SMOOTHINGS]
    for past, labels in batches(windows, _MOST_WINDOWS):
        features = _features(past[..., list(windows.target_columns)], blocks)
        answers = np.nan_to_num(labels).reshape(len(labels), -1)
        lags = features[:, :-1].reshape(len(features), len(blocks), targets)
        errors.append(
            [known_mean(np.abs(np.einsum("blt,lh->bht", lags, w) - labels)) for w in smooth]
        )
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
        known_mean(np.array(errors), 0),
    )


def smoothing_weights(
    blocks: tuple[tuple[int, int], ...], horizon: int, level: float, trend: float, kept: float
) -> np.ndarray:
    """(blocks, horizon): the weight of each lag in exponential smoothing with a damped trend.

    The initial level is 0, the value of unknown samples.
    """
    past = blocks[-1][1]
    now, slope = np.zeros(past), np.zeros(past)
    for lag in range(past - 1, -1, -1):
        sample = np.eye(1, past, lag)[0]
        before, now = now, level * sample + (1 - level) * (now + kept * slope)
        slope = trend * (now - before) + (1 - trend) * kept * slope
    ahead = np.cumsum(kept ** np.arange(1, horizon + 1)) if kept else np.zeros(horizon)
    weights = now[:, None] + slope[:, None] * ahead
    return np.stack([weights[start:end].sum(axis=0) for start, end in blocks])


def batches(windows: Windows, most: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield batches of aligned pasts and labels, of a limited number of windows."""
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
    """The penalty and the share of the linear forecast, for each step and variable."""

    penalty: np.ndarray
    """(horizon, targets), indices of penalties, followed by smoothings."""
    share: np.ndarray
    """(horizon, targets)"""

    def weights(self, sums: LinearSums) -> Direct:
        """The weights of this choice."""
        size = (-1, sums.horizon, sums.targets)
        weights = np.zeros((len(sums.scale), sums.horizon, sums.targets), np.float32)
        for place in np.unique(self.penalty[self.share > 0]).tolist():
            chosen = (self.penalty == place) & (self.share > 0)
            if chosen.any():
                found = sums.weights(place).reshape(size)
                weights[:, chosen] = found[:, chosen] * self.share[chosen]
        flat = weights.reshape(len(weights), -1)
        return Direct(sums.blocks, sums.columns, sums.horizon, flat)


def choose(sums: LinearSums, held_out: Windows) -> LinearChoice:
    """The best on held-out windows: a penalty, or the smoothing that is best in training."""
    past, labels = (np.concatenate(x) for x in zip(*batches(held_out, _HELD_OUT), strict=True))
    features = _features(past[..., list(sums.columns)], sums.blocks)
    smoothing = np.nan_to_num(sums.smoothing, nan=np.inf).argmin() + len(_PENALTIES)
    places = [*range(len(_PENALTIES)), int(smoothing)]
    answers = np.stack([features @ sums.weights(place) for place in places])
    answers = answers.reshape(len(places), *labels.shape)
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
            penalty[rows, columns], share[rows, columns] = places[best[0]], _SHARES[best[1]]
    return LinearChoice(penalty, share)


def absolute_error(truth: np.ndarray, answer: np.ndarray) -> float:
    """The mean absolute error; NaN without values."""
    return float(known_mean(np.abs(truth - answer)))


def parts_of(windows: int, horizon: int, targets: int) -> Iterator[tuple[slice, slice]]:
    """Parts of the horizon, and groups of variables, with a common choice: more for more windows.

    Parts grow with the distance.
    """
    parts = int(np.clip(windows // _WINDOWS_OF_A_PART, 1, min(_MOST_PARTS, horizon)))
    ends = np.unique(np.round(np.geomspace(1, horizon, parts + 1)).astype(int))
    ends = np.concatenate([[0], ends[1:]]) if len(ends) > 1 else np.array([0, horizon])
    several = [slice(i, i + 1) for i in range(targets)] if parts > 1 else [slice(None)]
    for start, end in itertools.pairwise(ends):
        for columns in several:
            yield slice(int(start), int(end)), columns
