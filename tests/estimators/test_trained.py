"""LinOSSClassifier and LinOSSRegressor: what they take, what they predict, and how they go on."""

import copy
import pickle
import shutil

import jax
import numpy as np
import pytest
import sklearn
from sklearn.model_selection import cross_val_score

from linoss import LinOSSClassifier, LinOSSRegressor, OscillatorClassifier, load
from linoss.data import DataError, sequences
from linoss.fitted import NotANumberWarning
from linoss.training import predict

SEVERAL = {"n_models": 3, "steps": 20}


def logits(fitted, values):
    """The output of each model."""
    trained = fitted.fitted_.trained
    with jax.enable_x64(False):
        return [predict(model, trained.inputs, sequences(values)) for model in trained.models]


def shares(logits):
    odds = np.exp(logits)
    return odds / odds.sum(axis=-1, keepdims=True)


@pytest.fixture(scope="module")
def fitted(alone, waves):
    return LinOSSClassifier(**alone).fit(*waves)


@pytest.fixture(scope="module")
def noisy(waves):
    """Waves in so much noise that some predictions are wrong."""
    noise = np.random.default_rng(3).normal(size=waves[0].shape)
    return waves[0] + 1.2 * noise, waves[1]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return tmp_path_factory.mktemp("runs") / "run"


@pytest.fixture(scope="module")
def several(small, noisy, run):
    return LinOSSClassifier(**{**small, **SEVERAL}).fit(*noisy, directory=run)


# ---- One model ----


def test_classifies(fitted, waves):
    values, labels = waves
    probabilities = fitted.predict_proba(values)
    assert fitted.score(values, labels) == 1
    assert fitted.classes_.tolist() == ["fast", "slow"]
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert np.array_equal(fitted.predict(values), fitted.classes_[probabilities.argmax(axis=1)])
    each = np.concatenate([fitted.predict_proba(values[i : i + 1]) for i in (0, 17, 47)])
    assert np.array_equal(probabilities[[0, 17, 47]], each)


def test_the_same_seed_gives_the_same_weights(fitted, alone, waves):
    own = LinOSSClassifier(**alone).fit(sequences(waves[0], y=waves[1]))  # with their own labels
    assert np.array_equal(own.predict_proba(waves[0]), fitted.predict_proba(waves[0]))
    other = LinOSSClassifier(**{**alone, "random_state": 1}).fit(*waves)
    assert not np.array_equal(fitted.predict_proba(waves[0]), other.predict_proba(waves[0]))


@pytest.mark.integration
def test_unequal_lengths_and_missing_values(alone, waves):
    values, labels = np.array(waves[0]), waves[1]
    values[np.random.default_rng(1).random(values.shape) < 0.2] = np.nan
    cases = [case[:, : 20 + i % 20] for i, case in enumerate(values)]
    classifier = LinOSSClassifier(**alone).fit(cases, labels)
    assert classifier.fitted_.trained.inputs.indicators
    assert classifier.score(cases, labels) > 0.9
    one = classifier.predict_proba([cases[5]])[0]
    assert np.array_equal(classifier.predict_proba(cases)[5], one)


@pytest.mark.integration
def test_irregular_sampling(alone, waves):
    labels, random = waves[1], np.random.default_rng(2)
    times = np.cumsum(random.uniform(0.2, 1.8, (48, 40)), axis=1)
    values = np.sin(np.where(labels == "slow", 1.0, 2.0)[:, None] * times / 4)
    classifier = LinOSSClassifier(**alone).fit(values, labels, times=times)
    assert classifier.fitted_.needs_times
    assert classifier.score(values, labels, times=times) > 0.9


