"""Calibrated intervals: coverage of new data, order, levels between, sample paths."""

import numpy as np
import pytest

from linoss.forecasting import Calibration

LEVELS = (0.025, 0.1, 0.5, 0.9, 0.975)


def skewed(windows, seed):
    """Truths of a skewed law whose spread differs by window and step, and bad quantiles."""
    random = np.random.default_rng(seed)
    spread = np.exp(random.normal(size=(windows, 1, 1))) * np.arange(1, 5)[:, None]
    truth = spread * (random.exponential(size=(windows, 4, 2)) - np.log(2))
    quantiles = spread[..., None] * np.array([-0.2, -0.1, 0.0, 0.1, 0.2])
    return np.broadcast_to(quantiles, (windows, 4, 2, 5)), truth


def test_intervals_cover_new_values():
    calibration = Calibration.fit(LEVELS, *skewed(2000, 0)[::-1])
    quantiles, truth = skewed(5000, 1)
    found = calibration.intervals(quantiles, [80.0, 95.0, 90.0])
    for place, share in enumerate((0.8, 0.95, 0.9)):
        low, high = found[..., 1 + 2 * place], found[..., 2 + 2 * place]
        inside = ((truth >= low) & (truth <= high)).mean(axis=0)
        np.testing.assert_allclose(inside, share, atol=0.035)
    assert (found[..., 3] <= found[..., 1]).all()
    assert (found[..., 4] >= found[..., 2]).all()


def test_a_median_that_does_not_help_is_not_used():
    random = np.random.default_rng(0)
    truth = random.normal(size=(400, 3, 1))
    noise = random.normal(size=(400, 3, 1))
    offsets = np.array([-2, -1, 0, 1, 2.0])
    off = Calibration.fit(LEVELS, truth, noise[..., None] + offsets)
    assert not off.share.any()
    on = Calibration.fit(LEVELS, truth, truth[..., None] + offsets)
    assert (on.share == 1).all()


def test_the_quantile_is_the_conformal_one():
    """The ceil((n + 1) q)-th smallest, by hand."""
    order = np.arange(1.0, 20.0)
    order[::2] = order[::2][::-1]  # so that neighbours are not alike
    truth = order.reshape(19, 1, 1)
    quantiles = np.broadcast_to(np.array([-1, -0.5, 0, 0.5, 1.0]), (19, 1, 1, 5))
    found = Calibration.fit(LEVELS, truth, quantiles)
    assert found.factors[0, 0, 3] == pytest.approx(18 / 0.5)  # ceil(20 * 0.9) = 18
    assert found.factors[0, 0, 4] == pytest.approx(19)  # ceil(19.5) is more than there are


def test_windows_that_are_alike_count_less():
    truth = np.random.default_rng(0).normal(size=(40, 1, 1))
    quantiles = np.broadcast_to(np.array([-1, -0.5, 0, 0.5, 1.0]), (160, 1, 1, 5))
    apart = Calibration.fit(LEVELS, np.tile(truth, (4, 1, 1)), quantiles)
    overlapping = Calibration.fit(LEVELS, np.repeat(truth, 4, axis=0), quantiles)
    wider = overlapping.factors[0, 0] / np.maximum(apart.factors[0, 0], 1e-9)
    assert 1.005 < wider[3] < wider[4] < 1.2


def test_paths_spread_as_intervals_do_and_keep_dependence():
    random = np.random.default_rng(0)
    walk = np.cumsum(random.normal(size=(600, 10, 1)), axis=1)
    quantiles = np.broadcast_to(np.array([-2, -1, 0, 1, 2.0]), (600, 10, 1, 5))
    calibration = Calibration.fit(LEVELS, walk, quantiles)
    paths = calibration.samples(quantiles[:1], 4000, 0)[0, :, 0]
    assert paths.shape == (10, 4000)
    total = walk.sum(axis=1).std()
    assert paths.sum(axis=0).std() == pytest.approx(total, rel=0.15)
    assert np.array_equal(
        calibration.samples(quantiles[:1], 5, 0), calibration.samples(quantiles[:1], 5, 0)
    )


def test_errors_of_few_windows_make_intervals_that_cover():
    """Walks of 12 steps from 30 overlapping times, many series: the share of new walks inside."""
    random, inside = np.random.default_rng(0), []
    for _ in range(300):
        walk = np.concatenate([[0], np.cumsum(random.normal(size=53))])
        errors = np.stack([walk[i + 1 : i + 13] - walk[i] for i in range(42)])[..., None]
        found = Calibration.of_errors(LEVELS, errors[:30])
        ends = found.intervals(np.zeros((1, 12, 1, 5)), [80.0, 95.0])[0, :, 0]
        inside.append(
            [
                (ends[:, i] <= errors[41, :, 0]) & (errors[41, :, 0] <= ends[:, i + 1])
                for i in (1, 3)
            ]
        )
    np.testing.assert_allclose(np.mean(inside, axis=(0, 2)), [0.8, 0.95], atol=0.04)


def test_missing_truths_are_left_out():
    quantiles, truth = skewed(300, 0)
    truth[::2, 0] = np.nan
    truth[:, 1, 1] = np.nan
    found = Calibration.fit(LEVELS, truth, quantiles)
    assert np.isfinite(found.factors).all()
    assert np.isfinite(found.samples(quantiles[:2], 3, 0)).all()
