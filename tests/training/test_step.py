"""One update, against the same by hand, and how often it is compiled."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from linoss import trainable


def one_update(problem, **settings):
    options = {"steps": 1, "batch_size": 24, "schedule": "constant", **settings}
    return problem.train(**options, validation_set=None).model


@pytest.fixture(scope="module")
def gradient_of_all(make_problem):
    """Weights and gradient of the first batch, which has all cases, by the plain formula."""
    problem = make_problem()
    weights, others = eqx.partition(problem.model, trainable(problem.model))
    random = np.random.default_rng([0, 0])
    chosen = random.permutation(24)
    batch = problem.training_set.batch(chosen)
    arguments = problem.inputs(batch, masked=False, dtype=np.float64)
    places = problem.objective.encode(batch.labels)

    def loss(weights):
        key = jax.random.fold_in(jax.random.key(0), 0)
        answers, _ = eqx.combine(weights, others).training_pass(**arguments, key=key)
        return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(answers, places))

    return weights, eqx.filter_jit(jax.grad(loss))(weights)


def adam(gradient, rate):
    """Adam's first step: each entry moves by the rate, against its gradient."""
    return jax.tree.map(lambda g: -rate * g / (jnp.abs(g) + 1e-8), gradient)


def assert_close(model, expected):
    model = eqx.filter(model, trainable(model))
    for x, y in zip(jax.tree.leaves(model), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-9)


@pytest.mark.integration
def test_adam(make_problem, gradient_of_all):
    problem = make_problem()
    weights, gradient = gradient_of_all
    expected = jax.tree.map(jnp.add, weights, adam(gradient, 0.01))
    assert_close(one_update(problem, learning_rate=0.01, clip_norm=None), expected)


def test_clipping_scales_the_gradient(make_problem, gradient_of_all):
    problem = make_problem()
    weights, gradient = gradient_of_all
    norm = jnp.sqrt(sum(jnp.sum(g**2) for g in jax.tree.leaves(gradient)))
    clip = 1e-7  # so small that Adam's epsilon shows it
    small = jax.tree.map(lambda g: g * clip / norm, gradient)
    expected = jax.tree.map(jnp.add, weights, adam(small, 0.01))
    assert_close(one_update(problem, learning_rate=0.01, clip_norm=clip), expected)


def test_progress_has_the_norm_of_the_gradient_and_the_rate(make_problem, gradient_of_all):
    seen = []
    one_update(make_problem(), learning_rate=0.01, clip_norm=1e-7, on_progress=seen.append)
    norm = jnp.sqrt(sum(jnp.sum(g**2) for g in jax.tree.leaves(gradient_of_all[1])))
    np.testing.assert_allclose(seen[-1].gradient_norm, norm, rtol=1e-6)
    assert seen[-1].learning_rate == pytest.approx(0.01)


def test_decay_is_decoupled(make_problem, gradient_of_all):
    weights, gradient = gradient_of_all
    model = one_update(make_problem(), learning_rate=0.01, clip_norm=None, weight_decay=0.5)
    weight, change = weights.encoder.weight, adam(gradient, 0.01).encoder.weight
    expected = weight + change - 0.01 * 0.5 * weight
    np.testing.assert_allclose(model.encoder.weight, expected, rtol=1e-6, atol=1e-9)


@pytest.fixture
def lowered():
    """The names of the functions that were lowered since, by JAX's own events."""
    names, kept = [], jax.monitoring
    kept.register_event_duration_secs_listener(
        lambda event, _, **about: names.append(about.get("fun_name")) if "mlir" in event else None
    )
    return names


@pytest.mark.integration
@pytest.mark.usefixtures("single_precision")
def test_few_programs_for_many_lengths_and_none_for_a_second_run(make_problem, lowered):
    problem = make_problem(lengths=(12, 40), hidden_size=3)
    problem.train(steps=40, evaluate_every=40)
    assert 0 < len([name for name in lowered if "update" in str(name)]) <= 2  # 4 padded lengths
    lowered.clear()
    changes = {"learning_rate": 3e-3, "steps": 9, "warmup": 2, "seed": 5, "clip_norm": 0.3}
    model = make_problem(lengths=(12, 40), hidden_size=3, seed=3).model
    lowered.clear()
    problem.train(**changes, model=model)
    assert lowered == []
