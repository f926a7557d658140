"""The answers for a case depend on nothing but the case."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import linoss.data
from linoss.training import (
    Classification,
    Inputs,
    Regression,
    evaluate,
    predict,
)

pytestmark = pytest.mark.usefixtures("single_precision")

MODELS = [
    {"hidden_size": 13, "state_size": 9},
    {"hidden_size": 8, "norm": "layer", "scheme": "verlet", "bidirectional": True},
]


def used(model):
    """The model with norms that have seen something."""
    random = np.random.default_rng(0)

    def stir(norm):
        if not hasattr(norm, "variance"):
            return norm
        mean, variance = random.uniform(0.5, 2, (2, *norm.mean.shape)).astype(np.float32)
        statistics = (jnp.asarray(mean), jnp.asarray(variance))
        return eqx.tree_at(lambda norm: (norm.mean, norm.variance), norm, statistics)

    return model.with_norms(tuple(stir(block.norm) for block in model.blocks))


@pytest.mark.several
@pytest.mark.parametrize(
    ("settings", "missing"),
    [
        (MODELS[0], 0.2),
        (MODELS[1], 0.0),
        pytest.param(MODELS[0], 0.0, marks=pytest.mark.slow),
        pytest.param(MODELS[1], 0.2, marks=pytest.mark.slow),
    ],
    ids=["plain, missing", "bidirectional", "plain", "bidirectional, missing"],
)
def test_bit_for_bit_whatever_else_is_asked(waves, make_model, settings, missing):
    cases = waves(45, 0, (12, 30), missing)
    inputs = Inputs.from_sequences(cases)
    model = used(make_model(inputs.in_size, **settings))
    together = predict(model, inputs, cases)
    random = np.random.default_rng(1)
    for count in (1, 3, 44):
        chosen = random.permutation(45)[:count]
        np.testing.assert_array_equal(
            predict(model, inputs, cases.select(chosen)), together[chosen], strict=True
        )


def test_bit_for_bit_where_training_lengths_were_equal(waves, make_model):
    inputs = Inputs.from_sequences(waves(8, 0))
    model = used(make_model())
    whole, short, gappy = waves(5, 1), waves(5, 2, (20, 30)), waves(5, 3, missing=0.2)
    values = [*whole.values, *short.values, *gappy.values]
    together = predict(model, inputs, linoss.data.Sequences(values))
    for i, value in enumerate(values):
        alone = predict(model, inputs, linoss.data.Sequences([value]))
        np.testing.assert_array_equal(alone[0], together[i])


def test_answers_are_those_of_the_model(waves, make_model):
    cases = waves(2, 0, (5, 40))
    inputs = Inputs.from_sequences(cases)
    model = used(make_model())
    for i, outputs in enumerate(predict(model, inputs, cases)):
        expected = model(inputs(cases.batch([i]), masked=False)["u"])
        np.testing.assert_allclose(outputs, expected[0], rtol=1e-4, atol=1e-5)


def test_answers_at_every_kth_step_are_as_many_as_the_case_has(make_model, waves):
    cases = waves(4, 0, (12, 30))
    inputs = Inputs.from_sequences(cases)
    outputs = predict(make_model(task="regression", every=4), inputs, cases)
    assert [len(x) for x in outputs] == [n // 4 for n in cases.lengths]
    equal = waves(4, 0)
    assert predict(make_model(task="regression", every=4), inputs, equal).shape == (4, 7, 2)


def test_the_metric_is_that_of_the_answers(make_model, waves):
    cases = waves(11, 0, (12, 30))
    inputs, objective = Inputs.from_sequences(cases), Classification.from_labels(cases.labels)
    model = make_model()
    chosen = np.array(objective.classes)[predict(model, inputs, cases).argmax(axis=1)]
    assert evaluate(model, inputs, objective, cases) == np.mean(chosen == cases.labels)


def test_the_metric_of_numbers_weighs_each_answer_alike(make_model, waves):
    waves = waves(5, 0, (12, 30))
    labels = [np.random.default_rng(n).normal(size=(n // 4, 1)) for n in waves.lengths]
    cases = linoss.data.Sequences(waves.values, labels)
    model = make_model(1, 1, task="regression", every=4)
    inputs, objective = Inputs.from_sequences(cases), Regression.from_labels(labels, every=4)
    errors = np.concatenate(predict(model, inputs, cases)) - np.concatenate(
        [objective.scaling.apply(label) for label in labels]
    )
    np.testing.assert_allclose(
        evaluate(model, inputs, objective, cases), np.mean(errors**2), rtol=1e-6
    )


def test_another_in_size_is_refused(make_model, waves):
    cases = waves(4, 0)
    with pytest.raises(ValueError, match="in_size is 3, expected 1, the in_size of inputs"):
        predict(make_model(3), Inputs.from_sequences(cases), cases)
