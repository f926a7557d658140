"""Cases that are added and taken away, against fits to all of them."""

import copy

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from linoss import OscillatorClassifier, OscillatorRegressor, load

SMALL = {"n_oscillators": 16, "random_state": 0}


def waves(count, kinds=3, seed=0):
    random = np.random.default_rng(seed)
    y = np.arange(count) % kinds
    X = np.sin(np.outer(np.linspace(0.2, 0.9, kinds), np.arange(50)))[y]
    return X + random.normal(size=X.shape), y


def learned(X, y, batches, model=OscillatorClassifier, **options):
    estimator = model(**SMALL, **options)
    for batch in batches:
        estimator.partial_fit(X[batch], y[batch], ids=batch)
    return estimator


def reference(estimator, X, y):
    """Outputs of scikit-learn's ridge on the features that are used, in double precision."""
    member = estimator.fitted_.oscillators
    features = member.features.transform(X).astype(np.float64)
    z = (features - features.mean(axis=0)) / features.std(axis=0) * member.importance
    ridge = Ridge(alpha=member.readout.penalty * z.shape[1], tol=1e-12)
    return ridge.fit(z, y).predict(z)


@pytest.mark.parametrize("count", [60, 400])  # fewer and more cases than features
def test_equals_a_fit_to_all_cases(count):
    X, y = waves(count)
    batches = np.array_split(np.arange(count), 10)
    estimator = learned(X, y, batches)
    signs = np.where(y[:, None] == np.arange(3), 1.0, -1.0)
    decisions = estimator.decision_function(X)
    exact = 1e-6 if count == 400 else 1e-4  # features are single precision
    np.testing.assert_allclose(decisions, reference(estimator, X, signs), atol=exact)
    at_once = learned(X, y, [batches[0], np.concatenate(batches[1:])])
    np.testing.assert_allclose(at_once.decision_function(X), decisions, atol=1e-6)
    assert at_once.held_out_score_ == estimator.held_out_score_
    gone = np.arange(3, count, 10)
    rest = [np.setdiff1d(batch, gone[gone >= 10]) for batch in batches]
    estimator.forget(gone[gone >= 10])
    without = learned(X, y, rest)
    if count == 400:  # the first batch has lost cases, which only its bank remembers
        without = learned(X, y, batches[:1] + rest[1:]).forget(np.setdiff1d(batches[0], rest[0]))
    np.testing.assert_allclose(
        estimator.decision_function(X), without.decision_function(X), atol=1e-6
    )
    assert estimator.held_out_score_ == without.held_out_score_


@pytest.mark.parametrize("count", [40, 300])
def test_numbers(count):
    X, _ = waves(count)
    y = np.stack([X.std(axis=1), 1e9 * X.mean(axis=1)], axis=1)
    estimator = learned(X, y, np.array_split(np.arange(count), 4), OscillatorRegressor)
    expected = reference(estimator, X, y)
    np.testing.assert_allclose(estimator.predict(X) / y.std(0), expected / y.std(0), atol=1e-4)
    estimator.forget(range(0, count, 2)).forget(range(1, count, 4))
    assert len(estimator.fitted_.held_out.cases) == count // 4


@pytest.mark.parametrize("count", [60, 400])
def test_new_classes(count):
    X, y = waves(count, 4)
    first = np.flatnonzero(y < 2)
    estimator = learned(X, y, [first, np.flatnonzero(y == 3), np.flatnonzero(y == 2)])
    assert estimator.classes_.tolist() == [0, 1, 2, 3]
    other = learned(X, y, [first, np.flatnonzero(y >= 2)])
    np.testing.assert_allclose(
        estimator.decision_function(X), other.decision_function(X), atol=1e-4
    )
    assert estimator.forget(np.flatnonzero(y >= 2)).classes_.tolist() == [0, 1]
    with pytest.raises(ValueError, match="y has one class, 1, expected at least two"):
        estimator.forget(np.flatnonzero(y == 0))
    assert estimator.predict_proba(X).shape == (count, 2)


