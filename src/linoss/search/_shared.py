"""A study shared by any number of workers: each trial is run once, and none is lost.

Trials have numbers from 0. A worker claims one under a lock, based on the state in the storage: the
numbers that are finished, running, or abandoned by a worker without a heartbeat. The storage may
hold several attempts at a number, of which one is valid. When a worker dies, its number becomes
free.
"""

import secrets
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from linoss._plain import first_difference, plain
from linoss.search._attempts import ERROR, FINAL, FREE, NUMBER, RUN, is_free, trial_of
from linoss.search._extra import quietly
from linoss.search._records import COMPLETE, FAILED, PRUNED, Study, Trial
from linoss.search._space import Space, described
from linoss.search._storage import Storage

_STARTUP = 5  # complete trials before any is pruned
_DEFINITION = "linoss:definition"


class Pruned(Exception):
    """Raised to stop a trial that is worse than others at the same step."""


class TakenAway(Exception):
    """Raised when another worker has taken over the trial because this one was silent."""


@dataclass(frozen=True)
class Definition:
    """The settings that all workers of a study must share."""

    metric: str
    higher_is_better: bool
    seed: int = 0
    grid: bool = False
    prune_after: int | None = None
    """Steps before which no trial is pruned; None to never prune."""
    settings: dict[str, Any] = field(default_factory=dict)
    """All other settings of the trials."""


class SharedStudy:
    """A study in a storage."""

    def __init__(
        self,
        storage: Storage,
        name: str,
        definition: Definition,
        space: Space,
        points: Sequence[dict[str, Any]] | None = None,
    ):
        """Begin the study, or join it.

        **Arguments:**

        - `storage`, `name`: the location of the study.
        - `definition`: must equal that of the other workers.
        - `space`: the search space.
        - `points`: the points of a grid, in order; without them, Optuna's TPE draws values.
        """
        self.storage, self.name, self.definition = storage, name, definition
        self.space, self.points = space, points
        self.identity = storage.patiently(self._join)

    def _join(self) -> str:
        now = plain({**asdict(self.definition), "space": described(self.space)}, lenient=True)
        with self.storage.alone(), quietly() as optuna:
            direction = "maximize" if self.definition.higher_is_better else "minimize"
            self.study = optuna.create_study(
                storage=self.storage.rdb,
                study_name=self.name,
                direction=direction,
                load_if_exists=True,
                pruner=self._pruner(),
            )
            there = self.study.user_attrs.get(_DEFINITION)
            if there is None:
                if self.study.get_trials(deepcopy=False):
                    raise ValueError(f"the study {self.name!r} is not one of linoss; name another")
                there = {"id": secrets.token_hex(8), **now}
                self.study.set_user_attr(_DEFINITION, there)
        found = first_difference({part: there.get(part) for part in now}, now)
        if found is not None:
            raise ValueError(
                f"the study {self.name!r} has {found.path[-1]} {found.before!r}, but now it is "
                f"{found.now!r}; join it with the same options, or name another study"
            )
        return there["id"]

    def _pruner(self) -> Any:
        with quietly() as optuna:
            if self.definition.prune_after is None:
                return optuna.pruners.NopPruner()
            return optuna.pruners.MedianPruner(
                n_startup_trials=_STARTUP, n_warmup_steps=self.definition.prune_after
            )

    # ---- A worker's trial ----

    def claim(self, trials: int) -> "Claim | None":
        """Claim a trial, of `trials` in total; None if none is free."""
        return self.storage.patiently(lambda: self._claim(trials))

    def _claim(self, trials: int) -> "Claim | None":
        with self.storage.alone(), quietly() as optuna:
            optuna.storages.fail_stale_trials(self.study)
            attempts = self._attempts()
            number = next((n for n in range(trials) if is_free(attempts.get(n, []))), None)
            if number is None:
                return None
            before = attempts.get(number, [])
            if not any(trial.state.name == "WAITING" for trial in before):
                self.study.enqueue_trial(
                    self._parameters(number, before), user_attrs={NUMBER: number}
                )
            waiting = self.study.get_trials(False, (optuna.trial.TrialState.WAITING,))[0]
            self.storage.rdb.record_heartbeat(waiting._trial_id)  # first: a death is detected
            number = waiting.user_attrs[NUMBER]
            self.study.sampler = self._sampler(number)
            trial = self.study.ask({name: r.distribution() for name, r in self.space.items()})
            begun = len([t for t in attempts.get(number, []) if t.state.name != "WAITING"])
            return Claim(self, trial, number, begun, dict(trial.params))

    def _parameters(self, number: int, before: Sequence[Any]) -> dict[str, Any]:
        """The parameters of earlier attempts; for a first one, those of the grid, or none."""
        if self.points is not None:
            return self.points[number]
        return {name: value for trial in before for name, value in trial.params.items()}

    def _sampler(self, number: int) -> Any:
        """A sampler that depends on seed, number and history, so that one worker is
        reproducible."""
        with quietly() as optuna:
            seed = (self.definition.seed * 100_003 + number) % 2**32
            if self.points is not None:
                return optuna.samplers.RandomSampler(seed=seed)
            return optuna.samplers.TPESampler(seed=seed, constant_liar=True)

    def end(self, claim: "Claim", state: str, value: float | None = None) -> bool:
        """Record the end of a trial. Returns False if another worker has it; nothing is recorded
        then."""
        return self.storage.patiently(lambda: self._end(claim, state, value))

    def _end(self, claim: "Claim", state: str, value: float | None) -> bool:
        with self.storage.alone(), quietly() as optuna:
            if self.storage.rdb.get_trial(claim.trial._trial_id).state.name != "RUNNING":
                return False
            kinds = {COMPLETE: "COMPLETE", PRUNED: "PRUNED", FAILED: "FAIL"}
            state_ = optuna.trial.TrialState[kinds[state]]
            self.study.tell(claim.trial, value if state == COMPLETE else None, state=state_)
            return True

    def fail(self, claim: "Claim", error: str, *, final: bool) -> None:
        """Record that a trial failed; with `final` it is not repeated."""
        claim.note(ERROR, error)
        claim.note(FINAL, final)
        self.end(claim, FAILED)

    def give_back(self, claim: "Claim") -> None:
        """Release a trial, without counting it as an attempt."""
        claim.note(FREE, True)
        self.end(claim, FAILED)

    # ---- All trials ----

    def _attempts(self) -> dict[int, list[Any]]:
        """The attempts at each number, in the order of their start."""
        found: dict[int, list[Any]] = {}
        for trial in self.study.get_trials(deepcopy=False):
            if NUMBER in trial.user_attrs:
                found.setdefault(trial.user_attrs[NUMBER], []).append(trial)
        return found

    def trials(self) -> list[Trial]:
        """All trials that were started."""
        attempts = self.storage.patiently(self._attempts)
        return [trial_of(number, attempts[number]) for number in sorted(attempts)]

    def record(self) -> Study:
        """The current state of the study."""
        definition, trials = self.definition, self.trials()
        return Study(
            name=self.name,
            metric=definition.metric,
            higher_is_better=definition.higher_is_better,
            trials=trials,
            space=described(self.space),
            importance=self._importance(),
        )

    def _importance(self) -> dict[str, float]:
        """The importance of each parameter, if enough trials differ."""
        with quietly() as optuna:
            complete = self.study.get_trials(False, (optuna.trial.TrialState.COMPLETE,))
            if len(complete) < 4 or len({trial.value for trial in complete}) < 2:
                return {}
            evaluator = optuna.importance.FanovaImportanceEvaluator(seed=self.definition.seed)
            try:
                found = optuna.importance.get_param_importances(self.study, evaluator=evaluator)
            except (RuntimeError, ValueError):  # nothing varied
                return {}
        return {name: float(share) for name, share in found.items()}


