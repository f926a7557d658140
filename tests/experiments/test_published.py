"""Published learning curves: what the file holds, and what it says of the published models."""

import json

import numpy as np
import pytest

from linoss.data import DataError
from linoss.experiments import _paper
from linoss.experiments._published import read_published, runs_of
from linoss.experiments._splits import read_split


def test_there_are_none_where_there_is_no_file(tmp_path, monkeypatch):
    monkeypatch.delenv("LINOSS_DATA", raising=False)
    assert read_published(tmp_path) == read_published(None) == ()


@pytest.mark.parametrize("content", ["{", "7", '[{"model": "S5"}]', '["S5"]'])
def test_a_damaged_file_is_named(tmp_path, content):
    (tmp_path / "published_curves.json").write_text(content)
    with pytest.raises(DataError, match=r"published_curves\.json: is no list of published runs"):
        read_published(tmp_path)


def test_steps_are_counted_from_the_first_evaluation(tmp_path):
    record = {"model": "log_ncde", "data_set": "ppg", "seed": 1, "every": 500, "test": 0.5}
    content = json.dumps([{**record, "validation": [0.25, 0.75]}])
    (tmp_path / "published_curves.json").write_text(content)
    (run,) = read_published(tmp_path)
    assert (run.model, run.data_set, run.curve) == ("log-ncde", "PPG", {500: 0.25, 1000: 0.75})


@pytest.fixture(scope="module")
def published(real_data):
    """The real file, where there is one."""
    found = read_published(real_data)
    if not found:
        pytest.skip("needs published_curves.json among the real data sets")
    return found


@pytest.mark.parametrize("key", _paper.PER_SEED, ids="-".join)
def test_the_file_has_the_results_of_each_seed(published, key):
    runs = {run.seed: run.test for run in runs_of(published, *key)}
    assert [runs[seed] for seed in _paper.SEEDS] == pytest.approx(_paper.PER_SEED[key], abs=6e-4)


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
