"""The settings of a training run as a plain dataclass."""

import math
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from linoss import _settings as settings
from linoss._declare import check_settings, documented, shared_with
from linoss._plain import scalar

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

    steps: settings.Steps = 1000
    batch_size: settings.BatchSize = 32
    learning_rate: settings.LearningRate = 1e-3
    warmup: settings.Warmup = 0
    schedule: settings.Schedule = "cosine"
    weight_decay: settings.WeightDecay = 0.0
    clip_norm: settings.ClipNorm | None = 1.0
    evaluate_every: settings.EvaluateEvery = 100
    patience: settings.Patience | None = None
    min_loss: settings.MinLoss = 0.0
    minutes: settings.Minutes | None = None
    seed: settings.Seed = 0

    def __post_init__(self) -> None:
        check_settings(self)
        if self.warmup >= max(self.steps, 1):
            raise ValueError(
                f"warmup is {self.warmup}, expected an integer below steps, {self.steps}"
            )

    @classmethod
    def from_settings(
        cls, chosen: settings.TrainedSettings, seed: int, cases: int
    ) -> "TrainingConfig":
        """The training settings of an estimator, for that many cases.

        ```python
        >>> from linoss._settings import LinOSSClassifierSettings
        >>> from linoss.training import TrainingConfig
        >>> settings = LinOSSClassifierSettings(epochs=10)
        >>> TrainingConfig.from_settings(settings, seed=0, cases=320).steps
        100
        >>> TrainingConfig.from_settings(LinOSSClassifierSettings(), seed=0, cases=10_000).steps
        2000

        ```
        """
        check_settings(chosen)
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
        return cls(**values, seed=seed)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {name: scalar(value) for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> "TrainingConfig":
        """The inverse of `to_dict`."""
        unknown = set(plain) - {field.name for field in fields(cls)}
        if unknown:
            raise ValueError(f"{min(unknown)!r} is not a setting of TrainingConfig")
        return cls(**plain)

    def goes_on(self, before: Any) -> bool:
        """Whether these settings extend a run with the settings `before`, from `to_dict`.

        They do at a constant learning rate, if the longer run also has an evaluation where the
        shorter one ended: the runs are then equal up to that step.

        ```python
        >>> from linoss.training import TrainingConfig
        >>> short = TrainingConfig(steps=500, schedule="constant", evaluate_every=50)
        >>> longer = TrainingConfig(steps=800, schedule="constant", evaluate_every=50)
        >>> longer.goes_on(short.to_dict()), short.goes_on(longer.to_dict())
        (True, False)

        ```
        """
        try:
            shorter = self.from_dict(before)
        except (TypeError, ValueError):
            return False  # settings from a file of another origin
        return (
            self.schedule == "constant"
            and shorter.steps < self.steps
            and shorter.steps % self.evaluate_every == 0
            and replace(shorter, steps=self.steps) == self
        )
