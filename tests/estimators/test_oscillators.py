"""Classifier and regressor of oscillators without training."""

import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from linoss import (
    LinOSSClassifier,
    OscillatorClassifier,
    OscillatorFeatures,
    OscillatorRegressor,
    load,
)
from linoss.data import DataError, sequences

SMALL = {"n_oscillators": 128, "random_state": 0}


def waves(cases=48, noise=0.3, seed=0):
    """Slow, fast and double waves in noise, `(cases, 2, 80)`; their kinds; their loudness."""
    random = np.random.default_rng(seed)
    kind = np.arange(cases) % 3
    loudness = random.uniform(0.5, 2, cases)
    turns = np.arange(80) * np.array([0.05, 0.12, 0.05])[kind][:, None] + random.random((cases, 1))
    values = np.sin(2 * np.pi * turns)
    values[kind == 2] += np.sin(2 * np.pi * 0.2 * np.arange(80))
    both = np.stack([values * loudness[:, None], random.normal(size=(cases, 80))], axis=1)
    both += noise * random.normal(size=both.shape)
    return both, np.array(["slow", "fast", "both"])[kind], loudness


@pytest.fixture(scope="module")
def fitted():
    X, y, _ = waves()
    return OscillatorClassifier(**SMALL).fit(X, y)


def test_classifies(fitted):
    X, y, _ = waves(seed=1)
    assert fitted.score(X, y) > 0.9
    assert abs(fitted.held_out_score_ - fitted.score(X, y)) < 0.15
    assert fitted.classes_.tolist() == ["both", "fast", "slow"]
    shares = fitted.predict_proba(X)
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-6)
    decisions = fitted.decision_function(X)
    assert decisions.shape == (48, 3)
    np.testing.assert_array_equal(shares.argmax(axis=1), decisions.argmax(axis=1))
    np.testing.assert_array_equal(fitted.predict(X), fitted.classes_[shares.argmax(axis=1)])


def test_channels_are_matched_by_name():
    X, y, _ = waves()
    cases = replace(sequences(X), names=("wave", "noise"))
    turned = replace(sequences(X[:, ::-1]), names=("noise", "wave"))
    classifier = OscillatorClassifier(**SMALL).fit(cases, y)
    np.testing.assert_array_equal(classifier.predict_proba(turned), classifier.predict_proba(X))
    np.testing.assert_array_equal(
        classifier.decision_function(turned), classifier.decision_function(X)
    )
    one, same = (classifier.explain(each.select([0])) for each in (turned, cases))
    np.testing.assert_array_equal(one.channels, same.channels)
    other = replace(cases, names=("wave", "wind"))
    message = "X, channels: lacks noise and has wind, expected wave, noise, in any order"
    with pytest.raises(DataError, match=message):
        classifier.predict(other)


def test_probabilities_are_calibrated():
    """In heavy noise, answers are right about as often as they say."""
    X, y, _ = waves(240, noise=2.5)
    classifier = OscillatorClassifier(n_oscillators=512, random_state=0).fit(X, y)
    X, y, _ = waves(600, noise=2.5, seed=5)
    shares = classifier.predict_proba(X)
    right = classifier.classes_[shares.argmax(axis=1)] == y
    assert 0.5 < right.mean() < 0.95
    assert abs(shares.max(axis=1).mean() - right.mean()) < 0.07


def test_groups_are_held_out_together():
    """Each of 12 subjects has its own wave and one class, of which the waves tell nothing."""
    random, subject = np.random.default_rng(0), np.repeat(np.arange(12), 8)
    speed = np.linspace(0.2, 2.4, 12)[subject]
    X = np.sin(np.outer(speed, np.arange(60)) + random.uniform(0, 6, (96, 1)))
    X += 0.1 * random.normal(size=X.shape)
    y = np.array(["ill", "well"])[random.permutation(12) % 2][subject]
    by_case, by_group = (
        OscillatorClassifier(**SMALL, causal=True).fit(X, y, groups=groups)
        for groups in (None, subject)
    )
    assert by_case.held_out_score_ > 0.9
    assert by_group.held_out_score_ < 0.7
    assert list(by_group.fitted_.scores) == ["leave-one-group-out accuracy"]
    assert (
        by_group.predict_proba(X).max(axis=1).mean() < by_case.predict_proba(X).max(axis=1).mean()
    )
    trained = LinOSSClassifier(steps=2, hidden_size=4, num_blocks=1, random_state=0)
    trained.fit(X[:, None], y, groups=subject)
    held_out = trained.fitted_.held_out.cases.reshape(4, 24)
    assert all(len(set(subject[part])) == 3 for part in held_out)
    with pytest.raises(ValueError, match="groups has one group, 0, expected at least two"):
        trained.fit(X, y, groups=np.zeros(96, int))


