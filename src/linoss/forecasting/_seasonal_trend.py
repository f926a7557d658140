"""Trend and seasonal components of a series, by median regression.

The expected value at time t is linear in its coefficients:

    b_0 + b_1 s(t) + sum_P sum_k a_Pk sin(2 pi k t / P) + c_Pk cos(2 pi k t / P) + products + d x(t)

with periods P of the calendar (year, week, day) or of the data, products of the harmonics of the
shortest and the longest period (days differ between summer and winter), and variables x known in
advance. s is linear over the data and levels off after them. Coefficients minimise the sum of
absolute errors, by iteratively reweighted least squares.

What remains is the residual.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

YEAR, WEEK, DAY = 365.2425 * 86400.0, 7 * 86400.0, 86400.0
_HARMONICS = {YEAR: 3, WEEK: 3, DAY: 4}
_MOST_HARMONICS = 6  # of a period outside the calendar, or with few samples
_FEW_SAMPLES = 32  # of a period
_STEPS_OF_FIT = 8
_MOST_SAMPLES = 10_000  # of a fit; a random subset of more
_SAMPLES_OF_A_TERM = 4
_PENALTY = 1e-4


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
        step = cls(unit, 1.0).median_step(longest)
        periods = {"seconds": (YEAR, WEEK, DAY), "months": (12.0,), "steps": ()}[unit]
        periods = periods if calendar else ()
        if season is not None and season > 1:
            own = season * step
            periods = (*tuple(p for p in periods if abs(p - own) > 0.01 * own), own)
        finest = steps.min(initial=step)
        kept = tuple(sorted((p for p in periods if p >= 2 * finest), reverse=True))
        return cls(unit, step, kept)

    def _steps(self, indices: Sequence[np.ndarray]) -> np.ndarray:
        return np.array([self.median_step(index) for index in indices if len(index) > 1])

    def numbers(self, index: np.ndarray) -> np.ndarray:
        """Convert times to numbers, float64."""
        if index.dtype.kind != "M":
            return index.astype(np.float64)
        if self.unit != "months":
            return (index - np.datetime64(0, "s")) / np.timedelta64(1, "s")
        months = index.astype("datetime64[M]")
        share = (index - months) / np.timedelta64(1, "D") / 30.4369
        return months.astype(np.int64) + share

    def median_step(self, index: np.ndarray) -> float:
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
class SeasonalTrend:
    """The fitted trend and seasonal components of one series, and the size of its residual."""

    product_harmonics: ClassVar[int] = 3
    """Harmonics of the longest and the shortest period that are multiplied."""
    flattening: ClassVar[float] = 0.5
    """The time in which a trend levels off, relative to the span of the data."""

    clock: Clock
    step: float
    """The median step, in the clock's units."""
    start: float
    span: float
    """The time span of the data."""
    has_trend: bool
    counts: tuple[int, ...]
    """Number of harmonics of each period of the clock."""
    has_products: bool
    coefficients: np.ndarray
    """(terms, variables)"""
    deviation: np.ndarray = field(default_factory=lambda: np.ones(1))
    """(variables,), the standard deviation of the residual."""

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
    ) -> "SeasonalTrend":
        """Fit to `values` (time, variables) at an index, with variables `known` in advance."""
        times, step = clock.numbers(index), clock.median_step(index)
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
        has_products = len(counts) > 1 and left >= 4 * cls.product_harmonics**2
        facts = (clock, step, float(times[0]), span, trend, tuple(counts), has_products)
        some = _sample(len(index))
        terms = cls(*facts, np.zeros((0, 0))).terms(index[some], known[some])
        columns = [median_fit(terms, column) for column in values[some].T]
        fitted = cls(*facts, np.stack(columns, axis=1))
        deviation = known_deviation(values - fitted(index, known))
        size = np.max(np.nan_to_num(np.abs(values)), axis=0, initial=0)
        return replace(fitted, deviation=np.where(deviation > 1e-9 * size, deviation, 1.0))

    def terms(self, index: np.ndarray, known: np.ndarray) -> np.ndarray:
        """(time, terms): the regressors."""
        times = self.clock.numbers(index)
        parts = [np.ones((len(times), 1))]
        if self.has_trend:
            past = (times - self.start) / self.span
            bend = self.flattening
            after = bend * -np.expm1(-np.maximum(past - 1, 0) / bend)
            parts.append((np.minimum(past, 1) + after)[:, None] - 0.5)
        waves = []
        for period, count in zip(self.clock.periods, self.counts, strict=True):
            angles = 2 * np.pi * times[:, None] / period * np.arange(1, count + 1)
            waves.append(np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(len(times), -1))
        parts += waves
        if self.has_products:
            long, short = (wave[:, : 2 * self.product_harmonics] for wave in (waves[0], waves[-1]))
            parts.append((long[:, :, None] * short[:, None, :]).reshape(len(times), -1))
        return np.concatenate([*parts, np.nan_to_num(known)], axis=1)

    def __call__(self, index: np.ndarray, known: np.ndarray) -> np.ndarray:
        """(time, variables): the expected values."""
        return self.terms(index, known) @ self.coefficients