@dataclass(frozen=True, eq=False)
class Claim:
    """A trial that this worker runs."""

    study: SharedStudy
    trial: Any
    number: int
    attempts: int
    """The number of earlier starts."""
    parameters: dict[str, Any]
    reported: set[int] = field(default_factory=set)
    """Steps."""

    def report(self, step: int, value: float, *, judge: bool = True) -> None:
        """Report the validation metric at a step. Raises `Pruned` if the trial should stop."""
        if step in self.reported:
            return

        def tell() -> bool:
            try:
                self.trial.report(value, step)
                return judge and self.trial.should_prune()
            except RuntimeError as error:
                if type(error).__name__ == "UpdateFinishedTrialError":
                    raise TakenAway from None
                raise

        prune = self.study.storage.patiently(tell)
        self.reported.add(step)
        if prune:
            raise Pruned

    def note(self, key: str, value: Any) -> None:
        """Store an attribute of the trial."""

        def tell() -> None:
            try:
                self.trial.set_user_attr(key, value)
            except RuntimeError as error:
                if type(error).__name__ != "UpdateFinishedTrialError":
                    raise

        self.study.storage.patiently(tell)

    def note_run(self, run: str) -> None:
        """Store the name of the run's directory."""
        self.note(RUN, run)


class Heartbeat:
    """Writes heartbeats to the storage while a trial runs."""

    def __init__(self, claim: Claim):
        self._claim, self._end = claim, threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        self._end.set()
        self._thread.join()

    def _beat(self) -> None:
        storage, trial = self._claim.study.storage, self._claim.trial
        while not self._end.wait(storage.interval):
            with suppress(Exception):  # the next one may succeed
                storage.rdb.record_heartbeat(trial._trial_id)
        storage.rdb.remove_session()
