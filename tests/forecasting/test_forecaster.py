"""LinOSSForecaster: arrays and frames in, the same with a continued index out."""

import sys
from collections import Counter

import numpy as np
import pandas
import pytest

import linoss.data
from linoss import load

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def fitted(small, tide):
    return small(steps=200).fit(tide[:-8])


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
    assert fitted.score(tide) < 0.5


def test_score_is_the_mean_absolute_error_of_all_windows(fitted, tide):
    tail = tide[-50:]
    errors = [
        np.abs(fitted.predict(data=tail[:end]) - tail[end : end + 8]) for end in range(32, 43)
    ]
    np.testing.assert_allclose(fitted.score(tail), np.mean(errors), rtol=1e-6)


def test_a_shorter_horizon_is_the_beginning(fitted):
    assert np.array_equal(fitted.predict(3), fitted.predict()[:3])


def test_a_longer_horizon_reads_its_own_forecasts(fitted, tide):
    first = fitted.predict(8)
    second = fitted.predict(8, data=np.concatenate([tide[:-8], first]))
    np.testing.assert_allclose(fitted.predict(13), np.concatenate([first, second[:5]]), rtol=1e-6)


def test_a_wide_frame(small, wide, tmp_path):
    forecaster = small().fit(wide, directory=tmp_path / "run")
    forecast = forecaster.predict(5)
    assert load(tmp_path / "run").predict(5).equals(forecast)
    assert forecast.columns.tolist() == ["tide", "wind"]
    after = pandas.date_range(wide.index[-1], periods=6, freq="h")[1:]
    assert forecast.index.tolist() == after.tolist()


def test_a_long_frame_with_known_variables(small, long):
    forecaster = small(known_in_advance=["hour"]).fit(long)
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


def test_series_of_unequal_length(small, long, tmp_path):
    short = pandas.concat([long[long.unique_id == "tide"], long[long.unique_id == "wind"][-20:]])
    forecaster = small()
    forecaster.fit(short[["unique_id", "ds", "y"]], directory=tmp_path / "run")
    forecast = forecaster.predict(4)
    assert load(tmp_path / "run").predict(4).equals(forecast)
    assert forecast.groupby("unique_id").size().tolist() == [4, 4]
    assert np.isfinite(forecast.y).all()


def test_short_series_train_no_model(small, tide, tmp_path):
    """They have too few windows to tell whether it helps."""
    forecaster = small().fit(tide[:80], directory=tmp_path / "run")
    assert forecaster.fitted_.trained is None
    restored = load(tmp_path / "run")
    assert restored.fitted_.trained is None
    assert np.array_equal(restored.predict(level=80), forecaster.predict(level=80))


def test_missing_values(small, tide):
    holes = np.where(np.random.default_rng(0).random(tide.shape) < 0.1, np.nan, tide)
    forecaster = small().fit(holes)
    assert forecaster.fitted_.trained.inputs.indicators
    assert np.isfinite(forecaster.predict(20)).all()


@pytest.mark.usefixtures("unchecked")
def test_errors(small, fitted, wide, tide):
    with pytest.raises(ValueError, match="the longest series has 8 steps, expected more"):
        small().fit(np.zeros((8, 1)))
    with pytest.raises(ValueError, match="known_in_advance has 'rain'"):
        small(known_in_advance=["rain"]).fit(wide)
    for given, message in (
        ({"data": wide}, "data, variables: lacks 0, 1 and has "),
        ({"horizon": 4, "future": np.zeros((4, 1))}, "future was given"),
        ({"horizon": 0}, "horizon is 0, expected an integer >= 1"),
        ({"horizon": tide}, r"horizon has shape \(.*pass series as data="),
    ):
        with pytest.raises(ValueError, match=message):
            fitted.predict(**given)


def test_columns_of_an_array_may_be_known_in_advance(small, tide):
    options = {"horizon": 4, "past": 8, "steps": 2}
    forecaster = small(**options, known_in_advance=[1]).fit(tide)
    assert forecaster.fitted_.known == (1,)
    assert forecaster.predict(future=tide[:4, 1:2]).shape == (4, tide.shape[1] - 1)
    with pytest.raises(ValueError, match="known_in_advance has 9, expected variables of the data"):
        small(**options, known_in_advance=[9]).fit(tide)


