"""Estimators with drawn weights, ready to be exported without a training."""

from dataclasses import replace
from types import SimpleNamespace

import jax
import numpy as np
import pandas
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
from linoss.data import sequences
from linoss.fitted import Fitted, Outputs, Trained
from linoss.forecasting import Calibration
from linoss.training import Classification, Inputs, Regression

SIZES = {"hidden_size": 8, "state_size": 6, "num_blocks": 1}
CHANNELS, TIME = 2, 32


def cases(seed, count, time=TIME, missing=0.0):
    """Sequences `(cases, channels, time)`, single precision, of which some values are missing."""
    random = np.random.default_rng(seed)
    values = 1 + 3 * random.normal(size=(count, CHANNELS, time)).astype(np.float32)
    values[random.random(values.shape) < missing] = np.nan
    values[:, :, time // 2 : time // 2 + 2] = np.nan if missing else 1.0
    return values


def gaps(seed, count, time=TIME):
    """Irregular times between samples, `(cases, time)`; the first is ignored."""
    drawn = np.random.default_rng(seed).exponential(size=(count, time)) + 0.01
    return drawn.astype(np.float32)


def _drawn_model(estimator, inputs, objective):
    """A model with weights, and statistics of norms, that nobody trained."""
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
    return jax.tree.unflatten(structure, moved)


def _drawn(estimator, inputs, objective):
    """The estimator with such a model."""
    model = _drawn_model(estimator, inputs, objective)
    classes = getattr(objective, "classes", None)
    outputs = Outputs(
        None if classes is None else np.array(classes),
        objective.out_size,
        every=getattr(objective, "every", None),
    )
    estimator.fitted_ = Fitted(outputs, Trained([model], inputs, objective, [], 0))
    estimator.classes_ = outputs.classes
    return estimator


def classifier(missing=0.0, interval=None, **options):
    estimator = LinOSSClassifier(**{**SIZES, **options})
    inputs = Inputs.from_sequences(
        sequences(cases(0, 8, missing=missing)), time_channel=bool(estimator.time_channel)
    )
    inputs = replace(inputs, patch=estimator.patch or 1, interval=interval)
    return _drawn(estimator, inputs, Classification(classes=("high", "low", "très")))


def regressor(every=None, **options):
    estimator = LinOSSRegressor(**SIZES, every=every, **options)
    random = np.random.default_rng(3)
    labels = random.normal(size=(8, 2)) if every is None else random.normal(size=(8, 4, 2))
    inputs = Inputs.from_sequences(sequences(cases(0, 8)))
    return _drawn(estimator, inputs, Regression.from_labels(labels * 5 + 7, every=every))


def _fitted_forecaster(data, known, **options):
    """A forecaster of 4 steps from 16, with weights that nobody trained."""
    options = {"scheme": "im", **SIZES, "horizon": 4, "past": 16, "steps": 1, **options}
    estimator = LinOSSForecaster(**options, known_in_advance=known).fit(data)
    fitted = estimator.fitted_
    inputs, objective = fitted.trained.inputs, fitted.trained.objective
    model = _drawn_model(LinOSSForecaster(**{**options, "scheme": "exact"}), inputs, objective)
    estimator.fitted_ = replace(fitted, trained=replace(fitted.trained, models=[model]))
    return estimator


def forecaster(known=(), **options):
    random = np.random.default_rng(4)
    series = 2 + random.normal(size=(60, CHANNELS)).cumsum(axis=0)
    series[::7, 0] = np.nan
    options = {"levels": (80,), "validation_fraction": 0, **options}
    return _fitted_forecaster(series, known, base=False, **options)


def forecaster_on_base(known=(), normalize="level", logarithm=False, trend=True, series=1):
    """With trend, seasons, a linear part and intervals."""
    random, count = np.random.default_rng(5), 1000
    hours = pandas.date_range("2024-02-28", periods=count, freq="h")
    frames = []
    for i in range(series):
        wave = np.sin(2 * np.pi * np.arange(count) / 24 + i)
        values = 500 + 9 * wave[:, None] + random.normal(size=(count, 3))
        frame = pandas.DataFrame({**dict(zip("abc", values.T, strict=True)), "ds": hours})
        frames.append(frame.assign(unique_id=f"s{i}"))
    data = pandas.concat(frames)
    data = data if series > 1 else data.drop(columns="unique_id").set_index("ds")
    options = {"levels": (80, 95), "trend": trend, "logarithm": logarithm, "normalize": normalize}
    estimator = _fitted_forecaster(data, ["abc"[i] for i in known], **options)
    fitted = estimator.fitted_
    targets = 3 - len(known)
    levels, distances = fitted.calibration.levels, random.random((2, 2, 4, targets))
    paths, share = np.zeros((1, 4, targets)), random.random((4, targets))
    calibration = Calibration(levels, distances.cumsum(axis=1), paths, share, 99)
    estimator.fitted_ = replace(fitted, calibration=calibration)
    return estimator


def drawn_window(forecaster, seed, steps=16, series=None):
    """A window, its times and what is known of its future; and the library's forecast for it."""
    random = np.random.default_rng(seed)
    hours = pandas.date_range("2024-03-30", periods=steps + 4, freq="h") + pandas.Timedelta(
        hours=int(random.integers(1000))
    )
    values = (500 + 9 * random.normal(size=(steps + 4, 3))).astype(np.float32)
    values[:steps][random.random((steps, 3)) < 0.1] = np.nan
    known, future = list(forecaster.fitted_.known), np.full((4, 3), np.nan, np.float32)
    future[:, known] = values[steps:, known]
    frame = pandas.DataFrame(
        values[:steps].astype(float), index=hours[:steps], columns=forecaster.fitted_.names
    )
    given = {"samples": values[:steps], "times": hours.to_numpy().astype("datetime64[s]")}
    given["times"] = given["times"].astype(np.float64)
    ahead = {}
    if known:
        given["future"], ahead = future, {"future": future[:, known]}
    if series is not None:
        frame = frame.rename_axis("ds").reset_index().assign(unique_id=series)
    expected = forecaster.predict(data=frame, level=[80, 95], **ahead)
    expected = expected.drop(columns=["ds", "unique_id"], errors="ignore")
    return given, expected.to_numpy().reshape(4, -1, 5)


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
        cases=cases,
        gaps=gaps,
        classifier=classifier,
        regressor=regressor,
        forecaster=forecaster,
        forecaster_on_base=forecaster_on_base,
        drawn_window=drawn_window,
    )