@pytest.mark.parametrize("way", ["save", "run directory", "pickle"])
def test_comes_back(way, fitted, alone, waves, tmp_path):
    if way == "pickle":
        again = pickle.loads(pickle.dumps(fitted))
    elif way == "save":
        fitted.save(tmp_path / "model")
        again = load(tmp_path / "model")
    else:
        LinOSSClassifier(**alone).fit(*waves, directory=tmp_path / "run")
        LinOSSClassifier(**alone).fit(*waves, directory=tmp_path / "run", resume=True)  # only read
        again = LinOSSClassifier.load(tmp_path / "run")
    assert np.array_equal(again.predict_proba(waves[0]), fitted.predict_proba(waves[0]))
    assert again.get_params() == fitted.get_params()
    assert again.predict(waves[0]).tolist() == fitted.predict(waves[0]).tolist()


# ---- Several models ----


def test_the_prediction_is_the_calibrated_mean(several, noisy):
    """p proportional to (mean of models + 0.001)^a, written out."""
    each = logits(several, noisy[0])
    assert not np.allclose(each[0], each[1])
    product = (np.mean(list(map(shares, each)), axis=0) + 1e-3) ** several.fitted_.weights
    np.testing.assert_allclose(
        several.predict_proba(noisy[0]), product / product.sum(axis=1, keepdims=True), rtol=1e-4
    )


def test_the_score_is_that_of_models_that_have_not_seen_a_case(several, small, noisy):
    """Folds are those of a training on all other cases."""
    values, labels = noisy
    order = np.random.default_rng(0).permutation(48)
    order = order[np.argsort(labels[order], kind="stable")]
    part = np.sort(order[0::3])
    assert sorted(labels[part]) == ["fast"] * 8 + ["slow"] * 8
    others = np.setdiff1d(np.arange(48), part)
    single = LinOSSClassifier(**{**small, "n_models": 1, "steps": 20})
    single.fit(values[others], labels[others])
    first, second = (logits(of, values[part])[0] for of in (several, single))
    assert np.mean(first.argmax(axis=1) == second.argmax(axis=1)) > 0.8  # other scaling
    assert 0.5 < several.held_out_score_ <= 1
    assert several.fitted_.scores == {"cross-validation accuracy": several.held_out_score_}


def test_noise_that_was_learned_by_heart_is_not_certain(small):
    random = np.random.default_rng(5)
    values, labels = random.normal(size=(48, 2, 40)), np.arange(48) % 2
    classifier = LinOSSClassifier(**{**small, "n_models": 3, "steps": 60}).fit(values, labels)
    assert classifier.score(values, labels) > 0.7
    assert classifier.held_out_score_ < 0.75
    assert classifier.predict_proba(random.normal(size=(48, 2, 40))).max(axis=1).mean() < 0.75


def test_streams(several, noisy):
    stream = several.stream()
    for sample in noisy[0][7, :, :30].T:
        prediction = stream(sample)
    other = copy.deepcopy(stream)
    for sample in noisy[0][7, :, 30:].T:
        prediction = stream(sample)
    np.testing.assert_allclose(prediction, several.predict_proba(noisy[0][7:8])[0], atol=1e-5)
    samples = noisy[0][7].T.astype(float)
    assert np.array_equal(other.many(samples[30:], [None] * 10)[-1], prediction)
    at_once = several.stream().many(samples, [None] * 40)
    np.testing.assert_allclose(at_once[-1], prediction, atol=1e-6)


@pytest.mark.integration
def test_weights_of_cases(small, noisy):
    values, labels = noisy
    weights = np.where(np.arange(48) < 24, 1.0, 0.0)
    first = LinOSSClassifier(**{**small, **SEVERAL}).fit(values, labels, sample_weight=weights)
    second = LinOSSClassifier(**{**small, **SEVERAL}).fit(values[:24], labels[:24])
    assert np.array_equal(first.predict_proba(values), second.predict_proba(values))
    weights = np.where(labels == "slow", 100.0, 0.01)
    slow = LinOSSClassifier(**{**small, **SEVERAL}).fit(values, labels, sample_weight=weights)
    assert np.mean(slow.predict(values) == "slow") > 0.8
    with pytest.raises(ValueError, match="sample_weight has entries that are not finite"):
        slow.fit(values, labels, sample_weight=-weights)