def known_mean(values: np.ndarray, axis: int | tuple[int, ...] | None = None) -> np.ndarray:
    """The mean of values that are not NaN; NaN if there are none."""
    observed = ~np.isnan(values)
    count = observed.sum(axis=axis)
    total = np.sum(values, axis=axis, where=observed)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def known_deviation(values: np.ndarray) -> np.ndarray:
    """(variables,): the standard deviation of values (time, variables) that are not NaN, or 0."""
    return np.nan_to_num(np.sqrt(known_mean((values - known_mean(values, 0)) ** 2, 0)))


def _sample(count: int) -> np.ndarray:
    """Rows to fit to, drawn at random: at every third hour, daily harmonics would be aliased."""
    if count <= _MOST_SAMPLES:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).choice(count, _MOST_SAMPLES, replace=False))


def median_fit(terms: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Coefficients with the least absolute errors; NaN is ignored."""
    observed = ~np.isnan(values)
    coefficients = np.zeros(terms.shape[1])
    if not observed.any():
        return coefficients
    terms, values = terms[observed], values[observed]
    center = np.median(values)
    deviation = np.abs(values - center).mean()
    if deviation <= 1e-12 * abs(center):
        coefficients[0] = center
        return coefficients
    scaled, weights = (values - center) / deviation, np.ones(len(values))
    size = np.sqrt(np.mean(terms**2, axis=0))
    size[size < 1e-9] = 1
    terms = terms / size
    penalty = _PENALTY * np.eye(terms.shape[1])
    penalty[0] = 0
    for _ in range(_STEPS_OF_FIT):
        weighted = terms * weights[:, None]
        matrix = weighted.T @ terms / len(values) + penalty
        coefficients = np.linalg.lstsq(matrix, weighted.T @ scaled / len(values), rcond=1e-10)[0]
        weights = 1 / np.maximum(np.abs(scaled - terms @ coefficients), 0.02)
        weights /= weights.mean()
    coefficients *= deviation / size
    coefficients[0] += center
    return coefficients


def strongest_period(values: np.ndarray, most: int) -> int | None:
    """The dominant period of a series in steps; None if there is none.

    It is the highest peak of the autocorrelation after removing a linear trend.
    """
    values = np.asarray(values, np.float64)
    observed = ~np.isnan(values)
    count = len(values)
    if np.count_nonzero(observed) < 8:
        return None
    time = np.arange(count)
    line = np.polyfit(time[observed], values[observed], 1)
    residual = np.where(observed, values - np.polyval(line, time), 0)
    size = 1 << (2 * count - 1).bit_length()
    power = np.abs(np.fft.rfft(residual, size)) ** 2
    pairs = np.abs(np.fft.rfft(observed.astype(float), size)) ** 2
    lags = min(most, count // 3)
    pairs = np.fft.irfft(pairs, size)[: lags + 2]
    likeness = np.fft.irfft(power, size)[: lags + 2] / np.maximum(pairs, 1)
    if lags < 2 or likeness[0] <= 1e-12 * (1 + np.abs(values[observed]).max()) ** 2:
        return None
    likeness = likeness / likeness[0]
    inner = likeness[1:-1]
    peaks = np.flatnonzero((inner > likeness[:-2]) & (inner >= likeness[2:])) + 1
    peaks = peaks[(peaks > 1) & (likeness[peaks] > max(0.3, 2 / np.sqrt(count)))]
    if not len(peaks):
        return None
    best = likeness[peaks].max()
    return int(peaks[likeness[peaks] >= 0.9 * best][0])