class TestIntervals:
    def test_columns_and_order(self, noisy):
        forecast = noisy[0].predict(5, level=[80, 95])
        assert forecast.columns.tolist() == [
            "load", "load-lo-80", "load-hi-80", "load-lo-95", "load-hi-95",
        ]  # fmt: skip
        order = ["load-lo-95", "load-lo-80", "load", "load-hi-80", "load-hi-95"]
        assert (np.diff(forecast[order].to_numpy(), axis=1) >= 0).all()
        assert forecast["load"].equals(noisy[0].predict(5)["load"])

    def test_coverage_on_later_data(self, noisy):
        forecaster, frame = noisy
        forecast = forecaster.backtest(frame[1750:], windows=600, stride=1)
        for level in (80, 95):
            assert abs(forecast.coverage(level).mean() - level / 100) < 0.06
        assert forecast.error("mae") < 1.0  # noise alone has 0.8

    def test_sample_paths(self, noisy):
        paths = noisy[0].predict(8, samples=300)
        assert paths.columns[0] == "load-sample-1"
        ends = noisy[0].predict(8, level=[80])
        low, high = np.quantile(paths.to_numpy(), [0.1, 0.9], axis=1)
        np.testing.assert_allclose(high - low, ends["load-hi-80"] - ends["load-lo-80"], rtol=0.35)
        assert paths.equals(noisy[0].predict(8, samples=300))

    @pytest.mark.usefixtures("unchecked")
    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"level": 100}, "level is 100, expected numbers between 0 and 100"),
            ({"level": [80, -5]}, "level is -5, expected numbers between 0 and 100"),
            ({"level": []}, "level is empty"),
            ({"level": "wide"}, "level is 'wide', expected numbers"),
            ({"level": 99}, r"level has 99, expected at most 95.*fit with levels=\[50, 80, 95, 99"),
            ({"horizon": 9, "level": 80}, "horizon is 9, but level is calibrated for 8 steps only"),
            ({"horizon": 9, "samples": 3}, "horizon is 9, but samples is calibrated for 8 steps"),
            ({"samples": 0}, "samples is 0, expected an integer"),
            ({"samples": 3, "level": 80}, "level and samples were given"),
        ],
    )
    def test_what_is_not_known_is_refused(self, noisy, given, message):
        with pytest.raises(ValueError, match=message):
            noisy[0].predict(**given)

    def test_without_held_out_steps_there_are_none(self, small, tide):
        forecaster = small(validation_fraction=0).fit(tide[:100])
        with pytest.raises(ValueError, match="nothing was held out to calibrate intervals"):
            forecaster.predict(level=80)

    @pytest.mark.usefixtures("unchecked")
    @pytest.mark.parametrize("levels", [(0,), (50, 100), ()])
    def test_levels_to_learn(self, small, tide, levels):
        with pytest.raises(ValueError, match=r"levels is .*expected numbers between 0 and 100"):
            small(levels=levels).fit(tide)


class TestSeriesOfAllKinds:
    """What is forecast of series that say little."""

    def test_without_variation(self, small):
        forecaster = small().fit(np.full((200, 1), 7.0))
        np.testing.assert_allclose(forecaster.predict(), 7, atol=1e-6)
        np.testing.assert_allclose(forecaster.predict(level=80), 7, atol=0.1)

    def test_mostly_missing(self, small, tide):
        few = np.where(np.random.default_rng(0).random(tide.shape) < 0.9, np.nan, tide)
        assert np.isfinite(small().fit(few).predict(level=80)).all()

    def test_three_points(self, small):
        forecaster = small(horizon=1, past=None).fit(np.array([[1.0], [2], [4]]))
        assert 0 < forecaster.predict().item() < 8
        with pytest.raises(ValueError, match="10 held-out steps to calibrate, but there are 1"):
            forecaster.predict(level=80)


@pytest.mark.parametrize("normalize", ["level", "deviation", "difference"])
def test_series_that_wander_are_followed(small, normalize):
    """A shift of all that is read shifts the forecast and its interval."""
    walk = np.cumsum(np.random.default_rng(0).normal(size=(500, 1)), axis=0)
    forecaster = small(normalize=normalize).fit(walk)
    plain = forecaster.predict(data=walk[:100], level=80)
    shifted = forecaster.predict(data=walk[:100] + 1000, level=80)
    np.testing.assert_allclose(shifted, plain + 1000, atol=1e-2)
    assert np.abs(plain[0, 0, 0] - walk[99]) < 5


