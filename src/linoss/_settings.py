"""Every setting of models, training and estimators, declared once.

A declaration is a type annotated with a `Setting`: its help, its range or choices, and, if it is
searched by default, the range of the search. A record lists the settings that it has as dataclass
fields, each with a default: `LinOSSConfig`, `TrainingConfig`, and, below, the estimators. All else
follows: checks of values, estimator signatures and their docstrings, the options of `linoss fit`,
`search` and `plan` with their defaults and usage errors, and docs/settings.md.

To add a setting:

1. declare its type here;
2. add a field with its default to each record that has it. A setting of the model belongs to
   `LinOSSConfig`, one of the training to `TrainingConfig`. If estimators and commands shall have
   it, too, it is also a field of `SequenceSettings` or of the settings of one task, below:
   estimators pass such fields on to those of the same name in the other two;
3. use it;
4. write docs/settings.md again: `python -m linoss.cli._settings_page > docs/settings.md`.

This module imports neither JAX nor scikit-learn.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np

from linoss._declare import MODEL, TRAINING, Setting

_model = partial(Setting, group=MODEL)
_training = partial(Setting, group=TRAINING)
_COUNT = "[1, inf)"
_POSITIVE = "(0, inf)"

# ---- The model ----

TaskName = Literal["classification", "regression", "forecasting"]
Task = Annotated[TaskName, Setting("What the model learns.")]
InSize = Annotated[int, Setting("Number of channels of the input.", within=_COUNT)]
OutSize = Annotated[
    int, Setting("Number of classes, of numbers to predict, or of variables.", within=_COUNT)
]
HiddenSize = Annotated[
    int, _model("Number of channels between blocks.", within=_COUNT, search=[16, 32, 64, 128])
]
StateSize = Annotated[
    int,
    _model(
        "Number of oscillators in each block, a complex pair counts once; of other mixers, the "
        "number of states, which s4d, s6 and mamba have for each channel.",
        within=_COUNT,
        search=[16, 32, 64, 128],
    ),
]
MixerName = Literal[
    "linoss", "lru", "s5", "s4d", "s6", "mamba", "lstm", "gru", "ncde", "nrde", "log-ncde"
]
Mixer = Annotated[
    MixerName, _model("What moves information along time: oscillators, or another model.")
]
StateBlocks = Annotated[
    int,
    _model(
        "Number of blocks of S5's state matrix at the start; state_size is a multiple of twice "
        "that.",
        within=_COUNT,
    ),
]
ConvSize = Annotated[
    int, _model("Number of samples that Mamba's convolution reads.", within=_COUNT)
]
Expansion = Annotated[int, _model("Inner channels of Mamba for each channel.", within=_COUNT)]
FieldWidth = Annotated[
    int, _model("Width of the perceptron that is a CDE's vector field.", within=_COUNT)
]
FieldDepth = Annotated[int, _model("Number of its hidden layers.", within=_COUNT)]
FieldScale = Annotated[
    int | float, _model("What its weights are divided by at the start.", within=_POSITIVE)
]
SignatureDepth = Annotated[
    int, _model("Depth of the log-signatures of nrde and log-ncde.", within="[1, 2]")
]
SignatureSteps = Annotated[int, _model("Samples of each of their windows.", within=_COUNT)]
SolverSteps = Annotated[
    int, _model("Steps of a CDE's solver for each sample or window.", within=_COUNT)
]
NumBlocks = Annotated[int, _model("Number of blocks.", within=_COUNT, search=(1, 4))]
SchemeName = Literal["im", "imex", "verlet", "exact"]
Scheme = Annotated[SchemeName, _model("Discretisation, see linoss.discretize.")]
Damped = Annotated[
    bool,
    _model("Learn a damping for each oscillator.", none="if the scheme has damping"),
]
Bidirectional = Annotated[
    bool, _model("Read each sequence from its end, too; such a model cannot stream.")
]
NormKind = Annotated[
    Literal["layer", "batch", "running"],
    _model(
        "Normalisation before each layer: layer norm, batch norm, or batch norm that uses running "
        "statistics in training, too."
    ),
]
Dropout = Annotated[
    int | float,
    _model("Dropout probability, after GELU and after GLU.", within="[0, 1)", search=(0.0, 0.3)),
]
Every = Annotated[
    int,
    _model("Give an answer at every k-th step.", within=_COUNT, none="one answer a sequence"),
]
Horizon = Annotated[
    int, _model("Number of steps to forecast.", within=_COUNT, none="for other tasks")
]

Parameterization = Annotated[
    Literal["relu", "squared"], _model("Function that keeps the stiffness at least 0.")
]
StiffnessInit = Annotated[
    Literal["uniform", "normal"],
    _model("Initial distribution of the stiffness: uniform on [0, max_stiffness], or normal."),
]
MaxStiffness = Annotated[int | float, _model("Largest initial stiffness.", within=_POSITIVE)]
MinRadius = Annotated[
    int | float,
    _model("Smallest initial modulus of eigenvalues, with damping.", within="(0, 1]"),
]
Timestep = Annotated[
    int | float | Literal["learned"],
    _model("Timestep of all oscillators; learned gives each its own.", within=_POSITIVE),
]
ComplexProjections = Annotated[
    bool, _model("Use complex B and C, computed as real pairs, instead of real ones.")
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
        "Features from which a sequence is answered: their mean, those of the last step, the "
        "largest of each, a mean whose weights are learned (attention), or several side by side.",
    ),
]
Squash = Annotated[bool, _model("Regression with every: end in a tanh, for targets in [-1, 1].")]
PrecisionName = Literal["float32", "bfloat16"]
Precision = Annotated[
    PrecisionName,
    _model(
        "Numbers that matrix products of blocks multiply; bfloat16 ones are summed in float32, in "
        "which all else is computed."
    ),
]
GapsName = Literal["move", "stand"]
Gaps = Annotated[
    GapsName,
    _model(
        "What states do at a regular sample without any value: move on without force, as time "
        "passes, or stand still. With irregular times, the next interval is longer; those of s6, "
        "mamba, lstm, gru and of differential equations, which have no step without input, stand."
    ),
]

# ---- Training ----

Steps = Annotated[
    int,
    _training(
        "Number of updates of the weights, at most.",
        within=_COUNT,
        none="epochs, or by the number of cases n: 20 sqrt(n), at least 100",
    ),
]
Epochs = Annotated[
    int | float,
    _training(
        "Number of passes over the training cases, at most, instead of steps.",
        within=_POSITIVE,
        none="steps decides",
    ),
]
MinLoss = Annotated[
    int | float,
    _training(
        "Stop when the mean training loss since the last evaluation is below this.",
        within="[0, inf)",
    ),
]
BatchSize = Annotated[int, _training("Number of cases in an update.", within=_COUNT)]
LearningRate = Annotated[
    int | float,
    _training("Step size of Adam, at its highest.", within=_POSITIVE, search=(3e-4, 1e-2)),
]
Warmup = Annotated[
    int,
    _training(
        "Number of updates in which the learning rate rises, in equal steps; below steps.",
        within="[0, inf)",
        none="a tenth of steps, at most 100",
    ),
]
Schedule = Annotated[
    Literal["cosine", "constant"],
    _training("Learning rate after the warmup: cosine falls to 0 at the end, constant stays."),
]
WeightDecay = Annotated[
    int | float,
    _training(
        "Decoupled weight decay (AdamW) of matrices and D, not of oscillators, biases and norms.",
        within="[0, inf)",
    ),
]
ClipNorm = Annotated[
    int | float,
    _training(
        "Norm to which larger gradients are scaled down.", within=_POSITIVE, none="no clipping"
    ),
]
EvaluateEvery = Annotated[
    int,
    _training(
        "Number of updates between evaluations, and between checkpoints.",
        within=_COUNT,
        none="a twentieth of steps",
    ),
]
Patience = Annotated[
    int,
    _training(
        "Stop after so many evaluations in a row without improvement.",
        within=_COUNT,
        none="never stop early",
    ),
]
Minutes = Annotated[
    int | float,
    _training(
        "Minutes of training, at most: the learning rate falls and evaluations come by the time "
        "that has passed, if it is ahead of the updates.",
        within="[0, inf)",
        none="no limit",
    ),
]
Seed = Annotated[
    int, Setting("Seed of dropout and of the order of the cases.", within="[0, 4294967296)")
]

RandomState = Annotated[
    int | np.random.RandomState,
    _training(
        "Seed of all that is drawn, for reproducible results.",
        within="[0, 4294967296)",
        none="another one in each fit",
        other="a RandomState",
        option="seed",
    ),
]
ClassWeight = Annotated[
    Literal["balanced"] | Mapping[Any, Any],
    _training(
        "Weights of the classes in the loss; balanced gives all classes the same share.",
        other="a dict of the weight of each class",
    ),
]

Verbose = Annotated[int | bool, Setting("1 to show a live line of progress.", within="[0, inf)")]

MEMORY = 10**9
Memory = Annotated[
    int,
    _training(
        "Bytes that an update may keep of its forward pass, beside the inputs of blocks, instead "
        "of computing them again in the backward pass. Results do not depend on it.",
        within="[0, inf)",
    ),
]

NumOscillators = Annotated[
    int | Literal["auto"],
    _model(
        "Number of oscillators that nobody trains, rounded up to a multiple of 16; auto for 8192, "
        "or as many as have a gigabyte of features for all cases, at least 1024.",
        within=_COUNT,
        none="trained models alone",
    ),
]
Causal = Annotated[
    bool, _model("Let oscillators read forwards in time only, as a stream needs it.")
]

# ---- Estimators ----


@dataclass(kw_only=True, eq=False, repr=False)
class SequenceSettings:
    """Settings that all estimators have. The defaults are chosen for small data."""

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
    time_channel: Annotated[bool, _model("Add a channel with the time since the start.")] = False
    model_options: Annotated[
        dict[str, Any] | None,
        _model(
            "Further settings of linoss.LinOSSConfig, by name.",
            other="a dict",
            option="model_option",
        ),
    ] = None
    steps: Steps | None = None
    epochs: Epochs | None = None
    batch_size: BatchSize = 32
    learning_rate: LearningRate = 3e-3
    warmup: Warmup | None = None
    schedule: Schedule = "cosine"
    weight_decay: WeightDecay = 0.01
    clip_norm: ClipNorm | None = 1.0
    validation_fraction: Annotated[
        int | float | None,
        _training(
            "Share of the cases, or of each series' end, held out to choose the best weights.",
            within="[0, 1)",
            none="0.1, but 0 of fewer than 500 cases; several models of fewer than 1000 each leave "
            "out a part of their own; 0.2 for forecasts",
        ),
    ] = None
    evaluate_every: EvaluateEvery | None = None
    patience: Patience | None = None
    min_loss: MinLoss = 0.0
    minutes: Minutes | None = None
    random_state: RandomState | None = None
    devices: Annotated[
        int | tuple[int, int] | None,
        Setting(
            "Number of devices that share each batch, or (batch, time) numbers of devices, which "
            "share sequences, too.",
            within=_COUNT,
            none="the default device of JAX",
            other="a pair of them",
        ),
    ] = None
    memory: Memory = MEMORY
    verbose: Verbose = 0


@dataclass(kw_only=True, eq=False, repr=False)
class LabelledSettings(SequenceSettings):
    """Settings of estimators that learn from labelled cases."""

    n_models: Annotated[
        int | None,
        _training(
            "Number of models that are trained and answer together, each with its own weights.",
            within=_COUNT,
            none="4 of fewer than 1000 cases, otherwise 1",
        ),
    ] = None
    n_oscillators: NumOscillators | None = "auto"
    causal: Causal = False
    pooling: Pooling = "mean"
    patch: Annotated[
        int | None,
        _model(
            "Number of samples that models read as one.",
            within=_COUNT,
            none="1 up to 128 samples, and a hundredth of longer sequences; 1 with times or every",
        ),
    ] = None


@dataclass(kw_only=True, eq=False, repr=False)
class ClassifierSettings(LabelledSettings):
    """Settings of `LinOSSClassifier`."""

    dropout: Dropout = 0.2
    min_loss: MinLoss = 1e-3
    class_weight: ClassWeight | None = None
    label_smoothing: Annotated[
        int | float,
        _training("Share of each target that is spread over all classes.", within="[0, 1)"),
    ] = 0.0


@dataclass(kw_only=True, eq=False, repr=False)
class RegressorSettings(LabelledSettings):
    """Settings of `LinOSSRegressor`."""

    every: Every | None = None


@dataclass(kw_only=True, eq=False, repr=False)
class ForecasterSettings(SequenceSettings):
    """Settings of `LinOSSForecaster`."""

    steps: Steps | None = 1000
    learning_rate: LearningRate = 2e-3
    horizon: Horizon = 24
    past: Annotated[
        int | None,
        _training(
            "Number of steps read before a forecast.",
            within=_COUNT,
            none="3 horizons, at least 96, fewer in short series",
        ),
    ] = None
    known_in_advance: Annotated[
        Collection[Any],
        _training(
            "Variables that are known for the future, such as a calendar, by name or column; they "
            "are inputs and are not forecast.",
            other="names of variables",
            option="known",
        ),
    ] = ()
    static: Annotated[
        Collection[Any],
        _training(
            "Columns with one value for each of many series, such as a region: numbers, or texts "
            "of few kinds. They are inputs and are not forecast.",
            other="names of columns",
        ),
    ] = ()
    base: Annotated[
        bool,
        _training(
            "Stand on trend, seasons and a linear answer, fitted in closed form; without, the "
            "trained model forecasts alone, as in the paper."
        ),
    ] = True
    levels: Annotated[
        Collection[Any],
        _training(
            "Intervals to learn, in percent; a forecast may ask for others that are not wider.",
            other="numbers between 0 and 100",
        ),
    ] = (50, 80, 95)
    calendar: Annotated[
        bool | Literal["auto"],
        _training("Expect years, weeks and days; auto for data with dates."),
    ] = "auto"
    season: Annotated[
        int | None,
        _training(
            "Steps of a season that the calendar does not have.",
            within="[2, inf)",
            none="what the data repeat, if they have no dates",
        ),
    ] = None
    trend: Annotated[
        bool | Literal["auto"],
        _training("Expect a trend that goes on for a while; auto if held-out steps agree."),
    ] = "auto"
    logarithm: Annotated[
        bool | Literal["auto"],
        _training("Forecast the logarithm of each variable; auto if held-out steps agree."),
    ] = "auto"
    normalize: Annotated[
        Literal["auto", "none", "level", "deviation", "difference"],
        _training(
            "What a window is read relative to: nothing, its last value, its mean and deviation, "
            "or the step before; auto for none or level, as held-out steps say."
        ),
    ] = "auto"


# ---- Oscillators without training ----


@dataclass(kw_only=True, eq=False, repr=False)
class OscillatorSettings:
    """Settings of `OscillatorFeatures`, and of the estimators that read them."""

    n_oscillators: NumOscillators = "auto"
    causal: Causal = False
    random_state: RandomState | None = None


@dataclass(kw_only=True, eq=False, repr=False)
class OscillatorClassifierSettings(OscillatorSettings):
    """Settings of `OscillatorClassifier`."""

    class_weight: ClassWeight | None = None


# ---- The better of both ----


@dataclass(kw_only=True, eq=False, repr=False)
class AutoSettings:
    """Settings of `AutoRegressor`."""

    minutes: Minutes = 2.0
    n_oscillators: NumOscillators = "auto"
    causal: Causal = False
    random_state: RandomState | None = None
    linoss_options: Annotated[
        dict[str, Any] | None,
        Setting("Settings of the LinOSS model that is trained, by name.", other="a dict"),
    ] = None
    verbose: Verbose = 0


@dataclass(kw_only=True, eq=False, repr=False)
class AutoClassifierSettings(AutoSettings):
    """Settings of `AutoClassifier`."""

    class_weight: ClassWeight | None = None


ModelName = Literal["auto", "oscillators", "linoss"]
SETTINGS: dict[tuple[ModelName, TaskName], type[Any]] = {
    ("auto", "classification"): AutoClassifierSettings,
    ("auto", "regression"): AutoSettings,
    ("oscillators", "classification"): OscillatorClassifierSettings,
    ("oscillators", "regression"): OscillatorSettings,
    ("linoss", "classification"): ClassifierSettings,
    ("linoss", "regression"): RegressorSettings,
    ("linoss", "forecasting"): ForecasterSettings,
}
"""The settings of the estimator of each model and task."""
