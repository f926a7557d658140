"""Calibrated intervals: coverage of new data, order, levels between, sample paths."""

import numpy as np
import pytest

from linoss.forecasting import Calibration

LEVELS = [80.0, 95.0]


def skewed(windows, seed):
    """Errors of a skewed law whose spread grows with the step."""
    random = np.random.default_rng(seed)
    return np.arange(1, 5)[:, None] * (random.exponential(size=(windows, 4, 2)) - np.log(2))


def test_intervals_cover_new_values():
    calibration = Calibration.fit(LEVELS, skewed(2000, 0))
    errors = skewed(5000, 1)
    ends = calibration.intervals(np.zeros((4, 2)), [80.0, 95.0, 90.0])
    for place, share in enumerate((0.8, 0.95, 0.9)):
        low, high = ends[..., 1 + 2 * place], ends[..., 2 + 2 * place]
        inside = ((errors >= low) & (errors <= high)).mean(axis=0)
        np.testing.assert_allclose(inside, share, atol=0.035)
    assert (ends[..., 3] <= ends[..., 1]).all()
    assert (ends[..., 4] >= ends[..., 2]).all()


def test_the_quantile_is_the_conformal_one():
    """The ceil((n + 1) q)-th smallest, by hand."""
    order = np.arange(1.0, 20.0)
    order[::2] = order[::2][::-1]  # so that neighbours are not alike
    low, high = Calibration.fit(LEVELS, order.reshape(19, 1, 1)).distances[:, :, 0, 0]
    assert high[0] == pytest.approx(18)  # ceil(20 * 0.9) = 18
    assert high[1] == pytest.approx(19)  # ceil(19.5) is more than there are
    assert low.tolist() == [0, 0]


def test_windows_that_are_alike_count_less():
    errors = np.random.default_rng(0).normal(size=(40, 1, 1))
    apart = Calibration.fit(LEVELS, np.tile(errors, (4, 1, 1))).distances
    overlapping = Calibration.fit(LEVELS, np.repeat(errors, 4, axis=0)).distances
    wider = overlapping[1, :, 0, 0] / apart[1, :, 0, 0]
    assert 1.005 < wider[0] < wider[1] < 1.2


def test_paths_spread_as_errors_do_and_keep_dependence():
    random = np.random.default_rng(0)
    walk = np.cumsum(random.normal(size=(600, 10, 1)), axis=1)
    calibration = Calibration.fit(LEVELS, walk)
    paths = calibration.samples(np.zeros((10, 1)), 4000, 0)[:, 0]
    assert paths.shape == (10, 4000)
    assert paths.sum(axis=0).std() == pytest.approx(walk.sum(axis=1).std(), rel=0.15)
    again = calibration.samples(np.zeros((10, 1)), 4000, 0)[:, 0]
    assert np.array_equal(paths, again)


def test_errors_of_few_windows_make_intervals_that_cover():
    """Walks of 12 steps from 30 overlapping times, many series: the share of new walks inside."""
    random, inside = np.random.default_rng(0), []
    for _ in range(300):
        walk = np.concatenate([[0], np.cumsum(random.normal(size=53))])
        errors = np.stack([walk[i + 1 : i + 13] - walk[i] for i in range(42)])[..., None]
        calibration = Calibration.fit(LEVELS, errors[:30], is_short=True)
        low, high = calibration.distances[..., 0]
        inside.append((-low <= errors[41, :, 0]) & (errors[41, :, 0] <= high))
    np.testing.assert_allclose(np.mean(inside, axis=(0, 2)), [0.8, 0.95], atol=0.04)


def test_missing_errors_are_left_out():
    errors = skewed(300, 0)
    errors[::2, 0] = np.nan
    errors[:, 1, 1] = np.nan
    calibration = Calibration.fit(LEVELS, errors)
    assert np.isfinite(calibration.distances).all()
    assert np.isfinite(calibration.samples(np.zeros((4, 2)), 3, 0)).all()
