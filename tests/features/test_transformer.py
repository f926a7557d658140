"""The transformer: scikit-learn's contract, what it says of itself, and data of all kinds."""

import tracemalloc
import warnings

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import linoss.data
from linoss import OscillatorFeatures
from linoss.data import DataError
from linoss.features import FeatureStream

SMALL = {"n_oscillators": 96, "random_state": 0}


@pytest.mark.usefixtures("unchecked")
@parametrize_with_checks([OscillatorFeatures(n_oscillators=32)])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.fixture
def waves():
    return np.random.default_rng(0).normal(size=(12, 2, 60)).cumsum(axis=2)


def test_frequencies_span_the_longest_period_to_nyquist(waves):
    bank = OscillatorFeatures(n_oscillators=1024, random_state=0).fit(waves).bank_
    slowest = bank.frequency[0]
    assert 0.5 / 60 <= slowest.min() < 0.6 / 60
    assert 0.45 < slowest.max() <= 0.5
    chained = bank.chained
    assert 0.6 < chained.mean() < 0.7
    assert np.all(bank.frequency[1][chained] >= slowest[chained])


def test_thresholds_are_quantiles_of_outputs(waves):
    features = OscillatorFeatures(n_oscillators=512, random_state=0)
    shares = features.fit_transform(waves)[:, :512].mean(axis=0)
    assert 0.02 < shares.min() < 0.2
    assert 0.8 < shares.max() < 0.98
    assert abs(shares.mean() - 0.5) < 0.05


@pytest.mark.parametrize(
    ("units", "offset"), [([1000, 0.01], [5, -3]), ([1, 1], [1e8, 1e8])], ids=str
)
def test_units_and_offsets_of_channels_do_not_matter(waves, units, offset):
    scaled = waves * np.array(units)[:, None] + np.array(offset)[:, None]
    found = OscillatorFeatures(**SMALL).fit_transform(scaled)
    expected = OscillatorFeatures(**SMALL).fit_transform(waves)
    assert np.mean(np.abs(found - expected) > 1e-5) < 0.01  # a sample at a threshold


def test_times_in_any_unit(waves):
    random = np.random.default_rng(1)
    times = np.cumsum(random.integers(1, 4, size=(12, 60)), axis=1)
    seconds = OscillatorFeatures(**SMALL).fit(waves, times=times)
    days = OscillatorFeatures(**SMALL).fit(waves, times=times / 86400)
    a, b = seconds.transform(waves, times=times), days.transform(waves, times=times / 86400)
    assert np.mean(np.abs(a - b) > 1e-4) < 0.01


def test_dropped_samples_change_little():
    """With times, a smooth signal without 30 % of its samples has nearly the same features."""
    t = np.arange(400)
    random = np.random.default_rng(0)
    speed, phase = random.uniform(0.02, 0.1, (2, 20, 1))
    waves = np.sin(speed * t + 60 * phase) + 0.5 * np.sin(2.3 * speed * t)
    features = OscillatorFeatures(n_oscillators=512, random_state=0).fit(waves, times=t)
    kept = [np.sort(random.choice(400, 280, replace=False)) for _ in waves]
    fewer = [wave[None, k] for wave, k in zip(waves, kept, strict=True)]
    whole = features.transform(waves, times=t)[:, :512]
    found = features.transform(fewer, times=kept)[:, :512]
    assert np.abs(found - whole).mean() < 0.15 * np.abs(whole - whole.mean(axis=0)).mean()


