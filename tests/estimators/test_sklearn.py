"""The estimators keep scikit-learn's contract: all of its checks, pipelines and searches."""

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from linoss import (
    AutoClassifier,
    AutoRegressor,
    LinOSSClassifier,
    LinOSSRegressor,
    OscillatorClassifier,
    OscillatorRegressor,
)

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("unchecked")]

# Compiled in less than half the time of the default scheme, for each of many shapes, fewer of which
# there are by small batches.
QUICK = {"scheme": "im", "damped": False, "steps": 40, "batch_size": 8, "n_models": 1}
QUICK |= {"hidden_size": 16, "state_size": 8, "num_blocks": 1, "learning_rate": 2e-2}
TINY = {**QUICK, "hidden_size": 4, "state_size": 4, "steps": 2, "n_models": 2}


def not_kept(estimator):
    """A case of weight 2 is not drawn twice, so that a training is not that of two cases."""
    trained = isinstance(estimator, LinOSSClassifier | LinOSSRegressor)
    why = "weights are those of the loss" if trained else "thresholds are drawn from some cases"
    return {"check_sample_weight_equivalence_on_dense_data": why}


@parametrize_with_checks(
    [
        LinOSSClassifier(**QUICK),
        OscillatorClassifier(n_oscillators=64),
        OscillatorRegressor(n_oscillators=64),
        AutoClassifier(n_oscillators=64, linoss_options=TINY),
        AutoRegressor(n_oscillators=256, minutes=0),
    ],
    expected_failed_checks=not_kept,
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([LinOSSClassifier(), LinOSSRegressor()], expected_failed_checks=not_kept)
def test_scikit_learns_own_checks_with_default_settings(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def waves():
    labels = np.array(["slow", "fast"])[np.arange(48) % 2]
    speed = np.where(labels == "slow", 1.0, 2.0)
    values = np.sin(np.outer(speed, np.arange(40)) / 4)
    return values + 0.1 * np.random.default_rng(0).normal(size=values.shape), labels


@pytest.mark.parametrize("seed", [0, 28, 48])
def test_in_a_pipeline(waves, seed):
    """The last two have a small loss before running statistics have followed the weights."""
    values, labels = waves
    classifier = LinOSSClassifier(**QUICK, random_state=seed)
    pipeline = make_pipeline(FunctionTransformer(np.tanh), classifier)
    assert pipeline.fit(values, labels).score(values, labels) == 1


@pytest.mark.parametrize("channels", [1, 2])
def test_in_cross_validation(waves, channels):
    values, labels = waves
    cases = values if channels == 1 else np.stack([values, -values], axis=1)
    scores = cross_val_score(LinOSSClassifier(**QUICK, random_state=0), cases, labels, cv=2)
    assert np.all(scores == 1)


def test_in_a_grid_search(waves):
    values, labels = waves
    search = GridSearchCV(
        LinOSSClassifier(**QUICK, random_state=0), {"scheme": ["im", "imex"]}, cv=2
    )
    assert search.fit(values, labels).best_score_ == 1
    assert search.best_params_["scheme"] in ("im", "imex")
