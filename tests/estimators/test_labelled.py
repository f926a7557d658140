"""Several models and untrained oscillators that answer together."""

import shutil

import jax
import numpy as np
import pytest
import sklearn
from sklearn.metrics import r2_score
from sklearn.model_selection import cross_val_score

from linoss import LinOSSClassifier, LinOSSRegressor
from linoss.data import sequences
from linoss.estimators import load
from linoss.training import CheckpointError, Inputs, predict

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
    assert classifier.score(values, labels) > 0.7
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
    with pytest.warns(
        UserWarning, match="stopped before its end, and only its first model is used"
    ):
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
    from linoss._settings import LinOSSClassifierSettings
    from linoss.training import TrainingConfig

    def steps(cases, **settings):
        return TrainingConfig.from_settings(LinOSSClassifierSettings(**settings), 0, cases).steps

    assert steps(9) == 100
    assert steps(400) == 400
    assert steps(100_000) == 6325
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


@pytest.mark.several
@pytest.mark.parametrize("length", [40, 38])
def test_patches(small, noisy, length):
    """The model reads k samples as one: as one that was given them as channels."""
    values, labels = noisy[0][:, :, :length], noisy[1]
    alone = {**small, "n_models": 1, "n_oscillators": None, "steps": 5}
    classifier = LinOSSClassifier(**alone, patch=4).fit(values, labels)
    assert classifier.model_.config.in_size == 8
    inputs = classifier.inputs_
    scaled = (values - inputs.scaling.mean[:, None]) / inputs.scaling.deviation[:, None]
    filled = np.pad(scaled, ((0, 0), (0, 0), (0, 40 - length)))
    u = filled.reshape(48, 2, 10, 4).transpose(0, 2, 3, 1).reshape(48, 10, 8)
    with jax.enable_x64(False):
        said = np.asarray(classifier.model_(u.astype(np.float32)))
    odds = np.exp(said)
    np.testing.assert_allclose(
        classifier.predict_proba(values), odds / odds.sum(axis=1, keepdims=True), atol=1e-5
    )
    listen = classifier.stream()
    for i, sample in enumerate(values[3].T, 1):
        said = listen(sample)
        if i in (1, 6, 8, length):
            whole = classifier.predict_proba(values[3:4, :, :i])
            np.testing.assert_allclose(said, whole[0], atol=1e-4)


@pytest.mark.integration
def test_patches_of_unequal_lengths_and_missing_samples(small, noisy):
    values = np.array(noisy[0])
    values[:, :, 8:14] = np.nan  # a whole patch of four, and a part of one
    cases = [case[:, : 20 + i % 20] for i, case in enumerate(values)]
    alone = {**small, "n_models": 1, "n_oscillators": None, "steps": 5}
    classifier = LinOSSClassifier(**alone, patch=4).fit(cases, noisy[1])
    together = classifier.predict_proba(cases)
    assert np.array_equal(together[5], classifier.predict_proba(cases[5:6])[0])
    listen = classifier.stream()
    for sample in cases[5].T:
        said = listen(sample)
    np.testing.assert_allclose(said, together[5], atol=1e-4)


def test_patches_by_length():
    def patch(length, **settings):
        cases = sequences(np.random.default_rng(0).normal(size=(2, 1, length)))
        return LinOSSClassifier(**settings)._patch_of(Inputs.from_sequences(cases))

    assert [patch(n) for n in (50, 128, 150, 250, 1000)] == [1, 1, 1, 2, 10]
    assert patch(1000, patch=3) == 3
    with pytest.raises(ValueError, match="patch is 3, expected 1 if there is devices"):
        patch(1000, patch=3, devices=2)


# ---- Going on ----


def stopped_at(step):
    """A callback that stops as Ctrl-C does, in the middle of the second model."""

    def tell(progress):
        if progress.model == 2 and progress.step >= step:
            raise KeyboardInterrupt

    return tell


def test_ctrl_c_leaves_a_fitted_estimator(small, noisy, tmp_path):
    classifier = LinOSSClassifier(**{**small, **MANY, "evaluate_every": 5})
    with (
        pytest.warns(UserWarning, match="interrupted after .* of 60 updates of 2 of 3 models"),
        pytest.raises(KeyboardInterrupt),
    ):
        classifier.fit(*noisy, on_progress=stopped_at(5))
    assert len(classifier.models_) == 2
    assert classifier.score(*noisy) > 0.5
    classifier.save(tmp_path / "saved")
    again = load(tmp_path / "saved")
    assert np.array_equal(again.predict_proba(noisy[0]), classifier.predict_proba(noisy[0]))


