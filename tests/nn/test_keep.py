"""What the forward pass keeps: as much as memory allows, with the same results to the bit."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import linoss
from linoss.kernels import Kept, kept_products

ALL = Kept.FORCES | Kept.OUTPUTS | Kept.GATES
SIZES = {"samples": 1000, "hidden": 100, "pairs": 200, "blocks": 3, "precision": "float32"}
OF_OUTPUTS, OF_FORCES, OF_GATES = 4 * 1000 * 112, 4 * 1000 * 208, 4 * 1000 * 224


@pytest.mark.parametrize(
    ("memory", "changes", "expected"),
    [
        (0, {}, [Kept.NONE] * 3),
        (OF_OUTPUTS - 1, {}, [Kept.NONE] * 3),
        (2 * OF_OUTPUTS, {}, [Kept.OUTPUTS, Kept.OUTPUTS, Kept.NONE]),
        (3 * OF_OUTPUTS + OF_FORCES, {}, [Kept.OUTPUTS | Kept.FORCES] + [Kept.OUTPUTS] * 2),
        (3 * (OF_OUTPUTS + OF_FORCES + OF_GATES), {}, [ALL] * 3),
        (10**12, {"hidden": 16}, [Kept.OUTPUTS] * 3),  # forces and gates save too little
        (10**12, {"hidden": 16, "pairs": 32}, [Kept.NONE] * 3),
        (10**12, {"precision": "bfloat16"}, [Kept.OUTPUTS] * 3),
    ],
)
def test_what_saves_most_is_kept_first(memory, changes, expected):
    assert kept_products(memory, **{**SIZES, **changes}) == expected


@pytest.mark.integration
@pytest.mark.usefixtures("single_precision")
@pytest.mark.skipif("native" not in linoss.engines(), reason="the kernels were not built")
def test_results_do_not_depend_on_memory():
    """With nothing, a part and everything kept, in blocks that have all products there are."""
    config = linoss.LinOSSConfig(
        in_size=3,
        out_size=2,
        hidden_size=72,
        state_size=50,
        num_blocks=2,
        bidirectional=True,
        feedthrough="dense",
    )
    model = linoss.LinOSS(config, key=jax.random.key(0))
    weights, rest = eqx.partition(model, linoss.trainable(model))
    u = jax.random.normal(jax.random.key(1), (3, 150, 3))

    def results(memory):
        def loss(weights):
            answers, norms = eqx.combine(weights, rest).training_pass(
                u, key=jax.random.key(2), engine="native", memory=memory
            )
            return jnp.sum(answers**2), norms

        found = jax.jit(jax.value_and_grad(loss, has_aux=True))(weights)
        return [np.asarray(leaf) for leaf in jax.tree.leaves(found)]

    nothing, *others = (results(memory) for memory in (0, 4 * 450 * (2 * 80 + 112), 10**9))
    for found in others:
        assert [x.tobytes() for x in found] == [x.tobytes() for x in nothing]
