"""The settings of a training run: a plain record that can be written down."""

import math
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, get_args

import numpy as np

from linoss import _checks

ScheduleKind = Literal["cosine", "constant"]


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How a model is trained.

    ```python
    >>> from linoss.training import TrainingConfig
    >>> config = TrainingConfig(steps=500, learning_rate=3e-3, warmup=50)
    >>> TrainingConfig.from_dict(config.to_dict()) == config
    True

    ```
    """

    steps: int = 1000
    """Updates of the weights, at most."""
    batch_size: int = 32
    """Cases in an update."""
    learning_rate: int | float = 1e-3
    """Adam's step size, at its highest."""
    warmup: int = 0
    """Updates in which the learning rate rises to that, in equal steps."""
    schedule: ScheduleKind = "cosine"
    """After the warmup: `"cosine"`, falling to 0 at the end, or `"constant"`."""
    weight_decay: int | float = 0.0
    """Decoupled (AdamW), on matrices and D; not on oscillators, biases and norms."""
    clip_norm: int | float | None = 1.0
    """Gradients are scaled down to this norm; None to leave them."""
    evaluate_every: int = 100
    """Updates between evaluations; there is one after the last update in any case."""
    patience: int | None = None
    """Stop when so many evaluations in a row brought no improvement; None to never stop."""
    seed: int = 0
    """Decides the order of the cases and dropout."""

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "evaluate_every"):
            _checks.positive_integer(name, getattr(self, name))
        _checks.positive_number("learning_rate", self.learning_rate)
        _whole_number("warmup", self.warmup, 0, self.steps - 1, "below steps")
        _checks.one_of("schedule", self.schedule, get_args(ScheduleKind))
        _checks.number(
            "weight_decay", self.weight_decay, "a finite number >= 0", lambda x: 0 <= x < math.inf
        )
        if self.clip_norm is not None:
            _checks.positive_number("clip_norm", self.clip_norm)
        if self.patience is not None:
            _checks.positive_integer("patience", self.patience)
        _whole_number("seed", self.seed, 0, 2**32 - 1, "below 2**32")

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in asdict(self).items()
        }

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> "TrainingConfig":
        """From what `to_dict` gave."""
        unknown = set(plain) - {field.name for field in fields(cls)}
        if unknown:
            raise ValueError(f"{min(unknown)!r} is not a setting of TrainingConfig")
        return cls(**plain)

    def goes_on(self, before: Any) -> bool:
        """Whether these settings only lengthen a run whose settings were `before`, from `to_dict`.

        At a constant learning rate they do, if the longer run also evaluates where the other ended:
        up to there, it would be the same.

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
            return False  # from a file that was written by somebody else
        return (
            self.schedule == "constant"
            and shorter.steps < self.steps
            and shorter.steps % self.evaluate_every == 0
            and replace(shorter, steps=self.steps) == self
        )


def _whole_number(name: str, value: Any, low: int, high: int, bound: str) -> None:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or not low <= value <= high:
        raise ValueError(f"{name} is {value!r}, expected a whole number >= {low} and {bound}")
