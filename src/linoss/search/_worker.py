"""A worker: claims and runs trials of a study until all are finished."""

import time
from collections.abc import Callable
from contextlib import suppress

from linoss.search._records import COMPLETE, PRUNED
from linoss.search._shared import Claim, Heartbeat, Pruned, SharedStudy, TakenAway
from linoss.search._storage import StorageError
from linoss.search._summary import Silence, Summary, summarize
from linoss.training import TrainingError

_LOOK_EVERY = 1.0  # seconds between checks while other workers run the remaining trials

TrialFunction = Callable[[Claim], float]
"""Runs a trial, reports evaluations, and returns the validation metric."""


def work(
    study: SharedStudy, objective: TrialFunction, trials: int, show: Silence, *, wait: bool = True
) -> None:
    """Run trials until all of `trials` are complete, pruned or failed, by any worker.

    An error that is not specific to one trial releases the trial and is raised. Without `wait`,
    return when other workers run all remaining trials.
    """
    while True:
        claim = study.claim(trials)
        if claim is not None:
            _do(study, objective, claim, show)
            continue
        if not wait or summary_of(study, trials).ended >= trials:
            return
        show.live("waiting for other workers")
        time.sleep(_LOOK_EVERY)


def summary_of(study: SharedStudy, trials: int) -> Summary:
    """The progress of a study."""
    return summarize(study.trials(), trials, study.definition.higher_is_better)


def _do(study: SharedStudy, objective: TrialFunction, claim: Claim, show: Silence) -> None:
    metric, name = study.definition.metric, f"trial {claim.number}"
    try:
        with Heartbeat(claim):
            value = objective(claim)
        counts = study.end(claim, COMPLETE, value)
        show.ended(
            f"{name}: {metric} {value:.4g}" if counts else f"{name}: was run by another worker"
        )
    except Pruned:
        study.end(claim, PRUNED)
        show.ended(f"{name}: pruned")
    except TakenAway:
        show.ended(f"{name}: was taken over by another worker")
    except TrainingError as error:
        study.fail(claim, str(error), final=True)
        show.ended(f"{name}: failed: {error}")
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and "RESOURCE_EXHAUSTED" not in str(error):
            _leave(study, claim)
            raise
        study.fail(claim, "out of memory", final=False)
        show.ended(f"{name}: failed: out of memory")
    except BaseException:
        _leave(study, claim)
        raise


def _leave(study: SharedStudy, claim: Claim) -> None:
    with suppress(StorageError):  # the missing heartbeat then releases the trial
        study.give_back(claim)
