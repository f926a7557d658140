"""The groups of statistics that matter, found by leave-one-out predictions."""

import numpy as np
import pytest

from linoss import OscillatorClassifier, OscillatorRegressor


def bursts(count, quarter, seed=0, speeds=(2.0, 3.0)):
    """Noise with a wave in one quarter, whose speed is the class; random waves elsewhere."""
    random = np.random.default_rng(seed)
    labels, time = np.arange(count) % 2, np.arange(50)
    values = 0.3 * random.normal(size=(count, 1, 200))
    for part in range(4):
        own = labels if part == quarter else random.permutation(labels)
        waves = np.sin(time / np.take(speeds, own)[:, None] + random.uniform(0, 6, (count, 1)))
        values[:, 0, part * 50 : part * 50 + 50] += waves
    return values, labels


@pytest.mark.parametrize("quarter", [0, 2])
def test_a_quarter_decides(quarter):
    X, y = bursts(160, quarter)
    classifier = OscillatorClassifier(n_oscillators=256, random_state=0).fit(X[:80], y[:80])
    windows = {row // 4 for row in classifier.fitted_.oscillators.features.rows_}
    assert 3 + quarter in windows
    whole = OscillatorClassifier(n_oscillators=256, causal=True, random_state=0)
    whole.fit(X[:80], y[:80])
    assert classifier.score(X[80:], y[80:]) > whole.score(X[80:], y[80:])


def test_attributions_sum_to_the_decision_and_lie_in_the_quarter():
    X, y = bursts(60, 1)
    classifier = OscillatorClassifier(n_oscillators=256, random_state=0).fit(X, y)
    attribution = classifier.explain(X[:1], parts=40)
    probability = classifier.predict_proba(X[:1])[0]
    decision = attribution.values.sum() + attribution.intercept[0]
    sharpness = classifier.fitted_.oscillators.sharpness
    np.testing.assert_allclose(np.log(probability[1] / probability[0]), 2 * sharpness * decision)
    size = np.abs(attribution.values).sum(axis=(0, 1))
    assert size[10:20].sum() > size.sum() / 2


def test_noise_gives_no_score():
    """Choosing groups by leave-one-out does not make it promise what is not there."""
    random = np.random.default_rng(0)
    scores = []
    for seed in range(6):
        X = random.normal(size=(40, 1, 60))
        classifier = OscillatorClassifier(n_oscillators=64, random_state=seed)
        scores.append(classifier.fit(X, np.arange(40) % 2).held_out_score_)
    assert 0.35 < np.mean(scores) < 0.65  # the intercept without a case is for the other class


def test_few_cases_choose_nothing():
    X, y = bursts(8, 0)
    classifier = OscillatorClassifier(n_oscillators=32, random_state=0).fit(X, y)
    assert classifier.fitted_.oscillators.features.rows_ == [0, 1, 2, 3]


def test_numbers_and_files(tmp_path):
    X, y = bursts(60, 3)
    target = np.where(y, 1.0, -1.0) + 0.01 * np.random.default_rng(1).normal(size=60)
    regressor = OscillatorRegressor(n_oscillators=128, random_state=0).fit(X, target)
    regressor.save(tmp_path / "run")
    again = OscillatorRegressor.load(tmp_path / "run")
    assert again.fitted_.oscillators.features.rows_ == regressor.fitted_.oscillators.features.rows_
    np.testing.assert_array_equal(again.predict(X), regressor.predict(X))
