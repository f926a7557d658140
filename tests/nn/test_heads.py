"""Heads: which features become answers."""

import equinox as eqx
import numpy as np
import pytest

T = 12


def assert_close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.several
def test_each_head_is_the_loop(make_model, model_loop, draw, head):
    model, u = make_model(**head), draw(2, T, 2)
    found = model(u)
    for i in range(2):
        assert_close(found[i], model_loop(model, u[i]))


def same_weights(make_model, **heads_and_changes):
    """Models that differ in their heads alone."""
    first, second = (make_model(**options) for options in heads_and_changes.values())
    assert eqx.tree_equal(first.encoder, second.encoder)
    assert eqx.tree_equal(first.head.decoder, second.head.decoder)
    return first, second


@pytest.mark.several
@pytest.mark.parametrize(("known", "irregular"), [(False, True), (True, False)])
def test_forecast_is_the_end_of_a_sequence_extended_by_hand(
    make_model, draw, draw_intervals, known, irregular
):
    forecast, every = same_weights(
        make_model,
        forecast={"task": "forecasting", "horizon": 3, "scheme": "verlet"},
        every={"task": "regression", "every": 1, "scheme": "verlet"},
    )
    u, future = draw(2, T, 2), draw(2, 3, 2, seed=1) if known else None
    intervals = draw_intervals(2, T) if irregular else None
    extended = np.concatenate([u, np.zeros((2, 3, 2)) if future is None else future], axis=1)
    steps = None if intervals is None else np.concatenate([intervals, np.ones((2, 3))], axis=1)
    found = forecast(u, future=future, intervals=intervals)
    assert found.shape == (2, 3, 3)
    assert_close(found, every(extended, intervals=steps)[:, T:])
    if steps is not None:
        steps[:, T:] = [[0.5, 2.0, 3.0], [1.5, 0.25, 4.0]]
        found = forecast(u, future=future, intervals=intervals, future_intervals=steps[:, T:])
        assert_close(found, every(extended, intervals=steps)[:, T:])
        padded = np.concatenate([u, np.ones((2, 2, 2))], axis=1)
        given = {"intervals": np.pad(steps[:, :T], ((0, 0), (0, 2)), constant_values=9.0)}
        given |= {"lengths": np.array([T, T]), "future_intervals": steps[:, T:]}
        assert_close(forecast(padded, future=future, **given), found)


def test_future_covariates_are_the_loop(make_model, model_loop, draw):
    model = make_model(task="forecasting", horizon=3)
    u, future = draw(2, T, 2), draw(2, 3, 2, seed=1)
    found = model(u, future=future)
    for i in range(2):
        assert_close(found[i], model_loop(model, u[i], future=future[i]))
    assert not np.allclose(found, model(u))
