"""Attempts at a trial. A storage holds one or several for each trial number; one is valid."""

import datetime
from collections.abc import Sequence
from typing import Any

from linoss.search._records import COMPLETE, FAILED, PRUNED, RUNNING, WAITING, Trial

NUMBER, FINAL, FREE, ERROR, RUN = (
    f"linoss:{name}" for name in ("number", "final", "free", "error", "run")
)
"""Attributes of an attempt: the number of its trial, whether it would fail again, whether it was
released, the reason of its failure, and its directory."""
_MOST_ATTEMPTS = 4  # a trial that kills its worker must not kill all of them


def is_free(attempts: Sequence[Any]) -> bool:
    """Whether a trial with these attempts still has to be run."""
    states = {trial.state.name for trial in attempts}
    if states & {"COMPLETE", "PRUNED", "RUNNING"}:
        return False
    return "WAITING" in states or not _is_given_up(attempts)


def _is_given_up(attempts: Sequence[Any]) -> bool:
    counted = [trial for trial in attempts if not trial.user_attrs.get(FREE)]
    final = any(trial.user_attrs.get(FINAL) for trial in attempts)
    return final or len(counted) >= _MOST_ATTEMPTS


def trial_of(number: int, attempts: Sequence[Any]) -> Trial:
    """The trial with that number, from its valid attempt."""
    order = ("FAIL", "WAITING", "RUNNING", "PRUNED", "COMPLETE")
    chosen = max(attempts, key=lambda trial: (order.index(trial.state.name), trial.number))
    names = {"COMPLETE": COMPLETE, "PRUNED": PRUNED, "RUNNING": RUNNING, "WAITING": WAITING}
    state = names.get(chosen.state.name, FAILED if _is_given_up(attempts) else WAITING)
    start, end = chosen.datetime_start, chosen.datetime_complete
    seconds = None
    if start is not None:
        seconds = ((end or datetime.datetime.now()) - start).total_seconds()
    error = chosen.user_attrs.get(ERROR)
    if state == FAILED and error is None:
        error = "its workers died"
    return Trial(
        number=number,
        state=state,
        value=None if chosen.values is None else float(chosen.values[0]),
        parameters=dict(chosen.params),
        run=chosen.user_attrs.get(RUN),
        seconds=seconds,
        attempts=sum(trial.state.name != "WAITING" for trial in attempts),
        error=error,
        curve=sorted((step, float(v)) for step, v in chosen.intermediate_values.items()),
    )
