"""The settings of a model as a plain dataclass, and two presets."""

from dataclasses import dataclass
from typing import Any

from linoss import _settings as settings
from linoss._declare import check_settings, declared, documented, shared_with
from linoss.dynamics import SCHEMES
from linoss.nn.mixers import MIXERS, check_mixer

_FROM_DATA = ("in_size", "out_size", "task")


@documented
@dataclass(frozen=True, kw_only=True)
class LinOSSConfig:
    """All settings of a model. The defaults are those of the published runs.

    ```python
    >>> import linoss
    >>> config = linoss.LinOSSConfig(in_size=6, out_size=2, scheme="imex", hidden_size=32)
    >>> config.num_blocks
    4

    ```
    """

    in_size: settings.InSize
    out_size: settings.OutSize
    hidden_size: settings.HiddenSize = 64
    state_size: settings.StateSize = 64
    num_blocks: settings.NumBlocks = 4
    task: settings.Task = "classification"
    mixer: settings.Mixer = "linoss"
    state_blocks: settings.StateBlocks = 1
    conv_size: settings.ConvSize = 4
    expansion: settings.Expansion = 2
    field_width: settings.FieldWidth = 128
    field_depth: settings.FieldDepth = 3
    field_scale: settings.FieldScale = 1.0
    signature_depth: settings.SignatureDepth = 2
    signature_steps: settings.SignatureSteps = 8
    solver_steps: settings.SolverSteps = 1

    scheme: settings.Scheme = "im"
    parameterization: settings.Parameterization = "relu"
    stiffness_init: settings.StiffnessInit = "uniform"
    max_stiffness: settings.MaxStiffness = 1.0
    damped: settings.Damped = False
    min_radius: settings.MinRadius = 0.9
    timestep: settings.Timestep = "learned"

    complex_projections: settings.ComplexProjections = True
    feedthrough: settings.Feedthrough = "vector"
    bias: settings.Bias = False
    norm: settings.NormKind | None = "running"
    dropout: settings.Dropout = 0.05
    glu_bias: settings.GluBias = True
    bidirectional: settings.Bidirectional = False
    precision: settings.Precision = "float32"
    gaps: settings.Gaps = "move"

    pooling: settings.Pooling = "mean"
    every: settings.Every | None = None
    squash: settings.Squash = False
    horizon: settings.Horizon | None = None

    def __post_init__(self) -> None:
        check_settings(self)
        check_mixer(self, declared(type(self)))
        if self.damped and not SCHEMES[self.scheme].damped:
            raise ValueError(f"damped is True, but scheme {self.scheme!r} has no damping")
        for name, task in (("every", "regression"), ("horizon", "forecasting")):
            value = getattr(self, name)
            if value is not None and self.task != task:
                raise ValueError(f"{name} is {value}, but task is {self.task!r}, not {task!r}")
        if self.task == "forecasting" and self.horizon is None:
            raise ValueError("horizon is None, expected a number of steps for task 'forecasting'")
        if self.squash and self.every is None:
            raise ValueError(
                "squash is True, but every is None: it is for outputs at every k-th step"
            )

    @classmethod
    def from_settings(cls, chosen: settings.TrainedSettings, **sizes: Any) -> "LinOSSConfig":
        """The model settings of an estimator, with `in_size`, `out_size` and `task`.

        ```python
        >>> import linoss
        >>> from linoss._settings import LinOSSClassifierSettings
        >>> small = LinOSSClassifierSettings(num_blocks=1, model_options={"pooling": "last"})
        >>> linoss.LinOSSConfig.from_settings(small, in_size=6, out_size=2).pooling
        'last'

        ```
        """
        check_settings(chosen)
        values = shared_with(chosen, cls)
        foreign = MIXERS[chosen.mixer].foreign
        for name, setting in declared(type(chosen)).items():
            if name in foreign and values[name] == setting.default:
                del values[name]  # a default that only another mixer has
        if "scheme" in values and chosen.damped is None:
            values["damped"] = SCHEMES[chosen.scheme].damped
        further = chosen.model_options or {}
        known = [name for name in declared(cls) if name not in _FROM_DATA]
        for name in further:
            if name not in known:
                raise ValueError(
                    f"model_options has {name!r}, expected settings of LinOSSConfig: "
                    f"{', '.join(known)}"
                )
        return cls(**{**values, **further, **sizes})

    @classmethod
    def published(cls, **sizes_and_changes: Any) -> "LinOSSConfig":
        """The model of the published runs: the defaults, with a tanh for regression at every step.

        ```python
        >>> import linoss
        >>> linoss.LinOSSConfig.published(in_size=6, out_size=2).norm
        'running'

        ```
        """
        squash = sizes_and_changes.get("every") is not None
        return cls(**{"squash": squash, **sizes_and_changes})

    @classmethod
    def algorithm1(cls, **sizes_and_changes: Any) -> "LinOSSConfig":
        """The model of the paper's text: timestep 1, real B and C, a dense D, a bias in the
        differential equation, no norm, no dropout, a GLU without biases, and the output at the
        final time.

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
