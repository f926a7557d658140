"""Calibrated prediction intervals, by split conformal prediction.

The distance of a model's quantiles from its median estimates its uncertainty. On held-out windows,
the scores are the distances of the truth from the median, relative to this estimate. On each side,
the interval of a level is the estimate times a conformal quantile of the scores: with n scores and
a fraction a outside, the ceil((n + 1)(1 - a))-th smallest. This is done for each step and variable;
with few windows, for several steps together.

Windows overlap and are thus not independent. The effective number of independent windows, m,
follows from the autocorrelation of the errors; intervals are wider by the ratio of the quantiles of
Student's distributions with m and n degrees of freedom.

For short series, intervals follow from cross-fitted errors of the closed-form part at rolling
origins, without the trained model: a scale for each step, and one symmetric distribution for all
steps. If errors at step j are sums over j steps, those of neighbouring windows share summands: the
squares k windows apart have the correlation (1 - k / j)^2. The effective number of n windows is
then 3 n / (2 j), and over a horizon of h steps about 3 n / (h + 1).

Sample paths are the errors of held-out windows along the whole horizon, in the same units.
"""

import itertools
from collections.abc import Collection
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np
from scipy import stats

from linoss import _checks
from linoss.forecasting._seasonal_trend import known_mean

_USUAL = (80.0, 95.0)
_SHARES = np.linspace(0, 1, 11)
_WORTH = 0.01
_NARROWEST = 1e-4  # minimum distance, in deviations of the series
_PATHS, _PATH_NUMBERS = 256, 2 * 10**6
_ALIKE, _FEWEST = 0.05, 2.0
_SCORES = 200  # minimum number of scores of a quantile, if available


def quantile_levels(levels: Collection[Any]) -> tuple[float, ...]:
    """The quantile levels of both ends of intervals, and the median."""
    percent = sorted(set(_percents("levels", levels)))
    low = tuple(round(0.5 - each / 200, 9) for each in reversed(percent))
    return (*low, 0.5, *(round(1 - each, 9) for each in reversed(low)))


def _percents(name: str, level: Any) -> list[float]:
    """Levels in percent, as a list."""
    several = [level] if np.ndim(level) == 0 else list(level)
    for each in several:
        _checks.number(name, each, "numbers between 0 and 100", lambda x: 0 < x < 100)
    if not several:
        raise ValueError(f"{name} is empty, expected numbers between 0 and 100")
    return [float(each) for each in several]


@dataclass(frozen=True)
class Request:
    """Intervals in percent, or a number of sample paths; neither for the forecast only."""

    percent: list[float] | None = None
    samples: int | None = None

    @classmethod
    def checked(
        cls, calibration: "Calibration | None", horizon: int, level: Any, samples: Any
    ) -> "Request":
        """Validate a request. Raises ValueError for intervals that are not calibrated."""
        if level is None and samples is None:
            return cls()
        if level is not None and samples is not None:
            raise ValueError("level and samples were given, expected one of them")
        if samples is not None:
            _checks.positive_integer("samples", samples)
        percent = None if level is None else _percents("level", level)
        name = "samples" if level is None else "level"
        if calibration is None:
            raise ValueError(
                f"{name} was given, but nothing was held out to calibrate intervals: the series "
                "are too short, or validation_fraction is 0; fit a longer series, or with a "
                "shorter past or horizon"
            )
        if horizon > calibration.horizon:
            raise ValueError(
                f"horizon is {horizon}, but {name} is calibrated for {calibration.horizon} steps "
                f"only; fit with horizon={horizon}"
            )
        for each in percent or ():
            problem = calibration.problem(each)
            if problem is not None:
                raise ValueError(f"level has {each:g}, {problem}")
        return cls(percent, samples)

    @classmethod
    def usual(cls, calibration: "Calibration | None") -> "Request":
        """80 and 95 percent, if they are calibrated."""
        if calibration is None:
            return cls()
        return cls([each for each in _USUAL if calibration.problem(each) is None] or None)

    def columns(self, variables: list[Any]) -> list[Any]:
        """The columns of a frame: NAME, NAME-lo-80, NAME-hi-80, or NAME-sample-1, ..."""
        if self.samples is not None:
            endings = [f"-sample-{i + 1}" for i in range(self.samples)]
            return [f"{name}{ending}" for name in variables for ending in endings]
        sides = [f"-{side}-{each:g}" for each in self.percent or () for side in ("lo", "hi")]
        return [each for name in variables for each in (name, *(f"{name}{s}" for s in sides))]


