"""Compiled programs of JAX, kept between processes in the user's cache directory.

`LINOSS_CACHE` names another directory, or is `off`. JAX's own settings come first: where they name
a directory, or switch the cache off, nothing is changed. Programs are code: a directory that
belongs to somebody else, or to which others may write, is not used. What fails here costs time and
nothing else, so that it is no error.
"""

import hashlib
import os
import platform
import time
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
import platformdirs
from jax.version import __version__ as jax_version

VARIABLE = "LINOSS_CACHE"
_OFF = ("off", "no", "0", "")
_LONGEST = 30 * 24 * 3600  # seconds that a program is kept
_LARGEST = 10**9  # bytes of all programs
_TOUCHED_BY_OTHERS = 0o022


def keep_programs() -> Path | None:
    """Keep compiled programs from now on; returns the directory, or None if they are not kept."""
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
    # A program cut short by a full disk is compiled again.
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache entry")
    return directory


@cache
def quickly() -> dict[str, Any]:
    """Options of `jax.jit` for a program that is compiled in half the time.

    XLA's older generator of fused operations takes the place of the newer one, where it can be
    chosen. Results differ by rounding.
    """
    options = {"xla_cpu_use_fusion_emitters": False}
    try:
        jax.jit(lambda x: x, compiler_options=options)(np.float32(0))
    except jax.errors.JaxRuntimeError:  # there is but one
        return {}
    return options


def _own(directory: Path) -> bool:
    """Create a directory; whether it is the user's own, and can be written."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = directory.stat()
    own = not hasattr(os, "getuid") or status.st_uid == os.getuid()
    closed = os.name == "nt" or not status.st_mode & _TOUCHED_BY_OTHERS
    return own and closed and os.access(directory, os.W_OK | os.X_OK)


def _processor() -> str:
    """Names what programs are compiled for: a home directory may be shared by machines."""
    facts = [platform.system(), platform.machine(), platform.processor()]
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        facts += next(([line] for line in file if line.startswith(("flags", "Features"))), [])
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


def _forget_old(root: Path) -> None:
    """Remove programs compiled long ago, and the oldest of too many: JAX removes none."""
    kept = 0
    found = [(path.stat(), path) for path in root.glob("jax-*/*-cache")]
    for status, path in sorted(found, key=lambda entry: -entry[0].st_mtime):
        kept += status.st_size
        if status.st_mtime < time.time() - _LONGEST or kept > _LARGEST:
            with suppress(OSError):
                path.unlink()
