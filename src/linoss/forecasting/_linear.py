"""The linear model: a forecast of all steps that is linear in the past of each variable.

A matrix from the past to the horizon serves all series. Its candidates are ridge regressions on
pasts of several lengths, fitted to all variables together and, if they are few, to each of them,
and exponential smoothing of level, trend and season. The forecast is their mean, weighted by
likelihood: that of n independent errors with a Laplace distribution and mean absolute error e is
proportional to e^-n.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.linalg import solve
from scipy.sparse import csr_array

from linoss.forecasting._seasonal_trend import known_mean
from linoss.training import Normalization, Windows

_LOOKBACKS = (24, 96, 336)  # beside that of the windows
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
_FEW = 64  # windows that all count as independent
_LEAST_SHARE = 1e-4
_WINDOWS, _STEPS = 64, 24  # of each trial


@dataclass(frozen=True, eq=False)
class LinearModel:
    """A forecast that is linear in the past."""

    columns: tuple[int, ...]
    """The columns of the targets."""
    weights: np.ndarray
    """(targets, past, horizon), float32, the last row for the last value; (1, past, horizon) for
    all targets."""

    def __call__(self, past: np.ndarray) -> np.ndarray:
        """(batch, horizon, targets) from pasts (batch, past, columns), NaN where missing."""
        values = np.nan_to_num(past[..., list(self.columns)].astype(np.float64))
        return _forecast(np.moveaxis(values, -1, 0), self.weights.astype(np.float64))


def _forecast(past: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(batch, steps, targets) from pasts (targets, batch, past)."""
    return np.moveaxis(past @ weights, 0, -1)


def naive(past: int, horizon: int, season: int = 1) -> np.ndarray:
    """The weights (1, past, horizon) of the seasonal naive forecast."""
    weights, steps = np.zeros((1, past, horizon)), np.arange(horizon)
    weights[0, past - season + steps % season, steps] = 1
    return weights


@dataclass(frozen=True, eq=False)
class Moments:
    """Second moments of the samples of a window, which determine ridge regressions on its past."""

    values: np.ndarray
    """(1 or 1 + targets, size, size), of past + horizon samples: means of products, normalised as
    the windows, over all targets, then of each target."""
    past: int
    season: int
    """Steps per season; 1 for none."""

    @classmethod
    def of(cls, windows: Windows, season: int, *, each: bool) -> "Moments":
        """The moments of all windows of some series, with `each` also those of each target."""
        size, columns = windows.past + windows.horizon, list(windows.target_columns)
        groups = [[column] for column in columns] if each else [columns]
        total, count = np.zeros((len(groups), size, size)), 0
        for series in windows.series:
            count += max(len(series) - size + 1, 1)
            for place, group in enumerate(groups):
                values = _filled(series[:, group], windows.normalize, size)
                total[place] += _products(values, size) / len(group)
        change = csr_array(_normalization(windows.normalize, windows.past, size))
        means = np.stack([change @ (change @ (one / count)).T for one in total])
        means = np.concatenate([means.mean(axis=0)[None], means]) if each else means
        return cls(means, windows.past, season)

    def candidates(self, steps: Any = slice(None)) -> Iterator[np.ndarray]:
        """The weights (1 or targets, past, steps) of each candidate."""
        horizon = self.values.shape[-1] - self.past
        for lookback in sorted({*(n for n in _LOOKBACKS if n < self.past), self.past}):
            for penalty in _PENALTIES:
                yield self._ridge(self.values[0], lookback, penalty, steps)[None]
                if len(self.values) > 1 and lookback <= _LOOKBACKS[-1]:
                    own = [self._ridge(one, lookback, penalty, steps) for one in self.values[1:]]
                    yield np.stack(own)
        for each in (*_SMOOTHINGS, *(_SEASONAL if 1 < self.season < self.past else ())):
            yield smoothing_weights(self.past, horizon, self.season, *each)[None, :, steps]

    def _ridge(self, values: np.ndarray, lookback: int, penalty: float, steps: Any) -> np.ndarray:
        """Ridge regression on the last `lookback` values, each in units of its root mean square."""
        begin = self.past - lookback
        gram = values[begin : self.past, begin : self.past]
        products = values[begin : self.past, self.past :][:, steps]
        size = np.diag(gram)
        unit = np.where(size > 1e-12 * size.max(), size, np.inf) ** -0.5
        scaled = gram * unit[:, None] * unit + penalty * np.eye(lookback)
        weights = np.zeros((self.past, products.shape[1]))
        weights[begin:] = unit[:, None] * solve(scaled, products * unit[:, None], assume_a="pos")
        return weights

    def mean(self, shares: np.ndarray) -> np.ndarray:
        """(groups, past, horizon): the mean of the candidates, with shares (candidates, groups)."""
        total = np.zeros(1)
        for share, weights in zip(shares, self.candidates(), strict=True):
            if share.max() > _LEAST_SHARE:
                total = total + share[:, None, None] * weights
        return np.broadcast_to(total, (len(total), self.past, self.values.shape[-1] - self.past))


def _filled(values: np.ndarray, normalize: Normalization, size: int) -> np.ndarray:
    """Values without gaps, of at least one window: as in a window, or the last one goes on."""
    values = np.concatenate(
        [np.full((max(size - len(values), 0), values.shape[1]), np.nan), values]
    )
    return np.nan_to_num(values if normalize == "none" else forward_filled(values))


