"""The progress of a study over all workers, and its display."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TextIO

from linoss._stderr import LiveLine, duration
from linoss.search._records import COMPLETE, ENDED, FAILED, PRUNED, RUNNING, Trial

_LOOK_EVERY = 5.0  # seconds between queries of the storage


@dataclass(frozen=True)
class Summary:
    """The progress of a study."""

    trials: int
    """Total number of trials."""
    ended: int
    pruned: int
    failed: int
    running: int
    """Number of running trials, and thus of workers."""
    best: float | None
    eta: float | None
    """Estimated seconds left with this number of workers; None while unknown."""

    def text(self, metric: str) -> str:
        """Format as one line; `metric` is the name of the metric.

        ```python
        >>> from linoss.search._summary import Summary
        >>> Summary(20, 5, 2, 0, 3, 0.9, 61.0).text("accuracy")
        '5/20 trials  2 pruned  3 running  best accuracy 0.9  ETA 1 min 01 s'

        ```
        """
        parts = [f"{self.ended}/{self.trials} trials"]
        parts += [f"{self.pruned} pruned"] if self.pruned else []
        parts += [f"{self.failed} failed"] if self.failed else []
        parts += [f"{self.running} running"] if self.running else []
        parts += [f"best {metric} {self.best:.4g}"] if self.best is not None else []
        parts += [f"ETA {duration(self.eta)}"] if self.eta else []
        return "  ".join(parts)


def summarize(found: Sequence[Trial], trials: int, higher_is_better: bool) -> Summary:
    """The progress, from the started trials and the total number."""
    found = [trial for trial in found if trial.number < trials]
    values = [t.value for t in found if t.state == COMPLETE and t.value is not None]
    best = (max if higher_is_better else min)(values) if values else None
    taken = [t.seconds for t in found if t.state in (COMPLETE, PRUNED) and t.seconds is not None]
    running = [t.seconds or 0.0 for t in found if t.state == RUNNING]
    ended = sum(trial.state in ENDED for trial in found)
    eta = None
    if taken:
        usual = statistics.fmean(taken)
        under_way = sum(max(usual - seconds, 0.0) for seconds in running)
        left = usual * (trials - ended - len(running)) + under_way
        eta = left / max(len(running), 1)
    return Summary(
        trials=trials,
        ended=ended,
        pruned=sum(trial.state == PRUNED for trial in found),
        failed=sum(trial.state == FAILED for trial in found),
        running=len(running),
        best=best,
        eta=eta,
    )


class Silence:
    """Shows nothing."""

    def live(self, doing: str) -> None:
        """Called with the current activity of this worker."""

    def ended(self, what: str) -> None:
        """Called with the result of a trial of this worker."""

    def close(self) -> None:
        """Called at the end."""


class StudyLine(Silence):
    """A progress line on a terminal; otherwise a line for each trial of this worker."""

    def __init__(self, summary: Callable[[], Summary], metric: str, stream: TextIO | None = None):
        self._summary, self._metric, self._line = summary, metric, LiveLine(stream)
        self._looked, self._text = -_LOOK_EVERY, ""

    def live(self, doing: str) -> None:
        """Rewrite the line."""
        if not self._line.is_live:
            return
        if time.monotonic() - self._looked > _LOOK_EVERY:
            self._look()
        self._line.show(f"{self._text}  |  {doing}")

    def ended(self, what: str) -> None:
        """Write a permanent line."""
        self._look()
        self._line.keep(f"{what}; {self._text}")

    def close(self) -> None:
        """Erase the progress line."""
        self._line.clear()

    def _look(self) -> None:
        self._text = self._summary().text(self._metric)
        self._looked = time.monotonic()
