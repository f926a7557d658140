"""Products of bfloat16 numbers, natively and in plain JAX."""

import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import linoss
from linoss.nn import Samples, run_blocks

native = pytest.mark.skipif("native" not in linoss.engines(), reason="the kernels were not built")
pytestmark = pytest.mark.usefixtures("single_precision")


@native
@pytest.mark.parametrize(
    ("options", "varying"),
    [
        ({}, False),
        pytest.param(
            {"norm": "layer", "feedthrough": "dense", "bidirectional": True},
            True,
            marks=pytest.mark.integration,
        ),
    ],
    ids=str,
)
def test_the_native_block_is_the_plain_one(new_block, options, varying):
    """A sum that differs in its last bit may be rounded to the next bfloat16, 2^-8 away: far more
    than the difference of most results, and far less than that from single precision."""
    block = new_block(19, 9, timestep="learned", key=jax.random.key(0), **options)
    u = jax.random.normal(jax.random.key(1), (3, 150, 19))
    intervals = 0.5 + jax.random.uniform(jax.random.key(2), u.shape[:2]) if varying else None
    weights, rest = eqx.partition(block, linoss.trainable(block))
    words = jnp.array([1, 2], jnp.uint32)

    @eqx.filter_jit
    def results(weights, u, engine, precision):
        def train(weights, u):
            samples = Samples(u, None, intervals, engine=engine, precision=precision)
            return run_blocks((eqx.combine(weights, rest),), u, samples, None, words[None])[
                0
            ].values

        out, pull_back = jax.vjp(train, weights, u)
        return out, pull_back(jnp.cos(u))

    found, plain, single = (
        jax.tree_util.tree_leaves_with_path(results(weights, u, engine, precision))
        for engine, precision in (
            ("native", "bfloat16"),
            ("sequential", "bfloat16"),
            ("native", "float32"),
        )
    )
    nearer = []
    for (path, x), (_, y), (_, z) in zip(found, plain, single, strict=True):
        size = np.max(np.abs(y), initial=1e-6)
        np.testing.assert_allclose(
            x, y, rtol=0, atol=4e-3 * size, err_msg=jax.tree_util.keystr(path)
        )
        nearer.append(np.linalg.norm(x - y) < 0.5 * np.linalg.norm(z - y))
    assert np.mean(nearer) > 0.8


def test_training_is_refused_where_products_are_emulated(make_model, draw, monkeypatch):
    model = make_model(precision="bfloat16")
    monkeypatch.setattr("linoss.kernels._library.native", None)
    with pytest.raises(ValueError, match=re.escape("precision is 'bfloat16', but this processor")):
        model.training_pass(draw(2, 5, 2), key=jax.random.key(0))
    assert np.isfinite(model(draw(2, 5, 2), engine="sequential")).all()
