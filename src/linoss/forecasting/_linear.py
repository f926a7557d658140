"""The linear part: a forecast of all steps from the end of a window.

Features are the last values of each target, and means over increasingly long parts of the past. The
candidates are ridge regressions on them for each step of each variable, and exponential smoothing
of level, trend and season, which is also linear in the past; the naive and the seasonal naive
forecasts are among the latter. Held-out windows select one of the candidates, and a factor of the
forecast (its share), for each part of the horizon: far ahead, where little is predictable, the
share falls to 0.

With few windows, the best of many candidates is best by chance. The forecast is then their mean,
weighted by likelihood: that of n independent errors with a Laplace distribution and mean absolute
error e is proportional to e^-n.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from linoss.forecasting._seasonal_trend import known_mean
from linoss.training import Windows

_MOST_FEATURES = 400
_MOST_WINDOWS = 4096
_HELD_OUT = 256
_AT_ONCE = 256
_PENALTIES = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
_SMOOTHINGS = (  # smoothing of level and trend, damping of the trend, smoothing of the season
    (0.1, 0.0, 0.0, None),
    (0.2, 0.0, 0.0, None),
    (0.4, 0.0, 0.0, None),
    (0.7, 0.0, 0.0, None),
    (1.0, 0.0, 0.0, None),
    (0.3, 0.1, 0.9, None),
    (0.6, 0.2, 0.9, None),
)
_SEASONAL = (  # as above; the first is the seasonal naive forecast
    (0.0, 0.0, 0.0, 1.0),
    (0.1, 0.0, 0.0, 0.2),
    (0.3, 0.0, 0.0, 0.2),
    (0.7, 0.0, 0.0, 0.2),
    (0.1, 0.0, 0.0, 0.6),
    (0.3, 0.0, 0.0, 0.6),
    (0.3, 0.1, 0.9, 0.2),
    (0.6, 0.2, 0.9, 0.2),
)
_SHARES = np.linspace(0, 1, 6)
_WINDOWS_OF_A_PART = 32
_MOST_PARTS = 8
_WORTH = 0.01  # minimum relative improvement of the error


@dataclass(frozen=True, eq=False)
class LinearPart:
    """A forecast that is linear in the past."""

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
        forecasts = self.features(past) @ self.weights.astype(np.float64)
        return forecasts.reshape(len(past), self.horizon, len(self.columns))


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
    season: int
    """Steps per season; 1 for none."""

    @property
    def targets(self) -> int:
        """Number of targets."""
        return len(self.columns)

    def all_weights(self) -> Iterator[np.ndarray]:
        """(features, horizon, targets) of each candidate: penalties, then smoothings."""
        size = (-1, self.horizon, self.targets)
        inner = self.vectors.T @ self.products
        for penalty in _PENALTIES:
            weights = self.vectors @ (inner / (self.values + penalty)[:, None])
            yield (weights * self.scale[:, None]).reshape(size)
        past = self.blocks[-1][1]
        seasonal = 1 < self.season < past == len(self.blocks)
        for each in (*_SMOOTHINGS, *(_SEASONAL if seasonal else ())):
            smooth = smoothing_weights(self.blocks, self.horizon, self.season, *each)
            own = smooth[:, None, :, None] * np.eye(self.targets)[None, :, None, :]
            yield np.concatenate([own.reshape(size), np.zeros((1, *size[1:]))])

    def part(self, shares: np.ndarray) -> LinearPart:
        """The linear part with a share of each candidate, see `choose`."""
        total = np.zeros((len(self.scale), self.horizon, self.targets))
        for share, weights in zip(shares, self.all_weights(), strict=True):
            total = total + share * weights if share.any() else total
        weights = total.reshape(len(total), -1).astype(np.float32)
        return LinearPart(self.blocks, self.columns, self.horizon, weights)


def sums_of(windows: Windows, season: int = 1) -> LinearSums:
    """The sums over windows, read in batches."""
    targets = len(windows.target_columns)
    blocks = lag_blocks(windows.past, targets)
    size = targets * len(blocks) + 1
    gram, products = np.zeros((size, size)), np.zeros((size, windows.horizon * targets))
    count = 0
    for past, labels in batches(windows, _MOST_WINDOWS):
        features = _features(past[..., list(windows.target_columns)], blocks)
        gram += features.T @ features
        products += features.T @ np.nan_to_num(labels).reshape(len(labels), -1)
        count += len(features)
    gram, products = gram / count, products / count
    scale = np.sqrt(np.diag(gram))
    scale = np.where(scale > 0, 1 / np.maximum(scale, 1e-300), 0)
    values, vectors = np.linalg.eigh(gram * scale[:, None] * scale)
    products *= scale[:, None]
    values = np.maximum(values, 0)
    more = (scale, windows.target_columns, windows.horizon, season)
    return LinearSums(blocks, values, vectors, products, *more)


@lru_cache(maxsize=64)
def smoothing_weights(
    blocks: tuple[tuple[int, int], ...],
    horizon: int,
    season: int,
    level: float,
    trend: float,
    kept: float,
    seasonal: float | None,
) -> np.ndarray:
    """(blocks, horizon): the weight of each lag in exponential smoothing with a damped trend.

    Without a season, the initial level is 0, the value of unknown samples. With a season, it is the
    mean of the first season, and the seasonal terms are the differences from it. The gain of a
    seasonal term is at least 1 / k at its k-th sample: it begins as a mean of all seasons.
    """
    past = blocks[-1][1]
    samples = np.eye(past)[::-1]  # weights of the lags, from the first sample to the last
    now, slope, begin = np.zeros(past), np.zeros(past), 0
    terms = np.zeros((season, past))
    if seasonal is not None:
        now, begin = samples[:season].mean(axis=0), season
        terms = samples[:season] - now
    for step in range(begin, past):
        place = step % season
        before, now = (
            now,
            level * (samples[step] - terms[place]) + (1 - level) * (now + kept * slope),
        )
        slope = trend * (now - before) + (1 - trend) * kept * slope
        if seasonal is not None:
            gain = max(seasonal, 1 / (step // season + 1))
            terms[place] += gain * (samples[step] - now - terms[place])
    ahead = np.cumsum(kept ** np.arange(1, horizon + 1)) if kept else np.zeros(horizon)
    again = terms[(past + np.arange(horizon)) % season].T
    weights = now[:, None] + slope[:, None] * ahead + again
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
class LinearTrial:
    """Held-out windows for comparing candidates."""

    sums: LinearSums
    features: np.ndarray
    """(windows, features)"""
    labels: np.ndarray
    """(windows, horizon, targets)"""
    windows: int
    """The total number of windows, of which these are a subset."""

    @classmethod
    def of(cls, sums: LinearSums, held_out: Windows) -> "LinearTrial":
        """From windows that the sums do not contain."""
        past, labels = (np.concatenate(x) for x in zip(*batches(held_out, _HELD_OUT), strict=True))
        features = _features(past[..., list(sums.columns)], sums.blocks)
        return cls(sums, features, labels, len(held_out))

    def errors(self, parts: Sequence[tuple[slice, slice]]) -> np.ndarray:
        """(parts, candidates, shares): mean absolute errors."""
        errors = []
        for weights in self.sums.all_weights():
            forecasts = np.tensordot(self.features, weights, 1)
            for rows, columns in parts:
                truth, forecast = (x[:, rows][..., columns] for x in (self.labels, forecasts))
                errors.append(errors_of_shares(truth, forecast, _SHARES))
        return np.swapaxes(np.reshape(errors, (-1, len(parts), len(_SHARES))), 0, 1)


def choose(trials: Sequence[LinearTrial], *, mean: bool) -> np.ndarray:
    """(candidates, horizon, targets): the share of each candidate in the linear part.

    It is the best one on held-out windows, or with `mean` their mean by likelihood.
    """
    count, shape = sum(each.windows for each in trials), trials[0].labels.shape[1:]
    parts = list(parts_of(count, *shape))
    each = np.array([trial.errors(parts) for trial in trials]).reshape(len(trials), -1)
    errors = relative_errors(each).reshape(len(parts), -1, len(_SHARES))
    shares = np.zeros((len(errors[0]), *shape))
    for (rows, columns), of_part in zip(parts, errors, strict=True):
        if np.isnan(of_part).all():
            continue
        least, weights = np.nanmin(of_part), np.zeros(of_part.shape)
        if mean:
            ratios = np.maximum(of_part, 1e-12) / max(least, 1e-12)
            weights = np.nan_to_num(ratios ** -max(1.0, count / rows.stop))
        elif least < (1 - _WORTH) * of_part[0, 0]:
            weights[np.unravel_index(np.nanargmin(of_part), of_part.shape)] = 1
        else:
            continue
        shares[:, rows, columns] = (weights @ _SHARES / weights.sum())[:, None, None]
    return shares


def relative_errors(errors: np.ndarray) -> np.ndarray:
    """(candidates,): the mean of `errors` (trials, candidates), relative to the mean of each trial.

    The noise level of a series may change. Later trials resemble the future more: the weights are
    1, 2, 3, ...
    """
    unit = known_mean(errors, 1)[:, None]
    relative = np.where(unit > 0, errors / np.maximum(unit, 1e-300), np.nan)
    weights = np.where(np.isnan(relative), 0, np.arange(1, len(relative) + 1)[:, None])
    total = np.sum(weights * np.nan_to_num(relative), axis=0)
    return np.where(weights.any(axis=0), total / np.maximum(weights.sum(axis=0), 1), np.nan)


def errors_of_shares(truth: np.ndarray, forecast: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """(shares,): the mean absolute error of each share of a forecast; NaN without values."""
    errors = np.abs(truth - np.multiply.outer(shares, forecast))
    return known_mean(errors.reshape(len(shares), -1), 1)


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
