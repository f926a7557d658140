"""Estimators with drawn weights, ready to be exported without a training."""

from dataclasses import replace
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from linoss import (
    LinOSS,
    LinOSSClassifier,
    LinOSSConfig,
    LinOSSForecaster,
    LinOSSRegressor,
    OscillatorClassifier,
    OscillatorRegressor,
)
from linoss.data import sequences, table
from linoss.estimators._adjustment import Adjustment
from linoss.estimators._foundation import Foundation
from linoss.training import Classification, Forecasting, Inputs, Regression, Windows

SIZES = {"hidden_size": 8, "state_size": 6, "num_blocks": 2}
CHANNELS, TIME = 2, 32


def cases(seed, count, time=TIME, missing=0.0):
    """Sequences `(cases, channels, time)`, single precision, of which some values are missing."""
    random = np.random.default_rng(seed)
    values = 1 + 3 * random.normal(size=(count, CHANNELS, time)).astype(np.float32)
    values[random.random(values.shape) < missing] = np.nan
    values[:, :, time // 2 : time // 2 + 2] = np.nan if missing else 1.0
    return values


def _drawn(estimator, inputs, objective):
    """The estimator with weights, and statistics of norms, that nobody trained."""
    with jax.enable_x64(False):
        sizes = {"in_size": inputs.in_size, "out_size": objective.out_size, "task": objective.task}
        config = LinOSSConfig.from_settings(estimator, **sizes)
        model = LinOSS(config, key=jax.random.key(1))
        leaves, structure = jax.tree.flatten(model)
        keys = jax.random.split(jax.random.key(2), len(leaves))
        moved = [
            x if x.dtype == bool else x + 0.1 * jax.random.uniform(key, x.shape)
            for x, key in zip(leaves, keys, strict=True)
        ]
    estimator.model_ = jax.tree.unflatten(structure, moved)
    estimator.inputs_, estimator.objective_ = inputs, objective
    estimator.models_, estimator.oscillators_, estimator.weights_ = [estimator.model_], None, None
    return estimator


def classifier(missing=0.0, **options):
    estimator = LinOSSClassifier(**{**SIZES, **options})
    inputs = Inputs.from_sequences(
        sequences(cases(0, 8, missing=missing)), time_channel=bool(estimator.time_channel)
    )
    inputs = replace(inputs, patch=estimator.patch or 1)
    estimator.classes_ = np.array(["high", "low", "très"])
    return _drawn(estimator, inputs, Classification(classes=("high", "low", "très")))


def regressor(every=None, **options):
    estimator = LinOSSRegressor(**SIZES, every=every, **options)
    random = np.random.default_rng(3)
    labels = random.normal(size=(8, 2)) if every is None else random.normal(size=(8, 4, 2))
    estimator.one_number_ = False
    inputs = Inputs.from_sequences(sequences(cases(0, 8)))
    return _drawn(estimator, inputs, Regression.from_labels(labels * 5 + 7, every=every))


def forecaster(known=(), **options):
    estimator = LinOSSForecaster(**SIZES, horizon=4, past=16, base=False, **options)
    random = np.random.default_rng(4)
    series = 2 + random.normal(size=(60, CHANNELS)).cumsum(axis=0)
    series[::7, 0] = np.nan
    windows = Windows([series], past=16, horizon=4, known=known)
    estimator.names_, estimator.known_, estimator.past_ = ("0", "1"), known, 16
    inputs = Inputs.from_sequences(windows, time_channel=bool(estimator.time_channel))
    data = table(series)
    estimator.foundation_ = Foundation(Adjustment.none(data, known), "none", 16, 4)
    estimator.calibration_, estimator._levels = None, (0.1, 0.5, 0.9)
    estimator.context_ = data
    return _drawn(estimator, inputs, Forecasting.from_windows(windows, inputs, (0.1, 0.5, 0.9)))


@pytest.fixture(scope="session")
def oscillators():
    """A causal classifier, one that reads backwards, too, and a regressor."""
    X, settings = cases(5, 24, 24), {"n_oscillators": 48, "random_state": 0}
    two, three = np.arange(24) % 2, np.array(["a", "b", "c"])[np.arange(24) % 3]
    return {
        "causal": OscillatorClassifier(causal=True, **settings).fit(X, two),
        "both ways": OscillatorClassifier(**settings).fit(X, three),
        "numbers": OscillatorRegressor(causal=True, **settings).fit(X, X.mean(axis=(1, 2))),
    }


@pytest.fixture(scope="session")
def estimators():
    """The functions above."""
    return SimpleNamespace(
        cases=cases, classifier=classifier, regressor=regressor, forecaster=forecaster
    )