@dataclass(frozen=True, eq=False)
class Calibration:
    """The calibration of a trained model's quantiles on held-out windows."""

    narrowest: ClassVar[float] = _NARROWEST

    levels: tuple[float, ...]
    """The levels of the quantiles."""
    share: np.ndarray
    """(horizon, targets): the factor of the trained model's median."""
    factors: np.ndarray
    """(horizon, targets, levels): the factors of distances from the median."""
    offsets: np.ndarray
    """(horizon, targets, levels): what is added to the scaled distances."""
    paths: np.ndarray
    """(windows, horizon, targets): errors in units of the widths of the middle interval."""
    windows: int

    @classmethod
    def fit(
        cls,
        levels: tuple[float, ...],
        truth: np.ndarray,
        quantiles: np.ndarray | None = None,
        *,
        whole: bool = False,
    ) -> "Calibration":
        """Fit to observed values (windows, horizon, targets), relative to the linear forecast.

        `quantiles` (windows, horizon, targets, levels) are those of a trained model, if there is
        one. With `whole`, the factor of its median is 1.
        """
        count, *shape = truth.shape
        middle = len(levels) // 2
        share, distances = np.full(shape, float(whole)), np.zeros((*shape, len(levels)))
        errors, widths = truth, np.ones((1, *shape, len(levels)))
        if quantiles is not None:
            median, widths = quantiles[..., middle], _widths(quantiles)
            share = share if whole else _best_shares(truth, median)
            errors = truth - share * median
        independent = _independent(errors)
        for level in range(len(levels)):
            if level != middle:
                scores = np.sign(level - middle) * errors / widths[..., level]
                inside = max(levels[level], 1 - levels[level])
                wider = stats.t.ppf(inside, independent) / stats.t.ppf(inside, count)
                distances[..., level] = np.maximum(_conformal(scores, inside) * wider, 0)
        none = np.zeros(distances.shape)
        factors, offsets = (none, distances) if quantiles is None else (distances, none)
        return cls._with_paths(levels, share, factors, offsets, errors, widths)

    @classmethod
    def of_errors(cls, levels: tuple[float, ...], errors: np.ndarray) -> "Calibration":
        """From errors (windows, horizon, targets) of a short series."""
        count, horizon, targets = errors.shape
        size = np.sqrt(np.nan_to_num(known_mean(errors**2, 0)))
        size = np.maximum(size, _NARROWEST)
        offsets = np.zeros((horizon, targets, len(levels)))
        for place, level in enumerate(levels):
            inside = abs(2 * level - 1)
            if inside > 0:
                end = 0.5 + inside / 2
                wider = stats.t.ppf(end, max(1.0, 3 * count / (horizon + 1))) / stats.norm.ppf(end)
                offsets[..., place] = size * _conformal(np.abs(errors) / size, inside) * wider
        none = np.zeros(offsets.shape)
        return cls._with_paths(levels, none[..., 0], none, offsets, errors, none[None])

    @classmethod
    def _with_paths(
        cls,
        levels: tuple[float, ...],
        share: np.ndarray,
        factors: np.ndarray,
        offsets: np.ndarray,
        errors: np.ndarray,
        widths: np.ndarray,
    ) -> "Calibration":
        """Add sample paths, in units of the middle interval."""
        count, *shape = errors.shape
        made = cls(levels, share, factors, offsets, np.zeros((0, *shape)), count)
        low, high = made._sides(widths)
        units = np.where(errors < 0, low, high)
        paths = np.nan_to_num(errors / np.maximum(units, 1e-12))
        kept = np.linspace(0, count - 1, _paths(*shape)).astype(int)
        return replace(made, paths=paths[kept].astype(np.float32))

    def _sides(self, widths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Distances from the median to both ends of the middle interval."""
        middle = len(self.levels) // 2
        place = middle - (middle + 1) // 2
        scaled = widths * self.factors + self.offsets
        return scaled[..., place], scaled[..., len(self.levels) - 1 - place]

    @property
    def horizon(self) -> int:
        """The calibrated steps."""
        return len(self.share)

    @property
    def uses_model(self) -> bool:
        """Whether forecasts or intervals depend on the model."""
        return bool(np.any(self.share) or np.any(self.factors))

    def forecast(self, quantiles: np.ndarray) -> np.ndarray:
        """Medians (..., horizon, targets) of the model's quantiles."""
        return self.share * quantiles[..., len(self.levels) // 2]

    def intervals(self, quantiles: np.ndarray, level: list[float]) -> np.ndarray:
        """(..., horizon, targets, 1 + 2 levels): median, then both ends for each level in percent.

        Between calibrated levels, distances are interpolated over normal quantiles.
        """
        median = self.forecast(quantiles)
        middle = len(self.levels) // 2
        distances = _widths(quantiles) * self.factors + self.offsets
        places = np.array([NormalDist().inv_cdf(each) for each in self.levels])
        statistics = [median]
        for percent in level:
            z = NormalDist().inv_cdf(0.5 + percent / 200)
            for side, outward in ((-1, slice(middle, None, -1)), (1, slice(middle, None))):
                grown = np.maximum.accumulate(distances[..., outward], axis=-1)
                statistics.append(median + side * _between(z, np.abs(places[outward]), grown))
        return np.stack(statistics, axis=-1)

    def samples(self, quantiles: np.ndarray, count: int, seed: int) -> np.ndarray:
        """(..., horizon, targets, count): sample paths from held-out errors."""
        median = self.forecast(quantiles)
        low, high = self._sides(_widths(quantiles))
        drawn = np.random.default_rng(seed).integers(len(self.paths), size=count)
        errors = np.moveaxis(self.paths[drawn].astype(np.float64), 0, -1)
        return median[..., None] + errors * np.where(errors < 0, low[..., None], high[..., None])

    def compute(self, quantiles: np.ndarray, request: Request, seed: int) -> np.ndarray:
        """Medians, intervals or sample paths."""
        if request.samples is not None:
            return self.samples(quantiles, request.samples, seed)
        if request.percent is not None:
            return self.intervals(quantiles, request.percent)
        return self.forecast(quantiles)

    def is_calibrated(self, percent: float) -> bool:
        """Whether there were enough held-out steps for an interval."""
        return self._steps >= _needed(percent)

    @property
    def _steps(self) -> int:
        return self.windows * self.horizon

    def problem(self, percent: float) -> str | None:
        """The reason why an interval is not calibrated; None if it is."""
        learned = [round(100 * (2 * level - 1), 6) for level in self.levels if level > 0.5]
        if percent > learned[-1] + 1e-9:
            levels = ", ".join(f"{each:g}" for each in (*learned, percent))
            return (
                f"expected at most {learned[-1]:g}, the widest interval that was learned; fit "
                f"with levels=[{levels}]"
            )
        if not self.is_calibrated(percent):
            return (
                f"which takes {_needed(percent)} held-out steps to calibrate, but there are "
                f"{self._steps}; fit a longer series, or ask for a lower level"
            )
        return None

    # ---- Files ----

    def arrays(self) -> dict[str, np.ndarray]:
        """The calibration as arrays."""
        return {name: np.asarray(value) for name, value in vars(self).items()}

    @classmethod
    def restored(cls, sizes: tuple[int, int], arrays: dict[str, np.ndarray]) -> "Calibration":
        """The inverse of `arrays`; `sizes` is horizon and targets."""
        levels = arrays["levels"]
        shapes = {
            "levels": ("levels",),
            "share": sizes,
            "paths": ("windows", *sizes),
            "windows": (),
        }
        for name in ("factors", "offsets"):
            shapes[name] = (*sizes, len(levels))
            if (arrays[name] < 0).any():
                raise ValueError(f"the calibration has {name} below 0")
        for name, shape in shapes.items():
            _checks.shape(name, arrays[name], shape)
            if not np.isfinite(arrays[name]).all():
                raise ValueError(f"the calibration has {name} that are not finite")
        if len(levels) % 2 == 0 or (np.diff([0.0, *levels, 1.0]) <= 0).any():
            raise ValueError("the calibration has impossible levels")
        whole = {"levels": tuple(levels.tolist()), "windows": int(arrays["windows"])}
        return cls(**{**{name: arrays[name] for name in shapes}, **whole})


def _best_shares(truth: np.ndarray, median: np.ndarray) -> np.ndarray:
    """(horizon, targets): the factor of medians with the least error, for parts of the horizon."""
    count, horizon, targets = truth.shape
    share = np.zeros((horizon, targets))
    parts = np.array_split(np.arange(horizon), min(horizon, max(1, count // 32), 8))
    for steps, target in itertools.product(parts, range(targets)):
        part, forecast = truth[:, steps, target], median[:, steps, target]
        errors = known_mean(np.abs(part - np.multiply.outer(_SHARES, forecast)), (1, 2))
        if np.isfinite(errors).all() and errors.min() < (1 - _WORTH) * errors[0]:
            share[steps, target] = _SHARES[int(np.argmin(errors))]
    return share


def _needed(percent: float) -> int:
    """The number of held-out steps needed to calibrate an interval."""
    return round(2 / (1 - percent / 100))


def _paths(horizon: int, targets: int) -> int:
    """The number of stored error paths; with fewer windows some are repeated."""
    return max(1, min(_PATHS, _PATH_NUMBERS // (horizon * targets)))


def _widths(quantiles: np.ndarray) -> np.ndarray:
    """Distances from the median, with a minimum."""
    median = quantiles[..., quantiles.shape[-1] // 2, None]
    return np.maximum(np.abs(quantiles - median), _NARROWEST)


def _between(z: float, places: np.ndarray, distances: np.ndarray) -> np.ndarray:
    """Interpolate distances (..., places) at z; places increase from 0."""
    right = int(np.clip(np.searchsorted(places, z - 1e-9), 1, len(places) - 1))
    share = (z - places[right - 1]) / (places[right] - places[right - 1])
    return (1 - share) * distances[..., right - 1] + share * distances[..., right]


def _independent(errors: np.ndarray) -> float:
    """The effective number of independent windows of errors (windows, horizon, targets).

    n / (1 + 2 sum r_k), with the correlations r_k of the absolute errors of windows at distance k.
    """
    sizes = np.abs(errors) - known_mean(np.abs(errors), 0)
    sizes = np.nan_to_num(sizes)
    count, alike = len(sizes), 1.0
    total = float(np.mean(sizes**2))
    for lag in range(1, count // 2 if total > 0 else 0):
        correlation = float(np.mean(sizes[lag:] * sizes[:-lag])) / total
        if correlation <= _ALIKE:
            break
        alike += 2 * correlation
    return max(count / alike, min(_FEWEST, count))


def _conformal(scores: np.ndarray, inside: float) -> np.ndarray:
    """The conformal quantile of scores (windows, horizon, targets) for each step and target."""
    count, horizon, targets = scores.shape
    around = min(horizon - 1, max(0, -(-_SCORES // max(count, 1)) // 2))
    quantiles = np.zeros((horizon, targets))
    for step in range(horizon):
        start = max(0, min(step - around, horizon - 1 - 2 * around))
        near = scores[:, start : min(horizon, start + 2 * around + 1)].reshape(-1, targets)
        known = np.count_nonzero(~np.isnan(near), axis=0)
        rank = np.minimum(np.ceil((known + 1) * inside).astype(int), known)
        chosen = np.take_along_axis(np.sort(near, axis=0), np.maximum(rank - 1, 0)[None], axis=0)
        quantiles[step] = np.where(known > 0, chosen[0], 0)
    return quantiles
