"""The progress of a training, and functions that are called with it.

A callback is any function of a [`linoss.training.Progress`][], passed as `on_progress`.
"""

import json
import math
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from linoss._extras import optional
from linoss._files import make_directory
from linoss._stderr import duration

_NOT_DRAWN = {"step", "steps", "epochs", "model", "models"}  # constants, and the axis


@dataclass(frozen=True)
class Progress:
    """The progress of a run.

    ```python
    >>> from linoss.training import Progress
    >>> progress = Progress(
    ...     50, 100, loss=0.5, metric=0.9, best=0.9, eta=61.0, epoch=2.5, epochs=5.0
    ... )
    >>> progress.text("accuracy")
    'step 50/100  epoch 2.5/5  loss 0.5  validation accuracy 0.9  best 0.9  ETA 1 min 01 s'

    ```
    """

    step: int
    """Number of updates so far."""
    steps: int
    """Maximum number of updates."""
    loss: float
    """Mean loss since the last evaluation."""
    metric: float | None
    """The metric of the last evaluation."""
    best: float | None
    """The best metric so far."""
    eta: float | None
    """Estimated seconds to the end; None while unknown."""
    epoch: float | None = None
    """Number of passes over the training cases so far."""
    epochs: float | None = None
    """Number of passes in all updates."""
    model: int = 1
    """The number of the current model."""
    models: int = 1
    """Number of models that are trained one after another."""
    validation_loss: float | None = None
    """The loss on held-out cases at the last evaluation."""
    learning_rate: float | None = None
    """The learning rate of the last update."""
    gradient_norm: float | None = None
    """The gradient norm of the last update, before clipping."""
    cases_per_second: float | None = None
    """Training cases per second, including evaluations and checkpoints; None while unknown."""

    def text(self, metric: str) -> str:
        """Format as one line; `metric` is the name of the validation metric."""
        parts = [f"model {self.model}/{self.models}"] if self.models > 1 else []
        parts.append(f"step {self.step}/{self.steps}")
        if self.epoch is not None and self.epochs is not None and self.epochs < self.steps:
            parts.append(f"epoch {self.epoch:.3g}/{self.epochs:.3g}")
        parts.append(f"loss {self.loss:.4g}")
        if self.validation_loss is not None:
            parts.append(f"validation loss {self.validation_loss:.4g}")
        if self.metric is not None:
            parts += [f"validation {metric} {self.metric:.4g}", f"best {self.best:.4g}"]
        if self.eta is not None and self.step < self.steps:
            of = f" of model {self.model}" if self.models > 1 else ""
            parts.append(f"ETA{of} {duration(self.eta)}")
        return "  ".join(parts)

    def numbers(self) -> dict[str, Any]:
        """All numbers by name; None where one is unknown or not finite."""
        numbers = asdict(self)
        return {n: x if x is not None and math.isfinite(x) else None for n, x in numbers.items()}


Callback = Callable[[Progress], None]
"""A function called with the progress of a training, at most a few times a second. An exception
ends the training."""


class JsonLines(AbstractContextManager["JsonLines"]):
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
        self._file.write(json.dumps(progress.numbers()) + "\n")
        self._file.flush()

    def __exit__(self, *_: object) -> None:
        self._file.close()


class TensorBoard(AbstractContextManager["TensorBoard"]):
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
        for name, value in progress.numbers().items():
            if value is not None and name not in _NOT_DRAWN:
                self._writer.add_scalar(prefix + name, value, progress.step)

    def __exit__(self, *_: object) -> None:
        self._writer.close()
