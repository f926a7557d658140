"""Settings of estimators with trained models.

They pass on fields to those of the same name in `LinOSSConfig` and `TrainingConfig`, where their
meaning is declared; the defaults here are chosen for small data.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from linoss._declare import COUNT, POSITIVE, SHARE, Number, setting
from linoss._settings import MEMORY, NormKind, PrecisionName, RandomStateLike
from linoss.features import OscillatorSettings
from linoss.nn import LinOSSConfig, MixerLike, SchemeLike
from linoss.training import TrainingConfig


@dataclass(kw_only=True, eq=False, repr=False)
class TrainedSettings:
    """Settings of all estimators with trained models."""

    configs: ClassVar[tuple[type, ...]] = (LinOSSConfig, TrainingConfig, OscillatorSettings)

    hidden_size: int = 64
    state_size: int = 64
    num_blocks: int = 2
    mixer: MixerLike = "linoss"
    scheme: SchemeLike = "exact"
    damped: bool | None = None
    bidirectional: bool = False
    norm: NormKind | None = "batch"
    dropout: Number = 0.1
    precision: PrecisionName = "float32"
    time_channel: bool = setting(False, "Add a channel with the time since the start.")
    model_options: dict[str, Any] | None = setting(
        None, "Further settings of linoss.LinOSSConfig, by name.", other="a dict"
    )

    steps: int | None = None
    epochs: Number | None = setting(
        None,
        "Maximum number of passes over the training cases, instead of steps.",
        POSITIVE,
        none="determined by steps",
    )
    batch_size: int = 32
    learning_rate: Number = 3e-3
    warmup: int | None = None
    schedule: Literal["cosine", "constant"] = "cosine"
    weight_decay: Number = 0.01
    clip_norm: Number | None = 1.0
    validation_fraction: Number | None = setting(
        None,
        "Fraction of the cases, or of the end of each series, held out to select the best weights.",
        SHARE,
        none="0.1, or 0 for fewer than 500 cases; with several models and fewer than 1000 cases a "
        "different fold for each model; 0.2 for forecasting",
    )
    evaluate_every: int | None = None
    patience: int | None = None
    min_loss: Number = 0.0
    minutes: Number | None = None
    random_state: int | RandomStateLike | None = None
    devices: int | tuple[int, int] | None = setting(
        None,
        "Number of devices to split each batch over, or a pair (batch, time) to also split the "
        "sequences over time.",
        COUNT,
        none="JAX's default device",
        other="a pair of integers",
    )
    memory: int = setting(
        MEMORY,
        "Bytes of intermediate results that an update may keep for the backward pass, in addition "
        "to the inputs of blocks, instead of recomputing them. Does not change results.",
        "[0, inf)",
    )
    verbose: int | bool = setting(0, "1 to show progress.", "[0, inf)")
