"""Trend and seasons: fits to the median, clocks, periods of the data."""

import numpy as np
import pytest
from scipy.optimize import linprog

from linoss.forecasting._linear import smoothing_weights
from linoss.forecasting._seasonal_trend import (
    DAY,
    WEEK,
    YEAR,
    Clock,
    SeasonalTrend,
    strongest_period,
)


def hours(count, start="2024-01-01"):
    return np.datetime64(start, "h") + np.arange(count)


def none(count):
    return np.zeros((count, 0))


def test_coefficients_have_the_least_absolute_error():
    """Against a linear program: min sum u + v with terms b + u - v = y."""
    random = np.random.default_rng(0)
    index = hours(24 * 10)
    values = np.sin(2 * np.pi * np.arange(240) / 24) + random.exponential(size=240)
    fitted = SeasonalTrend.fit(
        Clock.of([index], None, calendar=True), index, values[:, None], none(240), trend=False
    )
    terms = fitted.terms(index, none(240))
    ones = np.eye(240)
    cost = np.concatenate([np.zeros(terms.shape[1]), np.ones(480)])
    bounds = [(None, None)] * terms.shape[1] + [(0, None)] * 480
    best = linprog(cost, A_eq=np.hstack([terms, ones, -ones]), b_eq=values, bounds=bounds).fun
    found = np.abs(values - fitted(index, none(240))[:, 0]).sum()
    assert best <= found < 1.005 * best
    squares = np.linalg.lstsq(terms, values, rcond=None)[0]
    assert found < np.abs(values - terms @ squares).sum()


def test_a_wave_of_the_calendar_goes_on():
    index = hours(24 * 7 * 6)
    time = np.arange(len(index))
    wave = 5 + 2 * np.sin(2 * np.pi * time / 24 + 1) + np.cos(2 * np.pi * time / 168)
    fitted = SeasonalTrend.fit(
        Clock.of([index], None, calendar=True),
        index[:840],
        wave[:840, None],
        none(840),
        trend=False,
    )
    assert fitted.counts[0] == 0  # of the year, of which there is no second one
    np.testing.assert_allclose(fitted(index[840:], none(168))[:, 0], wave[840:], atol=0.02)


def test_missing_values_are_left_out():
    index = hours(24 * 20)
    wave = np.sin(2 * np.pi * np.arange(480) / 24)[:, None]
    holes = np.where(np.random.default_rng(0).random((480, 1)) < 0.9, np.nan, wave)
    clock = Clock.of([index], None, calendar=True)
    fitted = SeasonalTrend.fit(clock, index, holes, none(480), trend=False)
    np.testing.assert_allclose(fitted(index, none(480)), wave, atol=0.05)
    empty = SeasonalTrend.fit(clock, index, np.full((480, 1), np.nan), none(480), trend=True)
    assert not empty(index, none(480)).any()


def test_smoothing_is_linear_in_the_past():
    """Against the recursion of a level and a damped trend that begins with zeros."""
    values = np.random.default_rng(0).normal(size=12)
    level, slope = 0.0, 0.0
    for value in values:
        before, level = level, 0.3 * value + 0.7 * (level + 0.9 * slope)
        slope = 0.1 * (level - before) + 0.9 * 0.9 * slope
    weights = smoothing_weights(12, 3, 1, 0.3, 0.1, 0.9, None)
    ahead = level + slope * np.cumsum([0.9, 0.81, 0.729])
    np.testing.assert_allclose(values @ weights, ahead)


def test_smoothing_of_seasons():
    """Against the recursion of Holt and Winters; with a gain of 1 it is the last season again."""
    values = np.random.default_rng(0).normal(size=14)
    level, terms = values[:4].mean(), list(values[:4] - values[:4].mean())
    for step in range(4, 14):
        level = 0.3 * (values[step] - terms[step - 4]) + 0.7 * level
        gain = max(0.4, 1 / (step // 4 + 1))
        terms.append(gain * (values[step] - level) + (1 - gain) * terms[step - 4])
    weights = smoothing_weights(14, 6, 4, 0.3, 0.0, 0.0, 0.4)
    again = np.array([*terms[-4:], *terms[-4:-2]])
    np.testing.assert_allclose(values @ weights, level + again)
    naive = smoothing_weights(14, 6, 4, 0.0, 0.0, 0.0, 1.0)
    np.testing.assert_allclose(values @ naive, [*values[-4:], *values[-4:-2]])


def test_a_trend_levels_off():
    index = np.arange(100)
    line = 3 + 0.5 * index[:, None]
    fitted = SeasonalTrend.fit(Clock("steps", 1.0), index, line, none(100), trend=True)
    found = fitted(np.arange(1000), none(1000))[:, 0]
    np.testing.assert_allclose(found[:100], line[:, 0], rtol=1e-3)
    assert found[100] - found[99] == pytest.approx(0.5, rel=0.05)
    assert found[-1] < line[-1, 0] + 0.6 * 0.5 * 99


def test_known_variables_are_terms():
    index = np.arange(200)
    known = np.random.default_rng(0).normal(size=(200, 1)) * 1000
    values = 2 - 0.003 * known
    fitted = SeasonalTrend.fit(Clock("steps", 1.0), index, values, known, trend=False)
    np.testing.assert_allclose(fitted(index, known), values, rtol=1e-2, atol=1e-2)


def test_clocks():
    assert Clock.of([hours(50)], None, calendar=True).periods == (YEAR, WEEK, DAY)
    months = np.arange("2010-01", "2014-01", dtype="datetime64[M]")
    clock = Clock.of([months.astype("datetime64[ns]")], None, calendar=True)
    assert (clock.unit, clock.periods, clock.season) == ("months", (12.0,), 12)
    np.testing.assert_array_equal(np.diff(clock.numbers(months.astype("datetime64[D]"))), 1)
    days = np.arange("2010-01-01", "2010-03-01", dtype="datetime64[D]")
    assert Clock.of([days], None, calendar=True).season == 7
    assert Clock.of([np.arange(10)], 4, calendar=False).periods == (4.0,)
    assert Clock.of([np.arange(10)], None, calendar=False).season == 1


def test_periods_of_data():
    random = np.random.default_rng(0)
    time = np.arange(300)
    wave = np.sin(2 * np.pi * time / 17) + 0.02 * time + 0.2 * random.normal(size=300)
    assert strongest_period(wave, 100) == 17
    assert strongest_period(random.normal(size=300), 100) is None
    assert strongest_period(np.ones(300), 100) is None
    assert strongest_period(np.arange(5.0), 100) is None


def test_long_series_are_fitted_to_some_of_their_samples():
    """Every third hour would not tell the fourth harmonic of a day."""
    index = hours(28_000)
    time = np.arange(28_000)
    wave = np.sin(2 * np.pi * time / 24) + 0.5 * np.sin(2 * np.pi * time / 6)
    clock = Clock.of([index], None, calendar=True)
    fitted = SeasonalTrend.fit(clock, index, wave[:, None], none(28_000), trend=False)
    np.testing.assert_allclose(fitted(index, none(28_000))[:, 0], wave, atol=0.01)
