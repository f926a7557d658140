"""ONNX, run by onnxruntime, against the library on drawn sequences."""

from dataclasses import replace

import equinox as eqx
import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linoss.estimators import AutoClassifier
from linoss.export import write

TOLERANCE = 1e-5


def session(path):
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def ask(model, **inputs):
    """The outputs of a model by name."""
    names = [output.name for output in model.get_outputs()]
    return dict(zip(names, model.run(None, inputs), strict=True))


def rows(X):
    return np.ascontiguousarray(np.swapaxes(X, 1, 2))


def walk(model, X, **more):
    """The answers of a step-by-step graph after each sample, `(time, batch, answers)`.

    `more` are inputs `(batch, time)`.
    """
    kinds = {"tensor(float)": np.float32, "tensor(double)": np.float64}
    states = {
        given.name: np.zeros((len(X), given.shape[1]), kinds[given.type])
        for given in model.get_inputs()
        if given.name not in ("sample", *more)
    }
    answers = []
    for n, sample in enumerate(np.moveaxis(X, 2, 0)):
        inputs = {name: np.ascontiguousarray(x[:, n : n + 1]) for name, x in more.items()}
        result = ask(model, sample=np.ascontiguousarray(sample), **inputs, **states)
        states = {name: result[f"next_{name}"] for name in states}
        (name,) = {"probabilities", "prediction", "forecast"} & result.keys()
        answers.append(result[name])
    return np.stack(answers)


CLASSIFIERS = {
    "missing values, time": {"missing": 0.2, "time_channel": True, "num_blocks": 2},
    "layer norm, largest": {"missing": 0.2, "norm": "layer", "pooling": "last+max"},
    "weighed forces": {"scheme": "verlet", "damped": False},
    "as in the text": {
        "norm": None,
        "scheme": "imex",
        "model_options": {
            "feedthrough": "dense", "bias": True, "complex_projections": False, "glu_bias": False,
        },
    },
    "patches": {"missing": 0.2, "time_channel": True, "patch": 5, "pooling": "mean+max"},
    "both directions": {
        "missing": 0.2, "bidirectional": True, "num_blocks": 2, "scheme": "verlet", "damped": False,
    },
    "patches both ways": {"missing": 0.2, "bidirectional": True, "patch": 5, "mixer": "lru"},
    "lru": {"mixer": "lru"},
    "s5": {"mixer": "s5"},
}  # fmt: skip
SLOW = ("layer norm, largest", "patches both ways", "s5")  # their parts are in others, too


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(options, id=name, marks=[pytest.mark.slow] if name in SLOW else [])
        for name, options in CLASSIFIERS.items()
    ],
)
def test_classification_equals_the_library(estimators, tmp_path, options):
    classifier = estimators.classifier(**options)
    written = write(classifier, tmp_path / "model.onnx")
    whole, *steps = map(session, written.files)
    assert len(steps) == (0 if options.get("bidirectional") else 1)
    shares = options.get("missing", 0.0)

    @settings(max_examples=4)
    @given(st.integers(0, 99), st.integers(1, 5), st.sampled_from([16, 32]))
    def compare(seed, count, time):
        X = estimators.cases(seed, count, time, missing=shares)
        found = ask(whole, samples=rows(X))
        expected = classifier.predict_proba(X)
        np.testing.assert_allclose(found["probabilities"], expected, atol=TOLERANCE)
        labels = classifier.classes_[found["probabilities"].argmax(axis=1)]
        assert found["label"].tolist() == labels.tolist()
        for step in steps:
            np.testing.assert_allclose(walk(step, X)[-1], expected, atol=TOLERANCE)

    compare()
    none = ask(whole, samples=np.zeros((0, 16, 2), np.float32))
    assert none["probabilities"].shape == (0, 3)
    assert none["label"].shape == (0,)


@pytest.mark.parametrize(
    "options",
    [
        {"scheme": "verlet", "damped": False, "time_channel": True, "bidirectional": True},
        {"scheme": "exact"},
        {"scheme": "imex", "time_channel": True},
    ],
    ids=["verlet, both directions", "exact", "imex"],
)
def test_irregular_times_equal_the_library(estimators, tmp_path, options):
    classifier = estimators.classifier(missing=0.2, interval=0.5, **options)
    whole, *steps = map(session, write(classifier, tmp_path / "model.onnx").files)
    X, gaps = estimators.cases(5, 3, missing=0.2), estimators.gaps(5, 3)
    expected = classifier.predict_proba(X, times=np.cumsum(gaps.astype(float), axis=1))
    found = ask(whole, samples=rows(X), intervals=gaps)["probabilities"]
    np.testing.assert_allclose(found, expected, atol=TOLERANCE)
    for step in steps:
        np.testing.assert_allclose(walk(step, X, interval=gaps)[-1], expected, atol=TOLERANCE)


def test_samples_after_the_end_are_padding(estimators, tmp_path):
    classifier = estimators.classifier(missing=0.2, time_channel=True)
    model = session(write(classifier, tmp_path / "model.onnx").files[0])
    X = estimators.cases(1, 3, 16, missing=0.1)
    padded = np.concatenate([X, np.full((3, 2, 9), np.nan, np.float32)], axis=2)
    found, expected = (ask(model, samples=rows(x))["probabilities"] for x in (padded, X))
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("every", [None, 8])
def test_regression_equals_the_library(estimators, tmp_path, every):
    options = {} if every is None else {"model_options": {"squash": True}}
    regressor = estimators.regressor(every, **options)
    if every is not None:  # as several models do
        regressor.fitted_.trained.models.append(regressor.fitted_.trained.models[0])
    whole, step = map(session, write(regressor, tmp_path / "model.onnx").files)
    X = estimators.cases(7, 3)
    expected = regressor.predict(X)
    found = ask(whole, samples=rows(X))["prediction"]
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found / scale, expected / scale, atol=TOLERANCE)
    steps = walk(step, X)
    last = steps[-1] if every is None else np.moveaxis(steps[every - 1 :: every], 0, 1)
    np.testing.assert_allclose(last / scale, expected / scale, atol=TOLERANCE)


