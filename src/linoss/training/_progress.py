"""A live line that says how far training is."""

import sys
from types import TracebackType
from typing import TextIO

from linoss.training._outcome import Progress


class ProgressLine:
    """Shows step, loss, metric, best and time left, on one line that is written again and again.

    Where output is no terminal, there are twenty lines at most instead.
    """

    def __init__(self, metric: str, stream: TextIO | None = None):
        self.metric, self.stream = metric, stream or sys.stderr
        self._shown, self._next = 0, 1.0

    def __enter__(self) -> "ProgressLine":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._shown:
            self.stream.write("\n")
            self.stream.flush()

    def __call__(self, progress: Progress) -> None:
        """Show it."""
        text = progress_text(progress, self.metric)
        if self.stream.isatty():
            self.stream.write("\r" + text.ljust(self._shown))
            self._shown = len(text)
        elif progress.step >= self._next:
            self._next = progress.step + progress.steps / 20
            self.stream.write(text + "\n")
        self.stream.flush()


def progress_text(progress: Progress, metric: str) -> str:
    """One line about a run."""
    parts = [f"step {progress.step}/{progress.steps}", f"loss {progress.loss:.4g}"]
    if progress.metric is not None:
        parts += [f"{metric} {progress.metric:.4g}", f"best {progress.best:.4g}"]
    if progress.eta is not None and progress.step < progress.steps:
        parts.append(f"ETA {duration(progress.eta)}")
    return "  ".join(parts)


def duration(seconds: float) -> str:
    """A time span as people write it."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {seconds:02d} s" if minutes else f"{seconds} s"
