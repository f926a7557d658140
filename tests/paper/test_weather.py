"""The weather data set: parts, scaling and windows, against brute force."""

import math
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from linoss.data import DataError
from paper import weather
from paper.runs import Options, make_run

OPTIONS = Options(experiment="weather", out=Path())
pytestmark = pytest.mark.usefixtures("single_precision")


@pytest.fixture
def make(tmp_path, write_weather, monkeypatch):
    """(model, variant) to values, and the problem of 12 hours of past and 6 of future."""
    monkeypatch.setattr(weather, "PAST", 12)
    monkeypatch.setattr(weather, "HORIZON", 6)
    values = write_weather(tmp_path, 203)

    def make(model, variant):
        run = make_run(OPTIONS, "Weather", model, 2345, variant=variant)
        return values, weather.make_problem(tmp_path / "WTH", run)

    return make


@pytest.mark.parametrize("variant", weather.EXPERIMENT.variants)
@pytest.mark.parametrize("model", ["im", "imex"])
def test_windows_and_scaling_against_brute_force(make, model, variant):
    values, problem = make(model, variant)
    first = 1 if model == "im" else 0  # after the channel of time
    seasons = 4 if variant == "calendar" else 0
    train, test = int(0.7 * 203), int(0.2 * 203)
    scaled = (values - values[:train].mean(axis=0)) / values[:train].std(axis=0)
    starts = (range(12, train - 5), range(train, 203 - test - 5), range(203 - test, 203 - 5))
    for part, first_hours in zip(
        (problem.training, problem.validation, problem.test), starts, strict=True
    ):
        assert len(part) == len(first_hours)
        for index, hour in enumerate(first_hours):
            batch = part.batch([index])
            arguments = problem.inputs(batch, masked=False)
            assert arguments["u"].shape == (1, 12, first + 12 + seasons)
            past = arguments["u"][0][:, first : first + 12]
            np.testing.assert_allclose(past, scaled[hour - 12 : hour], atol=1e-5)
            assert not arguments["future"][0][:, first : first + 12].any()
            if first:
                times = np.concatenate([arguments["u"][0][:, 0], arguments["future"][0][:, 0]])
                np.testing.assert_allclose(times, np.arange(18) / 12, rtol=1e-6)
            targets, weights = problem.objective.targets(batch)
            np.testing.assert_allclose(targets[0], scaled[hour : hour + 6], atol=1e-5)
            assert weights.all()


def test_the_error_is_the_mean_over_all_variables_and_steps(make):
    _, problem = make("im", "calendar")
    answers = np.random.default_rng(0).normal(size=(4, 6, 12))
    targets, weights = problem.objective.targets(problem.test.batch(range(4)))
    total, count = problem.objective.score(answers, targets, weights)
    assert total / count == pytest.approx(np.mean(np.abs(answers - targets)))


def test_the_calendar_is_known_at_every_step_of_a_window(make):
    _, problem = make("imex", "calendar")
    begin = datetime(2010, 1, 20)
    rows = []
    for hour in range(203):
        date = begin + timedelta(hours=hour)
        of_day = 2 * math.pi * date.hour / 24
        of_year = 2 * math.pi * (date - datetime(date.year, 1, 1)) / timedelta(days=365.25)
        rows.append([f(angle) for angle in (of_year, of_day) for f in (math.sin, math.cos)])
    seasons = np.array(rows)
    train = int(0.7 * 203)
    scaled = (seasons - seasons[:train].mean(axis=0)) / seasons[:train].std(axis=0)
    arguments = problem.inputs(problem.validation.batch([5]), masked=False)
    seen = np.concatenate([arguments["u"][0], arguments["future"][0]])[:, -4:]
    np.testing.assert_allclose(seen, scaled[train + 5 - 12 : train + 5 + 6], atol=1e-4)


def test_dates_are_needed(tmp_path):
    (tmp_path / "WTH.csv").write_text("a,b\n" + "1.0,2.0\n" * 5)
    with pytest.raises(DataError, match=r"WTH.csv: has no column of dates, expected one"):
        weather.read_weather(tmp_path / "WTH.csv")


def test_too_short_a_series_is_refused():
    with pytest.raises(DataError, match="has 2000 steps, expected enough"):
        weather.parts(np.zeros((2000, 12)))


def test_the_real_file(real_data):
    series = weather.read_weather(real_data / "WTH" / "WTH.csv").series[0]
    assert series.shape == (35_064, 12)
    assert [len(part) for part in weather.parts(series)] == [24_544, 720 + 3_508, 720 + 7_012]
