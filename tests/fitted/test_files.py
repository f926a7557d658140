"""The directory of a fitted thing: what comes back, what is refused, and what survives a kill."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from linoss import LinOSSClassifier, OscillatorClassifier, OscillatorRegressor, load
from linoss.training import CheckpointError

WAVES = np.random.default_rng(0).normal(size=(24, 2, 40))
TIMES = np.cumsum(np.random.default_rng(1).uniform(0.5, 2, (24, 40)), axis=1)
SMALL = {"n_oscillators": 32, "random_state": 0}
MODEL = {"scheme": "im", "damped": False, "hidden_size": 8, "state_size": 8, "steps": 2}


@pytest.fixture(scope="module")
def fitted():
    return OscillatorClassifier(**SMALL).fit(WAVES, np.arange(24) % 2)


@pytest.fixture(scope="module")
def trained():
    classifier = LinOSSClassifier(**MODEL, n_models=2, random_state=0)
    return classifier.fit(WAVES, np.arange(24) % 2)


LABELS = {
    "text": np.array(["up", "down"]),
    "objects": np.array(["up", "down"], object),
    "booleans": np.array([True, False]),
    "large": np.array([1, 2**63 + 1], np.uint64),
    "small": np.array([3, 250], np.uint8),
    "numbers": np.array([1.0, 2.0], np.float32),
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_classes_come_back_as_they_were(tmp_path, labels):
    classifier = OscillatorClassifier(**SMALL).fit(WAVES, labels[np.arange(24) % 2])
    classifier.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.classes_.dtype == classifier.classes_.dtype
    assert again.predict(WAVES).tolist() == classifier.predict(WAVES).tolist()


@pytest.mark.parametrize("labels", [np.array([1 + 1j, 2]), np.array([b"a", b"b"])])
def test_labels_that_cannot_be_saved_are_refused_before_the_fit(labels):
    with pytest.raises((TypeError, ValueError), match=r"y\.astype|labels represented|Complex data"):
        OscillatorClassifier(**SMALL).fit(WAVES, labels[np.arange(24) % 2])


@pytest.mark.parametrize("kind", [OscillatorClassifier, OscillatorRegressor])
def test_saved_and_loaded(tmp_path, kind):
    estimator = kind(**SMALL).fit(WAVES, np.arange(24) % 2, times=TIMES)
    estimator.save(tmp_path / "run")
    for loaded in (load(tmp_path / "run"), kind.load(tmp_path / "run")):
        assert type(loaded) is kind
        assert loaded.get_params() == estimator.get_params()
        assert loaded.held_out_score_ == estimator.held_out_score_
        predictions = loaded.predict(WAVES, times=TIMES)
        np.testing.assert_array_equal(predictions, estimator.predict(WAVES, times=TIMES))
    with pytest.raises(CheckpointError, match="already exists"):
        estimator.save(tmp_path / "run")
    with pytest.raises(ValueError, match=f"holds a {kind.__name__}, expected a LinOSSClassifier"):
        LinOSSClassifier.load(tmp_path / "run")


def test_saving_again(tmp_path, fitted, monkeypatch):
    """The old one stays until the new one is complete, and after a failure."""
    other = OscillatorClassifier(**{**SMALL, "n_oscillators": 16}).fit(WAVES, np.arange(24) % 2)
    other.save(tmp_path / "model")
    fitted.save(tmp_path / "model", overwrite=True)
    assert load(tmp_path / "model").n_oscillators == 32
    with monkeypatch.context() as patch:
        patch.setattr("linoss.fitted.Fitted.facts", lambda _: {"not plain": object()})
        with pytest.raises(TypeError):
            other.save(tmp_path / "model", overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    aside = tmp_path / f"model.{'0' * 16}.old"  # where a killed process may have left it
    (tmp_path / "model").rename(aside)
    assert load(tmp_path / "model").n_oscillators == 32
    (tmp_path / "model").rename(aside)
    with pytest.raises(ValueError, match="already exists and is not overwritten"):
        fitted.save(tmp_path / "model")


@pytest.mark.parametrize("exists", [False, True])
def test_a_save_that_was_killed_can_be_repeated(tmp_path, fitted, monkeypatch, exists):
    """Between two files; into a new directory and into an empty one."""

    class Killed(BaseException):
        pass

    def die(*arguments):
        raise Killed

    folder = tmp_path / "run"
    if exists:
        folder.mkdir()
    with monkeypatch.context() as patch:
        patch.setattr("linoss.training._saved.write_json", die)
        with pytest.raises(Killed):
            fitted.save(folder)
    assert folder.exists() == exists
    fitted.save(folder)
    assert load(folder).held_out_score_ == fitted.held_out_score_
    (folder / "config.json").unlink()
    (folder / "arrays.safetensors").write_bytes(b"of somebody else")
    with pytest.raises(CheckpointError, match="is not overwritten"):
        fitted.save(folder)


def test_a_save_that_fails_names_the_directory(tmp_path, fitted, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(CheckpointError, match=r"run/config.json: .*No space left"):
        fitted.save(tmp_path / "run")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match="file: cannot be written"):
        fitted.save(tmp_path / "file" / "run")


def test_damaged_arrays_are_refused(tmp_path, fitted):
    fitted.save(tmp_path)
    arrays = tmp_path / "arrays.safetensors"
    content = bytearray(arrays.read_bytes())
    content[-5] ^= 1
    arrays.write_bytes(content)
    with pytest.raises(CheckpointError, match="checksum"):
        load(tmp_path)


def test_a_readout_of_other_statistics_is_refused(tmp_path, fitted):
    """Such as that of an earlier version."""
    member, fewer = fitted.fitted_.oscillators, slice(3 * SMALL["n_oscillators"])
    parts = {name: getattr(member.readout, name)[fewer] for name in ("mean", "scale")}
    parts["coefficients"] = member.readout.coefficients[fewer]
    other = OscillatorClassifier(**SMALL).fit(WAVES, np.arange(24) % 2)
    other.fitted_ = replace(
        fitted.fitted_, oscillators=replace(member, readout=replace(member.readout, **parts))
    )
    other.save(tmp_path / "run")
    with pytest.raises(CheckpointError, match=r"readout\.coefficients has shape"):
        load(tmp_path / "run")


def test_a_model_of_another_kind_is_refused(tmp_path, trained):
    trained.save(tmp_path / "saved")
    other = LinOSSClassifier(**{**MODEL, "hidden_size": 4}, n_models=2)
    other.fit(WAVES, np.arange(24) % 2).save(tmp_path / "other")
    shutil.rmtree(tmp_path / "saved" / "model-2")
    shutil.copytree(tmp_path / "other" / "model-2", tmp_path / "saved" / "model-2")
    with pytest.raises(CheckpointError, match="model-2: is not one of the models of"):
        load(tmp_path / "saved")


def test_hostile_parameters_are_refused(tmp_path, trained):
    trained.save(tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    record = json.loads(path.read_text())
    assert "__class__" not in record["extra"]["parameters"]
    path.write_text(json.dumps(record).replace('"hidden_size"', '"__class__"'))
    with pytest.raises(CheckpointError):
        load(tmp_path / "model")
