"""Estimators with the scikit-learn interface: classifiers, regressors and a forecaster."""

from linoss._programs import keep_programs
from linoss.estimators._auto import AutoClassifier, AutoRegressor
from linoss.estimators._backtest import Backtest
from linoss.estimators._classifier import LinOSSClassifier
from linoss.estimators._contributions import Contributions
from linoss.estimators._forecaster import LinOSSForecaster
from linoss.estimators._listener import NotANumberWarning
from linoss.estimators._load import load
from linoss.estimators._oscillators import OscillatorClassifier, OscillatorRegressor
from linoss.estimators._regressor import LinOSSRegressor
from linoss.estimators._stack import Choice

keep_programs()

__all__ = [
    "AutoClassifier",
    "AutoRegressor",
    "Backtest",
    "Choice",
    "Contributions",
    "LinOSSClassifier",
    "LinOSSForecaster",
    "LinOSSRegressor",
    "NotANumberWarning",
    "OscillatorClassifier",
    "OscillatorRegressor",
    "load",
]
