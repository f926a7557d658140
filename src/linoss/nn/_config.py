"""The settings of a model: a plain record that can be written down, and two presets."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

from linoss import _checks
from linoss.dynamics import SCHEMES, Parameterization, StiffnessInit
from linoss.nn._heads import Pooling
from linoss.nn._layer import Feedthrough
from linoss.nn._norm import NormKind

Task = Literal["classification", "regression", "forecasting"]

_CHOICES = {
    "task": get_args(Task),
    "scheme": tuple(SCHEMES),
    "parameterization": get_args(Parameterization),
    "stiffness_init": get_args(StiffnessInit),
    "feedthrough": get_args(Feedthrough),
    "norm": (None, *get_args(NormKind)),
    "pooling": get_args(Pooling),
}


@dataclass(frozen=True, kw_only=True)
class LinOSSConfig:
    """All that defines a model but its weights. The defaults are those of the published runs.

    ```python
    >>> import linoss
    >>> config = linoss.LinOSSConfig(in_size=6, out_size=2, scheme="imex", hidden_size=32)
    >>> config.num_blocks
    4

    ```
    """

    in_size: int
    """Channels of the input."""
    out_size: int
    """Classes, numbers to predict, or variables to forecast."""
    hidden_size: int = 64
    """Channels between blocks."""
    state_size: int = 64
    """Oscillators in each block; a complex one counts once."""
    num_blocks: int = 4
    """Blocks."""
    task: Task = "classification"
    """Which head: `"classification"`, `"regression"` or `"forecasting"`."""

    scheme: str = "im"
    """Discretisation, see [`linoss.discretize`][]."""
    parameterization: Parameterization = "relu"
    """How A is kept at least 0: `"relu"` or `"squared"`."""
    stiffness_init: StiffnessInit = "uniform"
    """How A starts: `"uniform"` on [0, `max_stiffness`], or `"normal"`."""
    max_stiffness: int | float = 1.0
    """Largest A at the start."""
    damped: bool = False
    """With learned damping, started on a ring of eigenvalues."""
    min_radius: int | float = 0.9
    """Smallest modulus of these eigenvalues."""
    timestep: int | float | Literal["learned"] = "learned"
    """The timestep of all oscillators, or `"learned"`, one for each."""

    complex_projections: bool = True
    """B and C complex (computed as real pairs), or real."""
    feedthrough: Feedthrough = "vector"
    """D as a `"vector"`, `"dense"` or `"none"`."""
    bias: bool = False
    """With a constant force b in the differential equation."""
    norm: NormKind | None = "running"
    """Norm before each layer: `None`, `"layer"`, `"batch"` or `"running"`."""
    dropout: int | float = 0.05
    """Probability, after GELU and after GLU."""
    glu_bias: bool = True
    """Biases in the GLU."""
    bidirectional: bool = False
    """With a second layer in each block that reads backwards."""

    pooling: Pooling = "mean"
    """One answer from the `"mean"` or the `"last"` features of a sequence."""
    every: int | None = None
    """Regression: an answer at every k-th step; None for one a sequence."""
    squash: bool = False
    """Regression with `every`: a final tanh, for targets in [-1, 1]."""
    horizon: int | None = None
    """Forecasting: how many steps ahead."""

    def __post_init__(self) -> None:
        for name in ("in_size", "out_size", "hidden_size", "state_size", "num_blocks"):
            _checks.positive_integer(name, getattr(self, name))
        for name in (
            "damped",
            "complex_projections",
            "bias",
            "glu_bias",
            "bidirectional",
            "squash",
        ):
            _checks.boolean_option(name, getattr(self, name))
        for name, choices in _CHOICES.items():
            _checks.one_of(name, getattr(self, name), choices)
        if self.damped and not SCHEMES[self.scheme].damped:
            raise ValueError(f"damped is True, but scheme {self.scheme!r} has no damping")
        _checks.positive_number("max_stiffness", self.max_stiffness)
        _checks.number("min_radius", self.min_radius, "a number in (0, 1]", lambda r: 0 < r <= 1)
        _checks.number("dropout", self.dropout, "a number in [0, 1)", lambda rate: 0 <= rate < 1)
        _checks.timestep_option("timestep", self.timestep)
        for name, task in (("every", "regression"), ("horizon", "forecasting")):
            value = getattr(self, name)
            if value is not None:
                _checks.positive_integer(name, value)
                if self.task != task:
                    raise ValueError(f"{name} is {value}, but task is {self.task!r}, not {task!r}")
        if self.task == "forecasting" and self.horizon is None:
            raise ValueError("horizon is None, expected a number of steps for task 'forecasting'")
        if self.squash and self.every is None:
            raise ValueError(
                "squash is True, but every is None: it is for answers at every k-th step"
            )

    @classmethod
    def published(cls, **sizes_and_changes: Any) -> "LinOSSConfig":
        """As the published runs: learned timesteps, complex B and C, a vector D, running-statistics
        batch norm, dropout 0.05, GLU with biases, mean pooling, tanh in regression at every step.

        ```python
        >>> import linoss
        >>> linoss.LinOSSConfig.published(in_size=6, out_size=2).norm
        'running'

        ```
        """
        fixed: dict[str, Any] = {
            "timestep": "learned",
            "complex_projections": True,
            "feedthrough": "vector",
            "bias": False,
            "norm": "running",
            "dropout": 0.05,
            "glu_bias": True,
            "pooling": "mean",
            "squash": sizes_and_changes.get("every") is not None,
        }
        return cls(**{**fixed, **sizes_and_changes})

    @classmethod
    def algorithm1(cls, **sizes_and_changes: Any) -> "LinOSSConfig":
        """As the paper's text: timestep 1, real B and C, a dense D, a bias in the differential
        equation, neither norm nor dropout, GLU without biases, the answer at the final time.

        ```python
        >>> import linoss
        >>> linoss.LinOSSConfig.algorithm1(in_size=6, out_size=2).timestep
        1.0

        ```
        """
        fixed: dict[str, Any] = {
            "timestep": 1.0,
            "complex_projections": False,
            "feedthrough": "dense",
            "bias": True,
            "norm": None,
            "dropout": 0.0,
            "glu_bias": False,
            "pooling": "last",
        }
        return cls(**{**fixed, **sizes_and_changes})
