"""The end of a sequence, segment by segment, is that of the whole, and so is its derivative."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import linoss
from linoss.scan import end_of_segments

TRANSITION = linoss.discretize("imex", stiffness=np.array([0.3, 1.0]), timestep=0.5, damping=0.01)


def advance(weights, u, mask, state):
    scale, weight = weights
    force = jnp.tanh(u * scale) @ weight
    options = {"initial_state": state, "mask": mask, "engine": "sequential"}
    return linoss.oscillator_scan(TRANSITION, force, **options)[1]


@pytest.mark.several
@pytest.mark.parametrize(
    ("time", "masked"), [(1, False), (1023, True), (1024, False), (2500, True)]
)
def test_values_and_gradients(time, masked):
    random = np.random.default_rng(time)
    u, start = (jnp.asarray(random.normal(size=s)) for s in ((2, time, 3), (2, 2, 2)))
    weights = tuple(jnp.asarray(random.normal(size=s)) for s in ((1, 1, 3), (3, 2)))
    mask = jnp.asarray(random.random((2, time)) < 0.7) if masked else None

    def in_segments(weights, u, mask, start):
        return end_of_segments(advance, weights, u, mask, start)

    def value_and_gradient(run):
        def value(weights, u, start):
            end = run(weights, u, mask, start)
            return jnp.sum(jnp.sin(end)), end

        compute = jax.jit(jax.value_and_grad(value, argnums=(0, 1, 2), has_aux=True))
        return compute(weights, u, start)

    expected, found = value_and_gradient(advance), value_and_gradient(in_segments)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-10)
