"""TROIKA: recordings, folds by person, labels every two seconds, baselines."""

import numpy as np
import pytest
from scipy.io import savemat

from linoss.data import DataError
from paper import troika
from paper.runs import read_results

PERSONS = [1, 2, 3, 4, 4, 5, 6, 7, 8, 9, 10, 11, 12]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Thirteen short recordings, whose pulse has the frequency of their heart rate."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "TROIKA").mkdir()
    random = np.random.default_rng(0)
    for place, person in enumerate(PERSONS):
        steps, rate = 2500 + 100 * place, 70 + 5 * place
        time = np.arange(steps) / 125
        pulse = np.sin(2 * np.pi * rate / 60 * time)
        signals = random.normal(size=(6, steps)) * 0.1
        signals[1:3] += pulse
        signals[3:] += 3 * np.sin(2 * np.pi * 2.9 * time)
        rates = np.full(((steps - 1000) // 250 + 1, 1), float(rate))
        name = f"{person:02d}_TYPE{1 + (place not in (0, 3)):02d}.mat"
        savemat(folder / "TROIKA" / f"DATA_{name}", {"sig": signals})
        savemat(folder / "TROIKA" / f"REF_{name}", {"BPM0": rates})
    return folder


def test_persons_are_in_one_part_and_tested_once(folder):
    recordings = troika.read_recordings(folder / "TROIKA")
    assert [person for person, _, _ in recordings] == PERSONS
    tested = []
    for fold in troika.FOLDS:
        divided = troika.parts(recordings, fold)
        persons = [{person for person, _, _ in part} for part in divided]
        assert sum(map(len, divided)) == 13
        assert set.union(*persons) == set(PERSONS)
        assert sum(map(len, persons)) == 12
        tested += [person for person, _, _ in divided[2]]
    assert sorted(tested) == PERSONS


def test_a_label_stands_at_the_end_of_its_eight_seconds(folder):
    person, signals, rates = troika.read_recordings(folder / "TROIKA")[1]
    labels = troika.every_two_seconds((person, signals, np.arange(1.0, 1 + len(rates))))
    assert signals.shape == (2600, 5)
    np.testing.assert_allclose(signals.mean(0), 0, atol=1e-5)
    for output, label in enumerate(labels[:, 0]):
        start = 250 * (output + 1) - 1000  # of the window that ends with this output
        assert np.isnan(label) if start < 0 else label == start / 250 + 1


def test_the_spectral_peak_is_the_heart_rate(folder):
    for recording in troika.read_recordings(folder / "TROIKA"):
        np.testing.assert_allclose(
            troika.predict_by("spectrum", recording, 0.0), recording[2], atol=4
        )


@pytest.mark.usefixtures("small", "single_precision")
def test_the_experiment(folder, experiment):
    words = ["--model", "im", "--variant", "fold-2", "--max-steps", 4]
    table = experiment("troika", *words, data_dir=folder)
    results = read_results(experiment.out)
    assert [(r.model, r.variant) for r in results if r.model == "im"] == [("im", "fold-2")]
    assert len(results) == 1 + 3 * 4
    assert all(np.isfinite(result.outcome["beats"]).all() for result in results)
    mean = next(r for r in results if r.model == "mean" and r.variant == "fold-1")
    recordings = troika.read_recordings(folder / "TROIKA")
    training, _, test = troika.parts(recordings, "fold-1")
    guess = np.concatenate([rates for _, _, rates in training]).mean()
    expected = [np.abs(rates - guess).mean() for _, _, rates in test]
    np.testing.assert_allclose(mean.outcome["beats"], expected)
    assert "| mean of the training part | here, baseline |" in table
    assert table.count("(13 recordings) |") == 3
    assert "(4 recordings) |" in table
    assert "(1×4, limit) |" in table


def test_other_files_are_refused(tmp_path):
    (tmp_path / "DATA_01_TYPE01.mat").write_bytes(b"text")
    with pytest.raises(DataError, match=r"DATA_01_TYPE01\.mat: has no readable array sig"):
        troika.read_recordings(tmp_path)
    savemat(tmp_path / "DATA_01_TYPE01.mat", {"sig": np.random.normal(size=(6, 2500))})
    savemat(tmp_path / "REF_01_TYPE01.mat", {"BPM0": np.ones((3, 1))})
    with pytest.raises(DataError, match="has 3 heart rates, expected 7"):
        troika.read_recordings(tmp_path)
