"""A study and its trials as plain values, and its progress as a line."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from linoss._stderr import duration

NUMBER, RUN, ERROR, STOPPED = (f"linoss:{name}" for name in ("number", "run", "error", "stopped"))
"""Attributes of Optuna's trials: the number in the study, which repetitions share, the directory of
its run, the reason of its failure, and whether it was stopped."""


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
    error: str | None = None
    """The reason of a failure."""
    curve: list[tuple[int, float]] = field(default_factory=list)
    """The metric at each evaluation, with its step."""

    @classmethod
    def from_optuna(cls, number: int, attempts: Sequence[Any]) -> "Trial":
        """The trial with that number, from Optuna's trials of it: the last one counts."""
        last = attempts[-1]
        is_stopped, error = STOPPED in last.user_attrs, last.user_attrs.get(ERROR)
        state = "waiting" if is_stopped else last.state.name.lower().replace("fail", "failed")
        return cls(
            number=number,
            state=state,
            value=None if last.values is None else float(last.values[0]),
            parameters=dict(last.params),
            run=last.user_attrs.get(RUN),
            seconds=None if last.duration is None else last.duration.total_seconds(),
            error=(error or "its workers died") if state == "failed" else None,
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
        >>> Study("waves", "accuracy", True, [Trial(0, "complete", 0.8)]).progress(2)
        '1/2 trials  best accuracy 0.8'

        ```
        """
        parts = [f"{self.count('complete', 'pruned', 'failed')}/{trials} trials"]
        for state in ("pruned", "failed", "running"):
            parts += [f"{self.count(state)} {state}"] if self.count(state) else []
        best = self.best
        parts += [] if best is None else [f"best {self.metric} {best.value:.4g}"]
        seconds = [t.seconds or 0.0 for t in self.trials if t.state in ("complete", "pruned")]
        if any(seconds) and len(seconds) < trials:
            left = sum(seconds) / len(seconds) * (trials - len(seconds))
            parts.append(f"ETA {duration(left / max(self.count('running'), 1))}")
        return "  ".join(parts)