def test_memory_is_bounded(monkeypatch):
    """Cases beyond are in the readout, but cannot be forgotten by name."""
    X, y = waves(400)
    batches = np.array_split(np.arange(400), 4)
    everything = learned(X, y, batches)
    monkeypatch.setattr("linoss.fitted._learning._KEPT", 150 * 50)
    estimator = learned(X, y, batches)
    penalties = {e.fitted_.oscillators.readout.penalty for e in (everything, estimator)}
    assert len(estimator.fitted_.held_out.cases) == 150
    if len(penalties) == 1:
        np.testing.assert_allclose(
            estimator.decision_function(X), everything.decision_function(X), atol=1e-6
        )
    estimator.partial_fit(
        X[:9], np.full(9, 3), ids=range(400, 409)
    )  # a class of which no case is kept
    assert estimator.classes_.tolist() == [0, 1, 2, 3]
    assert estimator.predict_proba(X).shape == (400, 4)
    with pytest.raises(ValueError, match="ids has 300, expected cases that are kept"):
        estimator.forget([300])
    with pytest.raises(ValueError, match="redraw is True, and needs cases that are kept"):
        estimator.forget([3], redraw=True)


def test_what_the_first_cases_drew_is_drawn_anew():
    X, y = waves(60)
    estimator = learned(X, y, np.array_split(np.arange(60), 3))
    before = estimator.fitted_.oscillators.features.bank_
    assert estimator.forget([1]).fitted_.oscillators.features.bank_ is before
    estimator.forget([0, 2, 4], redraw=True)
    expected = OscillatorClassifier(**SMALL).fit(X[[3, *range(5, 60)]], y[[3, *range(5, 60)]])
    np.testing.assert_array_equal(estimator.predict_proba(X), expected.predict_proba(X))


def test_solving_later_and_copies():
    X, y = waves(60)
    estimator = OscillatorClassifier(**SMALL).partial_fit(X[:20], y[:20])
    before = estimator.predict_proba(X)
    estimator.partial_fit(X[20:40], y[20:40], solve=False)
    np.testing.assert_array_equal(estimator.predict_proba(X), before)
    twin = copy.deepcopy(estimator).partial_fit(X[40:], y[40:])
    estimator.partial_fit(X[40:], y[40:])
    np.testing.assert_array_equal(estimator.predict_proba(X), twin.predict_proba(X))
    assert not np.array_equal(estimator.predict_proba(X), before)


def test_what_is_refused(tmp_path):
    X, y = waves(30)
    estimator = OscillatorClassifier(**SMALL).partial_fit(X, y, ids=range(30))
    estimator.save(tmp_path / "run")
    with pytest.warns(UserWarning, match="so that partial_fit begins anew"):
        load(tmp_path / "run").partial_fit(X, y)
    with pytest.raises(ValueError, match="nothing was learned by partial_fit"):
        OscillatorClassifier(**SMALL).fit(X, y).forget([1])
    with pytest.raises(ValueError, match="ids has a name twice"):
        estimator.partial_fit(X, y, ids=range(29, 59))
    with pytest.raises(ValueError, match="y has 'a', expected a class such as 0"):
        estimator.partial_fit(X, np.repeat(["a", "b"], 15))
    with pytest.raises(ValueError, match="X has 2 features"):
        estimator.partial_fit(np.stack([X, X], axis=1), y)
    with pytest.raises(ValueError, match="case 0 of X has no value at all"):
        estimator.partial_fit(np.full_like(X, np.nan), y)
    with pytest.raises(ValueError, match="times must be given for all cases, or for none"):
        estimator.partial_fit(X, y, times=np.arange(50))
    with pytest.raises(ValueError, match="class_weight is 'balanced', expected None"):
        OscillatorClassifier(**SMALL, class_weight="balanced").partial_fit(X, y)
