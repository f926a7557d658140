"""Every setting of models, training and estimators, declared once.

A declaration is a type annotated with a `Setting`: its help text, its range or choices, and, if it
is searched by default, the search range. Dataclasses list their settings as fields with defaults:
`LinOSSConfig`, `TrainingConfig`, and the estimator settings below. From these declarations follow
the validation of values, estimator signatures and docstrings, the options of `linoss fit`, `search`
and `plan` with their defaults and usage errors, and docs/settings.md.

To add a setting:

1. Declare its type here.
2. Add a field with its default to each dataclass that has it: `LinOSSConfig` for a setting of the
   model, `TrainingConfig` for one of the training. If estimators and commands also have it, add it
   to their settings below; estimators pass these fields on to the fields of the same name in the
   other two.
3. Use it.
4. Regenerate docs/settings.md: `python -m linoss.cli._settings_page > docs/settings.md`.

This module imports neither JAX nor NumPy, so that commands refuse wrong options at once.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, Protocol, runtime_checkable

from linoss._declare import MODEL, TRAINING, Setting

_model = partial(Setting, group=MODEL)
_training = partial(Setting, group=TRAINING)
_COUNT = "[1, inf)"
_POSITIVE = "(0, inf)"

# ---- The model ----

TaskName = Literal["classification", "regression", "forecasting"]
Task = Annotated[TaskName, Setting("Task of the model.")]
InSize = Annotated[int, Setting("Number of channels of the input.", within=_COUNT)]
OutSize = Annotated[
    int, Setting("Number of classes, of targets, or of forecast variables.", within=_COUNT)
]
HiddenSize = Annotated[
    int, _model("Number of channels between blocks.", within=_COUNT, search=[16, 32, 64, 128])
]
StateSize = Annotated[
    int,
    _model(
        "Number of oscillators in each block; a complex pair counts once. For other mixers the "
        "number of states; s4d, s6 and mamba have as many for each channel.",
        within=_COUNT,
        search=[16, 32, 64, 128],
    ),
]
MixerName = Literal[
    "linoss", "lru", "s5", "s4d", "s6", "mamba", "lstm", "gru", "ncde", "nrde", "log-ncde"
]
Mixer = Annotated[
    MixerName, _model("Sequence-mixing layer: oscillators (linoss), or another model.")
]
StateBlocks = Annotated[
    int,
    _model(
        "Number of diagonal blocks in the initial state matrix of S5; state_size must be a "
        "multiple of twice this number.",
        within=_COUNT,
    ),
]
ConvSize = Annotated[int, _model("Kernel size of Mamba's convolution, in samples.", within=_COUNT)]
Expansion = Annotated[int, _model("Ratio of Mamba's inner channels to channels.", within=_COUNT)]
FieldWidth = Annotated[
    int, _model("Width of the MLP that is the vector field of a CDE.", within=_COUNT)
]
FieldDepth = Annotated[int, _model("Number of hidden layers of this MLP.", within=_COUNT)]
FieldScale = Annotated[
    int | float, _model("Divisor of the initial weights of this MLP.", within=_POSITIVE)
]
SignatureDepth = Annotated[
    int, _model("Depth of the log-signatures of nrde and log-ncde.", within="[1, 2]")
]
SignatureSteps = Annotated[
    int, _model("Window length of these log-signatures, in samples.", within=_COUNT)
]
SolverSteps = Annotated[
    int, _model("Solver steps of a CDE for each sample or window.", within=_COUNT)
]
NumBlocks = Annotated[int, _model("Number of blocks.", within=_COUNT, search=(1, 4))]
SchemeName = Literal["im", "imex", "verlet", "exact"]
Scheme = Annotated[SchemeName, _model("Discretisation scheme, see linoss.discretize.")]
Damped = Annotated[
    bool,
    _model("Learn a damping for each oscillator.", none="if the scheme has damping"),
]
Bidirectional = Annotated[
    bool, _model("Also read each sequence backwards; such a model cannot stream.")
]
NormKind = Annotated[
    Literal["layer", "batch", "running"],
    _model(
        "Normalisation before each layer: layer norm, batch norm, or batch norm that also uses "
        "running statistics in training."
    ),
]
Dropout = Annotated[
    int | float,
    _model(
        "Dropout probability, applied after GELU and after GLU.", within="[0, 1)", search=(0.0, 0.3)
    ),
]
Every = Annotated[
    int,
    _model("Give an output at every k-th step.", within=_COUNT, none="one output a sequence"),
]
Horizon = Annotated[
    int, _model("Number of steps to forecast.", within=_COUNT, none="for other tasks")
]

Parameterization = Annotated[
    Literal["relu", "squared"], _model("Function that makes the stiffness nonnegative.")
]
StiffnessInit = Annotated[
    Literal["uniform", "normal"],
    _model("Initial distribution of the stiffness: uniform on [0, max_stiffness], or normal."),
]
MaxStiffness = Annotated[int | float, _model("Largest initial stiffness.", within=_POSITIVE)]
MinRadius = Annotated[
    int | float,
    _model("Smallest initial modulus of the eigenvalues, with damping.", within="(0, 1]"),
]
Timestep = Annotated[
    int | float | Literal["learned"],
    _model("Timestep of all oscillators, or learned for each one.", within=_POSITIVE),
]
ComplexProjections = Annotated[
    bool, _model("Use complex B and C, computed as pairs of real matrices, instead of real ones.")
]
Feedthrough = Annotated[
    Literal["vector", "dense", "none"], _model("Shape of the feedthrough matrix D.")
]
Bias = Annotated[bool, _model("Add a constant force to the differential equation.")]
GluBias = Annotated[bool, _model("Use biases in the GLU.")]
PoolingName = Literal[
    "mean",
    "last",
    "max",
    "attention",
    "mean+last",
    "mean+max",
    "mean+attention",
    "last+max",
    "last+attention",
    "max+attention",
    "mean+last+max",
    "mean+last+attention",
    "mean+max+attention",
    "last+max+attention",
    "mean+last+max+attention",
]
Pooling = Annotated[
    PoolingName,
    _model(
        "Pooling of the features over time: mean, last step, maximum, mean with learned weights "
        "(attention), or several of these concatenated.",
    ),
]
Squash = Annotated[
    bool, _model("Regression with every: apply tanh to the output, for targets in [-1, 1].")
]
PrecisionName = Literal["float32", "bfloat16"]
Precision = Annotated[
    PrecisionName,
    _model(
        "Precision of the factors of matrix products in blocks; sums and all other operations are "
        "in float32."
    ),
]
GapsName = Literal["move", "stand"]
Gaps = Annotated[
    GapsName,
    _model(
        "States at a missing sample on regular times: advance without forcing (move) or keep their "
        "value (stand). With irregular times, the next interval covers the gap. States of s6, "
        "mamba, lstm, gru and the CDEs, which have no step without input, always keep their value."
    ),
]

# ---- Training ----

Steps = Annotated[
    int,
    _training(
        "Maximum number of updates; 0 keeps the initial weights.",
        within="[0, inf)",
        none="from epochs, or 20 sqrt(n), at least 100, for n cases",
    ),
]
Epochs = Annotated[
    int | float,
    _training(
        "Maximum number of passes over the training cases, instead of steps.",
        within=_POSITIVE,
        none="determined by steps",
    ),
]
MinLoss = Annotated[
    int | float,
    _training(
        "Stop when the mean training loss between evaluations has been below this value for 40 "
        "updates.",
        within="[0, inf)",
    ),
]
BatchSize = Annotated[int, _training("Number of cases in a batch.", within=_COUNT)]
LearningRate = Annotated[
    int | float,
    _training("Peak learning rate of Adam.", within=_POSITIVE, search=(3e-4, 1e-2)),
]
Warmup = Annotated[
    int,
    _training(
        "Number of updates over which the learning rate rises linearly; less than steps.",
        within="[0, inf)",
        none="a tenth of steps, at most 100",
    ),
]
Schedule = Annotated[
    Literal["cosine", "constant"],
    _training("Learning rate after the warmup: cosine decay to 0, or constant."),
]
WeightDecay = Annotated[
    int | float,
    _training(
        "Decoupled weight decay (AdamW) of matrices and D; none for oscillators, biases and norms.",
        within="[0, inf)",
    ),
]
ClipNorm = Annotated[
    int | float,
    _training(
        "Maximum gradient norm; larger gradients are scaled down.",
        within=_POSITIVE,
        none="no clipping",
    ),
]
EvaluateEvery = Annotated[
    int,
    _training(
        "Number of updates between evaluations and checkpoints.",
        within=_COUNT,
        none="a twentieth of steps",
    ),
]
Patience = Annotated[
    int,
    _training(
        "Stop after this number of evaluations without improvement.",
        within=_COUNT,
        none="no early stopping",
    ),
]
Minutes = Annotated[
    int | float,
    _training(
        "Maximum training time in minutes. The learning rate schedule and the evaluations follow "
        "the elapsed time if it is ahead of the number of updates.",
        within="[0, inf)",
        none="no limit",
    ),
]
Seed = Annotated[
    int, Setting("Seed of dropout and of the order of cases.", within="[0, 4294967296)")
]


@runtime_checkable
class RandomStateLike(Protocol):
    """A `numpy.random.RandomState`."""

    def random_sample(self, size: Any = None) -> Any:
        """Numbers in [0, 1)."""
        ...


RandomState = Annotated[
    int | RandomStateLike,
    _training(
        "Seed for reproducible results.",
        within="[0, 4294967296)",
        none="a different one in each fit",
        other="a RandomState",
        option="seed",
    ),
]
ClassWeight = Annotated[
    Literal["balanced"] | Mapping[Any, Any],
    _training(
        "Weights of the classes in the loss; balanced gives all classes the same total weight.",
        other="a dict from class to weight",
    ),
]

Verbose = Annotated[int | bool, Setting("1 to show progress.", within="[0, inf)")]

MEMORY = 10**9
Memory = Annotated[
    int,
    _training(
        "Bytes of intermediate results that an update may keep for the backward pass, in addition "
        "to the inputs of blocks, instead of recomputing them. Does not change results.",
        within="[0, inf)",
    ),
]

NumOscillators = Annotated[
    int | Literal["auto"],
    _model(
        "Number of untrained oscillators, rounded up to a multiple of 16. auto: 8192, or fewer, "
        "but at least 1024, so that the features of all cases take at most 1 GB.",
        within=_COUNT,
        none="only trained models",
    ),
]
Causal = Annotated[
    bool,
    _model("Use only untrained oscillators that read forwards in time, as needed for streaming."),
]

# ---- Estimators ----

TimeChannel = Annotated[bool, _model("Add a channel with the time since the start.")]
ModelOptions = Annotated[
    dict[str, Any] | None,
    _model("Further settings of linoss.LinOSSConfig, by name.", other="a dict"),
]
ValidationFraction = Annotated[
    int | float | None,
    _training(
        "Fraction of the cases, or of the end of each series, held out to select the best weights.",
        within="[0, 1)",
        none="0.1, or 0 for fewer than 500 cases; with several models and fewer than 1000 cases a "
        "different fold for each model; 0.2 for forecasting",
    ),
]
Devices = Annotated[
    int | tuple[int, int] | None,
    Setting(
        "Number of devices to split each batch over, or a pair (batch, time) to also split the "
        "sequences over time.",
        within=_COUNT,
        none="JAX's default device",
        other="a pair of integers",
    ),
]
NumModels = Annotated[
    int | None,
    _training(
        "Number of trained models, each with its own initial weights; their mean predicts.",
        within=_COUNT,
        none="4 for fewer than 1000 cases, otherwise 1",
    ),
]
Patch = Annotated[
    int | None,
    _model(
        "Number of consecutive samples that form one input step of trained models.",
        within=_COUNT,
        none="1 for up to 128 samples, a hundredth of the length otherwise; 1 with times or every",
    ),
]
LabelSmoothing = Annotated[
    int | float,
    _training("Label smoothing: fraction of each target spread over all classes.", within="[0, 1)"),
]
Past = Annotated[
    int | None,
    _training(
        "Length of the input window before a forecast, in steps.",
        within=_COUNT,
        none="3 horizons, at least 96; fewer for short series",
    ),
]
KnownInAdvance = Annotated[
    Collection[Any],
    _training(
        "Variables whose future values are known, such as a calendar, by name or column; they are "
        "inputs and are not forecast.",
        other="names of variables",
        option="known",
    ),
]
Static = Annotated[
    Collection[Any],
    _training(
        "Columns with one value for each series, such as a region: numbers or categories. They are "
        "inputs and are not forecast.",
        other="names of columns",
    ),
]
Base = Annotated[
    bool,
    _training(
        "Add the trained model to a base of trend, seasons and a linear model, fitted in closed "
        "form; without it the trained model forecasts alone, as in the paper."
    ),
]
Levels = Annotated[
    Collection[Any],
    _training(
        "Coverage of the prediction intervals to learn, in percent; a forecast may request others "
        "up to the largest of these.",
        other="numbers between 0 and 100",
    ),
]
Calendar = Annotated[
    bool | Literal["auto"],
    _training("Model yearly, weekly and daily seasons; auto: if the data have dates."),
]
Season = Annotated[
    int | None,
    _training(
        "Period of a further season, in steps.",
        within="[2, inf)",
        none="detected, if the data have no dates",
    ),
]
Trend = Annotated[
    bool | Literal["auto"],
    _training("Extrapolate a damped trend; auto: if it improves forecasts of held-out steps."),
]
Logarithm = Annotated[
    bool | Literal["auto"],
    _training(
        "Forecast the logarithm of each variable; auto: if it improves forecasts of held-out steps."
    ),
]
Normalize = Annotated[
    Literal["auto", "none", "level", "deviation", "difference"],
    _training(
        "Normalisation of each window: none, by its last value (level), by its mean and standard "
        "deviation, or by the previous step (difference); auto: none or level, whichever is better "
        "on held-out steps."
    ),
]
LinOSSOptions = Annotated[
    dict[str, Any] | None,
    Setting("Settings of the trained LinOSS estimator, by name.", other="a dict"),
]


@dataclass(kw_only=True, eq=False, repr=False)
class LinOSSClassifierSettings:
    """Settings of `LinOSSClassifier`. The defaults are chosen for small data."""

    hidden_size: HiddenSize = 64
    state_size: StateSize = 64
    num_blocks: NumBlocks = 2
    mixer: Mixer = "linoss"
    scheme: Scheme = "exact"
    damped: Damped | None = None
    bidirectional: Bidirectional = False
    norm: NormKind | None = "batch"
    dropout: Dropout = 0.2
    precision: Precision = "float32"
    time_channel: TimeChannel = False
    model_options: ModelOptions = None
    pooling: Pooling = "mean"
    patch: Patch = None
    steps: Steps | None = None
    epochs: Epochs | None = None
    batch_size: BatchSize = 32
    learning_rate: LearningRate = 3e-3
    warmup: Warmup | None = None
    schedule: Schedule = "cosine"
    weight_decay: WeightDecay = 0.01
    clip_norm: ClipNorm | None = 1.0
    validation_fraction: ValidationFraction = None
    evaluate_every: EvaluateEvery | None = None
    patience: Patience | None = None
    min_loss: MinLoss = 1e-3
    minutes: Minutes | None = None
    random_state: RandomState | None = None
    devices: Devices = None
    memory: Memory = MEMORY
    verbose: Verbose = 0
    n_models: NumModels = None
    class_weight: ClassWeight | None = None
    label_smoothing: LabelSmoothing = 0.0


@dataclass(kw_only=True, eq=False, repr=False)
class LinOSSRegressorSettings:
    """Settings of `LinOSSRegressor`. The defaults are chosen for small data."""

    hidden_size: HiddenSize = 64
    state_size: StateSize = 64
    num_blocks: NumBlocks = 2
    mixer: Mixer = "linoss"
    scheme: Scheme = "exact"
    damped: Damped | None = None
    bidirectional: Bidirectional = False
    norm: NormKind | None = "batch"
    dropout: Dropout = 0.1
    precision: Precision = "float32"
    time_channel: TimeChannel = False
    model_options: ModelOptions = None
    pooling: Pooling = "mean"
    patch: Patch = None
    steps: Steps | None = None
    epochs: Epochs | None = None
    batch_size: BatchSize = 32
    learning_rate: LearningRate = 3e-3
    warmup: Warmup | None = None
    schedule: Schedule = "cosine"
    weight_decay: WeightDecay = 0.01
    clip_norm: ClipNorm | None = 1.0
    validation_fraction: ValidationFraction = None
    evaluate_every: EvaluateEvery | None = None
    patience: Patience | None = None
    min_loss: MinLoss = 0.0
    minutes: Minutes | None = None
    random_state: RandomState | None = None
    devices: Devices = None
    memory: Memory = MEMORY
    verbose: Verbose = 0
    n_models: NumModels = None
    every: Every | None = None


@dataclass(kw_only=True, eq=False, repr=False)
class LinOSSForecasterSettings:
    """Settings of `LinOSSForecaster`."""

    hidden_size: HiddenSize = 64
    state_size: StateSize = 64
    num_blocks: NumBlocks = 2
    mixer: Mixer = "linoss"
    scheme: Scheme = "exact"
    damped: Damped | None = None
    bidirectional: Bidirectional = False
    norm: NormKind | None = "batch"
    dropout: Dropout = 0.1
    precision: Precision = "float32"
    time_channel: TimeChannel = False
    model_options: ModelOptions = None
    steps: Steps | None = 1000
    epochs: Epochs | None = None
    batch_size: BatchSize = 32
    learning_rate: LearningRate = 2e-3
    warmup: Warmup | None = None
    schedule: Schedule = "cosine"
    weight_decay: WeightDecay = 0.01
    clip_norm: ClipNorm | None = 1.0
    validation_fraction: ValidationFraction = None
    evaluate_every: EvaluateEvery | None = None
    patience: Patience | None = None
    min_loss: MinLoss = 0.0
    minutes: Minutes | None = None
    random_state: RandomState | None = None
    devices: Devices = None
    memory: Memory = MEMORY
    verbose: Verbose = 0
    horizon: Horizon = 24
    past: Past = None
    known_in_advance: KnownInAdvance = ()
    static: Static = ()
    base: Base = True
    levels: Levels = (50, 80, 95)
    calendar: Calendar = "auto"
    season: Season = None
    trend: Trend = "auto"
    logarithm: Logarithm = "auto"
    normalize: Normalize = "auto"


TrainedSettings = LinOSSClassifierSettings | LinOSSRegressorSettings | LinOSSForecasterSettings


# ---- Untrained oscillators ----


@dataclass(kw_only=True, eq=False, repr=False)
class OscillatorRegressorSettings:
    """Settings of `OscillatorRegressor`, and of `OscillatorFeatures`."""

    n_oscillators: NumOscillators = "auto"
    causal: Causal = False
    random_state: RandomState | None = None


@dataclass(kw_only=True, eq=False, repr=False)
class OscillatorClassifierSettings:
    """Settings of `OscillatorClassifier`."""

    n_oscillators: NumOscillators = "auto"
    causal: Causal = False
    random_state: RandomState | None = None
    class_weight: ClassWeight | None = None


# ---- The better of trained models and untrained oscillators ----


@dataclass(kw_only=True, eq=False, repr=False)
class AutoRegressorSettings:
    """Settings of `AutoRegressor`."""

    minutes: Minutes = 2.0
    n_oscillators: NumOscillators = "auto"
    causal: Causal = False
    random_state: RandomState | None = None
    linoss_options: LinOSSOptions = None
    verbose: Verbose = 0


@dataclass(kw_only=True, eq=False, repr=False)
class AutoClassifierSettings:
    """Settings of `AutoClassifier`."""

    minutes: Minutes = 2.0
    n_oscillators: NumOscillators = "auto"
    causal: Causal = False
    random_state: RandomState | None = None
    linoss_options: LinOSSOptions = None
    verbose: Verbose = 0
    class_weight: ClassWeight | None = None


ModelName = Literal["auto", "oscillators", "linoss"]
SETTINGS: dict[tuple[ModelName, TaskName], type[Any]] = {
    ("auto", "classification"): AutoClassifierSettings,
    ("auto", "regression"): AutoRegressorSettings,
    ("oscillators", "classification"): OscillatorClassifierSettings,
    ("oscillators", "regression"): OscillatorRegressorSettings,
    ("linoss", "classification"): LinOSSClassifierSettings,
    ("linoss", "regression"): LinOSSRegressorSettings,
    ("linoss", "forecasting"): LinOSSForecasterSettings,
}
"""The settings of the estimator of each model and task."""
ESTIMATORS: dict[tuple[ModelName, TaskName], str] = {
    (model, task): record.__name__.removesuffix("Settings")
    for (model, task), record in SETTINGS.items()
}
"""The name of this estimator."""
