"""Forecasting: trend and seasonal components, a linear and a trained part, intervals, backtests."""

from linoss.forecasting._backtest import Backtest
from linoss.forecasting._components import Components, Decomposition
from linoss.forecasting._fitted import FittedForecaster
from linoss.forecasting._forecaster import LinOSSForecaster, LinOSSForecasterSettings
from linoss.forecasting._intervals import Calibration
from linoss.forecasting._seasonal_trend import SeasonalTrend

__all__ = [
    "Backtest",
    "Calibration",
    "Components",
    "Decomposition",
    "FittedForecaster",
    "LinOSSForecaster",
    "LinOSSForecasterSettings",
    "SeasonalTrend",
]