# ---- Patches: the model reads k samples as one ----


@pytest.mark.several
@pytest.mark.parametrize("length", [40, 38])
def test_patches(small, noisy, length):
    """As a model that is given the samples of a patch as channels."""
    values, labels = noisy[0][:, :, :length], noisy[1]
    classifier = LinOSSClassifier(**{**small, "n_models": 1, "steps": 5}, patch=4)
    trained = classifier.fit(values, labels).fitted_.trained
    model, scaling = trained.models[0], trained.inputs.scaling
    scaled = (values - scaling.mean[:, None]) / scaling.deviation[:, None]
    filled = np.pad(scaled, ((0, 0), (0, 0), (0, 40 - length)))
    u = filled.reshape(48, 2, 10, 4).transpose(0, 2, 3, 1).reshape(48, 10, 8)
    with jax.enable_x64(False):
        expected = shares(np.asarray(model(u.astype(np.float32))))
    np.testing.assert_allclose(classifier.predict_proba(values), expected, atol=1e-5)
    stream = classifier.stream()
    for i, sample in enumerate(values[3].T, 1):
        prediction = stream(sample)
        if i in (1, 6, 8, length):
            whole = classifier.predict_proba(values[3:4, :, :i])
            np.testing.assert_allclose(prediction, whole[0], atol=1e-4)


# ---- Regression ----


@pytest.mark.integration
def test_one_number(alone):
    speed = np.random.default_rng(0).uniform(0.5, 1.5, 48)
    values = np.sin(np.outer(speed, np.arange(40)) / 3)
    regressor = LinOSSRegressor(**{**alone, "scheme": "exact", "damped": None, "steps": 200})
    predictions = regressor.fit(values, speed).predict(values)
    assert predictions.shape == (48,)
    assert regressor.score(values, speed) > 0.9
    targets = np.stack([speed, -2 * speed], axis=1)
    both = LinOSSRegressor(**{**alone, "steps": 200}).fit(values, targets)
    assert both.predict(values).shape == (48, 2)
    assert both.score(values, targets) > 0.9


@pytest.mark.integration
def test_numbers_at_every_step(small, tmp_path):
    """Of cases of unequal length, by several models."""
    random = np.random.default_rng(0)
    cases = [random.normal(size=(2, 60 + i)) for i in range(24)]
    targets = [np.cumsum(case[0])[9::10] / 5 for case in cases]
    regressor = LinOSSRegressor(**{**small, "n_models": 2, "steps": 200}, every=10)
    predictions = regressor.fit(cases, targets).predict(cases)
    assert [len(each) for each in predictions] == [len(target) for target in targets]
    assert regressor.score(cases, targets) > 0.8
    assert regressor.held_out_score_ < 1
    regressor.save(tmp_path / "model")
    assert all(map(np.array_equal, load(tmp_path / "model").predict(cases), predictions))


# ---- Predictions that are not numbers ----


@pytest.mark.filterwarnings("ignore::linoss.fitted.NotANumberWarning")
def test_nan_is_no_class(fitted, waves):
    values, labels = waves[0].copy(), waves[1]
    values[5] = 3e38
    with pytest.warns(NotANumberWarning, match="^the predictions for case 5 are not numbers"):
        assert np.isnan(fitted.predict_proba(values)[5]).all()
    with pytest.raises(ValueError, match="the probabilities of case 5 are NaN"):
        fitted.predict(values)
    assert fitted.score(values, labels) == pytest.approx(47 / 48)
    weights = np.where(np.arange(48) == 5, 3.0, 1.0)
    assert fitted.score(values, labels, sample_weight=weights) == pytest.approx(47 / 50)


# ---- Attribution ----


