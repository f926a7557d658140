"""The readout against scikit-learn's ridge regression, case by case left out."""

import numpy as np
import pytest
import scipy.linalg
from sklearn.linear_model import Ridge
from threadpoolctl import threadpool_info, threadpool_limits

from linoss import OscillatorClassifier, OscillatorRegressor


def problem(cases, seed=0):
    """Waves of random speed and height, which are to be predicted from them."""
    random = np.random.default_rng(seed)
    speed, height = random.uniform(0.2, 1, cases), random.uniform(1, 2, cases)
    waves = height[:, None] * np.sin(np.outer(speed, np.arange(40)))
    targets = np.stack([speed, 3 * height], axis=1)
    return waves + 0.1 * random.normal(size=waves.shape), targets + 0.1 * random.normal(
        size=targets.shape
    )


def fitted(X, y, weights=None, size=16):
    regressor = OscillatorRegressor(n_oscillators=size, causal=True, random_state=0)
    return regressor.fit(X, y, sample_weight=weights)


def scaled(regressor, X):
    """Features as the readout has them, in double precision; importance is not 1 for all."""
    member = regressor.fitted_.oscillators
    features = member.features.transform(X).astype(np.float64)
    return (features - member.readout.mean) * member.readout.scale


@pytest.fixture
def alone(monkeypatch):
    """Leave-one-out predictions of the readout itself, not of folds that choose statistics."""
    monkeypatch.setattr("linoss.fitted._oscillators.MOST_CASES", 9)


# 16 oscillators have up to 64 features
SIZES = pytest.mark.parametrize("cases", [14, 80])


@pytest.mark.parametrize("weighted", [False, True])
@SIZES
def test_equals_scikit_learn(cases, weighted):
    X, y = problem(cases)
    w = np.random.default_rng(1).uniform(0.3, 2, cases) if weighted else np.ones(cases)
    w *= cases / w.sum()
    regressor = fitted(X, y, w if weighted else None)
    z = scaled(regressor, X)
    penalty = regressor.fitted_.oscillators.readout.penalty
    reference = Ridge(alpha=penalty * z.shape[1])
    expected = reference.fit(z, y, sample_weight=w).predict(z)
    np.testing.assert_allclose(regressor.predict(X), expected, rtol=2e-4, atol=2e-4)


@pytest.mark.usefixtures("alone")
@SIZES
def test_held_out_predictions_are_of_fits_without_the_case(cases):
    X, y = problem(cases)
    regressor = fitted(X, y)
    z, held_out = scaled(regressor, X), regressor.fitted_.held_out
    reference = Ridge(alpha=regressor.fitted_.oscillators.readout.penalty * z.shape[1])
    np.testing.assert_array_equal(held_out.cases, np.arange(cases))
    for i in range(0, cases, 7):
        others = np.arange(cases) != i
        shift = (y[i] - y.mean(axis=0)) / (cases - 1)  # the intercept is that of all cases
        expected = reference.fit(z[others], y[others]).predict(z[i : i + 1])[0] + shift
        np.testing.assert_allclose(held_out.predictions[i], expected, rtol=1e-3, atol=1e-3)


@pytest.mark.usefixtures("alone")
@SIZES
def test_the_penalty_is_the_best_of_those_tried(cases):
    X, y = problem(cases, seed=3)
    regressor = fitted(X, y)
    z, losses = scaled(regressor, X), {}
    for penalty in np.logspace(-4, 2, 13):
        errors = []
        for i in range(cases):
            some, target = np.delete(z, i, axis=0), np.delete(y, i, axis=0)
            mean, offset = some.mean(axis=0), target.mean(axis=0)
            gram = (some - mean).T @ (some - mean) + penalty * z.shape[1] * np.eye(z.shape[1])
            slope = np.linalg.solve(gram, (some - mean).T @ (target - offset))
            errors.append(y[i] - offset - (z[i] - mean) @ slope)
        losses[penalty] = np.sum((np.array(errors) / y.std(axis=0)) ** 2)
    assert losses[regressor.fitted_.oscillators.readout.penalty] <= min(losses.values()) * 1.02


@pytest.mark.usefixtures("alone")
def test_of_very_many_cases_some_are_held_out(monkeypatch):
    X, y = problem(80)
    everything = fitted(X, y).fitted_
    monkeypatch.setattr("linoss.fitted._ridge._EXACT", 24)
    some = fitted(X, y).fitted_
    assert len(some.held_out.cases) == 24
    if some.oscillators.readout.penalty == everything.oscillators.readout.penalty:
        expected = everything.held_out.predictions[some.held_out.cases]
        np.testing.assert_allclose(some.held_out.predictions, expected, rtol=1e-3, atol=1e-3)


def test_cases_of_small_weight_count_little():
    """A feature that differs only in them would multiply their influence."""
    random = np.random.default_rng(0)
    X = np.tile(np.sin(np.arange(40)), (40, 1))
    X[20:] += random.normal(size=(20, 40))
    classifier = OscillatorClassifier(n_oscillators=16, random_state=0)
    classifier.fit(X, np.arange(40) // 20, sample_weight=np.repeat([1e3, 1e-4], 20))
    assert (classifier.predict(X) == 0).all()


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(("small", "threads"), [(1e10, 1), (1e2, 2)])
def test_one_thread_solves_a_small_problem(monkeypatch, small, threads):
    seen = set()

    def factor(*given, cholesky=scipy.linalg.cholesky, **options):
        seen.update(each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas")
        return cholesky(*given, **options)

    monkeypatch.setattr("linoss.fitted._ridge.cholesky", factor)
    monkeypatch.setattr("linoss.fitted._ridge._SMALL", small)
    with threadpool_limits(2, "blas"):
        fitted(*problem(80))
    assert seen == {threads}
