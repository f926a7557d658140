"""Backtests: forecasts from past origins compared with simple ones, and their errors.

Errors of a variable are in its own unit (`mae`, `rmse`, `pinball`), or relative to the mean
absolute error of the seasonal naive forecast before the first window (`mase`), which has no unit
and can be averaged over variables.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from linoss._extras import optional
from linoss.data import DataError, Table
from linoss.forecasting._linear import forward_filled
from linoss.forecasting._seasonal_trend import known_mean

METRICS = ("mae", "rmse", "mase", "pinball")


@dataclass(frozen=True, eq=False, repr=False)
class Backtest:
    """Forecasts from several past origins, and their errors.

    ```python
    >>> import numpy as np
    >>> from linoss import LinOSSForecaster
    >>> wave = np.sin(np.arange(400)[:, None] / 5)
    >>> forecaster = LinOSSForecaster(
    ...     horizon=12, past=48, steps=50, hidden_size=16, state_size=16, random_state=0
    ... ).fit(wave[:300])
    >>> backtest = forecaster.backtest(wave, windows=5)
    >>> backtest.truth.shape
    (5, 12, 1)
    >>> backtest.error("mae") < backtest.error("mae", of="naive")
    True

    ```
    """

    names: tuple[Any, ...]
    """Names of the variables."""
    forecasts: dict[str, np.ndarray]
    """Maps `"forecast"`, `"naive"`, `"seasonal naive"` and `"drift"` to (windows, horizon,
    variables), in the units of the data."""
    truth: np.ndarray
    """(windows, horizon, variables), NaN where missing."""
    intervals: dict[float, np.ndarray]
    """Maps levels in percent to both ends of intervals, (windows, horizon, variables, 2)."""
    scale: np.ndarray
    """(windows, variables): the denominator of MASE."""
    season: int
    """Steps of a season of the longest series."""
    times: np.ndarray
    """(windows,): the time of the last step before each forecast."""
    ids: tuple[Any, ...] | None = None
    """The series of each window, if there are several."""

    def __repr__(self) -> str:
        windows, steps, variables = self.truth.shape
        mase = f"MASE {self.error('mase'):.4g}" if "forecast" in self.forecasts else "no forecast"
        return f"Backtest({windows} windows of {steps} steps, {variables} variables, {mase})"

    @property
    def horizon(self) -> int:
        """The forecast horizon, in steps."""
        return self.truth.shape[1]

    def errors(self, metric: str, of: str = "forecast") -> np.ndarray:
        """(horizon, variables): a metric at each step, averaged over windows.

        **Arguments:**

        - `metric`: `"mae"`, `"rmse"` or `"pinball"` (the mean over the median and both ends of each
          interval), in the unit of the variable, or `"mase"`.
        - `of`: one of the names of `forecasts`.
        """
        means = known_mean(self._all(metric, of), 0)
        return np.sqrt(means) if metric == "rmse" else means

    def error(self, metric: str, of: str = "forecast", variable: Any = None) -> float:
        """A metric averaged over windows, steps and variables, or for one variable."""
        chosen = slice(None) if variable is None else [self.names.index(variable)]
        mean = float(known_mean(self._all(metric, of)[..., chosen]))
        return float(np.sqrt(mean)) if metric == "rmse" else mean

    def coverage(self, level: float) -> np.ndarray:
        """(horizon, variables): the fraction of windows whose value lies in the interval."""
        return known_mean(self._inside(level), 0)

    def rows(self) -> list[dict[str, Any]]:
        """The metrics of each forecast for each variable, and the coverage of intervals."""
        rows = []
        for place, name in enumerate(self.names):
            for of in self.forecasts:
                row: dict[str, Any] = {"variable": name, "model": of}
                row |= {m: self.error(m, of, name) for m in METRICS if self._has(m, of)}
                if of == "forecast":
                    for level in self.intervals:
                        covered = self._inside(level)[..., place]
                        row[f"coverage-{level:g}"] = float(known_mean(covered.ravel(), 0))
                rows.append(row)
        return rows

    def frame(self, by: str = "variable") -> Any:
        """A pandas frame of the metrics for each variable, or for each variable and `"step"`."""
        pandas = optional("pandas", "a frame of errors", "data")
        if by == "variable":
            return pandas.DataFrame(self.rows())
        if by != "step":
            raise ValueError(f"by is {by!r}, expected 'variable' or 'step'")
        rows = []
        for of in self.forecasts:
            metrics = {m: self.errors(m, of) for m in METRICS if self._has(m, of)}
            if of == "forecast":
                metrics |= {f"coverage-{each:g}": self.coverage(each) for each in self.intervals}
            for place, name in enumerate(self.names):
                for step in range(self.horizon):
                    row = {"variable": name, "model": of, "step": step + 1}
                    rows.append(row | {m: float(v[step, place]) for m, v in metrics.items()})
        return pandas.DataFrame(rows)

    def _has(self, metric: str, of: str) -> bool:
        return metric != "pinball" or (of == "forecast" and bool(self.intervals))

    def _all(self, metric: str, of: str) -> np.ndarray:
        """(windows, horizon, variables): the values that a metric averages."""
        if metric not in METRICS:
            raise ValueError(f"metric is {metric!r}, expected one of {', '.join(METRICS)}")
        if of not in self.forecasts:
            raise ValueError(f"of is {of!r}, expected one of {', '.join(self.forecasts)}")
        errors = np.abs(self.forecasts[of] - self.truth)
        if metric == "rmse":
            return errors**2
        if metric == "mase":
            return errors / self.scale[:, None]
        if metric == "pinball":
            return self._pinball()
        return errors

    def _pinball(self) -> np.ndarray:
        """Twice the pinball loss, so that the term of the median is its absolute error."""
        parts = [np.abs(self.forecasts["forecast"] - self.truth)]
        for level, ends in self.intervals.items():
            for side, share in ((0, 0.5 - level / 200), (1, 0.5 + level / 200)):
                short = self.truth - ends[..., side]
                parts.append(2 * np.maximum(share * short, (share - 1) * short))
        return np.mean(parts, axis=0)

    def _inside(self, level: float) -> np.ndarray:
        if level not in self.intervals:
            known = ", ".join(f"{each:g}" for each in self.intervals) or "none"
            raise ValueError(f"level is {level!r}, expected one of {known}")
        ends = self.intervals[level]
        inside = (self.truth >= ends[..., 0]) & (self.truth <= ends[..., 1])
        return np.where(np.isnan(self.truth), np.nan, inside)


def last_origins(data: Table, past: int, horizon: int, windows: int, stride: int) -> np.ndarray:
    """(origins, 2): series and step of the last origins of each with a complete past and horizon.

    A series that is too short for both has one origin, with a shorter past.
    """
    origins = [
        (i, end)
        for i, last in enumerate(len(array) - horizon for array in data.series)
        for end in np.arange(last, max(min(past, last), 1) - 1, -stride)[:windows][::-1]
    ]
    if not origins:
        longest = max(len(array) for array in data.series)
        raise DataError(f"the longest series has {longest} steps, expected more than {horizon=}")
    return np.array(origins)


def compare(
    data: Table,
    origins: np.ndarray,
    targets: list[int],
    seasons: list[int],
    forecasts: np.ndarray,
    percent: list[float] | None,
) -> Backtest:
    """Compare forecasts `(windows, horizon, targets, 1 + 2 levels)` with simple ones.

    `seasons` are steps of a season of each series.
    """
    horizon, rows = forecasts.shape[1], []
    for i, end in origins.tolist():
        past, truth = np.split(data.series[i][: end + horizon, targets], [end])
        rows.append((truth, season_error(past, seasons[i]), *_simple(past, horizon, seasons[i])))
    truth, scale, *simple = map(np.stack, zip(*rows, strict=True))
    ends = {level: forecasts[..., 1 + 2 * i : 3 + 2 * i] for i, level in enumerate(percent or ())}
    names = ("naive", "seasonal naive", "drift")
    return Backtest(
        names=tuple(data.names[i] for i in targets),
        forecasts={"forecast": forecasts[..., 0], **dict(zip(names, simple, strict=True))},
        truth=truth,
        intervals=ends,
        scale=scale,
        season=seasons[max(range(len(seasons)), key=lambda i: len(data.series[i]))],
        times=np.array([data.index[i][end - 1] for i, end in origins]),
        ids=None if data.ids is None else tuple(data.ids[i] for i in origins[:, 0]),
    )


def _simple(past: np.ndarray, horizon: int, season: int) -> tuple[np.ndarray, ...]:
    """Naive, seasonal naive and drift forecasts; missing values are filled with the previous."""
    filled, steps = forward_filled(past), np.arange(horizon)
    last, season = filled[-1:], min(season, len(filled))
    slope = (last - forward_filled(past[::-1])[-1]) / max(len(past) - 1, 1)
    again = filled[len(filled) - season + steps % season]
    return np.repeat(last, horizon, axis=0), again, last + slope * (1 + steps[:, None])


def season_error(past: np.ndarray, season: int) -> np.ndarray:
    """(variables,): the mean absolute difference to the previous season; NaN if it is 0."""
    season = season if len(past) > season else 1
    error = known_mean(np.abs(past[season:] - past[:-season]), 0)
    return np.where(error > 0, error, np.nan)
