"""LinOSSForecaster: arrays and frames in, the same with a continued index out."""

import numpy as np
import pandas
import pytest

from linoss import LinOSSForecaster
from linoss.estimators import load

OPTIONS = {"horizon": 8, "past": 32}


@pytest.fixture(scope="module")
def fitted(tide):
    return LinOSSForecaster(
        **OPTIONS,
        hidden_size=16,
        state_size=16,
        num_blocks=1,
        steps=200,
        learning_rate=1e-2,
        random_state=0,
    ).fit(tide[:-8])


@pytest.fixture(scope="module")
def wide(tide):
    hours = pandas.date_range("2024-01-01", periods=len(tide), freq="h")
    return pandas.DataFrame(tide, columns=["tide", "wind"], index=hours)


@pytest.fixture(scope="module")
def long(wide):
    """Two series, with the hour of the day, which is known in advance."""
    return pandas.concat(
        pandas.DataFrame(
            {"unique_id": name, "ds": wide.index, "y": wide[name], "hour": wide.index.hour * 1.0}
        )
        for name in wide
    )


def test_learns(fitted, tide):
    error = np.abs(fitted.predict() - tide[-8:]).mean()
    assert error < 0.3 * np.abs(tide[-8:] - tide.mean(axis=0)).mean() + 0.2
    assert fitted.score(tide, scaled=True) < 0.5


def test_score_is_the_mean_absolute_error_of_all_windows(fitted, tide):
    tail = tide[-50:]
    errors = [
        np.abs(fitted.predict(data=tail[:end]) - tail[end : end + 8]) for end in range(32, 43)
    ]
    np.testing.assert_allclose(fitted.score(tail), np.mean(errors), rtol=1e-6)
    deviation = fitted.objective_.scaling.deviation
    np.testing.assert_allclose(
        fitted.score(tail, scaled=True), np.mean(np.array(errors) / deviation), rtol=1e-6
    )


def test_a_shorter_horizon_is_the_beginning(fitted):
    assert np.array_equal(fitted.predict(3), fitted.predict()[:3])


def test_a_longer_horizon_reads_its_own_forecasts(fitted, tide):
    first = fitted.predict(8)
    second = fitted.predict(8, data=np.concatenate([tide[:-8], first]))
    np.testing.assert_allclose(fitted.predict(13), np.concatenate([first, second[:5]]), rtol=1e-6)


def test_a_wide_frame(small, wide, tmp_path):
    forecaster = LinOSSForecaster(**OPTIONS, **small).fit(wide, directory=tmp_path / "run")
    forecast = forecaster.predict(5)
    assert load(tmp_path / "run").predict(5).equals(forecast)
    assert forecast.columns.tolist() == ["tide", "wind"]
    after = pandas.date_range(wide.index[-1], periods=6, freq="h")[1:]
    assert forecast.index.tolist() == after.tolist()


@pytest.mark.integration
def test_a_long_frame_with_known_variables(small, long):
    forecaster = LinOSSForecaster(**OPTIONS, **small, known_in_advance=["hour"]).fit(long)
    after = pandas.date_range(long.ds.max(), periods=13, freq="h")[1:]
    future = pandas.concat(
        pandas.DataFrame({"unique_id": name, "ds": after, "hour": after.hour * 1.0})
        for name in ("tide", "wind")
    )
    forecast = forecaster.predict(12, future=future)
    assert forecast.columns.tolist() == ["unique_id", "ds", "y"]
    assert forecast.unique_id.tolist() == ["tide"] * 12 + ["wind"] * 12
    assert forecast.ds.tolist() == [*after, *after]
    shuffled = future.sample(frac=1, random_state=0)
    assert forecaster.predict(12, future=shuffled).equals(forecast)
    other = forecaster.predict(12, future=future.assign(hour=0.0))
    assert not np.allclose(other.y, forecast.y)


@pytest.mark.integration
def test_series_of_unequal_length(small, long, tmp_path):
    short = pandas.concat([long[long.unique_id == "tide"], long[long.unique_id == "wind"][-20:]])
    forecaster = LinOSSForecaster(**OPTIONS, **small)
    forecaster.fit(short[["unique_id", "ds", "y"]], directory=tmp_path / "run")
    forecast = forecaster.predict(4)
    assert load(tmp_path / "run").predict(4).equals(forecast)
    assert forecast.groupby("unique_id").size().tolist() == [4, 4]
    assert np.isfinite(forecast.y).all()


@pytest.mark.integration
def test_missing_values(small, tide):
    holes = np.where(np.random.default_rng(0).random(tide.shape) < 0.1, np.nan, tide)
    forecaster = LinOSSForecaster(**OPTIONS, **small).fit(holes)
    assert forecaster.inputs_.indicators
    assert np.isfinite(forecaster.predict(20)).all()


def test_scaling_travels_with_the_model(small, tide, tmp_path):
    forecaster = LinOSSForecaster(**OPTIONS, **small).fit(1000 + 50 * tide)
    forecaster.save(tmp_path / "model")
    found = load(tmp_path / "model").predict()
    assert np.array_equal(found, forecaster.predict())
    assert 900 < found.mean() < 1300


@pytest.mark.usefixtures("unchecked")
class TestErrors:
    def test_too_short(self, small):
        with pytest.raises(ValueError, match="the longest series has 8 steps, expected more"):
            LinOSSForecaster(**OPTIONS, **small).fit(np.zeros((8, 1)))

    def test_an_unknown_variable(self, small, wide):
        with pytest.raises(ValueError, match="known_in_advance has 'rain'"):
            LinOSSForecaster(**OPTIONS, **small, known_in_advance=["rain"]).fit(wide)

    def test_other_variables(self, fitted, wide):
        with pytest.raises(ValueError, match="data has the variables"):
            fitted.predict(data=wide)

    def test_a_future_that_is_not_asked_for(self, fitted):
        with pytest.raises(ValueError, match="future was given"):
            fitted.predict(4, future=np.zeros((4, 1)))

    def test_a_horizon_that_is_no_number(self, fitted):
        with pytest.raises(ValueError, match="horizon is 0, expected a whole number of at least 1"):
            fitted.predict(0)


@pytest.mark.integration
def test_columns_of_an_array_may_be_known_in_advance(tide):
    small = {"hidden_size": 4, "state_size": 4, "num_blocks": 1, "steps": 2, "scheme": "im"}
    forecaster = LinOSSForecaster(horizon=4, past=8, known_in_advance=[1], **small).fit(tide)
    assert forecaster.known_ == (1,)
    assert forecaster.predict(future=tide[:4, 1:2]).shape == (4, tide.shape[1] - 1)
    with pytest.raises(ValueError, match="known_in_advance has 9, expected variables of the data"):
        LinOSSForecaster(horizon=4, past=8, known_in_advance=[9], **small).fit(tide)


def test_series_in_the_place_of_the_horizon_are_named(fitted, tide):
    with pytest.raises(ValueError, match=r"horizon has shape \(.*pass series as data="):
        fitted.predict(tide)
