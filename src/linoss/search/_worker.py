"""A study in Optuna's storage, shared by any number of workers.

Trials have numbers from 0. A worker begins the next one under a lock. If its heartbeat stops,
Optuna marks the trial as failed, and another worker begins one with the same number.
"""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from linoss._plain import first_difference, plain
from linoss.search._space import Space, described
from linoss.search._storage import alone, extra
from linoss.search._study import ERROR, NUMBER, RUN, STOPPED, Study, Trial
from linoss.training import TrainingError

_FINAL = "linoss:final"  # whether the trial would fail again
_MOST_ATTEMPTS = 4  # a trial that kills its worker must not kill all of them
_LOOK_EVERY = 1.0  # seconds between checks while other workers run the remaining trials
_BEFORE_PRUNING = 5  # complete trials
_DEFINITION = "linoss:definition"


@dataclass(frozen=True, eq=False)
class RunningTrial:
    """A trial that this worker runs."""

    number: int
    attempts: int
    """The number of earlier starts."""
    parameters: dict[str, Any]
    trial: Any
    """Optuna's trial."""
    reported: set[int] = field(default_factory=set)

    def report(self, step: int, value: float, *, may_prune: bool = False) -> None:
        """Report the validation metric at a step, once. Raises Optuna's `TrialPruned` if the trial
        `may_prune` and is worse than others at the same step."""
        if step in self.reported:
            return
        self.reported.add(step)
        self.trial.report(value, step)
        if may_prune and self.trial.should_prune():
            raise extra("optuna").TrialPruned

    def note_run(self, run: str) -> None:
        """Store the name of the run's directory."""
        self.trial.set_user_attr(RUN, run)


