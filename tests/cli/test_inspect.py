"""`linoss inspect`, `explain`, `export`: spectra, attributions, files are those of the run."""

import numpy as np
import onnxruntime
import pytest

import linoss
from linoss.data import read

# ---- inspect ----


def test_the_spectrum_of_im_is_its_closed_form(run, good_json, good):
    """|lambda|^2 = 1 / (1 + h^2 A)."""
    found = good_json(f"inspect {run}")
    (model,) = linoss.LinOSSClassifier.load(run).fitted_.trained.models
    assert found["parameters"] == linoss.count_parameters(model)
    assert (found["scheme"], found["state_size"], found["task"]) == ("im", 8, "classification")
    (block,), bank = found["blocks"], model.blocks[0].mixer.oscillators
    A, h = (np.asarray(x, float) for x in (bank.stiffness, bank.timestep))
    np.testing.assert_allclose(block["stiffness"], A)
    np.testing.assert_allclose(block["decay_times"], 2 / np.log1p(h**2 * A), rtol=1e-5)
    np.testing.assert_allclose(block["periods"], 2 * np.pi / np.arctan(h * np.sqrt(A)), rtol=1e-5)
    assert block["period"]["max"] == max(block["periods"])
    printed = good(f"inspect {run}")
    assert all(word in printed for word in ("block 1", "period", "decay time", "LinOSSClassifier"))


def test_imex_does_not_decay(regressor, good_json):
    (block,) = good_json(f"inspect {regressor}")["blocks"]
    assert block["decay_times"] == [None] * 8
    assert (block["without_decay"], block["decay_time"]) == (8, None)


def test_the_bank_of_untrained_oscillators(oscillators, good_json, good):
    found = good_json(f"inspect {oscillators}")
    bank = linoss.OscillatorClassifier.load(oscillators).fitted_.oscillators.features.bank_
    assert (found["estimator"], found["oscillators"]) == ("OscillatorClassifier", 64)
    assert found["period"]["max"] == pytest.approx(1 / bank.frequency[bank.frequency > 0].min())
    assert 0.3 <= found["quality"]["min"] <= found["quality"]["max"] <= 8
    printed = good(f"inspect {oscillators}")
    assert all(word in printed for word in ("period", "quality", "leave-one-out accuracy"))


# ---- explain ----


@pytest.mark.parametrize("kind", ["run", "oscillators"])
def test_figures_and_sums(kind, data, tmp_path, request, good_json, good):
    directory, out = request.getfixturevalue(kind), tmp_path / "why.html"
    (record,) = good_json(f"explain {directory} {data} --only 3 --out {out}")["cases"]
    estimator, case = linoss.load(directory), read(data / "Waves_TEST.csv").select([3])
    assert record["prediction"] == estimator.predict(case)[0]
    attribution, classes = estimator.explain(case), estimator.classes_.tolist()
    row = classes.index(record["prediction"])
    if len(attribution.channels) == 1:  # of the second class
        expected = attribution.channels[0] * (1 if row else -1)
    else:
        expected = attribution.channels[row]
    name = "linoss" if kind == "run" else "oscillators"
    np.testing.assert_allclose([*record[f"channels_{name}"].values()], expected, rtol=1e-4)
    assert record.get("error", 0) <= 1e-3
    assert out.read_text().count("<svg") == (2 if kind == "run" else 1)
    printed = good(f"explain {directory} {data} --out {out}")
    assert "prediction low" in printed
    assert "prediction high" in printed


def test_what_cannot_be_explained(run, data, forecaster, load, tmp_path, failing):
    assert "--only is 99" in failing(f"explain {run} {data} --only 99 --out {tmp_path}/why")
    message = failing(f"explain {forecaster} {load} --out {tmp_path}/why")
    assert "holds a LinOSSForecaster; use linoss forecast" in message


# ---- export ----


def test_c_tells_flash_and_ram(run, tmp_path, good, good_json, failing):
    told = good_json(f"export {run} {tmp_path}/waves.h")
    printed = good(f"export {run} {tmp_path}/waves.h")
    assert f"Flash: {told['flash']:,} bytes" in printed
    assert f"RAM: {told['ram']:,} bytes" in printed
    assert (tmp_path / "waves_weights.c").exists()
    onnx = good_json(f"export {run} {tmp_path}/waves.onnx")["files"]
    assert list(onnx) == [f"{tmp_path}/waves.onnx", f"{tmp_path}/waves_step.onnx"]
    assert "expected a suffix among" in failing(f"export {run} {tmp_path}/model.txt")


def test_a_forecaster_has_its_variables_named(forecaster, tmp_path, good, failing):
    assert "whole windows" in good(f"export {forecaster} {tmp_path}/load.onnx")
    model = onnxruntime.InferenceSession(f"{tmp_path}/load.onnx")
    assert model.get_modelmeta().custom_metadata_map["channels"] == '["load", "heat", "hour"]'
    assert {"samples", "times"} <= {given.name for given in model.get_inputs()}
    assert "expected one of the fit" in failing(f"export {forecaster} {tmp_path}/x.h --series a")
