"""The whole model: Algorithm 1 as a loop, and what JAX's transformations make of it."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import linoss
from linoss import LinOSS, LinOSSConfig, trainable

T = 12


def assert_close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.several
@pytest.mark.parametrize("scheme", ["im", "verlet"])
def test_algorithm_1(make_model, model_loop, draw, scheme):
    model, u = make_model(LinOSSConfig.algorithm1, scheme=scheme, num_blocks=2), draw(2, T, 2)
    block = model.blocks[0]
    assert jax.tree.leaves(block.norm) == []
    assert block.glu.bias is None
    assert block.mixer.bias.shape == (3,)
    assert block.mixer.feedthrough.shape == (4, 4)
    assert np.array_equal(block.mixer.oscillators.timestep, np.ones(3))
    found = model(u)
    assert found.shape == (2, 3)
    for i in range(2):
        assert_close(found[i], model_loop(model, u[i]))


def test_defaults_are_the_published_settings():
    sizes = {"in_size": 2, "out_size": 3}
    published = {"gelu": "tanh", "shared_dropout": True}
    assert LinOSSConfig(**sizes, **published) == LinOSSConfig.published(**sizes)


def test_any_leading_axes(make_model, model_loop, draw):
    model, u = make_model(), draw(2, 3, T, 2)
    found = model(u)
    assert found.shape == (2, 3, 3)
    for i in np.ndindex(2, 3):
        assert_close(found[i], model_loop(model, u[i]))


@pytest.mark.several
@pytest.mark.parametrize("engine", linoss.engines())
def test_an_empty_batch_has_no_answers(single_precision, engine):
    config = LinOSSConfig(in_size=2, out_size=3, hidden_size=8, state_size=4, num_blocks=1)
    model = LinOSS(config, key=jax.random.key(0))
    assert model(jnp.zeros((0, T, 2), jnp.float32), engine=engine).shape == (0, 3)


def test_vmap_over_series_and_over_models(make_model, draw):
    u = jnp.asarray(draw(2, T, 2))
    models = [make_model(seed=seed) for seed in (0, 1)]
    assert_close(jax.vmap(models[0])(u), models[0](u))
    arrays, static = zip(*(eqx.partition(model, eqx.is_array) for model in models), strict=True)
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *arrays)
    ensemble = jax.vmap(lambda arrays: eqx.combine(arrays, static[0])(u))(stacked)
    assert_close(ensemble, jnp.stack([model(u) for model in models]))


@pytest.mark.integration
def test_gradient_of_training_is_that_of_finite_differences(make_model, draw):
    options = {"damped": True, "scheme": "imex", "bias": True, "bidirectional": True}
    model = make_model(dropout=0.3, num_blocks=2, **options)
    u, target, key = draw(3, T, 2), draw(3, 3, seed=1), jax.random.key(2)
    lengths = np.array([T, 7, 3])
    weights, rest = eqx.partition(model, trainable(model))

    @jax.jit
    @jax.value_and_grad
    def loss(weights):
        answers, _ = eqx.combine(weights, rest).training_pass(u, key=key, lengths=lengths)
        return jnp.mean((answers - target) ** 2)

    _, gradient = loss(weights)
    generator, eps = np.random.default_rng(3), 1e-6
    for leaf in range(len(jax.tree.leaves(weights))):
        leaves, structure = jax.tree.flatten(weights)
        direction = generator.normal(size=leaves[leaf].shape)
        values = []
        for sign in (1, -1):
            moved = [*leaves]
            moved[leaf] = leaves[leaf] + sign * eps * direction
            values.append(float(loss(jax.tree.unflatten(structure, moved))[0]))
        numeric = (values[0] - values[1]) / (2 * eps)
        found = np.sum(jax.tree.leaves(gradient)[leaf] * direction)
        np.testing.assert_allclose(found, numeric, rtol=2e-5, atol=1e-8)


@pytest.mark.several
@pytest.mark.parametrize(
    "head",
    [
        {"pooling": "mean"},
        {"pooling": "last"},
        {"task": "regression", "every": 3},
        {"task": "forecasting", "horizon": 3},
    ],
    ids=str,
)
def test_nan_that_is_not_masked_gives_nan(make_model, draw, head):
    model, u, mask = make_model(**head), draw(2, T, 2), np.ones((2, T), bool)
    u[1, 4, 0] = np.nan
    u[:, 7], mask[:, 7] = np.nan, False
    answers = np.asarray(model(u, mask=mask))
    assert np.all(np.isfinite(answers[0]))
    after = answers[1][4 // head["every"] :] if "every" in head else answers[1]
    assert np.all(np.isnan(after))
