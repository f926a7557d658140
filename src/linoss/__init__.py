"""Oscillatory state-space models for very long sequences."""

from linoss.dynamics import (
    Oscillators,
    Transition,
    VaryingTransition,
    discretize,
    eigenvalues,
    expected_eigenvalue_power,
    hamiltonian,
    oscillating_frequencies,
    spectral_radius,
    stable_frequencies,
)
from linoss.estimators import LinOSSClassifier, LinOSSForecaster, LinOSSRegressor
from linoss.nn import (
    LinOSS,
    LinOSSBlock,
    LinOSSConfig,
    LinOSSLayer,
    Stream,
    count_parameters,
    trainable,
)
from linoss.scan import engines, oscillator_scan

__version__ = "0.1.0"

__all__ = [
    "LinOSS",
    "LinOSSBlock",
    "LinOSSClassifier",
    "LinOSSConfig",
    "LinOSSForecaster",
    "LinOSSLayer",
    "LinOSSRegressor",
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
    "oscillating_frequencies",
    "oscillator_scan",
    "spectral_radius",
    "stable_frequencies",
    "trainable",
]
