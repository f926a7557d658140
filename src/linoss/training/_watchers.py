"""Watchers: functions that are called with the progress of a training.

A watcher is any function of a [`linoss.training.Progress`][], passed as `on_progress`.
"""

import json
import math
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from linoss._extras import optional
from linoss._files import make_directory
from linoss.training._progress import AbstractClosing, Progress


class Watcher(Protocol):
    """A function called with the progress of a training, at most a few times a second."""

    def __call__(self, progress: Progress, /) -> None:
        """Process the progress. An exception ends the training."""
        ...


def together(*watchers: Watcher) -> Watcher:
    """Combine several watchers, called in their order.

    ```python
    >>> from linoss.training import Progress, together
    >>> seen = []
    >>> watch = together(lambda p: seen.append(p.step), lambda p: seen.append(p.loss))
    >>> watch(Progress(step=1, steps=2, loss=0.5, metric=None, best=None, eta=None))
    >>> seen
    [1, 0.5]

    ```
    """

    def tell(progress: Progress) -> None:
        for watcher in watchers:
            watcher(progress)

    return tell


class JsonLines(AbstractClosing):
    """Appends a JSON line to a file at each call.

    ```python
    >>> import tempfile
    >>> from pathlib import Path
    >>> from linoss.training import JsonLines, Progress
    >>> path = Path(tempfile.mkdtemp()) / "training.jsonl"
    >>> with JsonLines(path) as log:  # model.fit(..., on_progress=log)
    ...     log(Progress(step=1, steps=100, loss=0.7, metric=None, best=None, eta=None))
    >>> path.read_text()[:34]
    '{"step": 1, "steps": 100, "loss": '

    ```
    """

    def __init__(self, path: str | os.PathLike[str]):
        path = Path(path)
        make_directory(path.parent)
        self._file = open(path, "a", encoding="utf-8")  # noqa: SIM115

    def __call__(self, progress: Progress) -> None:
        """Append a line. Numbers that are not finite become null."""
        self._file.write(json.dumps(_numbers(progress)) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class TensorBoard(AbstractClosing):
    """Writes TensorBoard event files to a directory; needs the extra `watch`.

    ```python
    >>> import tempfile
    >>> from pathlib import Path
    >>> from linoss.training import Progress, TensorBoard
    >>> folder = Path(tempfile.mkdtemp())
    >>> with TensorBoard(folder) as board:  # model.fit(..., on_progress=board)
    ...     board(Progress(step=1, steps=100, loss=0.7, metric=None, best=None, eta=None))
    >>> [path.name[:20] for path in folder.iterdir()]
    ['events.out.tfevents.']

    ```
    """

    def __init__(self, directory: str | os.PathLike[str]):
        board = optional("tensorboardX", "TensorBoard", "watch")
        self._writer = board.SummaryWriter(os.fspath(directory))

    def __call__(self, progress: Progress) -> None:
        """Write each known number under its name, separately for each model."""
        prefix = f"model {progress.model}/" if progress.models > 1 else ""
        for name, value in _numbers(progress).items():
            if value is not None and name not in _FIXED:
                self._writer.add_scalar(prefix + name, value, progress.step)

    def close(self) -> None:
        """Flush and close the file."""
        self._writer.close()


_FIXED = {"step", "steps", "epoch", "model", "models"}


def _numbers(progress: Progress) -> dict[str, Any]:
    """The numbers of a progress by name; None where one is unknown or not finite."""
    numbers = asdict(progress)
    return {n: x if x is not None and math.isfinite(x) else None for n, x in numbers.items()}
