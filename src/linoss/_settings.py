"""Names of tasks, models and choices, and the types of settings that several rooms check.

A setting itself is declared where it is used: those of a model in `LinOSSConfig`, of a training in
`TrainingConfig`, of estimators in `linoss.fitted` and `linoss.features`. This module imports
neither JAX nor NumPy, so that `linoss --help` is quick.
"""

from typing import Annotated, Any, Literal, Protocol, runtime_checkable

TaskName = Literal["classification", "regression", "forecasting"]
ModelName = Literal["auto", "oscillators", "linoss"]
MixerName = Literal[
    "linoss", "lru", "s5", "s4d", "s4", "s6", "mamba", "lstm", "gru", "ncde", "nrde", "log-ncde"
]
SchemeName = Literal["im", "imex", "verlet", "exact"]
ESTIMATORS: dict[tuple[ModelName, TaskName], str] = {
    ("auto", "classification"): "AutoClassifier",
    ("auto", "regression"): "AutoRegressor",
    ("oscillators", "classification"): "OscillatorClassifier",
    ("oscillators", "regression"): "OscillatorRegressor",
    ("linoss", "classification"): "LinOSSClassifier",
    ("linoss", "regression"): "LinOSSRegressor",
    ("linoss", "forecasting"): "LinOSSForecaster",
}
"""The estimator of each model and task."""

NormKind = Literal["layer", "batch", "running"]
Parameterization = Literal["relu", "squared"]
StiffnessInit = Literal["uniform", "uniform-root", "normal"]
Feedthrough = Literal["vector", "dense", "none"]
GeluName = Literal["erf", "tanh"]
PrecisionName = Literal["float32", "bfloat16"]
GapsName = Literal["move", "stand"]
PoolingName = Literal["mean", "last", "max", "mean+last", "mean+max", "last+max", "mean+last+max"]

Timestep = Annotated[int | float | Literal["learned"], "(0, inf)"]
Dropout = Annotated[int | float, "[0, 1)"]
Memory = Annotated[int, "[0, inf)"]
MEMORY = 10**9
"""Bytes that an update may keep for the backward pass, by default."""


@runtime_checkable
class RandomStateLike(Protocol):
    """A `numpy.random.RandomState`."""

    def random_sample(self, size: Any = None) -> Any:
        """Numbers in [0, 1)."""
        ...
