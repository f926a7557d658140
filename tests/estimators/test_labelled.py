"""Several models and untrained oscillators that answer together."""

import shutil

import jax
import numpy as np
import pytest
from sklearn.metrics import r2_score

from linoss import LinOSSClassifier, LinOSSRegressor
from linoss.data import sequences
from linoss.estimators import load
from linoss.training import CheckpointError, predict

MANY = {"n_models": 3, "n_oscillators": 64, "causal": True, "steps": 20}


def logits(fitted, values):
    """What each model says."""
    with jax.enable_x64(False):
        return [predict(model, fitted.inputs_, sequences(values)) for model in fitted.models_]


@pytest.fixture(scope="module")
def noisy(waves):
    """Waves in so much noise that some answers are wrong."""
    noise = np.random.default_rng(3).normal(size=waves[0].shape)
    return waves[0] + 1.2 * noise, waves[1]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return tmp_path_factory.mktemp("runs") / "run"


@pytest.fixture(scope="module")
def fitted(small, noisy, run):
    return LinOSSClassifier(**{**small, **MANY}).fit(*noisy, directory=run)


def test_each_model_is_another_one(fitted, noisy):
    found = logits(fitted, noisy[0])
    assert len(found) == 3
    assert not np.allclose(found[0], found[1])
    assert fitted.model_ is fitted.models_[0]


def test_the_answer_is_the_weighted_product_of_both(fitted, noisy):
    """p proportional to (mean of models + 0.001)^a (oscillators + 0.001)^b, written out."""
    odds = list(map(np.exp, logits(fitted, noisy[0])))
    trained = np.mean([o / o.sum(axis=1, keepdims=True) for o in odds], axis=0)
    untrained = fitted.oscillators_.predict_proba(noisy[0])
    a, b = fitted.weights_
    product = (trained + 1e-3) ** a * (untrained + 1e-3) ** b
    np.testing.assert_allclose(
        fitted.predict_proba(noisy[0]), product / product.sum(axis=1, keepdims=True), rtol=1e-4
    )


def test_the_score_is_that_of_models_that_have_not_seen_a_case(fitted, small, noisy):
    """Left-out parts are found by what training on all other cases gives again."""
    values, labels = noisy
    order = np.random.default_rng(0).permutation(48)
    order = order[np.argsort(labels[order], kind="stable")]
    part = np.sort(order[0::3])
    assert sorted(labels[part]) == ["fast"] * 8 + ["slow"] * 8
    rest = np.setdiff1d(np.arange(48), part)
    alone = {**small, "n_models": 1, "n_oscillators": None, "steps": 20}
    single = LinOSSClassifier(**alone).fit(values[rest], labels[rest])
    mine, theirs = (logits(of, values[part])[0] for of in (fitted, single))
    assert np.mean(mine.argmax(axis=1) == theirs.argmax(axis=1)) > 0.8  # scaled a bit differently
    assert 0.5 < fitted.left_out_score_ <= 1
    assert fitted.own_scores_ == {"left-out accuracy": fitted.left_out_score_}


def test_it_knows_of_noise_that_it_has_learned_by_heart(small):
    random = np.random.default_rng(5)
    values, labels = random.normal(size=(48, 2, 40)), np.arange(48) % 2
    classifier = LinOSSClassifier(**{**small, **MANY, "steps": 60}).fit(values, labels)
    assert classifier.score(values, labels) > 0.8
    assert classifier.left_out_score_ < 0.75
    assert classifier.predict_proba(random.normal(size=(48, 2, 40))).max(axis=1).mean() < 0.75


@pytest.mark.parametrize("way", ["save", "run directory"])
def test_comes_back(fitted, noisy, run, way, tmp_path):
    if way == "save":
        run = tmp_path / "saved"
        fitted.save(run)
    again = load(run)
    assert np.array_equal(again.predict_proba(noisy[0]), fitted.predict_proba(noisy[0]))
    assert again.own_scores_ == fitted.own_scores_
    assert again.n_steps_ == fitted.n_steps_ == 60


def test_streams_as_one(fitted, noisy):
    listen = fitted.stream()
    for sample in noisy[0][7].T:
        said = listen(sample)
    np.testing.assert_allclose(said, fitted.predict_proba(noisy[0][7:8])[0], atol=1e-5)
    at_once = fitted.stream().many(noisy[0][7].T.astype(float), [None] * 40)
    np.testing.assert_allclose(at_once[-1], said, atol=1e-6)