def test_names_of_channels_come_with_frames_and_files(tmp_path):
    """A long frame is not fitted as rows of two points."""
    X, y, _ = waves()
    names = [f"case {i}" for i in np.repeat(np.arange(48), 80)]
    long = pd.DataFrame({"case": names, "time": np.tile(np.arange(80), 48)})
    long[["wave", "noise"]] = X.transpose(0, 2, 1).reshape(-1, 2)
    classifier = OscillatorClassifier(**SMALL).fit(long.assign(label=np.repeat(y, 80)))
    assert classifier.feature_names_in_.tolist() == ["wave", "noise"]
    classifier.save(tmp_path / "run")
    loaded, turned = load(tmp_path / "run"), long[["noise", "case", "time", "wave"]]
    expected = classifier.predict_proba(long)
    np.testing.assert_array_equal(loaded.predict_proba(turned), expected)
    features = OscillatorFeatures(n_oscillators=16, random_state=0).fit(long)
    np.testing.assert_array_equal(features.transform(turned), features.transform(long))
    wide = OscillatorClassifier(**SMALL).fit(pd.DataFrame(X[:, 0]).add_prefix("t"), y)
    wide.save(tmp_path / "wide")
    with pytest.raises(ValueError, match="feature names should match those that were passed"):
        load(tmp_path / "wide").predict(pd.DataFrame(X[:, 0]).add_prefix("s"))


def test_weights():
    X, y, _ = waves()
    weights = np.ones(48)
    weights[:8] = 0
    with_weights = OscillatorClassifier(**SMALL).fit(X, y, sample_weight=weights)
    without = OscillatorClassifier(**SMALL).fit(X[8:], y[8:])
    np.testing.assert_allclose(
        with_weights.decision_function(X), without.decision_function(X), atol=1e-4
    )
    balanced = OscillatorClassifier(**SMALL, class_weight="balanced").fit(X, y)
    plain = OscillatorClassifier(**SMALL).fit(X, y)
    np.testing.assert_allclose(
        balanced.decision_function(X), plain.decision_function(X), atol=1e-4
    )  # classes of equal size
    heavy = OscillatorClassifier(**SMALL, class_weight={"slow": 50.0, "fast": 1, "both": 1})
    assert np.sum(heavy.fit(X, y).predict(X) == "slow") >= np.sum(plain.predict(X) == "slow")


