"""Scores of a forecaster, forecasts for figures, and printing of backtests."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from linoss.cli._output import number, show_line, show_table

_MOST_SHOWN = 4  # variables in the figure of a forecast
_TEST_WINDOWS, _TEST_NUMBERS = 200, 3 * 10**6  # windows of the backtest of a test part


@dataclass(frozen=True, eq=False)
class ForecastScore:
    """The score of a forecaster."""

    errors: dict[Any, float]
    """Mean absolute error of each variable, in its unit."""
    deviations: dict[Any, float]
    """The standard deviation of each variable in training, which scales errors."""
    horizon: int
    series: int
    scaled: bool = False
    backtest: Any = field(default=None)

    @property
    def scaled_errors(self) -> dict[Any, float]:
        """Mean absolute error of each variable, in standard deviations."""
        return {name: error / self.deviations[name] for name, error in self.errors.items()}

    @property
    def headline(self) -> tuple[str, float]:
        """The name and value of the main metric."""
        found = self.scaled_errors if self.scaled or len(self.errors) > 1 else self.errors
        name = "MAE" if found is self.errors else "scaled MAE"
        return name, float(np.nanmean(list(found.values())))

    def record(self) -> dict[str, Any]:
        """The score for JSON."""
        scaled = self.scaled_errors
        return {
            "mae": {str(name): error for name, error in self.errors.items()},
            "scaled_mae": {str(name): error for name, error in scaled.items()},
            "mean_scaled_mae": float(np.nanmean(list(scaled.values()))),
            "horizon": self.horizon,
            "series": self.series,
        }

    def rows(self) -> list[tuple[str, ...]]:
        """The rows of a table of variables."""
        scaled = self.scaled_errors
        return [(str(n), number(e), number(scaled[n])) for n, e in self.errors.items()]

    def show(self) -> None:
        """Print it."""
        name, value = self.headline
        show_line(f"{name} {number(value)} over {self.horizon} steps ahead")
        show_table(None, ("variable", "MAE, in its unit", "scaled MAE"), self.rows())


def score_table(
    estimator: Any, table: Any, *, stride: int = 1, scaled: bool = False
) -> ForecastScore:
    """Score a forecaster over the windows of a table."""
    errors = estimator.errors_by_variable(table, stride=stride)
    deviations = dict(zip(errors, estimator.deviation_.tolist(), strict=True))
    return ForecastScore(errors, deviations, estimator.horizon, len(table.series), scaled)


def score_forecasts(
    estimator: Any, training: Any, test: Any
) -> tuple[ForecastScore | None, list["Forecast"]]:
    """The score on the test part, if there is one, and forecasts to show."""
    if test is None:
        return None, last_forecasts(estimator, training)
    return with_backtest(estimator, test, score_table(estimator, test))


def with_backtest(
    estimator: Any, test: Any, score: ForecastScore
) -> tuple[ForecastScore, list["Forecast"]]:
    """The score with a backtest, and forecasts to show."""
    windows = _TEST_NUMBERS // (estimator.horizon * estimator.n_outputs_ * len(test.series))
    found = estimator.backtest(test, windows=max(1, min(_TEST_WINDOWS, windows)))
    return replace(score, backtest=found), last_forecasts(estimator, test)


@dataclass(frozen=True, eq=False)
class Forecast:
    """The end of a variable, and its forecast."""

    name: str
    past: np.ndarray
    truth: np.ndarray
    forecast: np.ndarray
    times: np.ndarray
    """Times of the past, then of the forecast: dates, or steps relative to the last input."""
    intervals: dict[float, np.ndarray]
    """Maps levels in percent to (horizon, 2)."""


def last_forecasts(estimator: Any, table: Any) -> list[Forecast]:
    """Forecasts of the last steps of the first series that is long enough."""
    horizon = estimator.horizon
    chosen = next((i for i, s in enumerate(table.series) if len(s) > horizon), None)
    if chosen is None:
        return []
    series, index = table.series[chosen], table.index[chosen]
    found = estimator.backtest(table.pick([chosen]), windows=1)
    past = slice(-horizon - estimator.past_, -horizon)
    dated = index.dtype.kind == "M"
    times = index if dated else np.arange(len(index)) - (len(index) - horizon) + 1
    targets = [table.names.index(name) for name in found.names]
    return [
        Forecast(
            str(table.names[column]),
            series[past, column],
            found.truth[0, :, place],
            found.forecasts["forecast"][0, :, place],
            np.concatenate([times[past], times[-horizon:]]),
            {each: ends[0, :, place] for each, ends in found.intervals.items()},
        )
        for place, column in enumerate(targets[:_MOST_SHOWN])
    ]


def backtest_of(estimator: Any, score: Any) -> tuple[str, Any]:
    """The backtest of the test part, or of held-out steps; None without either."""
    tested = getattr(score, "backtest", None)
    if tested is not None:
        return "Windows of the test part", tested
    held_out = getattr(estimator, "held_out_", None)
    return (
        "Windows of the held-out end, which was used to select weights and calibrate intervals",
        held_out,
    )


def show_backtest(found: Any) -> None:
    """Print the errors of a backtest for each variable, in its unit."""
    header, rows = backtest_rows(found)
    show_table(None, header, rows)
    show_line(
        f"{len(found.truth)} windows of {found.horizon} steps. MAE, RMSE and pinball are in the "
        f"unit of the variable; MASE is the MAE by that of the value {found.season} steps before."
    )


def backtest_rows(found: Any) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and rows of a table of errors."""
    names = {"mae": "MAE", "rmse": "RMSE", "mase": "MASE", "pinball": "pinball"}
    covered = [f"coverage-{level:g}" for level in found.intervals]
    shares = [f"in {level:g} %" for level in found.intervals]
    header = ("variable", "forecast by", *names.values(), *shares)
    rows = []
    for row in found.rows():
        first = str(row["variable"]) if row["model"] == "forecast" else ""
        model = "this model" if row["model"] == "forecast" else row["model"]
        errors = [number(row.get(metric)) for metric in names]
        parts = [_percent(row.get(name)) for name in covered]
        rows.append((first, model, *errors, *parts))
    return header, rows


def _percent(share: float | None) -> str:
    return "–" if share is None or np.isnan(share) else f"{100 * share:.1f} %"