@pytest.mark.integration
def test_a_stopped_run_goes_on_to_the_same(small, noisy, tmp_path):
    settings = {**small, **MANY, "evaluate_every": 5}
    classifier = LinOSSClassifier(**settings)
    with pytest.raises(KeyboardInterrupt):
        classifier.fit(*noisy, directory=tmp_path / "run", on_progress=stopped_at(5))
    classifier.fit(*noisy, directory=tmp_path / "run", resume=True)
    whole = LinOSSClassifier(**settings).fit(*noisy)
    assert np.array_equal(classifier.predict_proba(noisy[0]), whole.predict_proba(noisy[0]))


def test_starts_from_another_run(fitted, small, noisy, run, capsys):
    values, labels = noisy
    three = np.where(np.arange(48) < 16, "other", labels)
    settings = {**small, "n_models": 1, "n_oscillators": None, "steps": 1, "learning_rate": 1e-9}
    other = LinOSSClassifier(**settings, verbose=1).fit(values, three, start_from=run)
    said = capsys.readouterr().err
    assert "Reused weights: encoder, block 1\n" in said
    assert "New: head\n" in said
    kept, source = other.model_, fitted.models_[0]
    for part in ("encoder", "blocks"):
        for mine, theirs in zip(
            jax.tree.leaves(getattr(kept, part)),
            jax.tree.leaves(getattr(source, part)),
            strict=True,
        ):
            np.testing.assert_allclose(mine, theirs, atol=0.05)
    again = LinOSSClassifier(**settings).fit(values[:, :1], labels, start_from=fitted)
    np.testing.assert_allclose(
        again.model_.head.decoder.weight, source.head.decoder.weight, atol=1e-5
    )
    assert again.model_.config.in_size == 1


@pytest.mark.usefixtures("unchecked")
def test_what_cannot_be_started_from(fitted, small, noisy):
    other = {**small, "n_models": 1, "n_oscillators": None, "hidden_size": 8}
    with pytest.raises(
        ValueError, match=r"no part of the model of start_from fits: .*hidden_size=16"
    ):
        LinOSSClassifier(**other).fit(*noisy, start_from=fitted)
    with pytest.raises(ValueError, match="start_from is 3, expected the directory of a run"):
        LinOSSClassifier(**other).fit(*noisy, start_from=3)


def test_more_steps(small, noisy, tmp_path):
    def fit(steps, schedule):
        alone = {**small, "n_models": 1, "n_oscillators": None, "schedule": schedule}
        where = {"directory": tmp_path / schedule, "resume": True}
        return LinOSSClassifier(**{**alone, "steps": steps}).fit(*noisy, **where)

    fit(20, "constant")
    assert fit(30, "constant").n_steps_ == 30
    assert load(tmp_path / "constant").steps == 30
    fit(20, "cosine")
    with pytest.raises(CheckpointError, match="its learning rate falls to 0 there; only a run at"):
        fit(30, "cosine")


# ---- Metadata routing ----


@pytest.mark.integration
def test_times_in_cross_validation(small, noisy):
    times = np.cumsum(np.random.default_rng(0).uniform(0.5, 1.5, size=(48, 40)), axis=1)
    alone = {**small, "n_models": 1, "n_oscillators": None, "steps": 10}
    classifier, options = LinOSSClassifier(**alone), {"cv": 2, "params": {"times": times}}
    with pytest.warns(UserWarning, match="enable_metadata_routing=True"):
        assert np.isnan(cross_val_score(classifier, *noisy, **options)).all()
    with sklearn.config_context(enable_metadata_routing=True):
        classifier.set_fit_request(times=True).set_score_request(times=True)
        assert (cross_val_score(classifier, *noisy, **options) > 0.3).all()
        weights = {"times": times, "sample_weight": np.ones(48)}
        classifier.set_fit_request(times=True, sample_weight=True)
        classifier.set_score_request(times=True, sample_weight=True)
        assert (cross_val_score(classifier, *noisy, cv=2, params=weights) > 0.3).all()
