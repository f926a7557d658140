"""The paper's numbers agree with each other and with what can be computed."""

import json
import statistics

import numpy as np
import pytest

from linoss.data import DataError
from paper import numbers, search
from paper.data import read_split
from paper.models import GRID, LINOSS, best, random_points
from paper.numbers import published_runs, runs_of
from paper.runs import read_results


@pytest.mark.parametrize("model", numbers.PARAMETERS)
def test_all_counts_of_parameters_are_exact(experiment, model):
    table = experiment("parameters", "--model", model)
    results = read_results(experiment.out)
    counts = {result.data_set: result.outcome["parameters"] for result in results}
    assert counts == numbers.PARAMETERS[model]
    assert table.count("| yes |") == 6


@pytest.mark.parametrize("key", numbers.PER_SEED, ids="-".join)
def test_published_seeds_give_the_papers_mean_and_deviation(key):
    data_set, model = key
    tests = [100 * value for value in numbers.PER_SEED[key]]
    if data_set == "PPG":
        spread, mean_error, deviation_error = numbers.PPG_ERROR[model], 0.05, 0.01
    else:
        spread, mean_error, deviation_error = numbers.ACCURACY[model][data_set], 0.1, 0.1
    assert statistics.fmean(tests) == pytest.approx(spread.mean, abs=mean_error)
    assert statistics.pstdev(tests) == pytest.approx(spread.deviation, abs=deviation_error)


def test_printed_averages_are_those_of_the_printed_means():
    rows = {**numbers.ACCURACY, **numbers.PARAMETERIZATION}
    assert numbers.AVERAGE.keys() == rows.keys()
    for model, row in rows.items():
        mean = statistics.fmean(spread.mean for spread in row.values())
        assert numbers.AVERAGE[model] == pytest.approx(mean, abs=0.051)


def test_the_grid_is_whole_and_holds_the_papers_choices():
    assert len(set(GRID)) == 3**4 * 2
    assert search.points("PPG", 1) == search.points("Heartbeat", 2) == GRID
    for data_set in (*numbers.UEA, "PPG"):
        for model in LINOSS:
            assert best(data_set, model) in GRID
    with pytest.raises(ValueError, match="model is 's5', expected one of LinOSS"):
        best("Weather", "s5")


def test_points_of_the_weather_are_within_the_bounds():
    points = random_points(500, seed=0)
    assert points == random_points(500, seed=0) != random_points(500, seed=1)
    for name, low, high in (
        ("learning_rate", 1e-5, 1e-3), ("hidden_size", 16, 128), ("state_size", 16, 256),
        ("num_blocks", 2, 8),
    ):  # fmt: skip
        values = [getattr(point, name) for point in points]
        assert low <= min(values) <= 1.2 * low
        assert 0.8 * high <= max(values) <= high


@pytest.mark.parametrize("content", ["{", "7", '[{"model": "S5"}]', '["S5"]'])
def test_a_damaged_file_of_curves_is_named(tmp_path, content):
    (tmp_path / "published_curves.json").write_text(content)
    with pytest.raises(DataError, match=r"published_curves\.json: is no list of published runs"):
        published_runs(tmp_path)


def test_names_in_the_file_of_curves(tmp_path):
    record = {"model": "log_ncde", "data_set": "ppg", "seed": 1, "every": 500, "test": 0.5}
    content = json.dumps([{**record, "validation": [0.25, 0.75]}])
    (tmp_path / "published_curves.json").write_text(content)
    (run,) = published_runs(tmp_path)
    assert published_runs(tmp_path / "absent") == published_runs(None) == []
    assert (run.model, run.data_set, run.validation) == ("log-ncde", "PPG", (0.25, 0.75))


@pytest.fixture(scope="module")
def published(real_data):
    """The real file, where there is one."""
    runs = published_runs(real_data)
    if not runs:
        pytest.skip("needs published_curves.json among the real data sets")
    return runs


@pytest.mark.parametrize("key", numbers.PER_SEED, ids="-".join)
def test_the_file_has_the_results_of_each_seed(published, key):
    runs = {run.seed: run.test for run in runs_of(published, *key)}
    tests = [runs[seed] for seed in numbers.SEEDS]
    assert tests == pytest.approx(numbers.PER_SEED[key], abs=6e-4)


@pytest.mark.parametrize("model", ["im", "s5", "lru"])
def test_published_models_do_not_move_on_ethanol(published, model):
    """All evaluations are the same number."""
    for run in runs_of(published, "EthanolConcentration", model):
        assert len(run.validation) == 11
        assert len(set(run.validation)) == 1


def test_the_published_answers_on_ethanol_are_one_class_but_for_two_cases(published, real_data):
    """Of which class depends on the seed; counted on the published parts."""
    if not list(real_data.glob("EthanolConcentration-*")):
        pytest.skip("needs EthanolConcentration, divided into the published parts")
    for run in runs_of(published, "EthanolConcentration", "im"):
        _, *parts = read_split("EthanolConcentration", real_data, run.seed)
        counts = [np.unique(np.asarray(p.labels), return_counts=True)[1] for p in parts]
        right = [round(79 * share) for share in (run.validation[0], run.test)]
        distance = np.abs(np.stack(counts, axis=1) - right).max(axis=1)
        assert distance.min() <= 1
