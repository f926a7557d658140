"""The settings of a run: checked, written down, and what they mean for rates and decay."""

import json

import jax
import numpy as np
import pytest

from linoss.training import TrainingConfig
from linoss.training._step import LearningRates, decayed


def test_json_round_trip():
    config = TrainingConfig(steps=7, clip_norm=None, patience=3, warmup=2, weight_decay=0.1)
    assert TrainingConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


@pytest.mark.usefixtures("unchecked")
def test_numbers_of_numpy_can_be_written():
    config = TrainingConfig(steps=np.int64(5), learning_rate=np.float64(0.1))
    assert json.loads(json.dumps(config.to_dict()))["steps"] == 5


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("steps", -1),
        ("steps", 2.5),
        ("batch_size", True),
        ("learning_rate", 0.0),
        ("learning_rate", float("nan")),
        ("warmup", -1),
        ("warmup", 1000),
        ("schedule", "linear"),
        ("weight_decay", -0.1),
        ("weight_decay", float("inf")),
        ("clip_norm", 0),
        ("evaluate_every", 0),
        ("patience", 0),
        ("seed", -1),
        ("seed", 2**32),
        ("seed", "zero"),
    ],
)
def test_a_bad_setting_is_named(name, value):
    with pytest.raises(ValueError, match=f"^{name} is {value!r}, expected"):
        TrainingConfig(**{name: value})


def test_an_unknown_setting_is_named():
    with pytest.raises(ValueError, match="'momentum' is not a setting"):
        TrainingConfig.from_dict({"momentum": 0.9})


def rates(**settings):
    config = TrainingConfig(learning_rate=0.2, **settings)
    rate = LearningRates(config)
    return np.array([rate(i) for i in range(config.steps)])


def test_constant_rate():
    np.testing.assert_allclose(rates(steps=5, schedule="constant"), np.full(5, 0.2))


def test_cosine_rate():
    expected = 0.2 * (1 + np.cos(np.pi * np.arange(8) / 8)) / 2
    np.testing.assert_allclose(rates(steps=8), expected, atol=1e-15)


def test_warmup_rises_in_equal_steps_to_the_cosine():
    found = rates(steps=12, warmup=4)
    np.testing.assert_allclose(found[:4], 0.2 * np.arange(1, 5) / 5)
    np.testing.assert_allclose(found[4:], 0.2 * (1 + np.cos(np.pi * np.arange(8) / 8)) / 2)


def test_warmup_to_a_constant():
    found = rates(steps=5, warmup=2, schedule="constant")
    np.testing.assert_allclose(found, [0.2 / 3, 0.4 / 3, 0.2, 0.2, 0.2])


def test_rates_do_not_depend_on_where_one_begins():
    config = TrainingConfig(steps=3000, warmup=100)
    there, back = LearningRates(config), LearningRates(config)
    steps = [0, 1023, 1024, 2999]
    assert [there(i) for i in steps] == [back(i) for i in reversed(steps)][::-1]


@pytest.mark.several
@pytest.mark.parametrize("norm", ["layer", "batch"])
def test_matrices_decay_and_nothing_else(make_model, norm):
    model = make_model(norm=norm, damped=True, scheme="imex", bias=True)
    marks = jax.tree_util.tree_flatten_with_path(decayed(model))[0]
    names = {jax.tree_util.keystr(path, simple=True, separator=".") for path, mark in marks if mark}
    assert names == {
        "encoder.weight",
        "blocks.0.mixer.input_weight",
        "blocks.0.mixer.output_weight",
        "blocks.0.mixer.feedthrough",
        "blocks.0.glu.weight",
        "head.decoder.weight",
    }
