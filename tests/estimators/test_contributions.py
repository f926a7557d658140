"""What each value adds to the answers of trained models, against what these answer."""

import jax
import numpy as np
import pytest

from linoss import LinOSSClassifier, LinOSSRegressor
from linoss.data import sequences
from linoss.training import predict

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def settings(small):
    return {**small, "steps": 30, "n_oscillators": None}


def test_evidence_for_classes_sums_to_their_logits(waves, settings):
    X, y = waves
    classifier = LinOSSClassifier(**settings, n_models=2).fit(X, y)
    found = classifier.explain(X[3:4])
    case = sequences(X[3:4])
    with jax.enable_x64(False):
        each = [predict(model, classifier.inputs_, case)[0] for model in classifier.models_]
    logits = np.mean(each, axis=0)
    said = found.evidence.sum(axis=(1, 2)) + found.intercept
    np.testing.assert_allclose(said, logits - logits.mean(), atol=2e-3 * np.ptp(said))
    assert found.evidence.shape == (2, 2, 40)
    np.testing.assert_allclose(found.channels, found.evidence.sum(axis=2))
    assert found.error <= 1e-3


def test_evidence_for_numbers_is_in_their_units(waves, settings):
    X, y = waves
    targets = np.where(y == "slow", 10.0, 30.0)
    regressor = LinOSSRegressor(**settings, n_models=1).fit(X, targets)
    times = np.arange(40) / 4
    found = regressor.explain(X[:1])
    said = found.evidence.sum(axis=(1, 2)) + found.intercept
    np.testing.assert_allclose(said, regressor.predict(X[:1]), rtol=2e-3)
    np.testing.assert_array_equal(found.times, times * 4)


def test_the_cause_is_found(settings):
    """Only the first half of channel 1 tells the classes apart."""
    random = np.random.default_rng(0)
    labels = np.arange(60) % 2
    X = 0.3 * random.normal(size=(60, 2, 40))
    X[:, 1, :20] += np.where(labels, 1.0, -1.0)[:, None] * np.sin(np.arange(20))
    classifier = LinOSSClassifier(**{**settings, "steps": 150}, n_models=1).fit(X, labels)
    found = classifier.explain(X[1:2]).evidence[1]
    assert np.abs(found[1, :20]).sum() > 2 * np.abs(np.delete(found, 1, axis=0)).sum()
    assert np.abs(found[1, :20]).sum() > 2 * np.abs(found[1, 20:]).sum()


def test_several_cases_are_refused(waves, settings):
    X, y = waves
    classifier = LinOSSClassifier(**settings, n_models=1).fit(X, y)
    with pytest.raises(ValueError, match="X has 2 cases, expected one"):
        classifier.explain(X[:2])
