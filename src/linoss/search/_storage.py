"""The shared database of workers, with bounded waiting times and a lock.

SQLite for the workers of one machine, PostgreSQL for those of several.
"""

import hashlib
import os
import queue
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None

from linoss._files import open_lock
from linoss.search._extra import extra, quietly

T = TypeVar("T")

SILENCE = 60  # seconds
_CONNECT = 10  # seconds, for one attempt
_ANSWER = 20  # seconds until a storage counts as unreachable
_TURN = 60  # seconds, to wait for other workers
_TRIES = (0.5, 1, 2, 4, 8)  # seconds between attempts, once it has been reached
_LOCK = int.from_bytes(hashlib.sha256(b"linoss.search").digest()[:7])
_EXPECTED = "sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE"
_ADDRESS = re.compile(
    r"sqlite:///.*|[\w+]+://(?:[^:/?@]*(?P<password>:[^/?@]*)?@)?"
    r"(?:\[[^]/?@]*\]|[^[:/?@]*)(?::\d*)?(?:/[^?@]*)?"
)
_HIDDEN = "***"


class StorageError(ConnectionError):
    """A storage is unreachable.

    ```python
    >>> from linoss.search import StorageError
    >>> issubclass(StorageError, OSError)
    True

    ```
    """


class Storage:
    """A database of studies."""

    def __init__(self, url: str, silence: int = SILENCE):
        """Connect within a bounded time, or raise `StorageError`.

        **Arguments:**

        - `url`: `sqlite:///FILE` or `postgresql://USER:PASSWORD@HOST/DATABASE`.
        - `silence`: seconds without a heartbeat after which a worker counts as dead.
        """
        self._url = _parsed(url)
        self.name = without_password(url)
        self._engine = self._make_engine()
        within(_ANSWER, self._connect_once, lambda: self._unreachable("it does not answer"))
        self.interval = max(1, silence // 4)
        with self.alone(), quietly() as optuna:
            try:
                self.rdb = optuna.storages.RDBStorage(
                    self._url.render_as_string(hide_password=False)
                    .replace("{", "{{")
                    .replace("}", "}}"),
                    engine_kwargs=self._settings(),
                    heartbeat_interval=self.interval,
                    grace_period=silence,
                )
            except self._errors() as error:
                raise self._unreachable(_first_line(error)) from None
            except RuntimeError as error:  # of another version of Optuna
                raise StorageError(f"{self.name}: {error}") from None

    def close(self) -> None:
        """Close all connections."""
        self.rdb.remove_session()
        self.rdb.engine.dispose()
        self._engine.dispose()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Context manager: lock the storage; the lock is released if the process dies."""
        if self._url.get_backend_name() == "sqlite":
            with _file_lock(Path(f"{self._url.database}.lock")):
                yield
            return
        sqlalchemy = extra("sqlalchemy")
        try:
            connection = self._engine.connect()
        except self._errors() as error:
            raise self._unreachable(_first_line(error)) from None
        with connection:
            try:
                connection.execute(sqlalchemy.text(f"SET lock_timeout = '{_TURN}s'"))
                connection.execute(sqlalchemy.text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
            except self._errors() as error:
                raise self._unreachable(_first_line(error)) from None
            yield

    def patiently(self, call: Callable[[], T]) -> T:
        """Call a function, with retries for a bounded time if the storage is unreachable."""
        for pause in (*_TRIES, None):
            try:
                with quietly():
                    return call()
            except self._errors() as error:
                if pause is None and isinstance(error, StorageError):
                    raise
                if pause is None:
                    raise self._unreachable(_first_line(error)) from None
                time.sleep(pause)
        raise AssertionError

    # ---- Connections ----

    def _make_engine(self) -> Any:
        sqlalchemy = extra("sqlalchemy")
        settings = {**self._settings(), "poolclass": sqlalchemy.pool.NullPool}
        if self._url.get_backend_name() == "postgresql":
            extra("psycopg")
        return sqlalchemy.create_engine(self._url, **settings)

    def _settings(self) -> dict[str, Any]:
        if self._url.get_backend_name() == "sqlite":
            return {"connect_args": {"timeout": _TURN}}
        silent = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
        limits = {"connect_timeout": _CONNECT, "tcp_user_timeout": 30_000, **silent}
        return {"connect_args": limits, "pool_pre_ping": True}

    def _connect_once(self) -> None:
        sqlalchemy = extra("sqlalchemy")
        try:
            with self._engine.connect() as connection:
                connection.execute(sqlalchemy.text("SELECT 1"))
        except self._errors() as error:
            raise self._unreachable(_first_line(error)) from None

    def _errors(self) -> tuple[type[Exception], ...]:
        """The exceptions of an unreachable storage."""
        internal = extra("optuna").exceptions.StorageInternalError
        return (extra("sqlalchemy.exc").SQLAlchemyError, internal, StorageError)

    def _unreachable(self, why: str) -> StorageError:
        given = [self._url.password, *(v for k, v in self._url.query.items() if "pass" in k)]
        for secret in sorted((str(secret) for secret in given if secret), key=len, reverse=True):
            why = why.replace(secret, _HIDDEN)
        return StorageError(
            f"the storage {self.name} cannot be reached: {why}; check that it is running, its "
            "address, user and password"
        )


def without_password(url: str) -> str:
    """The URL of a storage without its password and its options, which may contain one.

    Everything that could be part of a password is removed.

    ```python
    >>> from linoss.search import without_password
    >>> without_password("postgresql://me:secret@host/studies")
    'postgresql://me:***@host/studies'
    >>> without_password("postgresql://host/studies?user=me&password=secret")
    'postgresql://host/studies?***'

    ```
    """
    address, asked, options = url.partition("?")
    found = _ADDRESS.fullmatch(address)
    if found is None or "@" in options:
        return _HIDDEN
    start, end = found.span("password")
    if start >= 0:
        address = f"{address[:start]}:{_HIDDEN}{address[end:]}"
    return address + (f"?{_HIDDEN}" if asked else "")


def within(seconds: float, call: Callable[[], T], late: Callable[[], Exception]) -> T:
    """The result of a call, or its exception; raises `late()` after the timeout."""
    answers: queue.Queue[tuple[bool, Any]] = queue.Queue()

    def run() -> None:
        try:
            answers.put((True, call()))
        except BaseException as error:
            answers.put((False, error))

    threading.Thread(target=run, daemon=True).start()
    try:
        good, answer = answers.get(timeout=seconds)
    except queue.Empty:
        raise late() from None
    if not good:
        raise answer
    return answer


def _parsed(url: str) -> Any:
    """The URL of a storage with its driver. It may contain a password."""
    sqlalchemy = extra("sqlalchemy")
    try:
        parsed = sqlalchemy.engine.make_url(url)
    except (sqlalchemy.exc.ArgumentError, ValueError):
        raise ValueError(f"the storage is invalid, expected {_EXPECTED}") from None
    kind = parsed.drivername.partition("+")[0]
    if without_password(url) == _HIDDEN:
        raise ValueError(
            "the storage has a user, password or option with @, :, / or ? in it, expected %40, "
            "%3A, %2F or %3F in their place"
        )
    if kind in ("postgresql", "postgres"):
        return parsed.set(drivername="postgresql+psycopg")
    if kind != "sqlite":
        raise ValueError(f"the storage is one of {kind}, expected {_EXPECTED}")
    if parsed.database in (None, "", ":memory:"):
        raise ValueError("the storage is in memory, where other workers cannot access it, "
                         "expected a file, such as sqlite:///study.db")  # fmt: skip
    if not Path(parsed.database).resolve().parent.is_dir():
        folder = Path(parsed.database).parent
        raise StorageError(f"the storage {parsed.database} cannot be reached: there is no {folder}")
    return parsed


def _first_line(error: BaseException) -> str:
    """The first line of the database's message."""
    cause = getattr(error, "orig", None) or error.__cause__ or error
    cause = getattr(cause, "orig", None) or cause
    lines = str(cause).strip().splitlines()
    return lines[0].strip().rstrip(".;:") if lines else type(cause).__name__


@contextmanager
def _file_lock(path: Path) -> Iterator[None]:
    if fcntl is None:
        yield
        return
    try:
        handle = open_lock(path)
    except OSError as error:
        raise StorageError(str(error)) from None
    try:
        end = time.monotonic() + _TURN
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise StorageError(f"{path}: another worker does not release it") from None
                time.sleep(0.02)
        yield
    finally:
        os.close(handle)
