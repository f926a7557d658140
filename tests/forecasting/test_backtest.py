"""Backtests: windows, errors by hand, simple forecasts, refits."""

import numpy as np
import pandas
import pytest

from linoss.forecasting import Backtest


@pytest.fixture(scope="module")
def by_hand():
    """Forecasts that are off by 1, 2, 3 and 4, and by ten times that."""
    truth = np.arange(12.0).reshape(3, 4, 1) * np.array([1, 100])
    forecast = truth + np.array([1.0, 2, 3, 4])[:, None] * np.array([1, 10])
    ends = np.stack([forecast - np.array([2.5, 100]), forecast + 5], axis=-1)
    forecasts = {"forecast": forecast, "seasons": truth - 7}
    scale, times = np.array([[2.0, 200]] * 3), np.arange(3)
    return Backtest(("a", "b"), forecasts, truth, {80.0: ends}, scale, 2, times)


def test_errors(by_hand):
    np.testing.assert_allclose(by_hand.errors("mae"), np.outer([1, 2, 3, 4], [1, 10]))
    assert by_hand.error("mae", variable="a") == pytest.approx(2.5)
    assert by_hand.error("rmse", variable="b") == pytest.approx(10 * np.sqrt(7.5))
    assert by_hand.error("mase") == pytest.approx((2.5 / 2 + 25 / 200) / 2)
    assert by_hand.error("mae", of="seasons") == 7
    np.testing.assert_array_equal(by_hand.coverage(80.0), [[1, 1], [1, 1], [0, 1], [0, 1]])
    pinball = [
        [e, 2 * max(0.1 * (2.5 - e), -0.9 * (2.5 - e)), 2 * max(0.9 * (-e - 5), 0.1 * (e + 5))]
        for e in (1, 2, 3, 4)
    ]
    assert by_hand.error("pinball", variable="a") == pytest.approx(np.mean(pinball))
    with pytest.raises(ValueError, match="metric is 'mape', expected one of mae"):
        by_hand.error("mape")


def test_frames_have_a_row_for_each_variable_model_and_step(by_hand):
    frame = by_hand.frame()
    assert frame["model"].tolist() == ["forecast", "seasons"] * 2
    assert frame["coverage-80"].dropna().tolist() == [0.5, 1.0]
    assert len(by_hand.frame("step")) == 2 * 2 * 4
    with pytest.raises(ValueError, match="by is 'hour'"):
        by_hand.frame("hour")


@pytest.fixture(scope="module")
def untrained(small):
    """A forecaster of 3 steps from 3, for series with a season of 3 steps."""
    wave = np.tile([1.0, 2, 3], 20) + 0.01 * np.arange(60)
    frame = pandas.DataFrame({"y": wave}, index=np.arange(60))
    return small(horizon=3, past=3, season=3, steps=0, trend=False, logarithm=False).fit(frame)


def backtest_of(forecaster, values, times, **options):
    return forecaster.backtest(pandas.DataFrame({"y": values}, index=times), **options)


def test_origins_are_the_last_with_a_whole_past(untrained):
    times = np.arange(12)
    made = [
        backtest_of(untrained, times * 1.0, times, windows=windows, stride=stride).times.tolist()
        for windows, stride in ((2, 4), (99, 4), (99, None))
    ]
    assert made == [[4, 8], [4, 8], [2, 5, 8]]
    assert backtest_of(untrained, np.arange(5.0), times[:5]).times.tolist() == [1]
    with pytest.raises(ValueError, match="expected more than horizon=3"):
        backtest_of(untrained, np.arange(3.0), times[:3])


def test_simple_forecasts(untrained):
    past, truth = [1.0, 2, np.nan, 4, 5, np.nan], [0.0, 0, 0]
    made = backtest_of(untrained, past + truth, np.arange(9), windows=1).forecasts
    assert made["naive"][0, :, 0].tolist() == [5, 5, 5]
    assert made["seasonal naive"][0, :, 0].tolist() == [4, 5, 5]
    np.testing.assert_allclose(made["drift"][0, :, 0], 5 + 0.8 * np.array([1, 2, 3]))
    made = backtest_of(untrained, [1.0, 2, 3, 1, 2, 4, *truth], np.arange(9), windows=1)
    assert made.forecasts["seasonal naive"][0, :, 0].tolist() == [1, 2, 4]
    assert made.scale.tolist() == [[pytest.approx(1 / 3)]]
    assert np.isnan(backtest_of(untrained, np.ones(9), np.arange(9), windows=1).scale).all()


@pytest.mark.integration
def test_with_and_without_a_fit_of_each(small, tide):
    hours = pandas.date_range("2024-01-01", periods=200, freq="h")
    noise = 0.1 * np.random.default_rng(0).normal(size=(200, 2))
    frame = pandas.DataFrame(tide[:200] + noise, columns=["a", "b"], index=hours)
    forecaster = small().fit(frame[:150])
    once = forecaster.backtest(frame, windows=4, stride=6)
    assert once.times.tolist() == hours[[173, 179, 185, 191]].to_numpy().tolist()
    for place, end in enumerate((174, 180, 186, 192)):
        alone = forecaster.predict(data=frame[:end], level=[80, 95])
        close = {"rtol": 1e-4, "atol": 1e-5}
        np.testing.assert_allclose(once.forecasts["forecast"][place, :, 0], alone["a"], **close)
        np.testing.assert_allclose(once.intervals[95.0][place, :, 1, 1], alone["b-hi-95"], **close)
    assert once.error("mase") < once.error("mase", of="naive")
    each = forecaster.backtest(frame, windows=2, refit=True)
    np.testing.assert_allclose(
        each.forecasts["forecast"][1], small().fit(frame[:192]).predict(), **close
    )
