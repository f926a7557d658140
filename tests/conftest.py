"""Double precision, runtime checks of shapes and types, and eight devices, in tests only."""

import contextlib
import ctypes
import functools
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from importlib.metadata import version
from pathlib import Path

PROGRAMS = Path(__file__).parents[1] / ".pytest_cache" / "d" / "programs"
WEEK = 7 * 24 * 3600
TRAINING_ROOMS = ("aeon", "cli", "export", "paper", "search", "sktime")
LARGE, MORE, MANY = 1e9, 1.5e8, 30_000

# Compile quickly rather than well, and once for all workers, child processes and runs.
_flags = ["--xla_backend_optimization_level=0", "--xla_cpu_parallel_codegen_split_count=1"]
if version("jaxlib").startswith("0.10."):  # elsewhere the flag is unknown, which is an error
    _flags.append("--xla_cpu_use_fusion_emitters=false")
for _name, _value in {
    "XLA_FLAGS": " ".join(_flags),
    "JAX_COMPILATION_CACHE_DIR": str(PROGRAMS),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES": "none",
    "OPENBLAS_NUM_THREADS": "1",  # threads that spin for products of 3 x 3 matrices
}.items():
    os.environ.setdefault(_name, _value)

import jax  # noqa: E402
import jaxtyping  # noqa: E402
import pytest  # noqa: E402
from hypothesis import settings  # noqa: E402
from jax._src.interpreters import mlir  # noqa: E402

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_num_cpu_devices", 8)

# One context of MLIR for all programs of a thread: making one takes longer than lowering a small
# program in it. JAX has no public way to keep it.
_context_of = functools.cache(lambda thread, make=mlir.make_ir_context: make())
mlir.make_ir_context = lambda: _context_of(threading.get_ident())

# Drawn examples are the same in every run, unless asked: pytest --hypothesis-profile=long
settings.register_profile("daily", max_examples=50, deadline=None, derandomize=True)
settings.register_profile("long", max_examples=1000, deadline=None)
settings.load_profile("daily")

with jaxtyping.install_import_hook("linoss", "beartype.beartype"):
    import linoss.nn  # noqa: F401


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """The daily tests leave out slow ones, rooms that train, and all but one of `several` cases.

    Tests of the whole project come first: a worker that begins them last keeps the others waiting.
    """
    items.sort(key=lambda item: item.path.parent != Path(__file__).parent)
    daily = set()
    for item in items:
        slow, several = item.get_closest_marker("slow"), item.get_closest_marker("several")
        if slow or item.path.parent.name in TRAINING_ROOMS or (several and item.function in daily):
            item.add_marker(pytest.mark.integration)
        elif several:
            daily.add(item.function)


def pytest_collection_finish():
    """Leave what was imported out of garbage collections, which would walk all of it.

    They are rare, too: tracing makes many objects, of which few are garbage.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """Give memory back where compiled programs hold much of it, or many of Linux's 65530 maps.

    Not again before they hold more: what is left is no program, and programs are missed.
    """
    next_module = nextitem is None or nextitem.path != item.path
    if _held() > pytest_runtest_teardown.limit or (next_module and _maps() > MANY):
        jax.clear_caches()
        _context_of.cache_clear()
        gc.collect()
        if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):  # glibc keeps what is freed
            trim(0)
        pytest_runtest_teardown.limit = max(LARGE, _held() + MORE)


pytest_runtest_teardown.limit = LARGE


def _held():
    """Bytes of memory in use, where the system says so."""
    pages = Path("/proc/self/statm")
    return int(pages.read_text().split()[1]) * os.sysconf("SC_PAGESIZE") if pages.exists() else 0


def _maps():
    """Number of memory maps, where the system says so."""
    maps = Path("/proc/self/maps")
    return maps.read_bytes().count(b"\n") if maps.exists() else 0


def pytest_sessionfinish(session):
    """Forget programs compiled a week ago: JAX does not."""
    if hasattr(session.config, "workerinput"):
        return
    for path in PROGRAMS.glob("*-cache"):
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_mtime < time.time() - WEEK:
                path.unlink()


@pytest.fixture(autouse=True)
def _no_promotion(request):
    """In the rooms of numbers, ranks and types of arrays meet only where the code says how."""
    if request.path.parent.name not in ("dynamics", "scan", "nn"):
        yield
        return
    with jax.numpy_rank_promotion("raise"), jax.numpy_dtype_promotion("strict"):
        yield


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
