"""A study and its trials as plain values."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from linoss._files import write_text

STUDY = "study.json"
COMPLETE, PRUNED, FAILED, RUNNING, WAITING = "complete", "pruned", "failed", "running", "waiting"
ENDED = (COMPLETE, PRUNED, FAILED)


@dataclass(frozen=True)
class Trial:
    """One trial of a search and its result.

    ```python
    >>> from linoss.search import Trial
    >>> Trial(number=3, state="complete", value=0.9, parameters={"hidden_size": 16}).value
    0.9

    ```
    """

    number: int
    """The number, from 0. A resumed trial keeps its number."""
    state: str
    """complete, pruned, failed, running or waiting."""
    value: float | None = None
    """The validation metric: the best one if complete, the last one if pruned."""
    parameters: dict[str, Any] = field(default_factory=dict)
    """The values of the searched parameters."""
    run: str | None = None
    """The directory of its run, relative to that of the search."""
    seconds: float | None = None
    """The elapsed time."""
    attempts: int = 1
    """The number of starts."""
    error: str | None = None
    """The reason of a failure."""
    curve: list[tuple[int, float]] = field(default_factory=list)
    """The metric at each evaluation, with its step."""


@dataclass(frozen=True)
class Study:
    """The result of a search.

    ```python
    >>> from linoss.search import Study, Trial
    >>> trials = [Trial(0, "complete", 0.8), Trial(1, "pruned", 0.9), Trial(2, "complete", 0.7)]
    >>> Study("waves", "accuracy", True, trials).best.number
    0

    ```
    """

    name: str
    metric: str
    higher_is_better: bool
    trials: list[Trial]
    """All trials, by number."""
    space: dict[str, Any] = field(default_factory=dict)
    """The searched ranges: lists, or low, high and whether logarithmic."""
    importance: dict[str, float] = field(default_factory=dict)
    """The importance of each parameter, the largest first."""
    directory: str | None = None
    """The run of the best trial, if it is on this machine."""

    @property
    def best(self) -> Trial | None:
        """The complete trial with the best value; the first of equal ones."""
        return next(iter(self.ranked), None)

    @property
    def ranked(self) -> list[Trial]:
        """Complete trials, the best first."""
        sign = -1 if self.higher_is_better else 1
        found = [t for t in self.trials if t.state == COMPLETE and t.value is not None]
        return sorted(found, key=lambda trial: (sign * (trial.value or 0.0), trial.number))

    def count(self, *states: str) -> int:
        """The number of trials in these states."""
        return sum(trial.state in states for trial in self.trials)

    def record(self) -> dict[str, Any]:
        """The study as plain values, for JSON."""
        best = self.best
        plain = {name: value for name, value in asdict(self).items() if name != "directory"}
        return {**plain, "best": None if best is None else best.number}


def write_study(folder: Path, study: Study, identity: str) -> None:
    """Write `study.json`."""
    record = {"format": "linoss-study", "id": identity, **study.record()}
    write_text(folder / STUDY, json.dumps(record, indent=1, allow_nan=False) + "\n")


def refuse_other(folder: Path, identity: str) -> None:
    """Raise if a directory holds the trials of another study."""
    path = folder / STUDY
    if not path.exists():
        return
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["id"]
    except (OSError, ValueError, TypeError, LookupError, RecursionError):
        raise ValueError(f"{path}: is not a record of a search; choose another directory") from None
    if found != identity:
        raise ValueError(
            f"{folder}: holds the trials of another study; continue that study (see study and "
            "storage), or choose another directory"
        )