def test_regresses_one_and_several_numbers():
    X, _, loudness = waves(96)
    test, _, truth = waves(48, seed=1)
    regressor = OscillatorRegressor(n_oscillators=512, random_state=0).fit(X, loudness)
    assert regressor.predict(test).shape == (48,)
    assert regressor.score(test, truth) > 0.8
    assert abs(regressor.held_out_score_ - regressor.score(test, truth)) < 0.2
    both = OscillatorRegressor(**SMALL).fit(X, np.stack([loudness, -5 * loudness], axis=1))
    found = both.predict(test)
    np.testing.assert_allclose(found[:, 1], -5 * found[:, 0], rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("unit", [1e-60, 1e60])
def test_targets_may_be_in_any_unit(tmp_path, unit):
    """Also in those that single precision does not have."""
    X, _, loudness = waves()
    expected = OscillatorRegressor(**SMALL).fit(X, loudness).predict(X)
    OscillatorRegressor(**SMALL).fit(X, unit * loudness).save(tmp_path)
    np.testing.assert_allclose(load(tmp_path).predict(X) / unit, expected, rtol=1e-6)
    with pytest.raises(ValueError, match=r"target 0 has values .* expected numbers below 1e150"):
        OscillatorRegressor(**SMALL).fit(X, 1e300 * loudness)


@pytest.mark.parametrize("cases", [24, 200])  # fewer and more than features
def test_rounding_does_not_tell_the_answer(cases):
    with pytest.warns(UserWarning, match=r"no channel of X ever changes \(channel 0 is always 3\)"):
        classifier = OscillatorClassifier(n_oscillators=16).fit(
            np.full((cases, 2, 20), 3.0), np.arange(cases) % 2
        )
    assert classifier.held_out_score_ == 0.5


def test_streams():
    """Decisions are those of the sequence so far; at the end probabilities are, too."""
    X, y, _ = waves()
    classifier = OscillatorClassifier(**SMALL, causal=True).fit(X, y)
    listen = classifier.stream()
    for n, sample in enumerate(X[4].T, 1):
        found = listen(sample)
        if n in (1, 30, 80):
            decisions = classifier.decision_function([X[4][:, :n]])[0]
            assert found.argmax() == decisions.argmax()
    np.testing.assert_allclose(found, classifier.predict_proba(X[4:5])[0], atol=1e-6)
    with pytest.raises(TypeError, match="a stream of oscillators cannot be copied"):
        copy.deepcopy(classifier.stream())


@pytest.mark.parametrize("timed", [False, True])
def test_a_stream_is_as_sure_as_it_is_right(tmp_path, timed):
    """It begins with the frequencies of the classes; the second half of each wave decides."""
    X, y, _ = waves(120)
    X[:, :, :40] = np.random.default_rng(0).normal(size=(120, 2, 40))
    times = np.arange(80) * 0.1 if timed else None
    kept = np.r_[:60, np.flatnonzero(y[60:] == "slow") + 60]  # as many as of the two others
    classifier = OscillatorClassifier(**SMALL, causal=True).fit(X[kept], y[kept], times=times)
    classifier.save(tmp_path / "run")
    sure, right, (test, truth, _) = [], [], waves(60, seed=1)
    test[:, :, :40] = np.random.default_rng(1).normal(size=(60, 2, 40))
    for case, label in zip(test, truth, strict=True):
        listen = load(tmp_path / "run").stream()
        outputs = np.stack(
            [listen(x, None if times is None else times[n]) for n, x in enumerate(case.T)]
        )
        np.testing.assert_allclose(outputs[0], [0.25, 0.25, 0.5], atol=0.15)
        sure.append(outputs.max(axis=1))
        right.append(classifier.classes_[outputs.argmax(axis=1)] == label)
    for n in (0, 9, 39, 59, 79):
        assert abs(np.mean(sure, axis=0)[n] - np.mean(right, axis=0)[n]) < 0.25
    assert np.mean(right, axis=0)[79] > 0.8


def test_unequal_lengths_missing_values_and_sequences():
    X, y, _ = waves()
    cases = [case[:, : 40 + i % 30] for i, case in enumerate(X)]
    cases[3] = np.where(np.random.default_rng(0).random(cases[3].shape) < 0.3, np.nan, cases[3])
    own = sequences(cases, y)
    a = OscillatorClassifier(**SMALL).fit(cases, y)
    b = OscillatorClassifier(**SMALL).fit(own)
    np.testing.assert_array_equal(a.predict_proba(cases), b.predict_proba(own))
    assert b.score(own) == a.score(cases, y)


def test_attribution_sums_to_the_decision_and_finds_its_place():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(60, 3, 120)), np.arange(60) % 3
    X[y == 1, 0, 60:] += 2 * np.sin(np.arange(60) / 2)
    X[y == 2, 1, :60] += 2 * np.sin(np.arange(60) / 6)
    classifier = OscillatorClassifier(n_oscillators=1024, random_state=0).fit(X, y)
    for case, channel, late in ((1, 0, True), (2, 1, False)):
        attribution = classifier.explain(X[case : case + 1])
        total = attribution.values.sum(axis=(1, 2)) + attribution.intercept
        expected = classifier.decision_function(X[case : case + 1])[0]
        np.testing.assert_allclose(total, expected, atol=1e-4)
        np.testing.assert_allclose(
            attribution.channels.sum(axis=1), attribution.values.sum(axis=(1, 2)), atol=1e-9
        )
        assert attribution.channels[y[case]].argmax() == channel
        by_time = attribution.values[y[case]].sum(axis=0)
        assert (by_time[24:].sum() > by_time[:24].sum()) == late
        assert attribution.times[0] == 0
        assert attribution.times[-1] == 120


def test_attribution_with_times_and_missing_values():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(20, 2, 60)), np.arange(20) % 2
    X[random.random(X.shape) < 0.3] = np.nan
    times = np.cumsum(random.uniform(1, 5, (20, 60)), axis=1)
    classifier = OscillatorClassifier(**SMALL).fit(X, y, times=times)
    attribution = classifier.explain(X[:1], times=times[:1], periods=5, parts=7)
    assert attribution.values.shape == (1, 5, 7)
    total = attribution.values.sum() + attribution.intercept[0]
    expected = classifier.decision_function(X[:1], times=times[:1])[0]
    np.testing.assert_allclose(total, expected, atol=1e-4)
