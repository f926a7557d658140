"""Estimators of sequences with the scikit-learn interface: classifiers and regressors."""

from linoss.estimators._auto import AutoClassifier, AutoRegressor
from linoss.estimators._oscillators import OscillatorClassifier, OscillatorRegressor
from linoss.estimators._trained import LinOSSClassifier, LinOSSRegressor

__all__ = [
    "AutoClassifier",
    "AutoRegressor",
    "LinOSSClassifier",
    "LinOSSRegressor",
    "OscillatorClassifier",
    "OscillatorRegressor",
]
