"""StableHLO, read again and called with two shapes, against the library."""

import re

import jax
import jax.export
import numpy as np

from linoss.export import write


def read(path):
    return jax.export.deserialize(bytearray(path.read_bytes()))


def test_any_number_of_sequences_of_any_length(estimators, tmp_path):
    classifier = estimators.classifier(missing=0.2, time_channel=True)
    write(classifier, tmp_path / "model.stablehlo")
    function = read(tmp_path / "model.stablehlo")
    called = set(re.findall(r"custom_call @(\w+)", function.mlir_module()))
    assert called <= {"shape_assertion"}
    for count, time in ((3, 32), (1, 16)):
        X = estimators.cases(count, count, time, missing=0.2)
        found = function.call(np.swapaxes(X, 1, 2))
        np.testing.assert_allclose(found, classifier.predict_proba(X), atol=1e-5)


def test_irregular_times_in_both_directions(estimators, tmp_path):
    classifier = estimators.classifier(interval=0.5, bidirectional=True, scheme="im", damped=False)
    write(classifier, tmp_path / "model.stablehlo")
    X, gaps = estimators.cases(3, 2), estimators.gaps(3, 2)
    found = read(tmp_path / "model.stablehlo").call(np.swapaxes(X, 1, 2), intervals=gaps)
    expected = classifier.predict_proba(X, times=np.cumsum(gaps.astype(float), axis=1))
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_forecasts(estimators, tmp_path):
    forecaster = estimators.forecaster((1,))
    write(forecaster, tmp_path / "model.stablehlo")
    series = np.swapaxes(estimators.cases(8, 2, 16), 1, 2)
    future = np.full((2, 4, 2), np.nan, np.float32)
    future[:, :, 1] = 0.5
    found = read(tmp_path / "model.stablehlo").call(series, future=future)["forecast"]
    expected = [forecaster.predict(4, data=one, future=future[0][:, 1:]) for one in series]
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


def test_forecasts_on_their_base(estimators, tmp_path):
    forecaster = estimators.forecaster_on_base((1,))
    write(forecaster, tmp_path / "model.stablehlo")
    function = read(tmp_path / "model.stablehlo")
    for steps in (16, 9):
        given, expected = estimators.drawn_window(forecaster, steps, steps)
        with jax.enable_x64(True):
            given = {name: x[None] for name, x in given.items()}
            found = function.call(given.pop("samples"), **given)
        ends = [found[name][0] for name in ("forecast", "lo_80", "hi_80", "lo_95", "hi_95")]
        np.testing.assert_allclose(np.stack(ends, axis=-1), expected, rtol=1e-5)


def test_untrained_oscillators(estimators, oscillators, tmp_path):
    write(oscillators["both ways"], tmp_path / "model.stablehlo")
    X = estimators.cases(9, 6, 24)
    with jax.enable_x64(True):
        found = read(tmp_path / "model.stablehlo").call(np.swapaxes(X, 1, 2))
    np.testing.assert_allclose(found, oscillators["both ways"].predict_proba(X), atol=1e-5)