def test_logarithms_make_growth_a_line(small):
    months = pandas.date_range("2000-01-01", periods=144, freq="MS")
    sales = 100 * np.exp(0.01 * np.arange(144)) * (1.5 + np.sin(2 * np.pi * np.arange(144) / 12))
    noise = np.exp(0.05 * np.random.default_rng(0).normal(size=144))
    frame = pandas.DataFrame({"sales": sales * noise}, index=months)
    forecaster = small(horizon=12, past=None).fit(frame[:-12])
    assert forecaster.fitted_.components.decomposition.logarithm == (True,)
    forecast = forecaster.predict(level=95)
    np.testing.assert_allclose(forecast["sales"], sales[-12:], rtol=0.15)
    assert (forecast["sales-lo-95"] > 0).all()
    with pytest.raises(ValueError, match="logarithm is True, but some values are not above 0"):
        small(horizon=12, past=None, logarithm=True).fit(frame.assign(sales=-1.0))
    with pytest.raises(ValueError, match="calendar is True, but the data have no dates"):
        small(horizon=12, past=None, calendar=True).fit(sales)


@pytest.fixture(scope="module")
def uneven(small):
    """A day's wave at random times, half an hour apart in the middle, with a gap of a week."""
    random = np.random.default_rng(0)
    hours = np.cumsum(random.exponential(0.72, size=600))
    hours[400:] += 168
    times = pandas.Timestamp("2024-01-01") + pandas.to_timedelta(hours.round(4), unit="h")
    values = 5 + np.sin(2 * np.pi * hours / 24) + 0.1 * random.normal(size=600)
    frame = pandas.DataFrame({"y": values}, index=times)
    return small(steps=30).fit(frame[:-8]), frame


class TestIrregular:
    def test_the_true_times_are_learned_from_and_forecast(self, uneven):
        forecaster, frame = uneven
        step = forecaster.fitted_.context.frequencies[0].step / np.timedelta64(1, "h")
        assert 0.4 < step < 0.6
        assert forecaster.fitted_.trained.needs_times
        ends = np.flatnonzero(np.diff(frame.index) / np.timedelta64(1, "h") > 168)
        windows = forecaster.fitted_.components.windows(linoss.data.read_table(frame))
        batch = windows.batch(windows.find([0], ends - 3))
        given = forecaster.fitted_.trained.inputs(batch)
        gap = (frame.index[ends[0] + 1] - frame.index[ends[0]]) / pandas.Timedelta("1h") / step
        np.testing.assert_allclose(given["future_intervals"][0, 4], gap, rtol=0.1)
        forecast = forecaster.backtest(frame, windows=1)
        assert forecast.error("mae") < 0.5 * forecast.error("mae", "naive")

    def test_steps_ahead_are_usual_ones(self, uneven, tmp_path):
        forecaster, frame = uneven
        forecast = forecaster.predict(level=80)
        after = np.diff(forecast.index.insert(0, frame.index[-9]))
        assert set(after) == {forecaster.fitted_.context.frequencies[0].step}
        hours = (forecast.index - frame.index[0]) / pandas.Timedelta("1h")
        np.testing.assert_allclose(forecast["y"], 5 + np.sin(2 * np.pi * hours / 24), atol=0.5)
        forecaster.save(tmp_path / "run")
        pandas.testing.assert_frame_equal(load(tmp_path / "run").predict(level=80), forecast)

    def test_a_model_of_regular_steps_says_that_it_counts_samples(self, noisy):
        forecaster, frame = noisy
        with pytest.warns(UserWarning, match="data has irregular times, but those of fit were reg"):
            forecaster.predict(data=frame.iloc[np.unique(np.r_[0:1700:7, 1:1700:11])])


def test_three_dates(small):
    dates = pandas.date_range("2024-01-31", periods=3, freq="ME")
    frame = pandas.DataFrame({"y": [1.0, 2, 4]}, index=dates)
    forecast = small(horizon=2, past=None, steps=2).fit(frame).predict()
    assert forecast.index.tolist() == pandas.date_range("2024-04-30", periods=2, freq="ME").tolist()
    assert np.isfinite(forecast["y"]).all()


