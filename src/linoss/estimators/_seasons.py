"""Trend and seasons of a series, by median regression.

The expected value at time t is linear in its coefficients:

    b_0 + b_1 s(t) + sum_P sum_k a_Pk sin(2 pi k t / P) + c_Pk cos(2 pi k t / P) + products + d x(t)

with periods P of the calendar (year, week, day) or of the data, products of the harmonics of the
shortest and the longest period (days differ between summer and winter), and variables x known in
advance. s is linear over the data and levels off after them. Coefficients minimise the sum of
absolute errors, by iteratively reweighted least squares.

The spread may also be seasonal: winters may be less certain than summers. With enough samples, the
mean absolute error is fitted by harmonics of the same periods.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

YEAR, WEEK, DAY = 365.2425 * 86400.0, 7 * 86400.0, 86400.0
_HARMONICS = {YEAR: 3, WEEK: 3, DAY: 4}
_MOST_HARMONICS = 6  # of a period outside the calendar, or with few samples
_PRODUCTS = 3  # harmonics of each of two periods
_FEW_SAMPLES = 32  # of a period
_STEPS_OF_FIT = 8
_SPARSEST = 16  # most steps of the grid for each sample
_MOST_SAMPLES = 10_000  # of a fit; a random subset of more
_SAMPLES_OF_A_TERM = 4
_PENALTY = 1e-4
_SPREAD_HARMONICS, _SAMPLES_OF_A_SPREAD_TERM = 2, 100
_LEAST_SPREAD = 0.3  # relative to the mean spread
_FLATTENING = 0.5  # time in which a trend levels off, relative to the span of the data


@dataclass(frozen=True)
class Clock:
    """The conversion of an index to numbers, and the expected periods in these units."""

    unit: str
    """`"seconds"`, `"months"` (for steps of months or longer), or `"steps"`."""
    step: float
    """The median step of the longest series."""
    periods: tuple[float, ...] = ()

    @classmethod
    def of(cls, indices: Sequence[np.ndarray], season: int | None, *, calendar: bool) -> "Clock":
        """The clock of several series, with any steps; `season` is a period in steps of the
        longest.

        It has the periods that span at least two steps of some series.
        """
        unit = "steps"
        if indices[0].dtype.kind == "M":
            days = cls("seconds", DAY)._steps(indices) / DAY
            unit = "months" if len(days) and days.min() >= 28 else "seconds"
        steps = cls(unit, 1.0)._steps(indices)
        longest = max(indices, key=len)
        step = cls(unit, 1.0).usual(longest)
        periods = {"seconds": (YEAR, WEEK, DAY), "months": (12.0,), "steps": ()}[unit]
        periods = periods if calendar else ()
        if season is not None and season > 1:
            own = season * step
            periods = (*tuple(p for p in periods if abs(p - own) > 0.01 * own), own)
        finest = steps.min(initial=step)
        kept = tuple(sorted((p for p in periods if p >= 2 * finest), reverse=True))
        return cls(unit, step, kept)

    def _steps(self, indices: Sequence[np.ndarray]) -> np.ndarray:
        return np.array([self.usual(index) for index in indices if len(index) > 1])

    def numbers(self, index: np.ndarray) -> np.ndarray:
        """Convert times to numbers, float64."""
        if index.dtype.kind != "M":
            return index.astype(np.float64)
        if self.unit != "months":
            return (index - np.datetime64(0, "s")) / np.timedelta64(1, "s")
        months = index.astype("datetime64[M]")
        share = (index - months) / np.timedelta64(1, "D") / 30.4369
        return months.astype(np.int64) + share

    def usual(self, index: np.ndarray) -> float:
        """The median step of an index; for a single sample, that of the clock."""
        return float(np.median(np.diff(self.numbers(index)))) if len(index) > 1 else self.step

    @property
    def season(self) -> int:
        """Steps of the shortest period that is longer than a step; 1 if there is none."""
        return self.season_of(self.step)

    def season_of(self, step: float) -> int:
        """The season of a series with another step."""
        steps = [round(p / step) for p in self.periods]
        return min((s for s in steps if s > 1), default=1)

    def channels(self, index: np.ndarray) -> np.ndarray:
        """Sine and cosine of each period, (times, 2 periods)."""
        angles = 2 * np.pi * self.numbers(index)[:, None] / np.array(self.periods)
        return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


@dataclass(frozen=True, eq=False)
class Seasons:
    """The fitted trend and seasons of one series."""

    products_of: ClassVar[int] = _PRODUCTS
    flattening: ClassVar[float] = _FLATTENING
    spread_harmonics: ClassVar[int] = _SPREAD_HARMONICS
    least_spread: ClassVar[float] = _LEAST_SPREAD

    clock: Clock
    step: float
    """The median step, in the clock's units."""
    start: float
    span: float
    """The time span of the data."""
    trend: bool
    counts: tuple[int, ...]
    """Number of harmonics of each period of the clock."""
    products: bool
    coefficients: np.ndarray
    """(terms, variables)"""
    spreads: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    """(terms of spread, variables), around 1; empty if the spread is not seasonal."""

    @classmethod
    def fit(
        cls,
        clock: Clock,
        index: np.ndarray,
        values: np.ndarray,
        known: np.ndarray,
        *,
        trend: bool,
        seasonal: bool = True,
    ) -> "Seasons":
        """Fit to `values` (time, variables) at an index, with variables `known` in advance."""
        times, step = clock.numbers(index), clock.usual(index)
        span = max(float(times[-1] - times[0]), step)
        most = np.count_nonzero(~np.isnan(values), axis=0).max(initial=0) // _SAMPLES_OF_A_TERM
        left = most - 1 - trend - known.shape[1]
        counts = []
        for period in clock.periods:
            samples = period / step
            wanted = _HARMONICS.get(period, _MOST_HARMONICS)
            wanted = _MOST_HARMONICS if samples <= _FEW_SAMPLES else wanted
            wanted = min(wanted, int(samples) // 2, max(left, 0) // 2)
            counts.append(wanted if seasonal and span >= 2 * period else 0)
            left -= 2 * counts[-1]
        products = len(counts) > 1 and left >= 4 * _PRODUCTS**2
        facts = (clock, step, float(times[0]), span, trend, tuple(counts), products)
        made = cls(*facts, np.zeros((0, 0)))
        some = _some(len(index))
        terms = made.terms(index[some], known[some])
        columns = [median_fit(terms, column) for column in values[some].T]
        made = cls(*facts, np.stack(columns, axis=1))
        return replace(made, spreads=made._spreads(index[some], values[some], known[some]))

    def _spreads(self, index: np.ndarray, values: np.ndarray, known: np.ndarray) -> np.ndarray:
        """Coefficients of the mean absolute error, relative to its mean."""
        terms, variables = self.spread_terms(index), values.shape[1]
        there = ~np.isnan(values)
        fewest = np.count_nonzero(there, axis=0).min(initial=len(values))
        if terms.shape[1] == 1 or fewest < _SAMPLES_OF_A_SPREAD_TERM * terms.shape[1]:
            return np.zeros((0, variables))
        errors, found = np.abs(values - self(index, known)), np.zeros((terms.shape[1], variables))
        for column, kept in enumerate(there.T):
            mean = errors[kept, column].mean()
            found[0, column] = 1.0
            if mean > 0:
                found[:, column] = np.linalg.lstsq(terms[kept], errors[kept, column] / mean)[0]
        return found

    def spread_terms(self, index: np.ndarray) -> np.ndarray:
        """(time, terms of spread)"""
        waves = [
            self.clock.numbers(index)[:, None] * 2 * np.pi / period * np.arange(1, count + 1)
            for period, count in zip(self.clock.periods, self.counts, strict=True)
            for count in [min(count, _SPREAD_HARMONICS)]
        ]
        angles = np.concatenate([np.zeros((len(index), 0)), *waves], axis=1)
        return np.concatenate([np.ones((len(index), 1)), np.sin(angles), np.cos(angles)], axis=1)

    def spread(self, index: np.ndarray) -> np.ndarray:
        """(time, variables), the relative spread at each time, around 1; (1, 1) if it is
        constant."""
        if not len(self.spreads):
            return np.ones((1, 1))
        return np.maximum(self.spread_terms(index) @ self.spreads, _LEAST_SPREAD)

    def terms(self, index: np.ndarray, known: np.ndarray) -> np.ndarray:
        """(time, terms): the regressors."""
        times = self.clock.numbers(index)
        parts = [np.ones((len(times), 1))]
        if self.trend:
            past = (times - self.start) / self.span
            after = _FLATTENING * -np.expm1(-np.maximum(past - 1, 0) / _FLATTENING)
            parts.append((np.minimum(past, 1) + after)[:, None] - 0.5)
        waves = []
        for period, count in zip(self.clock.periods, self.counts, strict=True):
            angles = 2 * np.pi * times[:, None] / period * np.arange(1, count + 1)
            waves.append(np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(len(times), -1))
        parts += waves
        if self.products:
            long, short = (wave[:, : 2 * _PRODUCTS] for wave in (waves[0], waves[-1]))
            parts.append((long[:, :, None] * short[:, None, :]).reshape(len(times), -1))
        return np.concatenate([*parts, np.nan_to_num(known)], axis=1)

    def __call__(self, index: np.ndarray, known: np.ndarray) -> np.ndarray:
        """(time, variables): the expected values."""
        return self.terms(index, known) @ self.coefficients

    def facts(self) -> dict[str, Any]:
        """Everything but the coefficients, as plain values."""
        return {
            "step": self.step,
            "start": self.start,
            "span": self.span,
            "trend": self.trend,
            "counts": list(self.counts),
            "products": self.products,
        }


def _some(count: int) -> np.ndarray:
    """Rows to fit to, drawn at random: at every third hour, daily harmonics would be aliased."""
    if count <= _MOST_SAMPLES:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).choice(count, _MOST_SAMPLES, replace=False))


