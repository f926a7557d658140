"""What training reports: on its way, and at its end."""

from dataclasses import dataclass
from typing import Any

from linoss.nn import LinOSS

Record = dict[str, Any]
"""One line of the history: step, loss, metric, best, learning_rate, seconds."""


@dataclass(frozen=True)
class Progress:
    """Where a run stands, for a progress line."""

    step: int
    """Updates made."""
    steps: int
    """Updates to make, at most."""
    loss: float
    """Mean since the last evaluation."""
    metric: float | None
    """That of the last evaluation."""
    best: float | None
    """The best so far."""
    eta: float | None
    """Seconds left, if it runs to the end; None when it cannot be told yet."""


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """What training came to."""

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
    """Whether patience ended it."""
