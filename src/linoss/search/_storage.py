"""The database of a study: SQLite for the workers of one machine, PostgreSQL for several."""

import re
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from linoss import _extras
from linoss._files import locked

extra = partial(_extras.optional, purpose="a search", extra="search")

_PAUSES = (0.5, 1.0, 2.0, None)  # seconds between attempts to open a storage
_LOCK = int.from_bytes(b"linoss")
_CONNECT = 5  # seconds, for one attempt
_LOCKED = 60  # seconds to wait for other workers on a file
_EXPECTED = "sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE"
_HIDDEN = "***"


class StorageError(ConnectionError):
    """A storage is unreachable.

    ```python
    >>> from linoss.search import StorageError
    >>> issubclass(StorageError, OSError)
    True

    ```
    """


@contextmanager
def opened(url: str, silence: int) -> Iterator[Any]:
    """Yield Optuna's storage, with heartbeats; Optuna is silent meanwhile.

    Raises `StorageError` if the storage cannot be reached.

    **Arguments:**

    - `url`: `sqlite:///FILE` or `postgresql://USER:PASSWORD@HOST/DATABASE`.
    - `silence`: seconds without a heartbeat after which a worker counts as dead.
    """
    optuna, errors = extra("optuna"), extra("sqlalchemy.exc")
    address, options = _checked(url)
    options |= {"heartbeat_interval": max(1, silence // 4), "grace_period": silence}
    unreachable = (errors.SQLAlchemyError, optuna.exceptions.StorageInternalError)
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            warnings.filterwarnings("ignore", "Heartbeat of storage is supposed to be used")
            storage = _connected(address, options, unreachable)
            try:
                yield storage
            finally:
                storage.remove_session()
                storage.engine.dispose()
    except unreachable as error:
        reason = _first_line(error)
        for secret in (address.password, address.query.get("password")):
            reason = reason.replace(str(secret), _HIDDEN) if secret else reason
        raise StorageError(
            f"the storage {without_password(url)} cannot be reached: {reason}; check that it is "
            "running, its address, user and password"
        ) from None
    finally:
        optuna.logging.set_verbosity(verbosity)


@contextmanager
def alone(storage: Any) -> Iterator[None]:
    """Context manager: keep other workers from choosing a trial."""
    engine = storage.engine
    if engine.dialect.name == "sqlite":
        with locked(Path(engine.url.database).parent, wait=True):
            yield
        return
    with engine.begin() as connection:
        lock = extra("sqlalchemy").text(f"SELECT pg_advisory_xact_lock({_LOCK})")
        connection.execute(lock)
        yield


def _connected(
    address: Any, options: dict[str, Any], unreachable: tuple[type[Exception], ...]
) -> Any:
    url = address.render_as_string(hide_password=False)
    for pause in _PAUSES:
        try:
            return extra("optuna").storages.RDBStorage(re.sub(r"([{}])", r"\1\1", url), **options)
        except unreachable:  # also if another worker creates the same tables
            if pause is None:
                raise
            time.sleep(pause)
    raise AssertionError


def _checked(url: str) -> tuple[Any, dict[str, Any]]:
    """The parsed URL of a storage with its driver, and options of Optuna's storage."""
    sqlalchemy = extra("sqlalchemy")
    try:
        address = sqlalchemy.engine.make_url(url)
    except (sqlalchemy.exc.ArgumentError, ValueError):
        raise ValueError(f"the storage is invalid, expected {_EXPECTED}") from None
    kind = address.drivername.partition("+")[0]
    if kind in ("postgresql", "postgres"):
        extra("psycopg")
        unescaped = (address.host, address.database, url.partition("?")[2])
        if any("@" in (part or "") for part in unescaped):
            raise ValueError(
                "the storage has a user, password or option with @, :, / or ? in it, expected "
                "%40, %3A, %2F or %3F in their place"
            )
        limits = {"connect_timeout": _CONNECT, "tcp_user_timeout": 30_000}
        alive = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
        engine = {"connect_args": {**limits, **alive}, "pool_pre_ping": True}
        return address.set(drivername="postgresql+psycopg"), {"engine_kwargs": engine}
    if kind != "sqlite":
        raise ValueError(f"the storage is one of {kind}, expected {_EXPECTED}")
    if address.database in (None, "", ":memory:"):
        raise ValueError(
            "the storage is in memory, where other workers cannot access it, expected a file, "
            "such as sqlite:///study.db"
        )
    folder = Path(address.database).parent
    if not folder.is_dir():
        raise StorageError(f"the storage {address.database} cannot be reached: no {folder}")
    return address, {"engine_kwargs": {"connect_args": {"timeout": _LOCKED}}}


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


def _first_line(error: BaseException) -> str:
    """The first line of the database's message."""
    cause = getattr(error, "orig", None) or error.__cause__ or error
    cause = getattr(cause, "orig", None) or cause
    lines = str(cause).strip().splitlines()
    return lines[0].strip().rstrip(".;:") if lines else type(cause).__name__
