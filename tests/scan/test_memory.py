"""What a scan and its gradient hold: nothing as large as (time, 4 m)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import linoss

BATCH, TIME, WIDTH = 2, 20_000, 8
SEQUENCE = BATCH * TIME * WIDTH


def float_arrays(jaxpr):
    """Every floating-point array that a program makes, inside its loops and calls too."""
    for equation in jaxpr.eqns:
        for variable in equation.outvars:
            if jnp.issubdtype(variable.aval.dtype, jnp.floating):
                yield variable.aval
        for parameter in jax.tree.leaves(
            list(equation.params.values()), is_leaf=lambda x: hasattr(x, "eqns")
        ):
            inner = getattr(parameter, "jaxpr", parameter)
            if hasattr(inner, "eqns"):
                yield from float_arrays(inner)


def program(engine, *, timestep=0.3, masked=False, time=TIME):
    """The gradient of a scan with respect to all it may be taken of."""
    mask = jnp.ones((BATCH, time), bool) if masked else None

    def loss(transition, force, start):
        positions, final = linoss.oscillator_scan(
            transition, force, initial_state=start, mask=mask, engine=engine
        )
        return positions.sum() + final.sum()

    transition = linoss.discretize("imex", jnp.linspace(0.1, 1.0, WIDTH), timestep)
    force, start = jnp.zeros((BATCH, time, WIDTH)), jnp.zeros((BATCH, WIDTH, 2))
    gradient = jax.jit(jax.value_and_grad(loss, argnums=(0, 1, 2)))
    return gradient, (transition, force, start)


def arrays_of(*args, **options):
    gradient, arguments = program(*args, **options)
    return list(float_arrays(jax.make_jaxpr(gradient)(*arguments).jaxpr))


@pytest.mark.several
@pytest.mark.parametrize(
    ("engine", "masked", "width"),
    [
        ("sequential", False, None),
        ("auto", False, None),
        ("sequential", True, None),
        ("sequential", False, 1),
        ("sequential", True, WIDTH),
        ("associative", False, WIDTH),
        ("associative", True, WIDTH),
    ],
)
def test_no_array_of_matrices(engine, masked, width, single_precision):
    """The parallel scan makes them a segment at a time."""
    timestep = 0.3 if width is None else np.full((BATCH, TIME, width), 0.3, np.float32)
    sizes = {array.size for array in arrays_of(engine, timestep=timestep, masked=masked)}
    assert max(sizes) <= SEQUENCE
    if engine == "associative":
        assert max(sizes - {SEQUENCE}) <= BATCH * 1024 * WIDTH


@pytest.mark.several
@pytest.mark.parametrize("varying", [False, True])
def test_the_backward_pass_holds_few_sequences(varying, single_precision):
    """The compiled program's buffers beside arguments and results: positions, their cotangents."""
    time = 10 * TIME
    timestep = np.full((BATCH, time, 1), 0.3, np.float32) if varying else 0.3
    gradient, arguments = program("sequential", timestep=timestep, time=time)
    held = gradient.lower(*arguments).compile().memory_analysis().temp_size_in_bytes
    assert held <= 4 * arguments[1].nbytes
