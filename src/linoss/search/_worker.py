"""The trials of a study in Optuna's storage, run by any number of workers.

Trials have numbers from 0. A worker begins the next one under a lock. If its heartbeat stops,
Optuna marks the trial as failed, and another worker begins one with the same number. The database
is SQLite for the workers of one machine, PostgreSQL for several.
"""

import re
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from linoss._files import locked
from linoss._plain import first_difference, plain
from linoss.search._space import Space, described, extra
from linoss.search._study import ERROR, NUMBER, STOPPED, Study, Trial
from linoss.training import TrainingError

_DEFINITION = "linoss:definition"
_FINAL = "linoss:final"  # whether the trial would fail again
_MOST_ATTEMPTS = 4  # a trial that kills its worker must not kill all of them
_LOOK_EVERY = 1.0  # seconds between checks while other workers run the remaining trials
_BEFORE_PRUNING = 5  # complete trials
_PAUSE = 2.0  # seconds between two attempts to open a storage
_LOCK = int.from_bytes(b"linoss")
_CONNECT = {  # of libpq: seconds for an attempt, milliseconds until a silent server is lost
    "connect_timeout": 5, "tcp_user_timeout": 30_000,
    "keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3,
}  # fmt: skip
_LOCKED = {"timeout": 60}  # seconds to wait for other workers on a file
_SILENT = "Heartbeat of storage is supposed to be used|.*already reported"
_HIDDEN = "***"


class Worker:
    """A worker that begins or joins a study."""

    def __init__(
        self,
        storage: Any,
        empty: Study,
        settings: dict[str, Any],
        space: Space,
        points: Sequence[dict[str, Any]] | None,
        seed: int,
        prune_after: int | None,
    ):
        """Begin the `empty` study, or join it with equal `settings`.

        It has the `points` of a grid, in their order; without them, Optuna's TPE draws values. No
        trial is pruned before the step `prune_after`; none at all if it is None.
        """
        self._storage, self._empty = storage, empty
        self._space, self._points, self._seed = space, points, seed
        self._optuna = optuna = extra("optuna")
        pruners, after = optuna.pruners, prune_after
        never, median = pruners.NopPruner(), pruners.MedianPruner(_BEFORE_PRUNING, after or 0)
        self._study = optuna.create_study(
            storage=storage,
            study_name=empty.name,
            direction="maximize" if empty.higher_is_better else "minimize",
            load_if_exists=True,
            pruner=never if after is None else median,
        )
        now = {"metric": empty.metric, "seed": seed, "prune_after": after, **settings}
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

    def record(self) -> Study:
        """The current state of the study."""
        trials = [Trial.from_optuna(n, each) for n, each in sorted(self._attempts().items())]
        return replace(self._empty, trials=trials, space=described(self._space))

    def _attempts(self) -> dict[int, list[Any]]:
        """Optuna's trials for each number, in the order of their creation."""
        attempts: dict[int, list[Any]] = {}
        for trial in self._study.get_trials(deepcopy=False):
            if NUMBER in trial.user_attrs:
                attempts.setdefault(trial.user_attrs[NUMBER], []).append(trial)
        return attempts

    def work(self, run: Callable[[Any], float], trials: int, on_end: Callable[[str], None]) -> None:
        """Run trials until the first `trials` are complete, pruned or failed, by any worker.

        `run` runs one of Optuna's trials, reports evaluations, and returns the validation metric.
        An error that is not specific to one trial ends the worker; the trial is run again.
        `on_end` is called with a line about each trial that this worker has ended.
        """
        while True:
            trial, others = self._begin(trials)
            if trial is not None:
                on_end(f"trial {trial.user_attrs[NUMBER]}: {self._outcome(trial, run)}")
            elif others:
                time.sleep(_LOOK_EVERY)
            else:
                return

    def _begin(self, trials: int) -> tuple[Any, bool]:
        """Begin the first trial that has to be run; and whether others run some."""
        with alone(self._storage):
            self._optuna.storages.fail_stale_trials(self._study)
            attempts = self._attempts()
            number = next((n for n in range(trials) if _is_to_run(attempts.get(n, []))), None)
            if number is None:
                states = (t.state.name for n in range(trials) for t in attempts[n])
                return None, "RUNNING" in states
            before = attempts.get(number, [])
            if all(trial.state.name == "FAIL" for trial in before):  # none is left waiting
                values: dict[str, Any] = {} if self._points is None else self._points[number]
                values = next((trial.params for trial in before if trial.params), values)
                self._study.enqueue_trial(values, user_attrs={NUMBER: number})
            waiting = self._study.get_trials(False, (self._optuna.trial.TrialState.WAITING,))[0]
            self._storage.record_heartbeat(waiting._trial_id)
            # a sampler that depends on seed, number and history, so that one worker is reproducible
            seed = (self._seed * 100_003 + waiting.user_attrs[NUMBER]) % 2**32
            self._study.sampler = self._optuna.samplers.TPESampler(seed=seed, constant_liar=True)
            return self._study.ask(self._space), True

    def _outcome(self, trial: Any, run: Callable[[Any], float]) -> str:
        """Run a trial, and store its end."""
        state = self._optuna.trial.TrialState
        try:
            with _heartbeats(self._storage, trial):
                return self._ended(trial, run)
        except self._optuna.TrialPruned:
            self._study.tell(trial, state=state.PRUNED)
            return "pruned"
        except self._optuna.exceptions.UpdateFinishedTrialError:
            return "was taken over by another worker"
        except BaseException:
            with suppress(self._optuna.exceptions.OptunaError):
                trial.set_user_attr(STOPPED, True)
                self._study.tell(trial, state=state.FAIL)
            raise

    def _ended(self, trial: Any, run: Callable[[Any], float]) -> str:
        try:
            value = run(trial)
        except (TrainingError, MemoryError, RuntimeError) as error:
            is_final = isinstance(error, TrainingError)
            is_memory = isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error)
            if not is_final and not is_memory:
                raise
            reason = str(error) if is_final else "out of memory"
            trial.set_user_attr(ERROR, reason)
            trial.set_user_attr(_FINAL, is_final)
            self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
            return f"failed: {reason}"
        trial.set_user_attr(_FINAL, True)  # raises if it was taken over
        self._study.tell(trial, value)
        return f"{self._empty.metric} {value:.4g}"