def test_a_run_that_was_stopped_goes_on_to_the_same(fitted, small, noisy, run, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    for name in ("stack", "model-3", "oscillators"):
        shutil.rmtree(tmp_path / "run" / name)
    with pytest.warns(UserWarning, match="stopped before its end, and its first model answers"):
        assert len(load(tmp_path / "run").models_) == 1
    settings = {**small, **MANY}
    LinOSSClassifier(**settings).fit(*noisy, directory=tmp_path / "run", resume=True)
    for path in (p for p in run.rglob("*.safetensors") if p.name != "state.safetensors"):
        assert path.read_bytes() == (tmp_path / "run" / path.relative_to(run)).read_bytes()
    assert np.array_equal(
        load(tmp_path / "run").predict_proba(noisy[0]), fitted.predict_proba(noisy[0])
    )


@pytest.mark.integration
def test_the_same_part_is_held_out_if_asked(small, noisy):
    settings = {**small, **MANY, "n_oscillators": None, "validation_fraction": 0.25}
    classifier = LinOSSClassifier(**settings).fit(*noisy)
    assert classifier.history_[-1]["metric"] is not None
    assert classifier.own_scores_ == {"validation accuracy": classifier.left_out_score_}
    assert classifier.weights_.shape == (1,)


@pytest.mark.integration
def test_weights_of_cases(small, noisy):
    """Only cases of one kind count: others are left out, or nearly so."""
    values, labels = noisy
    weights = np.where(np.arange(48) < 24, 1.0, 0.0)
    first = LinOSSClassifier(**{**small, **MANY}).fit(values, labels, sample_weight=weights)
    second = LinOSSClassifier(**{**small, **MANY}).fit(values[:24], labels[:24])
    assert np.array_equal(first.predict_proba(values), second.predict_proba(values))
    sure = LinOSSClassifier(**{**small, **MANY, "n_oscillators": None}).fit(
        values, labels, sample_weight=np.where(labels == "slow", 100.0, 0.01)
    )
    assert np.mean(sure.predict(values) == "slow") > 0.8
    with pytest.raises(ValueError, match="sample_weight has entries that are not finite"):
        LinOSSClassifier(**small).fit(values, labels, sample_weight=-weights)


@pytest.mark.integration
def test_numbers(small, tmp_path):
    random = np.random.default_rng(0)
    speed = random.uniform(0.5, 1.5, 48)
    waves = np.sin(np.outer(speed, np.arange(40)) / 3) + 0.3 * random.normal(size=(48, 40))
    settings = {**small, **MANY, "steps": 60}
    regressor = LinOSSRegressor(**settings).fit(waves, speed, directory=tmp_path / "run")
    trained = regressor.objective_.decode(np.mean(logits(regressor, waves), axis=0))[:, 0]
    mean = np.stack([trained, regressor.oscillators_.predict(waves)], axis=1) @ regressor.weights_
    np.testing.assert_allclose(regressor.predict(waves), mean, rtol=1e-5)
    assert np.array_equal(load(tmp_path / "run").predict(waves), regressor.predict(waves))
    assert 0.3 < regressor.left_out_score_ < r2_score(speed, regressor.predict(waves))
    listen = regressor.stream()
    for value in waves[3]:
        said = listen([value])
    np.testing.assert_allclose(said, regressor.predict(waves[3:4]), atol=1e-4)


@pytest.mark.integration
def test_numbers_at_every_step_are_those_of_the_models(small):
    values = np.random.default_rng(0).normal(size=(20, 1, 30))
    sums = [np.cumsum(case[0])[4::5][: 3 + i % 3] for i, case in enumerate(values)]
    cases = [case[:, : 5 * (3 + i % 3)] for i, case in enumerate(values)]
    regressor = LinOSSRegressor(**{**small, **MANY}, every=5).fit(cases, sums)
    assert regressor.oscillators_ is None
    assert [len(answer) for answer in regressor.predict(cases)] == [len(case) for case in sums]
    assert regressor.left_out_score_ < 1


def test_the_budget_follows_the_data():
    from linoss._settings import ClassifierSettings
    from linoss.training import TrainingConfig

    def steps(cases, **settings):
        return TrainingConfig.from_settings(ClassifierSettings(**settings), 0, cases).steps

    assert steps(20) == 200
    assert steps(400) == 720
    assert steps(100_000) == 11384
    assert steps(20, epochs=10) == 10  # one batch of all of them
    assert steps(100_000, epochs=2) == 6250
    with pytest.raises(ValueError, match="epochs is 3, but steps is 5; set one of them"):
        steps(100, epochs=3, steps=5)


@pytest.mark.usefixtures("unchecked")
class TestErrors:
    def test_a_stream_of_what_reads_backwards(self, fitted, small, noisy):
        other = LinOSSClassifier(**{**small, **MANY, "causal": False, "steps": 1}).fit(*noisy)
        assert fitted.can_stream_
        assert not other.can_stream_
        with pytest.raises(ValueError, match="causal is False: some of the untrained oscillators"):
            other.stream()

    def test_a_model_of_another_kind(self, fitted, small, noisy, tmp_path):
        fitted.save(tmp_path / "saved")
        other = LinOSSClassifier(**{**small, "n_models": 2, "n_oscillators": None, "steps": 1})
        other.set_params(hidden_size=8).fit(*noisy).save(tmp_path / "other")
        shutil.rmtree(tmp_path / "saved" / "model-2")
        shutil.copytree(tmp_path / "other" / "model-2", tmp_path / "saved" / "model-2")
        with pytest.raises(CheckpointError, match="model-2: is not one of the models of"):
            load(tmp_path / "saved")