def test_attribution_of_classes_sums_to_their_logits(several, noisy):
    attribution = several.explain(noisy[0][3:4])
    expected = np.mean(logits(several, noisy[0][3:4]), axis=0)[0]
    sums = attribution.values.sum(axis=(1, 2)) + attribution.intercept
    np.testing.assert_allclose(sums, expected - expected.mean(), atol=2e-3 * np.ptp(sums))
    assert attribution.values.shape == (2, 2, 40)
    np.testing.assert_allclose(attribution.channels, attribution.values.sum(axis=2))
    assert attribution.error <= 1e-3
    with pytest.raises(ValueError, match="X has 2 cases, expected one"):
        several.explain(noisy[0][:2])


@pytest.mark.integration
def test_attribution_of_numbers_is_in_their_units(alone, waves):
    targets = np.where(waves[1] == "slow", 10.0, 30.0)
    regressor = LinOSSRegressor(**{**alone, "steps": 30}).fit(waves[0], targets)
    attribution = regressor.explain(waves[0][:1])
    sums = attribution.values.sum(axis=(1, 2)) + attribution.intercept
    np.testing.assert_allclose(sums, regressor.predict(waves[0][:1]), rtol=2e-3)
    np.testing.assert_array_equal(attribution.times, np.arange(40))


# ---- Runs that stop and go on ----


def stopped_at(step):
    """A callback that stops as Ctrl-C does, in the middle of the second model."""

    def stop(progress):
        if progress.model == 2 and progress.step >= step:
            raise KeyboardInterrupt

    return stop


def test_ctrl_c_leaves_a_fitted_estimator(small, noisy, tmp_path):
    classifier = LinOSSClassifier(**{**small, **SEVERAL, "evaluate_every": 5})
    with (
        pytest.warns(UserWarning, match="interrupted after .* of 60 updates of 2 of 3 models"),
        pytest.raises(KeyboardInterrupt),
    ):
        classifier.fit(*noisy, on_progress=stopped_at(5))
    assert len(classifier.fitted_.trained.models) == 2
    assert classifier.score(*noisy) > 0.5
    classifier.save(tmp_path / "saved")
    again = load(tmp_path / "saved").predict_proba(noisy[0])
    assert np.array_equal(again, classifier.predict_proba(noisy[0]))


def test_a_stopped_run_is_loaded_and_goes_on_to_the_same(several, small, noisy, run, tmp_path):
    classifier = LinOSSClassifier(**{**small, **SEVERAL, "evaluate_every": 5})
    with pytest.raises(KeyboardInterrupt):
        classifier.fit(*noisy, directory=tmp_path / "run", on_progress=stopped_at(5))
    shutil.copytree(tmp_path / "run", tmp_path / "first")
    shutil.rmtree(tmp_path / "first" / "model-2")
    with pytest.warns(UserWarning, match="before its end, and only its first model is used"):
        assert len(load(tmp_path / "first").fitted_.trained.models) == 1
    classifier.fit(*noisy, directory=tmp_path / "run", resume=True)
    assert np.array_equal(classifier.predict_proba(noisy[0]), several.predict_proba(noisy[0]))


def test_starts_from_another_run(several, alone, noisy, run, capsys):
    values, labels = noisy
    three = np.where(np.arange(48) < 16, "other", labels)
    settings = {**alone, "steps": 1, "learning_rate": 1e-9}
    other = LinOSSClassifier(**settings, verbose=1).fit(values, three, start_from=run)
    log = capsys.readouterr().err
    assert "Reused weights: encoder, block 1\n" in log
    assert "New: head\n" in log
    started, source = (each.fitted_.trained.models[0] for each in (other, several))
    for part in ("encoder", "blocks"):
        leaves = [jax.tree.leaves(getattr(model, part)) for model in (started, source)]
        for one, another in zip(*leaves, strict=True):
            np.testing.assert_allclose(one, another, atol=0.05)
    again = LinOSSClassifier(**settings).fit(values[:, :1], labels, start_from=several)
    model = again.fitted_.trained.models[0]
    np.testing.assert_allclose(model.head.decoder.weight, source.head.decoder.weight, atol=1e-5)
    assert model.config.in_size == 1


