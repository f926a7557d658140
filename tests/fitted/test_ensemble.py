"""How much each of several sources counts: against searches and least squares."""

import numpy as np
from scipy.special import softmax

from linoss.fitted._ensemble import (
    fit_mean,
    fit_pool,
    is_better,
    logarithms,
    mean_losses,
    pool,
    pool_losses,
)


def sources(sharpness, n=300, seed=0):
    """Log-probabilities of two sources, and the places of the true classes."""
    random = np.random.default_rng(seed)
    truth = random.integers(3, size=n)
    clues = np.eye(3)[truth] + random.normal(size=(2, n, 3)) * np.array([0.6, 1.2])[:, None, None]
    return np.log(softmax(clues * np.array(sharpness)[:, None, None], axis=-1)), truth


def loss(logs, truth, weights):
    """Of n cases, and one more of which all classes are true in equal parts; written out."""
    said, n = np.log(pool(logs, np.asarray(weights))), len(truth)
    right = said[np.arange(n), truth]
    return -np.mean(n / (n + 1) * right + said.mean(axis=1) / (n + 1))


def test_no_other_weights_are_likelier():
    logs, truth = sources((2.0, 1.0))
    weights = fit_pool(logs, truth)
    best = loss(logs, truth, weights)
    for change in np.random.default_rng(1).normal(size=(200, 2)) * 0.3:
        assert loss(logs, truth, np.maximum(weights + change, 0)) >= best - 1e-9
    assert weights[0] > 0


def test_weights_of_sources_that_are_too_sure_or_know_nothing_or_all():
    logs, truth = sources((2.0, 1.0))
    weight, less = (fit_pool(sure * logs[:1], truth) for sure in (1, 5))
    np.testing.assert_allclose(pool(logs[:1], weight), pool(5 * logs[:1], less), atol=1e-4)
    noise = np.log(softmax(np.random.default_rng(2).normal(size=logs[0].shape), axis=-1))
    first, second = fit_pool([logs[0], noise], truth)
    assert second < 0.1 * first
    assert 1 < fit_pool([np.eye(3)[truth]], truth)[0] < 20  # of right predictions, finite
    assert np.isfinite(logarithms(np.array([1.0, 0.0]))).all()


def test_a_case_that_counts_twice_is_as_two():
    logs, truth = sources((2.0, 1.0))
    counts = np.where(np.arange(300) < 100, 2.0, 1.0)
    twice = np.r_[np.arange(300), np.arange(100)]
    np.testing.assert_allclose(
        fit_pool(logs, truth, counts), fit_pool(logs[:, twice], truth[twice]), rtol=0.02
    )


def test_numbers_by_least_squares():
    random = np.random.default_rng(0)
    truth = random.normal(size=(200, 2)) * [1, 10]
    first, second = truth + random.normal(size=(2, 200, 2)) * np.array([1.0, 2.0])[:, None, None]
    scale = truth.std(axis=0)
    slope = np.linalg.lstsq(
        ((first - second) / scale).reshape(-1, 1), ((truth - second) / scale).ravel()
    )[0][0]
    np.testing.assert_allclose(fit_mean([first, second], truth), [slope, 1 - slope])
    assert fit_mean([first, first], truth).tolist() == [0.5, 0.5]
    assert fit_mean([truth, 3 * truth], truth).tolist() == [1, 0]


def test_better_is_more_than_a_standard_error():
    random = np.random.default_rng(0)
    losses = random.normal(size=100)
    assert is_better(losses - 0.5, losses + 0.1 * random.normal(size=100))
    assert not is_better(losses - 0.001, losses + random.normal(size=100))
    assert not is_better(losses, losses)


def test_losses_of_cases():
    logs, truth = sources((2.0, 1.0))
    weights = np.array([0.5, 1.5])
    product = np.exp(logs[0]) ** 0.5 * np.exp(logs[1]) ** 1.5
    right = product[np.arange(300), truth] / product.sum(axis=1)
    np.testing.assert_allclose(pool_losses(logs, truth, weights), -np.log(right))
    numbers = np.random.default_rng(0).normal(size=(3, 50, 2))
    errors = ((numbers[:2].mean(axis=0) - numbers[2]) ** 2 / numbers[2].var(axis=0)).mean(axis=1)
    np.testing.assert_allclose(mean_losses(numbers[:2], numbers[2], np.full(2, 0.5)), errors)
