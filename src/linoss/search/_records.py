"""A study and its trials as plain records."""

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
    """One point of a search and its outcome.

    ```python
    >>> from linoss.search import Trial
    >>> Trial(number=3, state="complete", value=0.9, parameters={"hidden_size": 16}).value
    0.9

    ```
    """

    number: int
    """From 0. A trial that is resumed keeps its number."""
    state: str
    """complete, pruned, failed, running or waiting."""
    value: float | None = None
    """The validation metric: its best if complete, its last if pruned."""
    parameters: dict[str, Any] = field(default_factory=dict)
    """The values of the searched parameters."""
    run: str | None = None
    """The directory of its run, relative to that of the search."""
    seconds: float | None = None
    """How long it took, or has taken so far."""
    attempts: int = 1
    """How often it was started."""
    error: str | None = None
    """Why it failed."""
    curve: list[tuple[int, float]] = field(default_factory=list)
    """The metric at each evaluation, with its step."""


@dataclass(frozen=True)
class Study:
    """The outcome of a search.

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
    """By number."""
    space: dict[str, Any] = field(default_factory=dict)
    """The searched ranges: lists, or low, high and whether logarithmic."""
    importance: dict[str, float] = field(default_factory=dict)
    """The share of each parameter in the differences, the largest first."""
    directory: str | None = None
    """The run of the best trial, if this machine has it."""

    @property
    def best(self) -> Trial | None:
        """The complete trial with the best value; of equal ones the first."""
        return next(iter(self.ranked), None)

    @property
    def ranked(self) -> list[Trial]:
        """Complete trials, the best first."""
        sign = -1 if self.higher_is_better else 1
        found = [t for t in self.trials if t.state == COMPLETE and t.value is not None]
        return sorted(found, key=lambda trial: (sign * (trial.value or 0.0), trial.number))

    def count(self, *states: str) -> int:
        """How many trials are in one of these states."""
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
    """Refuse a directory that holds the trials of another study."""
    path = folder / STUDY
    if not path.exists():
        return
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["id"]
    except (OSError, ValueError, TypeError, LookupError, RecursionError):
        raise ValueError(f"{path}: is no record of a search; choose another directory") from None
    if found != identity:
        raise ValueError(
            f"{folder}: holds the trials of another study; go on with that one (see study and "
            "storage), or choose another directory"
        )
