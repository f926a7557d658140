"""Double precision and runtime checks of shapes and types, in tests only."""

import jax
import jaxtyping
import pytest

jax.config.update("jax_enable_x64", True)

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
