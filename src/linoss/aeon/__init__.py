"""The estimators with the interface of aeon; needs the extra `data`."""

from linoss._extras import optional

optional("aeon", "linoss.aeon", "data")

from linoss.aeon._estimators import (  # noqa: E402
    LinOSSClassifier,
    LinOSSRegressor,
    OscillatorClassifier,
    OscillatorFeatures,
    OscillatorRegressor,
)

__all__ = [
    "LinOSSClassifier",
    "LinOSSRegressor",
    "OscillatorClassifier",
    "OscillatorFeatures",
    "OscillatorRegressor",
]