def forward_filled(values: np.ndarray) -> np.ndarray:
    """Fill missing values with the previous one; at the start, with the first value."""
    observed = ~np.isnan(values)
    rows = np.arange(len(values))[:, None]
    last = np.maximum.accumulate(np.where(observed, rows, -1), axis=0)
    first = np.where(observed.any(axis=0), np.argmax(observed, axis=0), 0)
    return np.take_along_axis(values, np.where(last < 0, first, last), axis=0)


def _products(values: np.ndarray, size: int) -> np.ndarray:
    """(size, size): sum over windows and variables of products of samples i and j.

    The sum for i + 1 and j + 1 is that for i and j, of windows that begin one step later.
    """
    count = len(values) - size + 1
    points = 1 << (len(values) + count - 1).bit_length()
    spectrum = np.zeros(points // 2 + 1, complex)
    for column in values.T:
        before, after = (np.fft.rfft(each, points) for each in (column[:count], column))
        spectrum += np.conj(before) * after
    first = np.fft.irfft(spectrum, points)[:size]
    before, after = values[: size - 1], values[count : count + size - 1]
    change = after @ after.T - before @ before.T
    products = np.zeros((size, size))
    products[0] = products[:, 0] = first
    for i in range(size - 1):
        products[i + 1, 1:] = products[i, :-1] + change[i]
    return products


def _normalization(normalize: Normalization, past: int, size: int) -> np.ndarray:
    """(size, size): the normalisation of a window as a matrix, but for its unit."""
    change = np.eye(size)
    if normalize == "deviation":
        change[:, :past] -= 1 / past
    elif normalize != "none":
        change[:, past - 1] -= 1
    if normalize == "difference":
        change[:past] = np.diff(np.eye(size)[:past], axis=0, prepend=np.eye(size)[:1])
    return change


@lru_cache(maxsize=64)
def smoothing_weights(
    past: int,
    horizon: int,
    season: int,
    level: float,
    trend: float,
    kept: float,
    seasonal: float | None,
) -> np.ndarray:
    """(past, horizon): the weights of exponential smoothing with a damped trend.

    Without a season, the initial level is 0, the value of unknown samples. With a season, it is the
    mean of the first season, and the seasonal terms are the differences from it. The gain of a
    seasonal term is at least 1 / k at its k-th sample: it begins as a mean of all seasons.
    """
    samples = np.eye(past)
    now, slope, begin = np.zeros(past), np.zeros(past), 0
    terms = np.zeros((season, past))
    if seasonal is not None:
        now, begin = samples[:season].mean(axis=0), season
        terms = samples[:season] - now
    for step in range(begin, past):
        place, before = step % season, now
        now = level * (samples[step] - terms[place]) + (1 - level) * (before + kept * slope)
        slope = trend * (now - before) + (1 - trend) * kept * slope
        if seasonal is not None:
            gain = max(seasonal, 1 / (step // season + 1))
            terms[place] += gain * (samples[step] - now - terms[place])
    ahead = np.cumsum(kept ** np.arange(1, horizon + 1)) if kept else np.zeros(horizon)
    again = terms[(past + np.arange(horizon)) % season].T
    return now[:, None] + slope[:, None] * ahead + again


def candidate_errors(moments: Moments, held_out: Windows) -> np.ndarray:
    """(candidates, shares, groups): mean absolute errors on held-out windows, at some steps.

    A group is a target, if there are moments of each, or all of them.
    """
    kept: list[np.ndarray] = []

    def keep(past: np.ndarray) -> np.ndarray:
        kept.append(past[..., list(held_out.target_columns)])
        return np.zeros((len(past), held_out.horizon, kept[0].shape[-1]))

    steps = _spread(held_out.horizon, _STEPS)
    labels = replace(held_out, first=keep).batch(_spread(len(held_out), _WINDOWS)).labels[:, steps]
    past, axes = np.moveaxis(np.nan_to_num(kept[0]), -1, 0), (1, 2)
    errors = []
    for weights in moments.candidates(steps):
        missed = np.abs(labels - np.multiply.outer(_SHARES, _forecast(past, weights)))
        errors.append(known_mean(missed, axes))
    several = np.array(errors)
    return several if len(moments.values) > 1 else known_mean(several, -1)[..., None]


def _spread(count: int, most: int) -> np.ndarray:
    """At most `most` of the numbers below `count`, evenly spaced."""
    return np.unique(np.linspace(0, count - 1, most).astype(int))


def likely_shares(errors: Sequence[np.ndarray], windows: int, horizon: int) -> np.ndarray:
    """(candidates, groups): the share of each, from its errors in each trial.

    Of many windows, only those that do not overlap count as independent.
    """
    candidates, shares, groups = errors[0].shape
    power = max(1.0, windows if windows < _FEW else max(_FEW, windows / horizon))
    likely = np.zeros((candidates, groups))
    for group in range(groups):
        each = relative_errors(np.array([trial[..., group].ravel() for trial in errors]))
        if np.isfinite(each).any():
            ratios = np.maximum(each, 1e-12) / max(np.nanmin(each), 1e-12)
            weights = np.nan_to_num(ratios**-power).reshape(candidates, shares)
            likely[:, group] = weights @ _SHARES / weights.sum()
    return likely


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