@pytest.mark.usefixtures("unchecked")
def test_what_cannot_be_started_from(several, alone, noisy):
    other = LinOSSClassifier(**{**alone, "hidden_size": 8})
    with pytest.raises(
        ValueError, match=r"no part of the model of start_from fits: .*hidden_size=16"
    ):
        other.fit(*noisy, start_from=several)
    with pytest.raises(ValueError, match="start_from is 3, expected the directory of a run"):
        other.fit(*noisy, start_from=3)


# ---- Bad input ----


@pytest.mark.usefixtures("unchecked")
def test_cases_that_differ_from_those_of_fit(fitted, waves):
    with pytest.raises(ValueError, match="X has 1 channels, expected 2, as in fit"):
        fitted.predict(waves[0][:, :1])
    times = np.cumsum(np.random.default_rng(0).uniform(0.1, 3, size=(2, 40)), axis=1)
    with pytest.raises(DataError, match="times are irregular, but those of fit were"):
        fitted.predict(waves[0][:2], times=times)
    cases, even = waves[0][:2].copy(), np.tile(np.arange(40.0), (2, 1))
    assert np.array_equal(fitted.predict(cases, times=even), fitted.predict(cases))
    cases[0, :, 5] = np.nan  # a whole step is left out, which is no guess
    fitted.predict(cases)
    cases[0, 1, 7] = np.nan
    with pytest.warns(UserWarning, match="treats these as the mean of their channel"):
        fitted.predict(cases)


@pytest.mark.usefixtures("unchecked")
def test_cases_that_are_invalid(alone, waves):
    classifier, cases = LinOSSClassifier(**alone), [case.copy() for case in waves[0]]
    with pytest.raises(ValueError, match="y has 47 labels, expected 48"):
        classifier.fit(cases, waves[1][:47])
    cases[3][1, 5] = np.inf
    with pytest.raises(DataError, match="case 3: the value of channel 1 at position 5 is inf"):
        classifier.fit(cases, waves[1])
    with pytest.raises(ValueError, match=r"y: could not convert .*slow.*, expected numbers; for"):
        LinOSSRegressor(**alone).fit(*waves)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (["a"] * 6, "y has one class, 'a', expected at least two"),
        ([1, 2, 2.5, 1, 2, 1], r"Unknown label type: continuous"),
        (np.arange("2020-01-01", "2020-01-07", dtype="M8[D]"), "such as .*2020-01-01.*astype"),
        ([1, 2], "inconsistent numbers of samples"),
        (None, "requires y to be passed"),
    ],
)
@pytest.mark.parametrize("classifier", [LinOSSClassifier(steps=1), OscillatorClassifier()])
def test_labels_that_are_no_classes(classifier, y, message):
    with pytest.raises(ValueError, match=message):
        classifier.fit(np.random.default_rng(0).normal(size=(6, 10)), y)


@pytest.mark.integration
def test_times_in_cross_validation(alone, noisy):
    times = np.cumsum(np.random.default_rng(0).uniform(0.5, 1.5, size=(48, 40)), axis=1)
    classifier = LinOSSClassifier(**{**alone, "steps": 10})
    options = {"cv": 2, "params": {"times": times}}
    with pytest.warns(UserWarning, match="enable_metadata_routing=True"):
        assert np.isnan(cross_val_score(classifier, *noisy, **options)).all()
    with sklearn.config_context(enable_metadata_routing=True):
        classifier.set_fit_request(times=True, sample_weight=True)
        classifier.set_score_request(times=True, sample_weight=True)
        options["params"] = {"times": times, "sample_weight": np.ones(48)}
        assert (cross_val_score(classifier, *noisy, **options) > 0.3).all()
