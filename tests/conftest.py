"""Double precision, runtime checks of shapes and types, and eight devices, in tests only."""

import gc
import os
from pathlib import Path

os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")  # compiles twice as fast

import jax
import jaxtyping
import pytest

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_num_cpu_devices", 8)

with jaxtyping.install_import_hook("linoss", "beartype.beartype"):
    import linoss  # noqa: F401


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
def _few_compiled_programs():
    """Each compiled program holds pieces of memory of which a process may have so many (on Linux
    65,530); past that, compilers crash. A long run lets them go between modules."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > 10_000:
        jax.clear_caches()
        gc.collect()
