"""Oscillatory state-space models for very long sequences."""

import importlib
from typing import TYPE_CHECKING, Any

from linoss.dynamics import (
    Oscillators,
    Transition,
    VaryingTransition,
    discretize,
    eigenvalues,
    expected_eigenvalue_power,
    hamiltonian,
    oscillating_stiffness,
    spectral_radius,
    stable_stiffness,
)
from linoss.nn import (
    Block,
    LinOSS,
    LinOSSConfig,
    LinOSSLayer,
    Stream,
    count_parameters,
    trainable,
)
from linoss.scan import engines, oscillator_scan

if TYPE_CHECKING:
    from linoss.estimators import (
        LinOSSClassifier,
        LinOSSForecaster,
        LinOSSRegressor,
        OscillatorClassifier,
        OscillatorRegressor,
    )
    from linoss.features import OscillatorFeatures

__version__ = "0.1.0"

__all__ = [
    "Block",
    "LinOSS",
    "LinOSSClassifier",
    "LinOSSConfig",
    "LinOSSForecaster",
    "LinOSSLayer",
    "LinOSSRegressor",
    "OscillatorClassifier",
    "OscillatorFeatures",
    "OscillatorRegressor",
    "Oscillators",
    "Stream",
    "Transition",
    "VaryingTransition",
    "count_parameters",
    "discretize",
    "eigenvalues",
    "engines",
    "expected_eigenvalue_power",
    "hamiltonian",
    "oscillating_stiffness",
    "oscillator_scan",
    "spectral_radius",
    "stable_stiffness",
    "trainable",
]

_ROOMS = ("data", "estimators", "experiments", "features", "planning", "search", "training")


def __getattr__(name: str) -> Any:
    """Rooms and estimators when they are asked for: not everybody needs scikit-learn."""
    if name in _ROOMS:
        return importlib.import_module(f"linoss.{name}")
    if name in __all__:
        room = "features" if name == "OscillatorFeatures" else "estimators"
        return getattr(importlib.import_module(f"linoss.{room}"), name)
    raise AttributeError(f"module 'linoss' has no attribute {name!r}")
