"""What training returns: the model, the history and where it ended."""

from dataclasses import dataclass
from typing import Any

from linoss.nn import LinOSS

Record = dict[str, Any]
"""One line of the history: step, loss, metric, best, learning_rate, seconds."""


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """The outcome of a training."""

    model: LinOSS
    """With the weights of the best evaluation; without evaluations, the last."""
    history: list[Record]
    """For each evaluation: step, loss, metric, best, learning_rate, seconds."""
    best_step: int | None
    """The step of the best evaluation."""
    best_metric: float | None
    """Its metric."""
    steps: int
    """Updates made."""
    stopped_early: bool
    """Whether the run ended because nothing more was to be gained."""
