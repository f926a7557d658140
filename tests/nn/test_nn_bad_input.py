"""Wrong arguments are refused with their name, what came and what was expected."""

import re

import jax
import numpy as np
import pytest

from linoss import Block, LinOSS, LinOSSConfig, LinOSSLayer

pytestmark = pytest.mark.usefixtures("unchecked")

T = 5
GOOD = np.zeros((2, T, 2))
SIZES = {"in_size": 2, "out_size": 3, "hidden_size": 4, "state_size": 3, "num_blocks": 1}


@pytest.fixture(scope="module")
def model():
    return LinOSS(LinOSSConfig(**SIZES), key=jax.random.key(0))


def changed(shape, index, value, dtype=float):
    array = np.ones(shape, dtype)
    array[index] = value
    return array


BAD_CALLS = [
    ({"u": np.zeros(2)}, "u has shape (2,), expected (..., time, 2)"),
    ({"u": np.zeros((2, T, 3))}, "u has shape (2, 5, 3), expected (..., time, 2)"),
    ({"u": np.zeros((2, 0, 2))}, "u has shape (2, 0, 2), expected at least one step"),
    ({"u": np.zeros((2, T, 2), int)}, "u has dtype int64, expected a floating-point array"),
    ({"u": np.zeros((2, T, 2), complex)}, "u has dtype complex128, expected a floating-point"),
    ({"u": "series"}, "u has str, expected a floating-point array"),
    ({"lengths": np.array([0, 5])}, "lengths is 0 at index (0,), expected 1 to 5"),
    ({"lengths": np.array([5, 6])}, "lengths is 6 at index (1,), expected 1 to 5"),
    ({"lengths": np.array([5.0, 5.0])}, "lengths has dtype float64, expected integers"),
    ({"lengths": np.array([5])}, "lengths has shape (1,), expected (2,)"),
    ({"mask": np.ones((2, T))}, "mask has dtype float64, expected"),
    ({"mask": np.ones((2, T, 1), bool)}, "mask has shape (2, 5, 1), expected (2, 5)"),
    ({"intervals": changed((2, T), (1, 3), -1)}, "intervals is -1.0 at index (1, 3), expected"),
    ({"intervals": changed((2, T), (0, 1), np.nan)}, "intervals is nan at index (0, 1), expected"),
    ({"intervals": np.ones(T)}, "intervals has shape (5,), expected (2, 5)"),
    ({"intervals": np.ones((2, T), int)}, "intervals has dtype int64, expected a floating-point"),
    ({"future": np.zeros((2, 3, 2))}, "future was given, but task is 'classification'"),
    ({"future_intervals": np.ones((2, 3))}, "future_intervals was given, but task is 'classific"),
    ({"engine": "fast"}, "engine is 'fast', expected one of 'auto'"),
]


@pytest.mark.parametrize(("bad", "message"), BAD_CALLS)
def test_calls(model, bad, message):
    options = {"u": GOOD, **bad}
    with pytest.raises(ValueError, match=re.escape(message)):
        model(options.pop("u"), **options)


@pytest.mark.parametrize(
    "options",
    [{"lengths": np.array([0, 9])}, {"intervals": -np.ones((2, T))}],
    ids=["lengths", "intervals"],
)
def test_arrays_that_can_be_seen_while_the_data_is_traced(model, options):
    with pytest.raises(ValueError, match=f"{next(iter(options))} is .* at index"):
        jax.jit(lambda u: model(u, **options))(GOOD)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"future": np.zeros((2, 4, 2))}, "future has shape (2, 4, 2), expected (2, 3, 2)"),
        ({"future": np.zeros((2, 3, 2), int)}, "future has dtype int64, expected a floating"),
        ({"future_intervals": np.ones((2, 3))}, "future_intervals was given, but intervals is"),
        ({"future_intervals": np.ones((2, 4)), "intervals": np.ones((2, T))}, "has shape (2, 4)"),
        ({"future_intervals": -np.ones((2, 3)), "intervals": np.ones((2, T))}, "is -1.0 at index"),
    ],
)
def test_the_future(given, message):
    config = LinOSSConfig(**SIZES, task="forecasting", horizon=3)
    forecaster = LinOSS(config, key=jax.random.key(0))
    with pytest.raises(ValueError, match=re.escape(message)):
        forecaster(GOOD, **given)


