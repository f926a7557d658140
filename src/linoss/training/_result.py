"""The result of a training, and the errors of training and of its files."""

from dataclasses import dataclass
from typing import Any

from linoss.nn import LinOSS

Record = dict[str, Any]
"""One line of the history."""
RECORD = ("step", "loss", "validation_loss", "metric", "best", "learning_rate")
"""The entries of a record."""


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """The result of a training."""

    model: LinOSS
    """The model with the weights of the best evaluation; without evaluations, the last weights."""
    history: list[Record]
    """For each evaluation: step, loss, validation_loss, metric, best, learning_rate."""
    best_step: int | None
    """The step of the best evaluation."""
    best_metric: float | None
    """The metric of the best evaluation."""
    steps: int
    """Number of updates."""
    stopped_early: bool
    """Whether the run ended by `patience` or `min_loss`."""
    seconds: float
    """The duration, of all its parts if it was resumed."""


class TrainingError(RuntimeError):
    """Training cannot continue. `result` holds the last good state, as `train` would return it.

    ```python
    >>> from linoss.training import TrainingError
    >>> issubclass(TrainingError, RuntimeError)
    True

    ```
    """

    def __init__(self, message: str, result: TrainingResult | None = None):
        super().__init__(message)
        self.result = result


class TrainingStopped(KeyboardInterrupt):
    """Training was stopped by Ctrl-C. `result` holds its state, as `train` would return it.

    ```python
    >>> from linoss.training import TrainingStopped
    >>> issubclass(TrainingStopped, KeyboardInterrupt)
    True

    ```
    """

    def __init__(self, result: TrainingResult):
        super().__init__(f"training was stopped after {result.steps} updates")
        self.result = result


class CheckpointError(ValueError):
    """A directory or file of a model or run is invalid.

    ```python
    >>> from linoss.training import CheckpointError, load_model
    >>> try:
    ...     load_model("no/such/directory")
    ... except CheckpointError as error:
    ...     print(error)
    no/such/directory/config.json: does not exist, expected a directory of save_model or train

    ```
    """
