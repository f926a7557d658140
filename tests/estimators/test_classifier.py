"""LinOSSClassifier: what it takes, what it gives, and that it comes back from a directory."""

import json
import pickle

import jax
import numpy as np
import pytest

from linoss import LinOSSClassifier, OscillatorClassifier
from linoss.data import DataError, sequences
from linoss.estimators import load
from linoss.training import CheckpointError


@pytest.fixture(scope="module")
def fitted(alone, waves):
    return LinOSSClassifier(**alone).fit(*waves)


def test_learns(fitted, waves):
    assert fitted.score(*waves) == 1
    assert fitted.classes_.tolist() == ["fast", "slow"]


def test_probabilities(fitted, waves):
    probabilities = fitted.predict_proba(waves[0])
    assert probabilities.shape == (48, 2)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert np.array_equal(
        fitted.predict(waves[0]), fitted.classes_[np.argmax(probabilities, axis=1)]
    )


def test_an_answer_does_not_depend_on_the_other_cases(fitted, waves):
    together = fitted.predict_proba(waves[0])
    alone = np.concatenate([fitted.predict_proba(waves[0][i : i + 1]) for i in (0, 17, 47)])
    assert np.array_equal(together[[0, 17, 47]], alone)


@pytest.mark.integration
def test_unequal_lengths_as_a_list(alone, waves):
    values, labels = waves
    cases = [case[:, : 20 + i % 20] for i, case in enumerate(values)]
    classifier = LinOSSClassifier(**alone).fit(cases, labels)
    assert classifier.score(cases, labels) > 0.95
    assert np.array_equal(
        classifier.predict_proba(cases)[5], classifier.predict_proba([cases[5]])[0]
    )


@pytest.mark.integration
def test_missing_values_are_masked_not_filled(alone, waves):
    values, labels = np.array(waves[0]), waves[1]
    values[np.random.default_rng(1).random(values.shape) < 0.2] = np.nan
    classifier = LinOSSClassifier(**alone).fit(values, labels)
    assert classifier.inputs_.indicators
    assert classifier.score(values, labels) > 0.95


@pytest.mark.integration
def test_irregular_sampling(alone, waves):
    labels, random = waves[1], np.random.default_rng(2)
    times = np.cumsum(random.uniform(0.2, 1.8, (48, 40)), axis=1)
    values = np.sin(np.where(labels == "slow", 1.0, 2.0)[:, None] * times / 4)
    classifier = LinOSSClassifier(**alone).fit(values, labels, times=times)
    assert classifier.inputs_.irregular
    assert classifier.score(values, labels, times=times) > 0.9


def test_sequences_with_their_own_labels(alone, waves):
    cases = sequences(waves[0], y=waves[1])
    assert np.array_equal(
        LinOSSClassifier(**alone).fit(cases).predict(cases),
        LinOSSClassifier(**alone).fit(*waves).predict(waves[0]),
    )


def test_the_same_random_state_gives_the_same_weights(alone, waves):
    first, second = (LinOSSClassifier(**alone).fit(*waves) for _ in range(2))
    assert np.array_equal(first.predict_proba(waves[0]), second.predict_proba(waves[0]))
    other = LinOSSClassifier(**{**alone, "random_state": 1}).fit(*waves)
    assert not np.array_equal(first.predict_proba(waves[0]), other.predict_proba(waves[0]))


def test_precision_of_jax_does_not_matter(fitted, waves):
    with jax.enable_x64(False):
        single = fitted.predict_proba(waves[0])
    with jax.enable_x64(True):
        assert np.array_equal(fitted.predict_proba(waves[0]), single)


@pytest.mark.integration
def test_class_weight_moves_the_answers(alone, waves):
    values, labels = waves
    noise = np.random.default_rng(0).normal(size=values.shape)
    shares = [
        np.mean(
            LinOSSClassifier(**alone, class_weight={"slow": weight, "fast": 1.0})
            .fit(noise[:24], labels[:24])
            .predict(noise[24:])
            == "slow"
        )
        for weight in (0.01, 100.0)
    ]
    assert shares[0] < 0.3
    assert shares[1] > 0.7


@pytest.mark.integration
def test_a_held_out_part_chooses_the_weights(alone, waves):
    settings = {**alone, "validation_fraction": 0.25, "evaluate_every": 10, "patience": 3}
    classifier = LinOSSClassifier(**settings).fit(*waves)
    assert classifier.best_metric_ == 1
    assert classifier.n_steps_ < 100
    assert [record["step"] for record in classifier.history_][:2] == [10, 20]


@pytest.mark.parametrize("way", ["save", "run directory", "load", "pickle"])
def test_comes_back(way, fitted, alone, waves, tmp_path):
    if way == "pickle":
        again = pickle.loads(pickle.dumps(fitted))
    elif way == "run directory":
        LinOSSClassifier(**alone).fit(*waves, directory=tmp_path / "run")
        again = LinOSSClassifier.load(tmp_path / "run")
    else:
        fitted.save(tmp_path / "model")
        again = (load if way == "load" else LinOSSClassifier.load)(tmp_path / "model")
    assert np.array_equal(again.predict_proba(waves[0]), fitted.predict_proba(waves[0]))
    assert again.get_params() == fitted.get_params()
    assert again.predict(waves[0][:3]).tolist() == fitted.predict(waves[0][:3]).tolist()


