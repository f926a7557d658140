"""A study and its trials as plain values, and its progress as a line."""

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from linoss._files import write_text
from linoss._stderr import duration

NUMBER, RUN, ERROR, STOPPED = (f"linoss:{name}" for name in ("number", "run", "error", "stopped"))
"""Attributes of Optuna's trials: the number in the study, which repetitions share, the directory of
its run, the reason of its failure, and whether it was stopped."""
_STATES = {"COMPLETE": "complete", "PRUNED": "pruned", "RUNNING": "running"}
_STUDY = "study.json"


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
    """The number, from 0. A repeated trial keeps its number."""
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

    @classmethod
    def from_optuna(cls, number: int, attempts: Sequence[Any]) -> "Trial":
        """The trial with that number, from Optuna's trials of it: the last one counts."""
        last = attempts[-1]
        stopped, error = STOPPED in last.user_attrs, last.user_attrs.get(ERROR)
        state = "waiting" if stopped else _STATES.get(last.state.name, "failed")
        if state == "failed" and error is None:
            error = "its workers died"
        seconds = None
        if last.datetime_start is not None:
            end = last.datetime_complete or datetime.now()
            seconds = (end - last.datetime_start).total_seconds()
        return cls(
            number=number,
            state=state,
            value=None if last.values is None else float(last.values[0]),
            parameters=dict(last.params),
            run=last.user_attrs.get(RUN),
            seconds=seconds,
            attempts=len(attempts),
            error=error if state == "failed" else None,
            curve=sorted((step, float(v)) for step, v in last.intermediate_values.items()),
        )


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
    trials: list[Trial] = field(default_factory=list)
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
        complete = [t for t in self.trials if t.state == "complete" and t.value is not None]
        return sorted(complete, key=lambda trial: (sign * (trial.value or 0.0), trial.number))

    def count(self, *states: str) -> int:
        """The number of trials in these states."""
        return sum(trial.state in states for trial in self.trials)

    def record(self) -> dict[str, Any]:
        """The study as plain values, for JSON."""
        best = self.best
        plain = {name: value for name, value in asdict(self).items() if name != "directory"}
        return {**plain, "best": None if best is None else best.number}

    def progress(self, trials: int) -> str:
        """The progress of all workers as a line, with the total number of trials.

        ```python
        >>> from linoss.search import Study, Trial
        >>> trials = [Trial(0, "complete", 0.8, seconds=61.0)]
        >>> Study("waves", "accuracy", True, trials).progress(2)
        '1/2 trials  best accuracy 0.8  ETA 1 min 01 s'

        ```
        """
        ended, running = self.count("complete", "pruned", "failed"), self.count("running")
        parts = [f"{ended}/{trials} trials"]
        for state in ("pruned", "failed", "running"):
            parts += [f"{self.count(state)} {state}"] if self.count(state) else []
        best = self.best
        parts += [] if best is None else [f"best {self.metric} {best.value:.4g}"]
        seconds = [t.seconds for t in self.trials if t.state in ("complete", "pruned")]
        usual = statistics.fmean(s or 0.0 for s in seconds) if seconds else 0.0
        if usual and ended < trials:
            under_way = (t.seconds or 0.0 for t in self.trials if t.state == "running")
            left = usual * (trials - ended) - sum(min(s, usual) for s in under_way)
            parts.append(f"ETA {duration(left / max(running, 1))}")
        return "  ".join(parts)


def write_study(folder: Path, study: Study) -> None:
    """Write `study.json`."""
    record = {"format": "linoss-study", **study.record()}
    write_text(folder / _STUDY, json.dumps(record, indent=1, allow_nan=False) + "\n")
