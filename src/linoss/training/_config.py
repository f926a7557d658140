"""The settings of a training run as a plain dataclass."""

import math
from dataclasses import dataclass
from typing import Any, Literal

from linoss._declare import (
    COUNT,
    POSITIVE,
    Number,
    check_settings,
    documented,
    setting,
    shared_with,
    unchecked,
)
from linoss._plain import plain

_UPDATES, _FEWEST = 20, 100  # updates for n cases: 20 sqrt(n), at least 100


@documented
@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """The settings of a training run.

    ```python
    >>> from linoss.training import TrainingConfig
    >>> config = TrainingConfig(steps=500, learning_rate=3e-3, warmup=50)
    >>> TrainingConfig.from_dict(config.to_dict()) == config
    True

    ```
    """

    steps: int = setting(
        1000,
        "Maximum number of updates; 0 keeps the initial weights.",
        "[0, inf)",
        none="from epochs, or 20 sqrt(n), at least 100, for n cases",
    )
    batch_size: int = setting(32, "Number of cases in a batch.", COUNT)
    learning_rate: Number = setting(
        1e-3, "Peak learning rate of Adam.", POSITIVE, search=(3e-4, 1e-2)
    )
    warmup: int = setting(
        0,
        "Number of updates over which the learning rate rises linearly; less than steps.",
        "[0, inf)",
        none="a tenth of steps, at most 100",
    )
    schedule: Literal["cosine", "constant"] = setting(
        "cosine", "Learning rate after the warmup: cosine decay to 0, or constant."
    )
    weight_decay: Number = setting(
        0.0,
        "Decoupled weight decay (AdamW) of matrices and D; none for oscillators, biases and norms.",
        "[0, inf)",
    )
    clip_norm: Number | None = setting(
        1.0,
        "Maximum gradient norm; larger gradients are scaled down.",
        POSITIVE,
        none="no clipping",
    )
    evaluate_every: int = setting(
        100,
        "Number of updates between evaluations and checkpoints.",
        COUNT,
        none="a twentieth of steps",
    )
    patience: int | None = setting(
        None,
        "Stop after this number of evaluations without improvement.",
        COUNT,
        none="no early stopping",
    )
    min_loss: Number = setting(
        0.0,
        "Stop when the mean training loss between evaluations has been below this value for 40 "
        "updates.",
        "[0, inf)",
    )
    minutes: Number | None = setting(
        None,
        "Maximum training time in minutes. The learning rate schedule and the evaluations follow "
        "the elapsed time if it is ahead of the number of updates.",
        "[0, inf)",
        none="no limit",
    )
    seed: int = setting(0, "Seed of dropout and of the order of cases.", "[0, 4294967296)")

    def __post_init__(self) -> None:
        check_settings(self)
        self._check_combination()

    def _check_combination(self) -> None:
        if self.warmup >= max(self.steps, 1):
            raise ValueError(
                f"warmup is {self.warmup}, expected an integer below steps, {self.steps}"
            )

    @classmethod
    def from_settings(cls, chosen: Any, seed: int, cases: int) -> "TrainingConfig":
        """The training settings of an estimator, which were checked, for that many cases.

        ```python
        >>> import linoss
        >>> from linoss.training import TrainingConfig
        >>> estimator = linoss.LinOSSClassifier(epochs=10)
        >>> TrainingConfig.from_settings(estimator, seed=0, cases=320).steps
        100
        >>> TrainingConfig.from_settings(linoss.LinOSSClassifier(), seed=0, cases=10_000).steps
        2000

        ```
        """
        values = shared_with(chosen, cls)
        devices = chosen.devices[0] if isinstance(chosen.devices, tuple) else chosen.devices or 1
        batch = min(values["batch_size"], max(cases - cases % devices, 1))
        values["batch_size"] = batch
        if chosen.epochs is not None:
            if chosen.steps is not None:
                raise ValueError(
                    f"epochs is {chosen.epochs}, but steps is {chosen.steps}; set one of them"
                )
            values["steps"] = max(round(chosen.epochs * (cases // batch)), 1)
        elif chosen.steps is None:
            values["steps"] = max(round(_UPDATES * math.sqrt(cases)), _FEWEST)
        steps = values["steps"]
        if chosen.warmup is None:
            values["warmup"] = min(100, steps // 10)
        if chosen.evaluate_every is None:
            values["evaluate_every"] = max(steps // 20, 1)
        config = unchecked(cls, {**values, "seed": seed})
        config._check_combination()
        return config

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return plain(self)

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> "TrainingConfig":
        """The inverse of `to_dict`."""
        return cls(**record)
