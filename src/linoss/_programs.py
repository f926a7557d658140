"""A persistent cache of programs compiled by JAX, in the user's cache directory.

The environment variable `LINOSS_CACHE` sets another directory, or `off`. JAX's own settings take
precedence: if they name a directory or disable the cache, they are not changed. Programs are code:
a directory that belongs to another user, or to which others can write, is not used. Failures only
cost compilation time and are ignored.
"""

import hashlib
import os
import platform
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.extend.backend
import numpy as np
import platformdirs
from jax.version import __version__ as jax_version

VARIABLE = "LINOSS_CACHE"
ROUGHLY = {"xla_backend_optimization_level": 0}
"""Options of `jax.jit` for a program that runs once, or does little besides calling kernels."""
_OFF = ("off", "no", "0", "")
_LONGEST = 30 * 24 * 3600  # seconds
_LARGEST = 10**9  # bytes
_TOUCHED_BY_OTHERS = 0o022
_IMPORTED_BY = os.getpid()
_started_by: int | None = None


def refuse_forked() -> None:
    """Raise in a process that was forked after JAX had started, where it would wait forever."""
    global _started_by
    if _started_by is None and os.getpid() == _IMPORTED_BY:
        _started_by = _IMPORTED_BY
    elif _started_by is None:  # forked; has JAX threads in this process?
        jax.extend.backend.backends()
        threads = Path("/proc/self/task")
        if not threads.exists() or len(list(threads.iterdir())) > threading.active_count():
            _started_by = os.getpid()
    if _started_by != os.getpid():
        raise RuntimeError(
            "this process was forked after JAX had started, whose threads it lacks: start it by "
            "multiprocessing.get_context('spawn'), or by joblib's loky"
        )


def keep_programs() -> Path | None:
    """Enable the cache; returns its directory, or None if it is not enabled."""
    config: Any = jax.config
    known = config.jax_compilation_cache_dir
    if known is not None or not config.jax_enable_compilation_cache:
        return None if known is None else Path(known)
    chosen = os.environ.get(VARIABLE)
    if chosen is not None and chosen.lower() in _OFF:
        return None
    try:
        root = Path(chosen) if chosen else platformdirs.user_cache_path("linoss") / "programs"
        directory = root.expanduser().absolute() / f"jax-{jax_version}-{_processor()}"
        if not (_own(directory.parent) and _own(directory)):
            return None
        _forget_old(directory.parent)
    except (OSError, RuntimeError, ValueError):
        return None
    config.update("jax_compilation_cache_dir", str(directory))
    if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
        config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    return directory


@contextmanager
def kept_programs() -> Iterator[None]:
    """Context manager or decorator for what compiles: enables the cache.

    A program truncated by a full disk is compiled again, without a warning.
    """
    refuse_forked()
    keep_programs()
    with warnings.catch_warnings():
        unreadable = "Error (reading|writing) persistent compilation cache entry"
        warnings.filterwarnings("ignore", unreadable)
        yield


@cache
def quickly() -> dict[str, Any]:
    """Options of `jax.jit` that halve the compilation time.

    They select XLA's older emitters for fused operations, if available. Results differ by rounding.
    """
    options = {"xla_cpu_use_fusion_emitters": False}
    try:
        jax.jit(lambda x: x, compiler_options=options)(np.float32(0))
    except jax.errors.JaxRuntimeError:  # only one emitter exists
        return {}
    return options


def _own(directory: Path) -> bool:
    """Create a directory, and return whether the user owns it and can write to it."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = directory.stat()
    own = not hasattr(os, "getuid") or status.st_uid == os.getuid()
    closed = os.name == "nt" or not status.st_mode & _TOUCHED_BY_OTHERS
    return own and closed and os.access(directory, os.W_OK | os.X_OK)


def _processor() -> str:
    """A name for the target of compilation, because machines may share a home directory."""
    facts = [platform.system(), platform.machine(), platform.processor()]
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        facts += next(([line] for line in file if line.startswith(("flags", "Features"))), [])
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


def _forget_old(root: Path) -> None:
    """Remove old programs, and the oldest ones if the cache is too large; JAX removes none."""
    kept = 0
    files = [(path.stat(), path) for path in root.glob("jax-*/*-cache")]
    for status, path in sorted(files, key=lambda entry: -entry[0].st_mtime):
        kept += status.st_size
        if status.st_mtime < time.time() - _LONGEST or kept > _LARGEST:
            with suppress(OSError):
                path.unlink()
