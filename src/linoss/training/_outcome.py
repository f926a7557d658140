"""The result of a training: the model, the history and the final step."""

from dataclasses import dataclass
from typing import Any

from linoss.nn import LinOSS

Record = dict[str, Any]
"""One line of the history: step, loss, metric, best, learning_rate, seconds."""


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """The result of a training."""

    model: LinOSS
    """The model with the weights of the best evaluation; without evaluations, the last weights."""
    history: list[Record]
    """For each evaluation: step, loss, metric, best, learning_rate, seconds."""
    best_step: int | None
    """The step of the best evaluation."""
    best_metric: float | None
    """The metric of the best evaluation."""
    steps: int
    """Number of updates."""
    stopped_early: bool
    """Whether the run ended by `patience` or `min_loss`."""