def test_a_run_that_has_ended_is_only_read_again(alone, waves, tmp_path):
    whole = LinOSSClassifier(**alone).fit(*waves)
    LinOSSClassifier(**alone).fit(*waves, directory=tmp_path / "run")
    again = LinOSSClassifier(**alone).fit(*waves, directory=tmp_path / "run", resume=True)
    assert np.array_equal(again.predict_proba(waves[0]), whole.predict_proba(waves[0]))


@pytest.mark.usefixtures("unchecked")
class TestErrors:
    def test_other_channels(self, fitted, waves):
        with pytest.raises(ValueError, match="X has 1 channels, expected 2, as in fit"):
            fitted.predict(waves[0][:, :1])

    def test_times_that_the_model_knows_nothing_of(self, fitted, waves):
        times = np.cumsum(np.random.default_rng(0).uniform(0.1, 3, size=(2, 40)), axis=1)
        with pytest.raises(DataError, match="times are irregular, but those of fit were"):
            fitted.predict(waves[0][:2], times=times)
        even = np.tile(np.arange(40.0), (2, 1))
        assert np.array_equal(
            fitted.predict(waves[0][:2], times=even), fitted.predict(waves[0][:2])
        )

    def test_missing_channels_that_the_model_knows_nothing_of(self, fitted, waves):
        cases = waves[0][:2].copy()
        cases[0, :, 5] = np.nan  # a whole step is left out, which is no guess
        fitted.predict(cases)
        cases[0, 1, 7] = np.nan
        with pytest.warns(UserWarning, match="treats these as the mean of their channel"):
            fitted.predict(cases)

    def test_patience_with_nothing_to_see_it_by(self, alone, waves):
        with pytest.raises(ValueError, match="patience is 1, but nothing is held out"):
            LinOSSClassifier(**alone, patience=1).fit(*waves)

    def test_labels_and_cases_differ_in_number(self, alone, waves):
        cases = list(waves[0])
        with pytest.raises(ValueError, match="y has 47 labels, expected 48"):
            LinOSSClassifier(**alone).fit(cases, waves[1][:47])

    def test_infinite_values(self, alone, waves):
        values = list(np.array(waves[0]))
        values[3][1, 5] = np.inf
        with pytest.raises(DataError, match="case 3: the value of channel 1 at position 5 is inf"):
            LinOSSClassifier(**alone).fit(values, waves[1])

    def test_a_directory_of_another_kind(self, fitted, tmp_path):
        from linoss import LinOSSRegressor

        fitted.save(tmp_path / "model")
        with pytest.raises(ValueError, match="holds a LinOSSClassifier, expected a LinOSSReg"):
            LinOSSRegressor.load(tmp_path / "model")

    def test_a_directory_that_holds_something(self, fitted, tmp_path):
        fitted.save(tmp_path / "model")
        with pytest.raises(CheckpointError, match="is not overwritten"):
            fitted.save(tmp_path / "model")

    def test_hostile_parameters(self, fitted, tmp_path):
        fitted.save(tmp_path / "model")
        path = tmp_path / "model" / "config.json"
        record = json.loads(path.read_text())
        assert "__class__" not in record["extra"]["parameters"]
        path.write_text(json.dumps(record).replace('"hidden_size"', '"__class__"'))
        with pytest.raises(CheckpointError):
            LinOSSClassifier.load(tmp_path / "model")


def test_saving_again(tmp_path, monkeypatch):
    """The old one is there until the new one is whole, and as a whole after a failure."""
    waves = np.random.default_rng(0).normal(size=(12, 20))
    first, second = (
        OscillatorClassifier(n_oscillators=n, random_state=0).fit(waves, np.arange(12) % 2)
        for n in (16, 32)
    )
    first.save(tmp_path / "model")
    with pytest.raises(ValueError, match="already exists and is not overwritten"):
        second.save(tmp_path / "model")
    second.save(tmp_path / "model", overwrite=True)
    assert OscillatorClassifier.load(tmp_path / "model").n_oscillators == 32
    monkeypatch.setattr(first, "_fitted", lambda: {"not plain": object()})
    with pytest.raises(TypeError):
        first.save(tmp_path / "model", overwrite=True)
    assert OscillatorClassifier.load(tmp_path / "model").n_oscillators == 32
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    aside = tmp_path / f"model.{'0' * 16}.old"  # where a killed process may have left it
    (tmp_path / "model").rename(aside)
    assert OscillatorClassifier.load(tmp_path / "model").n_oscillators == 32
    (tmp_path / "model").rename(aside)
    with pytest.raises(ValueError, match="already exists and is not overwritten"):
        second.save(tmp_path / "model")


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (["a"] * 6, "y has one class, 'a', expected at least two"),
        ([1, 2, 2.5, 1, 2, 1], r"fractions, such as 2\.5, expected classes; .*--task regression"),
        ([1, 2], "inconsistent numbers of samples"),
        (None, "requires y to be passed"),
    ],
)
@pytest.mark.parametrize("classifier", [LinOSSClassifier(steps=1), OscillatorClassifier()])
def test_labels_that_are_no_classes(classifier, y, message):
    with pytest.raises(ValueError, match=message):
        classifier.fit(np.zeros((6, 10)), y)
