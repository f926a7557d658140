"""The readout against scikit-learn's ridge regression, case by case left out."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from threadpoolctl import threadpool_info, threadpool_limits

from linoss.fitted import _ridge
from linoss.fitted._ridge import PENALTIES, fit_ridge


def problem(n, p, weighted, seed=0):
    random = np.random.default_rng(seed)
    features = (random.normal(size=(n, p)) * random.uniform(0.1, 9, p) + 3).astype(np.float32)
    answers = features[:, :2] @ random.normal(size=(2, 3)) + random.normal(size=(n, 3))
    return features, answers, random.uniform(0.3, 2, n) if weighted else None


def standardised(features, weights):
    w = np.ones(len(features)) if weights is None else weights
    centred = features - np.average(features, axis=0, weights=w)
    return centred / np.sqrt(np.average(centred**2, axis=0, weights=w))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("n", "p"), [(30, 50), (40, 12)])
def test_equals_fits_without_each_case(n, p, weighted):
    features, answers, weights = problem(n, p, weighted)
    importance = np.linspace(0.3, 1, p)
    ridge, _, held_out = fit_ridge(features.copy(), answers, weights, importance)
    x = standardised(features.astype(np.float64), weights) * importance
    w = np.ones(n) if weights is None else weights * n / weights.sum()
    reference = Ridge(alpha=ridge.penalty * p)
    found = reference.fit(x, answers, sample_weight=w).predict(x)
    np.testing.assert_allclose(ridge(features), found, rtol=2e-4, atol=2e-4)
    mean = w @ answers / n
    for i in range(0, n, 7):
        others = np.arange(n) != i
        reference.fit(x[others], answers[others], sample_weight=w[others])
        shift = w[i] * (answers[i] - mean) / (n - w[i])  # the intercept is that of all cases
        expected = reference.predict(x[i : i + 1])[0] + shift
        np.testing.assert_allclose(held_out[i], expected, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize(("n", "p"), [(30, 50), (40, 12)])
def test_the_penalty_is_the_best_of_those_tried(n, p):
    features, answers, _ = problem(n, p, weighted=False, seed=3)
    x = standardised(features.astype(np.float64), None)

    def loss(penalty):
        errors = []
        for i in range(n):
            others = np.arange(n) != i
            fitted = Ridge(alpha=penalty * p).fit(x[others], answers[others])
            errors.append(answers[i] - fitted.predict(x[i : i + 1])[0])
        return np.sum((np.array(errors) / answers.std(axis=0)) ** 2)

    chosen = fit_ridge(features, answers)[0].penalty
    losses = {penalty: loss(penalty) for penalty in PENALTIES}
    assert losses[chosen] <= min(losses.values()) * 1.02


def test_more_cases_than_features_equals_the_other_way(monkeypatch):
    features, answers, weights = problem(60, 20, weighted=True)
    primal, _, held_out = fit_ridge(features.copy(), answers, weights)
    monkeypatch.setattr(_ridge, "_Primal", _ridge._Dual)
    dual, _, also_held_out = fit_ridge(features.copy(), answers, weights)
    assert primal.penalty == dual.penalty
    np.testing.assert_allclose(primal.coefficients, dual.coefficients, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(held_out, also_held_out, rtol=1e-3, atol=1e-3)


def test_of_very_many_cases_some_are_held_out(monkeypatch):
    features, answers, _ = problem(60, 20, weighted=False)
    everything, _, all_held_out = fit_ridge(features.copy(), answers)
    monkeypatch.setattr(_ridge, "_EXACT", 24)
    some, cases, held_out = fit_ridge(features.copy(), answers)
    assert len(cases) == 24
    if some.penalty == everything.penalty:
        expected = all_held_out[cases]
        np.testing.assert_allclose(held_out, expected, rtol=1e-3, atol=1e-3)


def test_features_that_never_change_count_for_nothing():
    features, answers, _ = problem(30, 40, weighted=False)
    features[:, 5] = 7.0
    ridge, _, _ = fit_ridge(features.copy(), answers)
    changed = features.copy()
    changed[:, 5] = 100.0
    np.testing.assert_array_equal(ridge(features), ridge(changed))


def test_where_features_tell_nothing_held_out_answers_are_even():
    """The intercept without a case would be for the other class, always."""
    random = np.random.default_rng(0)
    features = random.normal(size=(60, 200)).astype(np.float32)
    answers = np.where(np.arange(60) % 2, 1.0, -1.0)[:, None]
    _, _, held_out = fit_ridge(features, answers)
    assert 0.3 < np.mean((held_out > 0) == (answers > 0)) < 0.7


def test_a_feature_that_differs_only_in_cases_of_small_weight_counts_little():
    random = np.random.default_rng(0)
    features = np.zeros((40, 64), np.float32)
    features[20:] = random.normal(0.5, 1, (20, 64))
    answers = np.repeat([-1.0, 1.0], 20)[:, None]
    weights = np.repeat([1e3, 1e-4], 20)
    ridge, _, _ = fit_ridge(features.copy(), answers, weights)
    assert (ridge(features) < 0).all()


@pytest.mark.parametrize(("small", "threads"), [(1e10, 1), (1e3, 2)])
def test_one_thread_solves_a_small_problem(monkeypatch, small, threads):
    seen = set()

    def factor(*given, factor=_ridge._factor):
        seen.update(each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas")
        return factor(*given)

    monkeypatch.setattr(_ridge, "_factor", factor)
    monkeypatch.setattr(_ridge, "_SMALL", small)
    with threadpool_limits(2, "blas"):
        fit_ridge(*problem(30, 50, False))
    assert seen == {threads}
