"""The archive's data as the published runs had them."""

from pathlib import Path

import numpy as np
import pytest

from linoss.data import DataError
from paper import data, uea
from paper.data import published_split
from paper.models import Hyperparameters
from paper.runs import Options, make_run

OPTIONS = Options(experiment="uea", out=Path())
pytestmark = pytest.mark.usefixtures("single_precision")


def test_parts_are_joined_sorted_and_without_duplicates(tmp_path, write_archive):
    waves, speed = write_archive(tmp_path, "Heartbeat")
    cases = data.read_joined(tmp_path / "Heartbeat")
    by_time = waves.transpose(0, 2, 1)
    expected, places = np.unique(by_time, axis=0, return_index=True)
    assert len(expected) == len(waves) - 2
    np.testing.assert_array_equal(np.stack(cases.values), expected)
    assert cases.labels.tolist() == np.array(["slow", "fast"])[speed[places]].tolist()


def test_order_is_that_of_numpy_with_ties_and_zeros_of_both_signs():
    random = np.random.default_rng(0)
    rows = random.integers(-1, 2, (200, 2, 3)).astype(np.float32) * random.choice([-1, 1], 200)[
        :, None, None
    ].astype(np.float32)
    _, expected = np.unique(rows, axis=0, return_index=True)
    assert data.sorted_unique(list(rows)).tolist() == expected.tolist()


@pytest.mark.parametrize("include_time", [True, False])
def test_a_problem_has_the_published_split_and_values_as_they_are(
    tmp_path, write_archive, include_time
):
    write_archive(tmp_path, "Heartbeat")
    point = Hyperparameters(1e-3, 4, 4, 1, include_time)
    problem = uea.make_problem(tmp_path, make_run(OPTIONS, "Heartbeat", "im", 3456, chosen=point))
    cases = data.read_joined(tmp_path / "Heartbeat")
    for part, indices in zip(
        (problem.training, problem.validation, problem.test),
        published_split(len(cases), 3456),
        strict=True,
    ):
        assert part.labels.tolist() == cases.labels[indices].tolist()
        np.testing.assert_array_equal(np.stack(part.values), np.stack(cases.values)[indices])
    u = problem.inputs(problem.test.batch([0]), masked=False)["u"][0]
    np.testing.assert_array_equal(u[:, int(include_time) :], problem.test.values[0])
    if include_time:
        np.testing.assert_allclose(u[:, 0], np.arange(20) / 20)


def test_variants_change_what_they_say_and_nothing_else(tmp_path, write_archive):
    write_archive(tmp_path, "Heartbeat")
    published, scaled, plain = (
        uea.make_problem(
            tmp_path,
            make_run(OPTIONS, "Heartbeat", "im", 2345, variant=name),
        )
        for name in (None, "scaled", "log-softmax")
    )
    assert [p.objective.floor for p in (published, scaled, plain)] == [1e-8, 1e-8, 0]
    values = np.concatenate(scaled.training.values)
    u = scaled.inputs(scaled.training.batch(range(26)), masked=False)["u"][..., 1:]
    expected = (np.stack(scaled.training.values) - values.mean(0)) / values.std(0)
    np.testing.assert_allclose(u, expected, atol=1e-5)
    assert published.inputs.scaling is plain.inputs.scaling is None


def test_training_is_as_published(tmp_path):
    run = make_run(OPTIONS, "SelfRegulationSCP1", "im", 2345)
    assert run.training.to_dict() == {
        "steps": 100_000, "batch_size": 32, "learning_rate": 1e-4, "warmup": 0,
        "schedule": "constant", "weight_decay": 0.0, "clip_norm": None, "evaluate_every": 1000,
        "minutes": None, "patience": 11, "min_loss": 0.0, "seed": 2345,
    }  # fmt: skip
    worms = make_run(OPTIONS, "EigenWorms", "im", 2345)
    assert worms.training.batch_size == 4


def test_unequal_lengths_are_refused(tmp_path, write_archive):
    write_archive(tmp_path, "Heartbeat")
    write_archive(tmp_path / "other", "Heartbeat", length=21)
    name = "Heartbeat_TEST.ts"
    (tmp_path / "other" / "Heartbeat" / name).replace(tmp_path / "Heartbeat" / name)
    with pytest.raises(DataError, match="unequal length or missing values"):
        data.read_joined(tmp_path / "Heartbeat")


@pytest.mark.parametrize(
    ("name", "shape", "tests"),
    [("SelfRegulationSCP1", (561, 896, 6), 85), ("SelfRegulationSCP2", (380, 1152, 7), 57)],
)
def test_the_real_sets(real_data, name, shape, tests):
    cases = data.read_joined(real_data / name)
    values = np.stack(cases.values)
    assert values.shape == shape
    np.testing.assert_array_equal(values, np.unique(values, axis=0))
    assert len(published_split(len(cases), 2345)[2]) == tests


def test_a_set_that_comes_divided(tmp_path):
    random = np.random.default_rng(0)
    folder = tmp_path / "EthanolConcentration-9" / "2345"
    folder.mkdir(parents=True)
    for part, count in (("training", 5), ("validation", 2), ("test", 2)):
        X = random.normal(size=(count, 3, 10))
        np.savez(folder / f"{part}.npz", X=X, y=np.array(["a", "b"])[np.arange(count) % 2])
    parts = data.read_split("EthanolConcentration", tmp_path, 2345)
    assert [len(part) for part in parts] == [5, 2, 2]
    with pytest.raises(DataError, match="has no parts of seed 3456"):
        data.read_split("EthanolConcentration", tmp_path, 3456)
