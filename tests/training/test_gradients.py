"""Integrated gradients against a plain sum, and what they must be by their definition."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import linoss.data
from linoss import LinOSS, LinOSSConfig
from linoss.training import Inputs, integrated_gradients


@pytest.fixture(scope="module")
def problem():
    """A model, its inputs, and cases of two channels of which some values are missing."""
    random = np.random.default_rng(0)
    values = [3 + random.normal(size=(2, n)) for n in (24, 20, 24)]
    values[1][0, 3:6] = np.nan
    values[1][:, 9] = np.nan
    cases = linoss.data.sequences(values)
    inputs = Inputs.from_sequences(cases, time_channel=True)
    sizes = {"in_size": inputs.in_size, "out_size": 3, "hidden_size": 6, "state_size": 4}
    model = LinOSS(LinOSSConfig(**sizes, num_blocks=2), key=jax.random.key(0))
    return model, inputs, cases


@pytest.mark.integration
def test_they_are_the_integral(problem):
    model, inputs, cases = problem
    result = integrated_gradients(model, inputs, cases.select([0]), tolerance=1e-9)
    given = inputs(cases.batch([0]), dtype=np.float64)
    u, places = given["u"], (np.arange(2000) + 0.5) / 2000

    def answer(values, column):
        whole = jnp.concatenate([u[:, :, :1], values, u[:, :, 3:]], axis=-1)
        return model(whole, lengths=given["lengths"], mask=given["mask"])[0, column]

    slope = jax.jit(
        lambda place, column: jax.grad(answer)(place * u[:, :, 1:3], column), static_argnums=1
    )
    total = np.mean([slope(place, 1)[0] for place in places], axis=0) * u[0, :, 1:3]
    np.testing.assert_allclose(result.attributions[1], total, atol=1e-6)


def test_answers_are_accounted_for_completely(problem):
    model, inputs, cases = problem
    for case in range(3):
        result = integrated_gradients(model, inputs, cases.select([case]))
        change = result.output - result.baseline
        gap = np.abs(result.attributions.sum(axis=(1, 2)) - change).max()
        assert gap == pytest.approx(result.error * np.abs(change).max())
        assert result.error <= 1e-3


def test_what_is_missing_adds_nothing(problem):
    model, inputs, cases = problem
    result = integrated_gradients(model, inputs, cases.select([1])).attributions
    assert result.shape == (3, 20, 2)
    assert not result[:, 3:6, 0].any()
    assert not result[:, 9].any()
    assert result[:, 4, 1].all()


def test_several_cases_are_refused(problem):
    with pytest.raises(ValueError, match="cases has 3 cases, expected one"):
        integrated_gradients(*problem)
