"""`linoss export`: files that answer as the run does."""

import numpy as np
import onnxruntime

from linoss.estimators import load as load_estimator


def test_onnx_answers_as_the_run_does(run, waves, tmp_path, good_json):
    told = good_json(f"export {run} {tmp_path}/bells.onnx")
    assert list(told["files"]) == [f"{tmp_path}/bells.onnx", f"{tmp_path}/bells_step.onnx"]
    X = waves(5)[0].astype(np.float32)
    X = X.reshape(len(X), -1, X.shape[-1])
    model = onnxruntime.InferenceSession(f"{tmp_path}/bells.onnx")
    shares, labels = model.run(None, {"samples": np.ascontiguousarray(np.swapaxes(X, 1, 2))})
    estimator = load_estimator(run)
    np.testing.assert_allclose(shares, estimator.predict_proba(X), atol=1e-5)
    assert labels.tolist() == estimator.predict(X).tolist()


def test_c_tells_flash_and_ram(run, tmp_path, good, good_json):
    told = good_json(f"export {run} {tmp_path}/bells.h")
    printed = good(f"export {run} {tmp_path}/bells.h")
    assert f"Flash: {told['flash']:,} bytes" in printed
    assert f"RAM: {told['ram']:,} bytes" in printed
    assert (tmp_path / "bells_weights.c").exists()


def test_a_forecaster_alone_has_its_channels_named(load, small_forecaster, tmp_path, good):
    options = f"--horizon 6 --past 24 --known hour {small_forecaster} --steps 5 --no-base"
    good(f"fit {load} --task forecasting --out {tmp_path}/run {options}")
    good(f"export {tmp_path}/run {tmp_path}/load.onnx")
    model = onnxruntime.InferenceSession(f"{tmp_path}/load.onnx")
    assert model.get_modelmeta().custom_metadata_map["channels"] == '["load", "heat", "hour"]'
    assert [given.name for given in model.get_inputs()] == ["samples", "future"]


def test_a_forecaster_on_its_base(forecaster, tmp_path, good, failing):
    printed = good(f"export {forecaster} {tmp_path}/load.onnx")
    assert "whole windows" in printed
    model = onnxruntime.InferenceSession(f"{tmp_path}/load.onnx")
    assert {"samples", "times"} <= {given.name for given in model.get_inputs()}
    assert "expected one of the fit" in failing(f"export {forecaster} {tmp_path}/x.h --series a")


def test_another_suffix_is_refused(run, tmp_path, failing):
    assert "expected a suffix among" in failing(f"export {run} {tmp_path}/model.txt")
    assert not [*tmp_path.iterdir()]
