"""What cannot be exported is refused in one clear line."""

import re
from dataclasses import replace

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from linoss import LinOSSClassifier
from linoss.export import write


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mixer": "mamba"}, "mixer is 'mamba', which is not a linear recurrence"),
        ({"mixer": "lru", "interval": 0.5}, "irregular, and mixer 'lru' of irregular times"),
    ],
)
def test_models_of_another_form(estimators, tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        write(estimators.classifier(**options), tmp_path / "model.onnx")
    assert not [*tmp_path.iterdir()]


def test_irregular_times_in_forecasting(estimators, tmp_path):
    forecaster = estimators.forecaster()
    trained = forecaster.fitted_.trained
    trained = replace(trained, inputs=replace(trained.inputs, interval=0.5))
    forecaster.fitted_ = replace(forecaster.fitted_, trained=trained)
    with pytest.raises(ValueError, match="irregular, and a forecaster of irregular times"):
        write(forecaster, tmp_path / "model.h")


def test_a_stream_of_what_reads_backwards(estimators, oscillators, tmp_path):
    for estimator in (oscillators["both ways"], estimators.classifier(bidirectional=True)):
        with pytest.raises(ValueError, match="read sequences backwards"):
            write(estimator, tmp_path / "model.h")


def test_several_series_without_a_choice_and_windows_in_c(estimators, tmp_path):
    forecaster = estimators.forecaster_on_base(series=2)
    with pytest.raises(ValueError, match="need whole windows; fit with base=False, or write ONNX"):
        write(forecaster, tmp_path / "model.h", series="s1")
    with pytest.raises(ValueError, match=r"has 2 series, .* such as 's0'"):
        write(forecaster, tmp_path / "model.h")
    with pytest.raises(ValueError, match="series is 's9', expected one of the fit: s0, s1"):
        write(forecaster, tmp_path / "model.h", series="s9")


def test_other_paths_and_options(oscillators, tmp_path):
    with pytest.raises(ValueError, match=re.escape("expected a suffix among .onnx, .h")):
        write(oscillators["causal"], tmp_path / "model.bin")
    with pytest.raises(ValueError, match="int8 is True"):
        write(oscillators["causal"], tmp_path / "model.onnx", int8=True)
    with pytest.raises(ValueError, match="would lose accuracy"):
        write(oscillators["causal"], tmp_path / "model.h", int8=True)
    with pytest.raises(ValueError, match="series is 'a', expected"):
        write(oscillators["causal"], tmp_path / "model.h", series="a")
    with pytest.raises(NotFittedError):
        write(LinOSSClassifier(), tmp_path / "model.onnx")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers(estimators, oscillators, tmp_path, value):
    trained = estimators.classifier()
    model = trained.fitted_.trained.models[0]
    bias = jnp.full_like(model.head.decoder.bias, value)
    trained.fitted_.trained.models[0] = eqx.tree_at(lambda m: m.head.decoder.bias, model, bias)
    fitted = oscillators["causal"].fitted_
    readout = replace(fitted.oscillators.readout, intercept=np.full(1, value))
    untrained = replace(fitted, oscillators=replace(fitted.oscillators, readout=readout))
    for estimator in (trained, untrained):
        for suffix in ("onnx", "h", "stablehlo"):
            with pytest.raises(ValueError, match=r"^some weights are NaN or infinite"):
                write(estimator, tmp_path / f"model.{suffix}")
    assert not [*tmp_path.iterdir()]