@pytest.mark.parametrize("known", [(), (1,)])
def test_forecasts_equal_the_library(estimators, tmp_path, known):
    forecaster = estimators.forecaster(known, time_channel=bool(known))
    whole, step = map(session, write(forecaster, tmp_path / "model.onnx").files)
    series = rows(estimators.cases(8, 3, 16, missing=0.1))
    future = np.full((3, 4, 2), np.nan, np.float32)
    future[:, :, list(known)] = 0.5
    inputs = {"future": future} if known else {}
    found = ask(whole, samples=series, **inputs)["forecast"]
    ahead = {"future": future[0][:, list(known)]} if known else {}
    expected = np.stack([forecaster.predict(4, data=one, **ahead) for one in series])
    np.testing.assert_allclose(found, expected, atol=TOLERANCE * np.abs(expected).max())
    ahead = np.tile(np.arange(20) >= 16, (3, 1)).astype(np.float32)
    answers = walk(step, rows(np.concatenate([series, future], axis=1)), ahead=ahead)
    steps = np.moveaxis(answers[16:], 0, 1)
    np.testing.assert_allclose(steps, expected, atol=TOLERANCE * np.abs(expected).max())


ENDS = ("forecast", "lo_80", "hi_80", "lo_95", "hi_95")


@pytest.mark.parametrize(
    "options",
    [
        {"known": (1,)},
        {"normalize": "none", "logarithm": True},
        {"normalize": "deviation", "trend": False},
        {"normalize": "difference"},
    ],
    ids=["known variables", "logarithm", "deviation", "difference"],
)
def test_forecasts_on_their_base_equal_the_library(estimators, tmp_path, options):
    forecaster = estimators.forecaster_on_base(**options)
    written = write(forecaster, tmp_path / "model.onnx")
    assert "whole windows" in written.notes[0]
    (model,) = map(session, written.files)
    for seed, steps in ((0, 16), (1, 16), (2, 9), (3, 20)):  # of 20 steps, the last 16 are read
        given, expected = estimators.drawn_window(forecaster, seed, steps)
        found = ask(model, **{name: x[None] for name, x in given.items()})
        answers = np.stack([found[name][0] for name in ENDS], axis=-1)
        np.testing.assert_allclose(answers, expected, rtol=TOLERANCE)


@pytest.mark.filterwarnings("ignore:1 value is more than 1e6")
@pytest.mark.parametrize("kind", ["causal", "both ways", "numbers"])
def test_untrained_oscillators_equal_the_library(estimators, oscillators, tmp_path, kind):
    estimator = oscillators[kind]
    written = write(estimator, tmp_path / "model.onnx")
    X = estimators.cases(9, 6, 24)
    X[2, 0, 3:6] = np.nan  # a channel keeps its last value
    X[3, 1, 8] = 9.96921e36  # a fill value is missing
    numbers = kind == "numbers"
    expected = estimator.predict(X)[:, None] if numbers else estimator.predict_proba(X)
    found = ask(session(written.files[0]), samples=rows(X))
    name = "prediction" if numbers else "probabilities"
    np.testing.assert_allclose(found[name], expected, atol=TOLERANCE)
    if not numbers:
        assert found["label"].tolist() == estimator.predict(X).tolist()
    if kind == "both ways":
        assert len(written.files) == 1
        assert "backwards" in written.notes[0]
    else:
        answers = walk(session(written.files[1]), X)
        np.testing.assert_allclose(answers[-1], expected, atol=TOLERANCE)


def test_several_models_and_oscillators_by_their_weights(estimators, oscillators, tmp_path):
    trained = estimators.classifier().fitted_.trained
    bias = trained.models[0].head.decoder.bias
    trained.models.append(eqx.tree_at(lambda m: m.head.decoder.bias, trained.models[0], bias[::-1]))
    ensemble = AutoClassifier()
    weights = np.array([0.7, 0.4])
    ensemble.fitted_ = replace(oscillators["both ways"].fitted_, trained=trained, weights=weights)
    model = session(write(ensemble, tmp_path / "model.onnx").files[0])
    X = estimators.cases(10, 3)
    probabilities = ask(model, samples=rows(X))["probabilities"]
    np.testing.assert_allclose(probabilities, ensemble.predict_proba(X), atol=TOLERANCE)


@pytest.mark.filterwarnings("ignore::linoss.fitted.NotANumberWarning")
def test_nan_has_no_label(estimators, tmp_path):
    classifier = estimators.classifier()
    X = estimators.cases(1, 3)
    X[1] = 3e38
    found = ask(session(write(classifier, tmp_path / "model.onnx").files[0]), samples=rows(X))
    known = np.isfinite(found["probabilities"]).all(axis=1)
    assert known.tolist() == [True, False, True]
    assert (found["label"] == "").tolist() == (~known).tolist()


def test_facts_are_in_the_model(estimators, tmp_path):
    path = tmp_path / "model.onnx"
    write(estimators.classifier(), path, names=("left", "right"))
    facts = {prop.key: prop.value for prop in onnx.load(path).metadata_props}
    assert facts == {
        "task": "classification", "channels": '["left", "right"]',
        "classes": '["high", "low", "très"]',
    }  # fmt: skip
