"""How the closed-form part of a forecaster is chosen, where there are few windows to choose by."""

import numpy as np
import pandas

from linoss.data import read_table
from linoss.forecasting import Components
from linoss.forecasting._linear import relative_errors
from linoss.forecasting._seasonal_trend import Clock
from linoss.forecasting._selection import Selection, methods_of, rolling_origins

PAST, HORIZON, SEASON = 10, 4, 5
SETTINGS = {"logarithm": "auto", "trend": "auto", "normalize": "auto"}


def selected(values):
    data = read_table(pandas.DataFrame({"y": values}))
    clock = Clock.of(data.index, SEASON, calendar=False)

    def fit(part, options):
        return Components.fit(part, clock, (), (PAST, HORIZON), options, SEASON)

    return data, Selection.of(data, fit, methods_of(data, clock, (), PAST, SETTINGS), None)


def forecast(components, data):
    """Of the last window, whose future is in the data."""
    windows = components.windows(data, only_last=True)
    return components.restore(data, windows, np.zeros(1, int), np.zeros((1, HORIZON, 1)))[0, :, 0]


def test_forecasts_of_the_second_half_begin_once_each_after_what_they_learn_from():
    data = read_table(pandas.DataFrame({"y": np.arange(60.0)}))
    begins = []
    for training, held_out in rolling_origins(data, PAST, HORIZON, 8):
        values = held_out.series[0][:, 0]
        begins.append(values[PAST : len(values) - HORIZON + 1])
        assert training.series[0][-1, 0] == begins[-1][0] - 1
    assert len(begins) == 8
    np.testing.assert_array_equal(np.concatenate(begins), np.arange(30, 57))


def test_a_season_that_wanders_is_the_last_one_again():
    """No harmonics fit seasons that change; the last season is among the linear answers."""
    random = np.random.default_rng(0)
    values = list(5 * random.normal(size=SEASON))
    for _ in range(75):
        values.append(values[-SEASON] + 0.02 * random.normal())
    data, selection = selected(values)
    assert selection.errors is not None
    assert selection.errors.shape[1:] == (HORIZON, 1)
    deviation = selection.components.decomposition.series[0].deviation[0]
    assert np.abs(selection.errors * deviation).mean() < 0.5
    np.testing.assert_allclose(forecast(selection.components, data), values[-HORIZON:], atol=0.5)


def test_errors_of_a_walk_are_those_of_its_last_value():
    """Left-out windows are not forecast better than a walk can be, nor much worse."""
    walk = np.cumsum(np.random.default_rng(1).normal(size=80))
    _, selection = selected(walk)
    assert selection.errors is not None
    sizes = selection.errors[..., 0] * selection.components.decomposition.series[0].deviation[0]
    naive = np.stack([walk[begin : begin + HORIZON] - walk[begin - 1] for begin in range(40, 77)])
    assert sizes.shape == naive.shape
    assert 0.85 < np.mean(np.abs(sizes)) / np.mean(np.abs(naive)) < 1.3


def test_later_trials_count_more_and_units_cancel():
    errors = np.array([[1.0, 3.0], [20.0, 10.0], [np.nan, np.nan]])
    np.testing.assert_allclose(
        relative_errors(errors), [(0.5 + 2 * 4 / 3) / 3, (1.5 + 2 * 2 / 3) / 3]
    )
