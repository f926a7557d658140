"""Wrong arguments are refused in words that name them, what came and what was expected."""

import re

import jax.numpy as jnp
import numpy as np
import pytest

import linoss

pytestmark = pytest.mark.usefixtures("unchecked")
FORCE = np.zeros((2, 5, 3))
STATE = np.zeros((2, 3, 2))


@pytest.fixture
def transition(make_transition):
    return make_transition("imex", 3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"force": np.zeros(3)}, ["force", "(3,)", "(..., time, 3)"]),
        ({"force": np.zeros((5, 4))}, ["force", "(5, 4)", "(..., time, 3)"]),
        ({"force": np.zeros((0, 3))}, ["force", "(0, 3)", "at least one step of time"]),
        ({"force": np.zeros((5, 3), int)}, ["force", "int64", "floating-point"]),
        ({"force": np.zeros((5, 3), complex)}, ["force", "complex128", "floating-point"]),
        ({"force": "noise"}, ["force", "str", "floating-point"]),
        ({"initial_state": STATE[..., :1]}, ["initial_state", "(2, 3, 1)", "(2, 3, 2)"]),
        ({"initial_state": np.zeros((4, 3, 2))}, ["initial_state", "(4, 3, 2)", "(2, 3, 2)"]),
        ({"initial_state": np.zeros((1, 2, 3, 2))}, ["initial_state", "(1, 2, 3, 2)"]),
        ({"initial_state": np.zeros((3, 2), int)}, ["initial_state", "int64", "floating-point"]),
        ({"mask": np.ones((2, 5))}, ["mask", "float64", "bool"]),
        ({"mask": [[True] * 5] * 2}, ["mask", "list", "bool"]),
        ({"mask": np.ones((2, 4), bool)}, ["mask", "(2, 4)", "(2, 5)"]),
        ({"mask": np.ones((2, 5, 3), bool)}, ["mask", "(2, 5, 3)", "(2, 5)"]),
        ({"engine": "parallel"}, ["engine", "'parallel'", "'auto'", "'associative'"]),
        ({"engine": None}, ["engine", "None", "'auto'"]),
        ({"engine": "native", "forward_mode": True}, ["engine is 'native'", ""]),
        ({"transition": np.zeros((3, 2, 2))}, ["transition", "ndarray", "linoss.discretize"]),
    ],
    ids=str,
)
def test_error_names_the_argument_what_came_and_what_was_expected(options, words, transition):
    arguments = {"transition": transition, "force": FORCE, **options}
    with pytest.raises(ValueError, match=".*".join(map(re.escape, words))):
        linoss.oscillator_scan(**arguments)


@pytest.mark.parametrize("shape", [(4, 1), (6, 3), (3, 5, 1), (1, 2, 5, 3)])
def test_timesteps_of_another_length_are_refused(shape):
    step = linoss.discretize("im", jnp.ones(3), np.full(shape, 0.1))
    words = rf"timestep has shape {re.escape(str(shape))}, expected .*\(2,\) and 5 steps"
    with pytest.raises(ValueError, match=words):
        linoss.oscillator_scan(step, FORCE)
