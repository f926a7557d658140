"""Oscillatory state-space models for very long sequences."""

# ruff: noqa: F403, F405, which cannot look into packages

import importlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from linoss.dynamics import *
    from linoss.estimators import *
    from linoss.features import OscillatorFeatures
    from linoss.forecasting import LinOSSForecaster
    from linoss.nn import *
    from linoss.scan import engines, oscillator_scan

__version__ = "0.1.0"

__all__ = [
    "AutoClassifier", "AutoRegressor", "Block", "LinOSS", "LinOSSClassifier", "LinOSSConfig",
    "LinOSSForecaster", "LinOSSLayer", "LinOSSRegressor", "OscillatorClassifier",
    "OscillatorFeatures", "OscillatorRegressor", "Oscillators", "Stream", "Transition",
    "VaryingTransition", "count_parameters", "discretize", "eigenvalues", "engines",
    "expected_eigenvalue_power", "hamiltonian", "load", "oscillating_stiffness", "oscillator_scan",
    "spectral_radius", "stable_stiffness", "trainable",
]  # fmt: skip

_ROOMS = (
    "dynamics", "scan", "features", "nn", "data", "training", "fitted", "estimators", "forecasting",
    "search", "planning", "export", "aeon", "sktime",
)  # fmt: skip
_DOORS = ("dynamics", "scan", "nn", "estimators", "forecasting", "features")
"""The packages of the names above, in the order in which they are searched."""


def load(directory: str | os.PathLike[str], *, allow_import: bool = False) -> Any:
    """Load an estimator that was saved to a directory, or trained there.

    Loading executes no code, but for importing your own mixer or scheme with `allow_import`.

    ```python
    >>> import linoss, numpy as np, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> regressor = linoss.OscillatorRegressor(n_oscillators=64, random_state=0)
    >>> regressor.fit(np.random.default_rng(0).normal(size=(20, 30)), np.arange(20.0)).save(folder)
    >>> linoss.load(folder).n_oscillators
    64

    ```
    """
    from linoss._settings import ESTIMATORS
    from linoss.training import read_extra

    name = str(read_extra(directory).get("estimator"))
    if name not in ESTIMATORS.values():
        raise ValueError(f"{os.fspath(directory)} holds a model, but no estimator")
    return __getattr__(name).load(directory, allow_import=allow_import)


def __getattr__(name: str) -> Any:
    """Import packages on first use, because JAX and scikit-learn take seconds to import."""
    if name in _ROOMS:
        return importlib.import_module(f"linoss.{name}")
    if name in __all__:
        for room in _DOORS:
            module = importlib.import_module(f"linoss.{room}")
            if name in module.__all__:
                return getattr(module, name)
    raise AttributeError(f"module 'linoss' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_ROOMS})