@contextmanager
def _heartbeats(storage: Any, trial: Any) -> Iterator[None]:
    """Context manager: write heartbeats; an unreachable storage may be reached again."""
    end = threading.Event()

    def write() -> None:
        while not end.wait(storage.get_heartbeat_interval()):
            with suppress(Exception):
                storage.record_heartbeat(trial._trial_id)
        storage.remove_session()

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def _is_to_run(before: Sequence[Any]) -> bool:
    """Whether a trial still has to be run after these attempts; those that were stopped by Ctrl-C
    or an error of another kind do not count."""
    failed = all(trial.state.name in ("FAIL", "WAITING") for trial in before)
    final = any(trial.user_attrs.get(_FINAL) for trial in before)
    counted = [trial for trial in before if STOPPED not in trial.user_attrs]
    return failed and not final and len(counted) < _MOST_ATTEMPTS


# ---- The database ----


@contextmanager
def opened(url: str, silence: int) -> Iterator[Any]:
    """Yield Optuna's storage, with heartbeats; Optuna is silent meanwhile.

    Raises `ConnectionError` if the storage cannot be reached. Without a heartbeat for `silence`
    seconds, a worker counts as dead.
    """
    optuna, errors = extra("optuna"), extra("sqlalchemy.exc")
    unreachable = (errors.SQLAlchemyError, optuna.exceptions.StorageInternalError)
    address, engine = url, {"connect_args": _LOCKED}
    if url.startswith("postgresql:"):
        extra("psycopg")
        address = url.replace("postgresql", "postgresql+psycopg", 1)
        engine = {"connect_args": _CONNECT, "pool_pre_ping": True}
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            warnings.filterwarnings("ignore", _SILENT)
            options = {
                "url": re.sub(r"([{}])", r"\1\1", address),  # Optuna formats it
                "engine_kwargs": engine,
                "heartbeat_interval": max(silence // 4, 1),
                "grace_period": silence,
            }
            try:
                storage = optuna.storages.RDBStorage(**options)
            except unreachable:  # also if another worker creates the same tables
                time.sleep(_PAUSE)
                storage = optuna.storages.RDBStorage(**options)
            try:
                yield storage
            finally:
                storage.remove_session()
                storage.engine.dispose()
    except unreachable as error:
        cause = getattr(error, "orig", None) or error.__cause__ or error
        reason = f" ({str(getattr(cause, 'orig', None) or cause).strip().splitlines()[0]})"
        raise ConnectionError(
            f"the storage {without_password(url)} cannot be reached"
            f"{'' if url.count('@') > 1 else reason}; check that it is running, its address, "
            "sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE, and that @, :, / and ? in "
            "a password are %40, %3A, %2F and %3F"
        ) from None
    finally:
        optuna.logging.set_verbosity(verbosity)


@contextmanager
def alone(storage: Any) -> Iterator[None]:
    """Context manager: keep other workers from choosing a trial."""
    engine = storage.engine
    if engine.dialect.name == "sqlite":
        with locked(Path(engine.url.database or ".").parent, wait=True):
            yield
        return
    with engine.begin() as connection:
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
        yield


def without_password(url: str) -> str:
    """The URL of a storage without user, password and options, which may contain one.

    ```python
    >>> from linoss.search import without_password
    >>> without_password("postgresql://me:secret@host/studies?sslmode=require")
    'postgresql://***@host/studies?***'

    ```
    """
    address, mark, options = url.partition("?")
    if "@" in options or "://" not in address:
        return _HIDDEN
    if not address.startswith("sqlite"):
        address = re.sub(r"://.*@", f"://{_HIDDEN}@", address)
    return address + (f"?{_HIDDEN}" if mark else "")
