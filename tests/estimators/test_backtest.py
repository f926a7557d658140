"""Backtests: windows, errors by hand, simple forecasts, refits."""

import numpy as np
import pandas
import pytest

from linoss import LinOSSForecaster
from linoss.data import table
from linoss.estimators._backtest import Origins, compare, season_error, simple_forecasts


@pytest.fixture(scope="module")
def found():
    """Forecasts that are off by known amounts."""
    time = np.arange(60.0)
    data = table(np.stack([time, 100 * time], axis=1))
    origins = Origins.last(data, [0, 1], (10, 4), 3, 5)
    truth = origins.truth(data)
    errors = np.array([1.0, 2, 3, 4])[:, None] * np.array([1, 10])
    forecast = truth + errors
    ends = [forecast, forecast - np.array([2.5, 100]), forecast + 5]
    times, found = [np.arange(len(time))], np.stack(ends, axis=-1)
    return compare([2], times, data, origins, found, truth - 7, [80.0]), origins


def test_origins_are_the_last_with_a_whole_past():
    data = table(np.zeros((30, 1)))
    assert Origins.last(data, [0], (10, 4), 3, 5).ends.tolist() == [16, 21, 26]
    assert Origins.last(data, [0], (10, 4), 99, 5).ends.tolist() == [11, 16, 21, 26]
    assert Origins.last(data, [0], (28, 4), 99, 5).ends.tolist() == [26]
    with pytest.raises(ValueError, match="expected more than the horizon, 30"):
        Origins.last(data, [0], (28, 30), 99, 5)


def test_errors_by_hand(found):
    backtest, _ = found
    np.testing.assert_allclose(backtest.errors("mae"), np.outer([1, 2, 3, 4], [1, 10]))
    assert backtest.error("mae", variable="0") == pytest.approx(2.5)
    assert backtest.error("rmse", variable="1") == pytest.approx(10 * np.sqrt(7.5))
    np.testing.assert_allclose(backtest.scale, [[2, 200]] * 3)  # a season of 2 steps of 1 and 100
    assert backtest.error("mase") == pytest.approx((2.5 / 2 + 25 / 200) / 2)
    assert backtest.error("mae", of="seasons") == 7
    np.testing.assert_array_equal(backtest.coverage(80.0), [[1, 1], [1, 1], [0, 1], [0, 1]])
    low, high = 0.1, 0.9
    by_hand = [
        [
            e,
            2 * max(low * (x := 2.5 - e), (low - 1) * x),
            2 * max(high * (y := -e - 5), (high - 1) * y),
        ]
        for e in (1, 2, 3, 4)
    ]
    assert backtest.error("pinball", variable="0") == pytest.approx(np.mean(by_hand))
    assert backtest.worst(1) == [0]


def test_frames_have_a_row_for_each_variable_model_and_step(found):
    backtest, _ = found
    frame = backtest.frame()
    assert frame.model.unique().tolist() == [
        "forecast",
        "naive",
        "seasonal naive",
        "drift",
        "seasons",
    ]
    assert frame["coverage-80"].dropna().tolist() == [0.5, 1.0]
    steps = backtest.frame("step")
    assert len(steps) == 2 * 5 * 4
    with pytest.raises(ValueError, match="by is 'hour'"):
        backtest.frame("hour")
    with pytest.raises(ValueError, match="metric is 'mape', expected one of mae"):
        backtest.error("mape")


def test_simple_forecasts():
    past = np.array([[1.0], [2], [np.nan], [4], [5], [np.nan]])
    made = simple_forecasts(past, np.arange(6.0), np.arange(6.0, 9), 2)
    assert made["naive"][:, 0].tolist() == [5, 5, 5]
    assert made["seasonal naive"][:, 0].tolist() == [5, 5, 5]
    np.testing.assert_allclose(made["drift"][:, 0], 5 + 0.8 * np.array([1, 2, 3]))
    wave = np.array([1.0, 2, 3, 1, 2, 4])[:, None]
    steps = np.arange(10.0)
    made = simple_forecasts(wave, steps[:6], steps[6:], 3)
    assert made["seasonal naive"][:, 0].tolist() == [1, 2, 4, 1]
    assert season_error(wave, steps[:6], 3).tolist() == [pytest.approx(1 / 3)]
    assert np.isnan(season_error(np.ones((5, 1)), steps[:5], 1)).all()


def test_simple_forecasts_at_any_times():
    before, ahead = np.array([0, 0.9, 2.1, 4, 6.0]), np.array([6.5, 8.6])
    made = simple_forecasts(np.arange(5.0)[:, None], before, ahead, 4)
    assert made["seasonal naive"][:, 0].tolist() == [2, 3]  # nearest to 2.5 and 4.6
    np.testing.assert_allclose(made["drift"][:, 0], 4 + 4 / 6 * (ahead - 6))
    assert season_error(np.arange(5.0)[:, None], before, 4).tolist() == [2.5]


@pytest.mark.integration
def test_backtests_with_and_without_a_fit_of_each(small, tide):
    hours = pandas.date_range("2024-01-01", periods=200, freq="h")
    noise = 0.1 * np.random.default_rng(0).normal(size=(200, 2))
    frame = pandas.DataFrame(tide[:200] + noise, columns=["a", "b"], index=hours)
    forecaster = LinOSSForecaster(horizon=8, past=32, **small).fit(frame[:150])
    once = forecaster.backtest(frame, windows=4, stride=6)
    assert once.times.tolist() == hours[[173, 179, 185, 191]].to_numpy().tolist()
    for place, end in enumerate((174, 180, 186, 192)):
        alone = forecaster.predict(data=frame[:end], level=[80, 95])
        np.testing.assert_allclose(
            once.forecasts["forecast"][place, :, 0], alone["a"], rtol=1e-4, atol=1e-5
        )
        np.testing.assert_allclose(
            once.intervals[95.0][place, :, 1, 1], alone["b-hi-95"], rtol=1e-4, atol=1e-5
        )
    assert once.error("mase") < once.error("mase", of="naive")
    each = forecaster.backtest(frame, windows=2, refit=True)
    fitted = LinOSSForecaster(horizon=8, past=32, **small).fit(frame[:192])
    np.testing.assert_allclose(
        each.forecasts["forecast"][1], fitted.predict().to_numpy(), rtol=1e-4, atol=1e-5
    )