def test_states_of_something_else(model):
    for batch in ((2, 2), ()):
        message = f"state is for a batch of shape {batch}, expected (2,)"
        with pytest.raises(ValueError, match=re.escape(message)):
            model.run(model.init_state(batch), GOOD)
    for state in (None, np.zeros((2, 3, 2))):
        message = f"state is a {type(state).__name__}, expected what init_state or run returned"
        with pytest.raises(ValueError, match=message):
            model.run(state, GOOD)


@pytest.mark.parametrize("key", [None, 0])
def test_training_wants_a_key(model, key):
    with pytest.raises(ValueError, match=f"key is {key!r}, expected a key"):
        model.training_pass(GOOD, key=key)


BAD_SETTINGS = [  # one of each kind; those that estimators have, too, are tested there
    *(
        (name, value, "an integer >= 1")
        for name in ("in_size", "every")
        for value in (0, True, "3")
    ),
    ("horizon", 0, "an integer >= 1"),
    ("task", "clustering", "one of 'classification'"),
    ("parameterization", "exp", "one of 'relu'"),
    ("stiffness_init", "zeros", "one of 'uniform'"),
    ("max_stiffness", float("nan"), "a finite number > 0"),
    ("min_radius", 0.0, "a number in (0, 1]"),
    ("timestep", 0.0, "'learned' or a finite number > 0"),
    ("feedthrough", "sparse", "one of 'vector'"),
    ("norm", "group", "one of None, 'layer'"),
    ("dropout", 1.0, "a number in [0, 1)"),
    ("squash", "no", "True or False"),
]


@pytest.mark.parametrize(("name", "value", "expected"), BAD_SETTINGS)
def test_settings(name, value, expected):
    task = {"every": "regression", "horizon": "forecasting", "squash": "regression"}
    settings = {**SIZES, "task": task.get(name, "classification"), name: value}
    if name == "squash":
        settings["every"] = 2
    message = rf"{name} is {re.escape(repr(value))}, .*{re.escape(expected)}"
    with pytest.raises(ValueError, match=rf"(^|\W){message}"):
        LinOSSConfig(**settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"every": 2}, "every is 2, but task is 'classification', not 'regression'"),
        ({"horizon": 2}, "horizon is 2, but task is 'classification', not 'forecasting'"),
        ({"task": "forecasting"}, "horizon is None, expected a number of steps"),
        ({"squash": True, "task": "regression"}, "squash is True, but every is None"),
        ({"scheme": "verlet", "damped": True}, "damped is True, but scheme 'verlet' has no"),
    ],
)
def test_settings_that_do_not_go_together(settings, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        LinOSS(LinOSSConfig(**SIZES, **settings), key=jax.random.key(0))


def make_layer():
    return LinOSSLayer(4, 3, key=jax.random.key(0))


def make_block():
    return Block(make_layer(), key=jax.random.key(1))


@pytest.mark.parametrize("make", [make_layer, make_block])
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"u": np.zeros((2, T, 3))}, "u has shape (2, 5, 3), expected (..., time, 4)"),
        ({"mask": np.ones((2, T + 1), bool)}, "mask has shape (2, 6), expected (2, 5)"),
        ({"intervals": np.ones((2, T + 1))}, "intervals has shape (2, 6), expected (2, 5)"),
        ({"engine": "fast"}, "engine is 'fast', expected one of 'auto'"),
    ],
)
def test_layers_and_blocks(make, bad, message):
    options = {"u": np.zeros((2, T, 4)), **bad}
    with pytest.raises(ValueError, match=re.escape(message)):
        make()(options.pop("u"), **options)