def test_series_of_different_rates(small):
    """A day's wave each half hour, and a week's wave each day."""
    random = np.random.default_rng(0)
    parts = []
    for name, step, count, period in (("fine", "30min", 600, 48), ("coarse", "D", 200, 7)):
        values = 3 + np.sin(2 * np.pi * np.arange(count) / period) + 0.1 * random.normal(size=count)
        dates = pandas.date_range("2024-01-01", periods=count, freq=step)
        parts.append(pandas.DataFrame({"unique_id": name, "ds": dates, "y": values}))
    frame = pandas.concat(parts)
    known = pandas.concat(part[:-8] for part in parts)
    forecaster = small(steps=30).fit(known)
    forecast = forecaster.predict()
    for part in parts:
        own = forecast[forecast["unique_id"] == part["unique_id"].iloc[0]]
        assert own["ds"].tolist() == part["ds"].iloc[-8:].tolist()
        np.testing.assert_allclose(own["y"], part["y"].iloc[-8:], atol=0.5)
    assert not forecaster.fitted_.trained.needs_times
    forecast = forecaster.backtest(frame, windows=2)
    assert forecast.error("mase") < 1.5 < forecast.error("mase", "naive")


@pytest.mark.usefixtures("unchecked")
def test_arguments_that_would_be_ignored(small):
    tide = np.sin(np.arange(40.0))
    with pytest.raises(ValueError, match="y was given, expected None: the targets of a forecaster"):
        small(horizon=4, past=None).fit(tide, np.arange(40))
    with pytest.warns(UserWarning, match="past is 500, but the longest series has 40 steps"):
        small(horizon=4, past=500).fit(tide)


@pytest.fixture(scope="module")
def working(small, tmp_path_factory):
    """A forecaster of working days, loaded from its files, and its data without a holiday."""
    days = pandas.bdate_range("2023-01-02", periods=260).drop("2023-05-01")
    frame = pandas.DataFrame({"y": np.arange(259) % 5 + 1.0}, index=days)
    place = tmp_path_factory.mktemp("working") / "run"
    small(horizon=3, past=10, steps=0).fit(frame).save(place)
    return load(place), frame


class TestFrequencies:
    """The frequency is a fact of the fit, whatever a window looks like."""

    def test_a_holiday_is_missing(self, working):
        assert len(working[0].fitted_.context.index[0]) == 10
        after = working[0].predict().index
        assert after.tolist() == pandas.bdate_range("2024-01-01", periods=3).tolist()

    @pytest.mark.parametrize("rows", [slice(5, 10), slice(4, 6), slice(4, 5), [4, 6, 7]])
    def test_short_windows(self, working, rows):
        data = working[1].iloc[rows]
        after = working[0].predict(data=data).index
        start = data.index[-1] + pandas.offsets.BDay()
        assert after.tolist() == pandas.bdate_range(start, periods=3).tolist()

    @pytest.mark.parametrize(
        ("freq", "name"), [("W-MON", "7 days"), ("h", "steps of 3600"), ("YS", "12 months")]
    )
    def test_other_frequencies_are_refused(self, working, freq, name):
        data = pandas.DataFrame(
            {"y": np.arange(12.0)}, index=pandas.date_range("2024-01-01", periods=12, freq=freq)
        )
        with pytest.raises(ValueError, match=f"the series has {name}.*, expected working days, as"):
            working[0].predict(data=data)

    def test_two_months(self, small):
        months = pandas.date_range("2015-01-01", periods=96, freq="MS")
        frame = pandas.DataFrame({"y": np.arange(96) % 12 + 1.0}, index=months).drop("2019-03-01")
        forecaster = small(horizon=3, past=12, steps=0).fit(frame)
        for rows in (slice(0, 2), slice(0, 1), slice(49, 51)):  # the last without a March
            forecast = forecaster.predict(data=frame.iloc[rows])
            start = frame.index[rows][-1] + pandas.offsets.MonthBegin()
            assert (
                forecast.index.tolist() == pandas.date_range(start, periods=3, freq="MS").tolist()
            )


def test_settings_and_data_are_validated_once(small, tide):
    """Calls of the functions that do it, by whatever name."""
    calls = Counter()

    def count(frame, event, _):
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module in ("linoss._declare", "linoss.data._table"):
            calls[frame.f_code.co_name] += 1

    sys.setprofile(count)
    try:
        small(steps=2).fit(tide)
    finally:
        sys.setprofile(None)
    assert (calls["check_settings"], calls["read_table"]) == (1, 1)
