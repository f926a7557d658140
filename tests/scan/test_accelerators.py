"""What runs on accelerators, as far as it can be known without one: the programs they get."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import linoss

pytestmark = pytest.mark.usefixtures("single_precision")


@pytest.fixture
def elsewhere(monkeypatch):
    """JAX as on a machine with an accelerator: all that `"auto"` asks it."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")


def gradient(timestep=0.3, mask=None):
    """A scan and its gradient, and shapes for it."""

    def loss(stiffness, force):
        step = linoss.discretize("imex", stiffness, timestep)
        return jnp.sum(jnp.sin(linoss.oscillator_scan(step, force, mask=mask)[0]))

    shapes = jax.ShapeDtypeStruct((5,), jnp.float32), jax.ShapeDtypeStruct((300, 5), jnp.float32)
    return jax.jit(jax.value_and_grad(loss, argnums=(0, 1))), shapes


@pytest.mark.several
@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("platform", ["cuda", "tpu"])
def test_constant_steps_are_products_in_full_precision(platform):
    function, shapes = gradient()
    program = export.export(function, platforms=[platform])(*shapes).mlir_module()
    products = re.findall(r"stablehlo\.dot_general.*", program)
    large = [line for line in products if "f32" in line]
    assert len(large) >= 6
    assert all(line.count("HIGHEST") == 2 for line in products)
    assert "custom_call" not in program.replace("custom_call @Sharding", "")


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize(
    "changes",
    [{"timestep": np.full((300, 1), 0.3, np.float32)}, {"mask": np.arange(300) % 7 > 0}],
    ids=["timestep", "mask"],
)
def test_varying_or_missing_steps_are_the_parallel_scan(changes):
    function, shapes = gradient(**changes)
    program = export.export(function, platforms=["cuda"])(*shapes).mlir_module()
    assert "stablehlo.dot_general" not in program
