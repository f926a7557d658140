"""Products of bfloat16 numbers, natively and in plain JAX, against rounding in NumPy."""

import equinox as eqx
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import linoss
from linoss import kernels
from linoss.dynamics import Transition
from linoss.nn import Samples, run_blocks

native = pytest.mark.skipif("native" not in linoss.engines(), reason="the kernels were not built")
pytestmark = pytest.mark.usefixtures("single_precision")


def rounded(x):
    return np.asarray(x, np.float32).astype(ml_dtypes.bfloat16).astype(np.float64)


@native
@pytest.mark.parametrize(("hidden", "time"), [(19, 67), (32, 128), (1, 1)])
def test_a_kernel_rounds_the_factors_of_every_product(draw, halfway, hidden, time):
    """Oscillators that pass on their force, y = B x. Each row of B and of C has one number, so that
    what a product gives is rounded again without an error of its own; C is dense in the second
    case."""

    def drawn(*shape, seed):
        return halfway(draw(*shape, seed=seed))

    swap = np.random.default_rng(5).permutation(hidden)
    B = np.diag(drawn(hidden, seed=1))[swap]
    dense = hidden == 32
    C = drawn(hidden, hidden, seed=2) if dense else np.diag(drawn(hidden, seed=2))[:, swap]
    u, d = drawn(2, time, hidden, seed=3), drawn(2, time, hidden, seed=4)
    zeros, none = jnp.zeros(hidden), jnp.zeros((hidden, 2, 2))
    step = Transition(none, none[..., 0].at[:, 1].set(1))
    norm, glu = kernels.Normalization(0.0, 1.0), kernels.Affine(jnp.zeros(0), jnp.zeros(0))

    def mix(u, B, C):
        mixer = kernels.LinearRecurrence(step, B, zeros, C, zeros)
        block = kernels.BlockArrays(norm, (mixer, mixer), glu)
        return kernels.run_backwards(block, u, kernels.Timing(), precision="bfloat16")

    out, pull_back = jax.vjp(mix, *map(jnp.asarray, (u, B, C)))
    d_u, d_B, d_C = pull_back(jnp.asarray(d))
    y = rounded(u) @ rounded(B).T
    np.testing.assert_allclose(out, rounded(y) @ rounded(C).T, rtol=1e-5, atol=1e-4)
    expected = np.einsum("bni,bnj->ij", rounded(d), rounded(y))
    np.testing.assert_allclose(d_C, expected, rtol=1e-5, atol=1e-4)
    if not dense:
        d_y = rounded(d) @ rounded(C)
        np.testing.assert_allclose(d_u, rounded(d_y) @ rounded(B), rtol=1e-5, atol=1e-4)
        expected = np.einsum("bni,bnj->ij", rounded(d_y), rounded(u))
        np.testing.assert_allclose(d_B, expected, rtol=1e-5, atol=1e-4)


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


@native
def test_a_stream_computes_as_the_model():
    config = linoss.LinOSSConfig(
        in_size=3, out_size=2, hidden_size=19, state_size=9, num_blocks=2, precision="bfloat16"
    )
    model = linoss.LinOSS(config, key=jax.random.key(0))
    u = np.asarray(jax.random.normal(jax.random.key(1), (40, 3)))
    listen = linoss.Stream(model)
    answers = np.stack([listen(sample) for sample in u])
    expected, _ = model.run(model.init_state(), u, engine="native")
    np.testing.assert_allclose(answers, expected, rtol=1e-4, atol=1e-5)
