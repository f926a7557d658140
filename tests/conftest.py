"""Double precision, runtime checks of shapes and types, and eight devices, in tests only."""

import contextlib
import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

PROGRAMS = Path(__file__).parents[1] / ".pytest_cache" / "d" / "programs"
WEEK = 7 * 24 * 3600

# Compile without optimization, twice as fast, and once for all workers, child processes and runs.
for _name, _value in {
    "XLA_FLAGS": "--xla_backend_optimization_level=0",
    "JAX_COMPILATION_CACHE_DIR": str(PROGRAMS),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES": "none",
}.items():
    os.environ.setdefault(_name, _value)

import jax  # noqa: E402
import jaxtyping  # noqa: E402
import pytest  # noqa: E402

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_num_cpu_devices", 8)

with jaxtyping.install_import_hook("linoss", "beartype.beartype"):
    import linoss  # noqa: F401


def pytest_sessionfinish(session):
    """Forget programs compiled a week ago: JAX does not."""
    if hasattr(session.config, "workerinput"):
        return
    for path in PROGRAMS.glob("*-cache"):
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_mtime < time.time() - WEEK:
                path.unlink()


@pytest.fixture
def single_precision():
    """JAX as users have it, without double precision."""
    with jax.enable_x64(False):
        yield


@pytest.fixture
def unchecked():
    """The library as users have it, without runtime type checks: for tests of wrong arguments."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(autouse=True, scope="module")
def _no_compiled_programs_of_other_modules():
    """Free compiled programs after each module: a few hundred of them hold a gigabyte."""
    yield
    jax.clear_caches()
    gc.collect()


@contextlib.contextmanager
def _interruptible():
    """Start processes that heed SIGINT, even where this one was started to ignore it.

    A process inherits an ignored signal from its parent, but no handler.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.fixture
def start():
    """Start Python in a process of its own, `start("-m", "linoss", ..., stdout=...)`.

    It leads a session, so `os.killpg` reaches its children, too; none outlives the test.
    """
    started = []

    def start(*arguments, **options):
        with _interruptible():
            process = subprocess.Popen(
                [sys.executable, *map(str, arguments)], start_new_session=True, **options
            )
        started.append(process)
        return process

    yield start
    for process in started:
        with process, contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
