"""`oscillator_scan` on pieces of a sequence that lie on several devices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import linoss

TIME, SIZE = 24, 3
MESH = jax.sharding.Mesh(np.array(jax.devices()[:4]), ("pieces",))


def problem(kind):
    """Stiffnesses, forces, state, mask and timesteps; all of one piece is missing."""
    random = np.random.default_rng(0)
    mask = random.random((2, TIME)) < 0.6
    mask[0, :8] = False
    steps = random.uniform(0.2, 0.6, (2, TIME, 1))
    return {
        "stiffness": jnp.asarray(random.uniform(0.5, 2.0, SIZE)),
        "force": jnp.asarray(random.normal(size=(2, TIME, SIZE))),
        "state": None if kind == "from rest" else jnp.asarray(random.normal(size=(2, SIZE, 2))),
        "mask": jnp.asarray(mask) if kind in ("masked", "irregular") else None,
        "timestep": jnp.asarray(steps) if kind == "irregular" else jnp.asarray(0.4),
    }


def scan(scheme, given, *, reverse, engine, time_axis=None):
    step = linoss.discretize(scheme, stiffness=given["stiffness"], timestep=given["timestep"])
    return linoss.oscillator_scan(
        step,
        given["force"],
        initial_state=given["state"],
        mask=given["mask"],
        reverse=reverse,
        engine=engine,
        time_axis=time_axis,
    )


def split_scan(scheme, given, *, reverse, engine):
    specs = {name: P(None, "pieces") if name in ("force", "mask") else P() for name in given}
    if given["timestep"].ndim:
        specs["timestep"] = P(None, "pieces")
    return jax.shard_map(
        lambda given: scan(scheme, given, reverse=reverse, engine=engine, time_axis="pieces"),
        mesh=MESH,
        in_specs=(specs,),
        out_specs=(P(None, "pieces"), P()),
        check_vma=False,
    )(given)


# Verlet weighs a force by what came before, on another device; the others make steps only.
@pytest.mark.several
@pytest.mark.parametrize(
    ("scheme", "engine", "kind", "reverse"),
    [
        ("im", "sequential", "masked", True),
        ("verlet", "sequential", "from rest", False),
        ("verlet", "sequential", "irregular", False),
        pytest.param("imex", "sequential", "irregular", False, marks=pytest.mark.slow),
        pytest.param("exact", "sequential", "irregular", False, marks=pytest.mark.slow),
    ],
)
def test_it_is_the_scan_of_the_whole(scheme, engine, kind, reverse):
    given = problem(kind)
    floats = {k: v for k, v in given.items() if v is not None and v.dtype == jnp.float64}

    def loss(run, engine):
        def value(floats):
            given_here = {**given, **floats}
            positions, final = run(scheme, given_here, reverse=reverse, engine=engine)
            return jnp.sum(jnp.sin(positions)) + jnp.sum(final**2), (positions, final)

        return jax.jit(jax.value_and_grad(value, has_aux=True))

    expected, found = loss(scan, "sequential")(floats), loss(split_scan, engine)(floats)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-10)
