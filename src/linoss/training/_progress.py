"""The progress of a training, and a progress line."""

import abc
from dataclasses import dataclass
from typing import Self, TextIO

from linoss._stderr import ProgressBar, duration


@dataclass(frozen=True)
class Progress:
    """The progress of a run.

    ```python
    >>> from linoss.training import Progress
    >>> Progress(50, 100, loss=0.5, metric=0.9, best=0.9, eta=61.0, epoch=20).text("accuracy")
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
    epoch: int = 1
    """Number of updates in one pass over the training cases."""
    model: int = 1
    """The number of the current model."""
    models: int = 1
    """Number of models that are trained one after another."""
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
        if self.epoch > 1:
            parts.append(f"epoch {self.step / self.epoch:.3g}/{self.steps / self.epoch:.3g}")
        parts.append(f"loss {self.loss:.4g}")
        if self.metric is not None:
            parts += [f"validation {metric} {self.metric:.4g}", f"best {self.best:.4g}"]
        if self.eta is not None and self.step < self.steps:
            parts.append(f"ETA {duration(self.eta)}")
        return "  ".join(parts)


class AbstractClosing(abc.ABC):
    """A context manager that closes at its end."""

    @abc.abstractmethod
    def close(self) -> None:
        """Flush and close."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ProgressLine(AbstractClosing):
    """A progress bar on stderr, for `on_progress`; without a terminal, at most 20 lines.

    ```python
    >>> import sys
    >>> from linoss.training import Progress, ProgressLine
    >>> with ProgressLine("accuracy", stream=sys.stdout) as line:
    ...     line(Progress(step=1, steps=100, loss=0.7, metric=None, best=None, eta=None))
    step 1/100  loss 0.7

    ```
    """

    def __init__(self, metric: str, stream: TextIO | None = None):
        self._metric, self._bar = metric, ProgressBar(stream)

    def close(self) -> None:
        """End the bar."""
        self._bar.close()

    def __call__(self, progress: Progress) -> None:
        """Show the progress."""
        done = (progress.model - 1) * progress.steps + progress.step
        self._bar.show(done, progress.models * progress.steps, progress.text(self._metric))
