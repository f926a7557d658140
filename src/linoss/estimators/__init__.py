"""Estimators with the interface of scikit-learn: classifier, regressor, forecaster."""

from linoss.estimators._classifier import LinOSSClassifier
from linoss.estimators._forecaster import LinOSSForecaster
from linoss.estimators._listener import NotANumberWarning
from linoss.estimators._load import load
from linoss.estimators._oscillators import OscillatorClassifier, OscillatorRegressor
from linoss.estimators._regressor import LinOSSRegressor

__all__ = [
    "LinOSSClassifier",
    "LinOSSForecaster",
    "LinOSSRegressor",
    "NotANumberWarning",
    "OscillatorClassifier",
    "OscillatorRegressor",
    "load",
]
