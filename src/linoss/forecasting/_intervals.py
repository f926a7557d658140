"""Calibrated prediction intervals, by split conformal prediction.

The scores are the errors of forecasts from rolling origins; with a trained model, of those of the
held-out end. On each side, an interval ends at a conformal quantile of the scores: with n scores
and a fraction a outside, the ceil((n + 1)(1 - a))-th smallest, for each step and variable; with few
windows, for several steps together.

Windows overlap. The effective number of independent ones, m, follows from the autocorrelation of
the errors; intervals are wider by the ratio of the quantiles of Student's distributions with m and
n degrees of freedom. Short series have a scale for each step, and one symmetric distribution for
all steps. If errors at step j are sums over j steps, those of neighbouring windows share summands:
the squares k windows apart have the correlation (1 - k / j)^2, and over a horizon of h steps n
windows count as about 3 n / (h + 1).

Sample paths are errors along the whole horizon.
"""

import itertools
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

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


def percents(name: str, level: Any) -> list[float]:
    """Levels in percent, as an increasing list."""
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
        percent = None if level is None else percents("level", level)
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
    """Intervals around a forecast, by its errors on held-out windows."""

    levels: tuple[float, ...]
    """Coverage in percent, increasing."""
    distances: np.ndarray
    """(2, levels, horizon, targets): from the forecast down to the low end and up to the high one,
    relative to the window."""
    paths: np.ndarray
    """(windows, horizon, targets): errors."""
    share: np.ndarray
    """(horizon, targets): the factor of the trained model's output."""
    windows: int

    @classmethod
    def fit(
        cls,
        levels: list[float],
        errors: np.ndarray,
        share: np.ndarray | None = None,
        *,
        is_short: bool = False,
    ) -> "Calibration":
        """Fit to errors (windows, horizon, targets), of a short series by one law for all steps."""
        count, horizon, targets = errors.shape
        ends = sorted(set(levels))
        distances = np.zeros((2, len(ends), horizon, targets))
        size = np.sqrt(np.nan_to_num(known_mean(errors**2, 0)))
        size = np.maximum(size, _NARROWEST)
        independent = 3 * count / (horizon + 1) if is_short else _independent(errors)
        usual = stats.norm if is_short else stats.t(count)
        for place, percent in enumerate(ends):
            inside = 0.5 + percent / 200
            wider = stats.t.ppf(inside, max(1.0, independent)) / usual.ppf(inside)
            if is_short:
                both = size * _conformal(np.abs(errors) / size, percent / 100)
                distances[:, place] = both * wider
            else:
                low, high = (_conformal(side * errors, inside) for side in (-1, 1))
                distances[:, place] = np.maximum([low, high], 0) * wider
        most = max(1, min(_PATHS, _PATH_NUMBERS // (horizon * targets)))
        kept = np.linspace(0, count - 1, most).astype(int)
        return cls(
            tuple(ends),
            np.maximum.accumulate(distances, axis=1),
            np.nan_to_num(errors[kept]).astype(np.float32),
            np.zeros((horizon, targets)) if share is None else share,
            count,
        )

    @property
    def horizon(self) -> int:
        """The calibrated steps."""
        return len(self.share)

    def intervals(self, forecast: np.ndarray, level: list[float]) -> np.ndarray:
        """(..., horizon, targets, 1 + 2 levels): forecast, then both ends for each level.

        Between calibrated levels, distances are interpolated over normal quantiles.
        """
        places = np.array([0.0, *(_normal_quantile(each) for each in self.levels)])
        distances = np.concatenate([np.zeros_like(self.distances[:, :1]), self.distances], axis=1)
        statistics = [forecast]
        for percent in level:
            z = _normal_quantile(percent)
            right = int(np.clip(np.searchsorted(places, z - 1e-9), 1, len(places) - 1))
            share = (z - places[right - 1]) / (places[right] - places[right - 1])
            low, high = (1 - share) * distances[:, right - 1] + share * distances[:, right]
            statistics += [forecast - low, forecast + high]
        return np.stack(statistics, axis=-1)

    def samples(self, forecast: np.ndarray, count: int, seed: int) -> np.ndarray:
        """(..., horizon, targets, count): sample paths from held-out errors."""
        drawn = np.random.default_rng(seed).integers(len(self.paths), size=count)
        return forecast[..., None] + np.moveaxis(self.paths[drawn].astype(np.float64), 0, -1)

    def compute(self, output: np.ndarray, request: Request, seed: int) -> np.ndarray:
        """Forecasts, intervals or sample paths from outputs of a trained model, or zeros."""
        forecast = self.share * output
        if request.samples is not None:
            return self.samples(forecast, request.samples, seed)
        return forecast if request.percent is None else self.intervals(forecast, request.percent)

    def is_calibrated(self, percent: float) -> bool:
        """Whether there were enough held-out steps for an interval."""
        return self.windows * self.horizon >= _needed(percent)

    def problem(self, percent: float) -> str | None:
        """The reason why an interval is not calibrated; None if it is."""
        if percent > self.levels[-1] + 1e-9:
            levels = ", ".join(f"{each:g}" for each in (*self.levels, percent))
            return (
                f"expected at most {self.levels[-1]:g}, the widest interval that was calibrated; "
                f"fit with levels=[{levels}]"
            )
        if not self.is_calibrated(percent):
            return (
                f"which takes {_needed(percent)} held-out steps to calibrate, but there are "
                f"{self.windows * self.horizon}; fit a longer series, or ask for a lower level"
            )
        return None

    def check(self, sizes: tuple[int, int]) -> None:
        """Raise ValueError for arrays of a file that do not fit; sizes are horizon and targets."""
        _checks.shape("share", self.share, sizes)
        _checks.shape("paths", self.paths, ("windows", *sizes))
        _checks.shape("distances", self.distances, (2, len(self.levels), *sizes))
        ends = [0.0, *self.levels, 100.0]
        if (self.distances < 0).any() or (np.diff(ends) <= 0).any() or not len(self.paths):
            raise ValueError("the calibration has impossible numbers")


def best_shares(truth: np.ndarray, output: np.ndarray) -> np.ndarray:
    """(horizon, targets): the factor of outputs with the least error, for parts of the horizon."""
    count, horizon, targets = truth.shape
    share = np.zeros((horizon, targets))
    parts = np.array_split(np.arange(horizon), min(horizon, max(1, count // 32), 8))
    for steps, target in itertools.product(parts, range(targets)):
        part, forecast = truth[:, steps, target], output[:, steps, target]
        errors = known_mean(np.abs(part - np.multiply.outer(_SHARES, forecast)), (1, 2))
        if np.isfinite(errors).all() and errors.min() < (1 - _WORTH) * errors[0]:
            share[steps, target] = _SHARES[int(np.argmin(errors))]
    return share


def _normal_quantile(percent: float) -> float:
    """The end of an interval of a standard normal distribution."""
    return NormalDist().inv_cdf(0.5 + percent / 200)


def _needed(percent: float) -> int:
    """The number of held-out steps needed to calibrate an interval."""
    return round(2 / (1 - percent / 100))


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