@pytest.mark.parametrize(
    ("fit_times", "times", "message"),
    [
        (None, np.arange(60.0), "fit had none"),
        (np.cumsum(1 + np.arange(60) % 2), None, "those of fit were uneven"),
    ],
)
def test_times_must_be_known_in_fit(waves, fit_times, times, message):
    features = OscillatorFeatures(**SMALL).fit(waves, times=fit_times)
    with pytest.raises(DataError, match=message):
        features.transform(waves, times=times)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_oscillators": 0}, "n_oscillators is 0, expected 'auto' or an integer"),
        ({"causal": "yes"}, "causal is 'yes', expected True or False"),
        ({"random_state": -1}, "random_state is -1"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_bad_settings(waves, settings, message):
    with pytest.raises(ValueError, match=message):
        OscillatorFeatures(**settings).fit(waves)


@pytest.mark.several
@pytest.mark.parametrize(("cases", "size"), [(8, 8192), (20000, 3360)])
def test_oscillators_of_many_cases_fit_in_a_gigabyte(cases, size):
    features = OscillatorFeatures(random_state=0).fit(np.tile([0.0, 1.0, 3.0], (cases, 1)))
    assert features.bank_.size == size


def test_constant_series_and_channels(waves):
    with pytest.warns(UserWarning, match=r"no channel of X ever changes \(channel 0 is always 1\)"):
        constant = OscillatorFeatures(**SMALL).fit_transform(np.ones((5, 30)))
    assert np.isfinite(constant).all()
    assert np.ptp(constant, axis=0).max() == 0
    waves[:, 1] = 7.0
    features = OscillatorFeatures(**SMALL).fit(waves)
    changed = waves.copy()
    changed[:, 1] = 9.0
    np.testing.assert_array_equal(features.transform(waves), features.transform(changed))


def test_a_channel_that_training_never_saw_is_not_used(waves):
    unseen = waves.copy()
    unseen[:, 1] = np.nan
    with pytest.warns(UserWarning, match=r"channel|missing"):
        features = OscillatorFeatures(**SMALL).fit(unseen)
    np.testing.assert_array_equal(features.transform(unseen), features.transform(waves))


def test_a_case_without_any_value(waves):
    features = OscillatorFeatures(**SMALL).fit(waves)
    waves[3] = np.nan
    with pytest.warns(UserWarning, match="case 3 of X has no value"):
        found = features.transform(waves)
    assert np.isnan(found[3]).all()
    assert np.isfinite(np.delete(found, 3, axis=0)).all()


@pytest.mark.parametrize("length", [1, 2, 3])
def test_very_short_series(length):
    found = OscillatorFeatures(**SMALL).fit_transform(np.arange(4.0 * length).reshape(4, length))
    assert found.shape == (4, 384)
    assert np.isfinite(found).all()


def test_many_channels():
    random = np.random.default_rng(0)
    with pytest.warns(UserWarning, match="X has 1000 channels of 20 steps"):
        features = OscillatorFeatures(**SMALL).fit(random.normal(size=(3, 1000, 20)))
    assert (features.bank_.mixture != 0).sum(axis=1).max() <= 8
    assert features.transform(random.normal(size=(2, 1000, 20))).shape == (2, 384)


def test_a_stream_equals_the_batch(waves):
    waves[:, :, 10:13] = np.nan
    times = np.arange(60) * 0.5
    features = OscillatorFeatures(**SMALL, causal=True).fit(waves, times=times)
    listen = FeatureStream(features)
    for sample, time in zip(waves[2].T, times, strict=True):
        found = listen(sample, time)
    np.testing.assert_array_equal(found, features.transform(waves[2:3], times=times))


@pytest.mark.parametrize("fill", [9.96921e36, -3.4e38, 1e9])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_value_far_from_those_of_fit_is_missing(waves, fill, dtype):
    waves = waves.astype(dtype)
    features = OscillatorFeatures(**SMALL, causal=True).fit(waves)
    spoilt, missing = waves[:3].copy(), waves[:3].copy()
    spoilt[1, 0, 7:9], missing[1, 0, 7:9] = fill, np.nan
    expected = features.transform(missing)
    with pytest.warns(
        UserWarning, match="2 values are more than 1e6 standard .* in X, first in case 1"
    ):
        np.testing.assert_array_equal(features.transform(spoilt), expected)
    listen = FeatureStream(features)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        outputs = [listen(sample) for sample in spoilt[1].T]
    np.testing.assert_array_equal(outputs[-1], expected[1:2])
    assert (listen.ignored, len(said)) == (2, 1)
    assert "1 value is more than 1e6 standard deviations" in str(said[0].message)


def test_what_streams_and_transforms_refuse(waves):
    features = OscillatorFeatures(**SMALL, causal=True).fit(waves)
    with pytest.raises(DataError, match="X has 1 channels, expected 2, as in fit"):
        features.transform(waves[:, :1])
    with pytest.raises(ValueError, match=r"sample has shape \(1,\), expected \(2,\)"):
        FeatureStream(features)([1.0], None)
    with pytest.raises(ValueError, match="fit had no times"):
        FeatureStream(features)([1.0, 2.0], 3.0)
    listen = FeatureStream(features.fit(waves, times=np.arange(60)))
    listen(waves[0, :, 0], 5.0)
    with pytest.raises(ValueError, match=r"time is 5\.0, expected a finite one after 5\.0"):
        listen(waves[0, :, 1], 5.0)
    with pytest.raises(ValueError, match="fit with causal=True"):
        FeatureStream(OscillatorFeatures(**SMALL).fit(waves))


def test_memory_does_not_grow_with_length():
    features = OscillatorFeatures(**SMALL).fit(np.random.default_rng(0).normal(size=(4, 100)))
    peaks = []
    for length in (10_000, 100_000):
        case = linoss.data.sequences(np.random.default_rng(0).normal(size=(1, 1, length)))
        features.transform(case)
        tracemalloc.start()
        features.transform(case)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 2 * 100_000
