"""Errors of training and of its files."""

from typing import Any


class TrainingError(RuntimeError):
    """Training cannot continue. `result` holds the last good state, as `train` would return it.

    ```python
    >>> from linoss.training import TrainingError
    >>> issubclass(TrainingError, RuntimeError)
    True

    ```
    """

    def __init__(self, message: str, result: Any = None):
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

    def __init__(self, result: Any):
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