def median_fit(terms: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Coefficients with the least absolute errors; NaN is ignored."""
    there = ~np.isnan(values)
    found = np.zeros(terms.shape[1])
    if not there.any():
        return found
    terms, values = terms[there], values[there]
    center = np.median(values)
    deviation = np.abs(values - center).mean()
    if deviation <= 1e-12 * abs(center):
        found[0] = center
        return found
    scaled, weights = (values - center) / deviation, np.ones(len(values))
    size = np.sqrt(np.mean(terms**2, axis=0))
    size[size < 1e-9] = 1
    terms = terms / size
    penalty = _PENALTY * np.eye(terms.shape[1])
    penalty[0] = 0
    for _ in range(_STEPS_OF_FIT):
        weighted = terms * weights[:, None]
        matrix = weighted.T @ terms / len(values) + penalty
        found = np.linalg.lstsq(matrix, weighted.T @ scaled / len(values), rcond=1e-10)[0]
        weights = 1 / np.maximum(np.abs(scaled - terms @ found), 0.02)
        weights /= weights.mean()
    found *= deviation / size
    found[0] += center
    return found


def on_grid(index: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Values on a regular grid, for detecting seasons; NaN at steps without a value.

    An index that is too sparse is treated as regular.
    """
    times = index.astype(np.float64)
    step = np.median(np.diff(times)) if len(times) > 1 else 1.0
    places = np.round((times - times[0]) / step).astype(np.int64)
    if places[-1] == len(index) - 1 or places[-1] >= _SPARSEST * len(index):
        return values
    found = np.full(places[-1] + 1, np.nan)
    found[places] = values
    return found


def strongest_period(values: np.ndarray, most: int) -> int | None:
    """The dominant period of a series in steps; None if there is none.

    It is the highest peak of the autocorrelation after removing a linear trend.
    """
    values = np.asarray(values, np.float64)
    there = ~np.isnan(values)
    count = len(values)
    if np.count_nonzero(there) < 8:
        return None
    time = np.arange(count)
    line = np.polyfit(time[there], values[there], 1)
    rest = np.where(there, values - np.polyval(line, time), 0)
    size = 1 << (2 * count - 1).bit_length()
    power = np.abs(np.fft.rfft(rest, size)) ** 2
    both = np.abs(np.fft.rfft(there.astype(float), size)) ** 2
    lags = min(most, count // 3)
    pairs = np.fft.irfft(both, size)[: lags + 2]
    likeness = np.fft.irfft(power, size)[: lags + 2] / np.maximum(pairs, 1)
    if lags < 2 or likeness[0] <= 1e-12 * (1 + np.abs(values[there]).max()) ** 2:
        return None
    likeness = likeness / likeness[0]
    inner = likeness[1:-1]
    peaks = np.flatnonzero((inner > likeness[:-2]) & (inner >= likeness[2:])) + 1
    peaks = peaks[(peaks > 1) & (likeness[peaks] > max(0.3, 2 / np.sqrt(count)))]
    if not len(peaks):
        return None
    best = likeness[peaks].max()
    return int(peaks[likeness[peaks] >= 0.9 * best][0])
