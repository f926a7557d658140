"""The settings of a model as a plain dataclass, and two presets."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from linoss._declare import (
    COUNT,
    POSITIVE,
    REQUIRED,
    SHARE,
    Number,
    check_name,
    check_settings,
    declared,
    documented,
    setting,
    shared_with,
    unchecked,
)
from linoss._settings import (
    Feedthrough,
    GapsName,
    GeluName,
    MixerName,
    NormKind,
    Parameterization,
    PoolingName,
    PrecisionName,
    SchemeName,
    StiffnessInit,
    TaskName,
)
from linoss.dynamics import Scheme, find_scheme
from linoss.nn.mixers import MixerKind, check_mixer

MixerLike = MixerName | Callable[..., Any]
"""The name of a mixer, or a class of your own."""
SchemeLike = SchemeName | Scheme
"""The name of a scheme, or a scheme of your own."""
FROM_DATA = ("in_size", "out_size", "task")
"""Settings that follow from data."""


@documented
@dataclass(frozen=True, kw_only=True)
class LinOSSConfig:
    """All settings of a model. The defaults are close to the published runs.

    ```python
    >>> import linoss
    >>> config = linoss.LinOSSConfig(in_size=6, out_size=2, scheme="imex", hidden_size=32)
    >>> config.num_blocks
    4

    ```
    """

    in_size: int = setting(REQUIRED, "Number of channels of the input.", COUNT)
    out_size: int = setting(
        REQUIRED, "Number of classes, of targets, or of forecast variables.", COUNT
    )
    task: TaskName = setting("classification", "Task of the model.")
    hidden_size: int = setting(
        64, "Number of channels between blocks.", COUNT, search=[16, 32, 64, 128]
    )
    state_size: int = setting(
        64,
        "Number of oscillators in each block; a complex pair counts once. For other mixers the "
        "number of states; s4, s4d, s6 and mamba have as many for each channel.",
        COUNT,
        search=[16, 32, 64, 128],
    )
    num_blocks: int = setting(4, "Number of blocks.", COUNT, search=(1, 4))
    mixer: MixerLike = setting(
        "linoss",
        "Sequence-mixing layer: oscillators (linoss), or another model.",
        other="a class of your own",
    )

    scheme: SchemeLike = setting(
        "im", "Discretisation scheme, see linoss.discretize.", other="a Scheme of your own"
    )
    damped: bool = setting(
        False, "Learn a damping for each oscillator.", none="if the scheme has damping"
    )
    parameterization: Parameterization = setting(
        "relu", "Function that makes the stiffness nonnegative."
    )
    stiffness_init: StiffnessInit = setting(
        "uniform",
        "Initial distribution of the stiffness on [0, max_stiffness], or normal.",
    )
    max_stiffness: Number = setting(1.0, "Largest initial stiffness.", POSITIVE)
    min_radius: Number = setting(
        0.9, "Smallest initial modulus of the eigenvalues, with damping.", "(0, 1]"
    )
    timestep: Number | Literal["learned"] = setting(
        "learned", "Timestep of all oscillators, or learned for each one.", POSITIVE
    )
    complex_projections: bool = setting(
        True, "Use complex B and C, computed as pairs of real matrices, instead of real ones."
    )
    feedthrough: Feedthrough = setting("vector", "Shape of the feedthrough matrix D.")
    bias: bool = setting(False, "Add a constant force to the differential equation.")

    norm: NormKind | None = setting(
        "running",
        "Normalisation before each layer: layer norm, batch norm, or batch norm that also uses "
        "running statistics in training.",
    )
    dropout: Number = setting(
        0.05, "Dropout probability, applied after GELU and after GLU.", SHARE, search=(0.0, 0.3)
    )
    shared_dropout: bool = setting(
        False, "Drop the same elements of all cases of a batch, as the published runs do."
    )
    gelu: GeluName = setting(
        "erf", "GELU by the normal distribution (erf), or its tanh form, as in the published runs."
    )
    glu_bias: bool = setting(True, "Use biases in the GLU.")
    bidirectional: bool = setting(
        False, "Also read each sequence backwards; such a model cannot stream."
    )
    precision: PrecisionName = setting(
        "float32",
        "Precision of the factors of matrix products in blocks; sums and all other operations are "
        "in float32.",
    )
    gaps: GapsName = setting(
        "move",
        "States at a missing sample on regular times: advance without forcing (move) or keep their "
        "value (stand). With irregular times, the next interval covers the gap. States of s6, "
        "mamba, lstm, gru and the CDEs, which have no step without input, always keep their value.",
    )

    pooling: PoolingName = setting(
        "mean",
        "Pooling of the features over time: mean, last step, maximum, or several of these "
        "concatenated.",
    )
    every: int | None = setting(
        None, "Give an output at every k-th step.", COUNT, none="one output a sequence"
    )
    squash: bool = setting(
        False, "Regression with every: apply tanh to the output, for targets in [-1, 1]."
    )
    horizon: int | None = setting(
        None, "Number of steps to forecast.", COUNT, none="for other tasks"
    )

    state_blocks: int = setting(
        1,
        "Number of diagonal blocks in the initial state matrix of S5; state_size must be a "
        "multiple of twice this number.",
        COUNT,
    )
    conv_size: int = setting(4, "Kernel size of Mamba's convolution, in samples.", COUNT)
    expansion: int = setting(2, "Ratio of Mamba's inner channels to channels.", COUNT)
    field_width: int = setting(128, "Width of the MLP that is the vector field of a CDE.", COUNT)
    field_depth: int = setting(3, "Number of hidden layers of this MLP.", COUNT)
    field_scale: Number = setting(1.0, "Divisor of the initial weights of this MLP.", POSITIVE)
    signature_depth: int = setting(2, "Depth of the log-signatures of nrde and log-ncde.", "[1, 2]")
    signature_steps: int = setting(8, "Window length of these log-signatures, in samples.", COUNT)
    solver_steps: int = setting(1, "Solver steps of a CDE for each sample or window.", COUNT)

    def __post_init__(self) -> None:
        check_settings(self)
        self._check_combination()

    def _check_combination(self) -> None:
        """Raise for values that exclude each other."""
        check_mixer(self, declared(type(self)))
        if self.damped and not find_scheme(self.scheme).damped:
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
    def from_settings(cls, chosen: Any, **sizes: Any) -> "LinOSSConfig":
        """The model settings of an estimator, which were checked, with `in_size` and `out_size`.

        ```python
        >>> import linoss
        >>> small = linoss.LinOSSClassifier(num_blocks=1, model_options={"pooling": "last"})
        >>> linoss.LinOSSConfig.from_settings(small, in_size=6, out_size=2).pooling
        'last'

        ```
        """
        values, known = shared_with(chosen, cls), declared(cls)
        foreign = MixerKind.of(chosen.mixer).foreign
        for name in foreign & values.keys():  # defaults that only other mixers have
            if values[name] != declared(type(chosen))[name].default:
                raise ValueError(
                    f"{name} is {values[name]!r}, but mixer {chosen.mixer!r} has no such setting"
                )
            values[name] = known[name].default
        if chosen.damped is None:
            values["damped"] = "damped" not in foreign and find_scheme(chosen.scheme).damped
        further = chosen.model_options or {}
        for name, value in further.items():
            check_name([each for each in known if each not in FROM_DATA], name, "model_options")
            known[name].check(value)
        config = unchecked(cls, {**values, **further, **sizes})
        config._check_combination()
        return config

    @classmethod
    def published(cls, **sizes_and_changes: Any) -> "LinOSSConfig":
        """The model of the published runs: the defaults, with GELU in its tanh form, one mask of
        dropout for all cases of a batch, and a tanh for regression at every step.

        ```python
        >>> import linoss
        >>> linoss.LinOSSConfig.published(in_size=6, out_size=2).norm
        'running'

        ```
        """
        squash = sizes_and_changes.get("every") is not None
        fixed: dict[str, Any] = {"gelu": "tanh", "shared_dropout": True, "squash": squash}
        return cls(**{**fixed, **sizes_and_changes})

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