class SharedStudy:
    """A study that workers begin or join."""

    def __init__(
        self,
        storage: Any,
        empty: Study,
        space: Space,
        settings: dict[str, Any],
        *,
        points: Sequence[dict[str, Any]] | None = None,
        seed: int = 0,
        prune_after: int | None = None,
    ):
        """Begin the study, or join it with equal settings.

        **Arguments:**

        - `storage`: Optuna's storage.
        - `empty`: its name and metric.
        - `settings`: all settings that workers must share.
        - `points`: the points of a grid, in order; without them, Optuna's TPE draws values.
        - `prune_after`: steps before which no trial is pruned; None to never prune.
        """
        self._storage = storage
        self._empty, self._space, self._points, self._seed = empty, space, points, seed
        self._optuna = optuna = extra("optuna")
        pruner = optuna.pruners.NopPruner()
        if prune_after is not None:
            pruner = optuna.pruners.MedianPruner(_BEFORE_PRUNING, prune_after)
        self._study = optuna.create_study(
            storage=storage,
            study_name=empty.name,
            direction="maximize" if empty.higher_is_better else "minimize",
            load_if_exists=True,
            pruner=pruner,
        )
        now = {"metric": empty.metric, "seed": seed, "prune_after": prune_after, **settings}
        now = plain({**now, "space": described(space)}, lenient=True)
        if _DEFINITION not in self._study.user_attrs:
            self._study.set_user_attr(_DEFINITION, now)
        difference = first_difference(self._study.user_attrs[_DEFINITION], now)
        if difference is not None:
            raise ValueError(
                f"the study {empty.name!r} has {difference.path[-1]} {difference.before!r}, but "
                f"now it is {difference.now!r}; join it with the same options, or name another "
                "study"
            )

    def record(self, *, importance: bool = False) -> Study:
        """The current state of the study, with the `importance` of each parameter."""
        attempts = sorted(self._attempts().items())
        return replace(
            self._empty,
            trials=[Trial.from_optuna(n, trials) for n, trials in attempts],
            space=described(self._space),
            importance=self._importance() if importance else {},
        )

    def _attempts(self) -> dict[int, list[Any]]:
        """Optuna's trials for each number, in the order of their creation."""
        attempts: dict[int, list[Any]] = {}
        for trial in self._study.get_trials(deepcopy=False):
            if NUMBER in trial.user_attrs:
                attempts.setdefault(trial.user_attrs[NUMBER], []).append(trial)
        return attempts

    def _importance(self) -> dict[str, float]:
        """The importance of each parameter, if enough trials differ."""
        optuna = self._optuna
        complete = self._study.get_trials(False, (optuna.trial.TrialState.COMPLETE,))
        if len(complete) < 4 or len({trial.value for trial in complete}) < 2:
            return {}
        evaluator = optuna.importance.FanovaImportanceEvaluator(seed=self._seed)
        try:
            shares = optuna.importance.get_param_importances(self._study, evaluator=evaluator)
        except (RuntimeError, ValueError):  # nothing varied
            return {}
        return {name: float(share) for name, share in shares.items()}

    def work(
        self,
        run: Callable[[RunningTrial], float],
        trials: int,
        on_end: Callable[[str], None],
    ) -> None:
        """Run trials until the first `trials` are complete, pruned or failed, by any worker.

        **Arguments:**

        - `run`: runs a trial, reports evaluations, and returns the validation metric. An error that
          is not specific to one trial ends the worker; the trial is run again.
        - `on_end`: called with a line about each trial that this worker has ended.
        """
        while True:
            running, others = self._begin(trials)
            if running is not None:
                with _Heartbeat(self._storage, running.trial):
                    outcome = self._outcome(running, run)
                on_end(f"trial {running.number}: {outcome}")
            elif others:
                time.sleep(_LOOK_EVERY)
            else:
                return

    def _begin(self, trials: int) -> tuple[RunningTrial | None, bool]:
        """Begin the first trial that has to be run; and whether others run some."""
        with alone(self._storage):
            self._optuna.storages.fail_stale_trials(self._study)
            attempts = self._attempts()
            number = next((n for n in range(trials) if _is_to_run(attempts.get(n, []))), None)
            if number is None:
                states = (t.state.name for n in range(trials) for t in attempts[n])
                return None, "RUNNING" in states
            before = [t for t in attempts.get(number, []) if t.state.name == "FAIL"]
            if len(before) == len(attempts.get(number, [])):  # none is left by a killed worker
                values: dict[str, Any] = {} if self._points is None else self._points[number]
                values = next((t.params for t in before if t.params), values)
                self._study.enqueue_trial(values, user_attrs={NUMBER: number})
            waiting = self._study.get_trials(False, (self._optuna.trial.TrialState.WAITING,))[0]
            self._storage.record_heartbeat(waiting._trial_id)
            number = waiting.user_attrs[NUMBER]
            # a sampler that depends on seed, number and history, so that one worker is reproducible
            seed = (self._seed * 100_003 + number) % 2**32
            self._study.sampler = self._optuna.samplers.TPESampler(seed=seed, constant_liar=True)
            trial = self._study.ask(self._space)
            return RunningTrial(number, len(before), dict(trial.params), trial), True

    def _outcome(self, running: RunningTrial, run: Callable[[RunningTrial], float]) -> str:
        """Run a trial, and store its end."""
        trial, state = running.trial, self._optuna.trial.TrialState
        try:
            try:
                value = run(running)
            except self._optuna.TrialPruned:
                self._study.tell(trial, state=state.PRUNED)
                return "pruned"
            except (TrainingError, MemoryError, RuntimeError) as error:
                if not isinstance(error, TrainingError) and not _is_out_of_memory(error):
                    raise
                reason = str(error) if isinstance(error, TrainingError) else "out of memory"
                trial.set_user_attr(ERROR, reason)
                trial.set_user_attr(_FINAL, isinstance(error, TrainingError))
                self._study.tell(trial, state=state.FAIL)
                return f"failed: {reason}"
            trial.set_user_attr(_FINAL, True)  # raises if it was taken over
            self._study.tell(trial, value)
            return f"{self._empty.metric} {value:.4g}"
        except self._optuna.exceptions.UpdateFinishedTrialError:
            return "was taken over by another worker"
        except BaseException:
            with suppress(self._optuna.exceptions.OptunaError):
                trial.set_user_attr(STOPPED, True)
                self._study.tell(trial, state=state.FAIL)
            raise


class _Heartbeat(threading.Thread):
    """Writes heartbeats to the storage while a trial runs."""

    def __init__(self, storage: Any, trial: Any):
        super().__init__(daemon=True)
        self._storage, self._trial, self._end = storage, trial, threading.Event()

    def __enter__(self) -> None:
        self.start()

    def __exit__(self, *error: object) -> None:
        self._end.set()
        self.join()

    def run(self) -> None:
        """Write until the end; an unreachable storage may be reached again."""
        while not self._end.wait(self._storage.get_heartbeat_interval()):
            with suppress(Exception):
                self._storage.record_heartbeat(self._trial._trial_id)
        self._storage.remove_session()


def _counted(attempts: Sequence[Any]) -> list[Any]:
    """The attempts that were not stopped by Ctrl-C or an error of another kind."""
    return [trial for trial in attempts if STOPPED not in trial.user_attrs]


def _is_to_run(before: Sequence[Any]) -> bool:
    """Whether a trial still has to be run after these attempts."""
    failed = all(trial.state.name in ("FAIL", "WAITING") for trial in before)
    final = any(trial.user_attrs.get(_FINAL) for trial in before)
    return failed and not final and len(_counted(before)) < _MOST_ATTEMPTS


def _is_out_of_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error)
