"""The adapters keep aeon's contract: all of its checks, and the predictions of those inside."""

import sys
from functools import partial

import numpy as np
import pytest
from aeon.classification.compose import ClassifierPipeline
from aeon.testing.estimator_checking import parametrize_with_checks
from sklearn.linear_model import LogisticRegression

import linoss
import linoss.aeon

pytestmark = pytest.mark.usefixtures("unchecked")

ADAPTERS = [getattr(linoss.aeon, name) for name in linoss.aeon.__all__]
for _kind in ADAPTERS:
    if "steps" in (_small := _kind.small()):  # is trained; this scheme is compiled in half the time
        _kind.small = partial(dict, _small, scheme="im", damped=False)


@parametrize_with_checks(ADAPTERS)
def test_aeons_own_checks(check):
    check()


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_settings_and_predictions_are_those_of_the_estimator_inside(adapter):
    """Of cases of two channels and unequal length, some values missing."""
    kind, random = getattr(linoss, adapter.__name__), np.random.default_rng(0)
    assert adapter().get_params() == kind().get_params()
    about, settings = adapter.__doc__.split("**Arguments:**")
    assert settings == kind.__doc__.split("**Arguments:**")[1]
    assert f"[`linoss.{adapter.__name__}`][]" in about
    cases = [random.normal(size=(2, length)) for length in (30, 21, 25, 30, 18, 27)]
    cases[1][0, 3] = cases[4][1, 5] = np.nan
    y = np.array(["a", "b"] * 3) if "Classifier" in adapter.__name__ else random.normal(size=6)
    outside, inside = (each(**adapter.small(), random_state=1) for each in (adapter, kind))
    for method in ("predict", "predict_proba", "transform"):
        if hasattr(adapter, method):
            expected = getattr(inside.fit(cases, y), method)(cases)
            assert np.array_equal(getattr(outside.fit(cases, y), method)(cases), expected)


def test_features_in_a_pipeline_of_aeon():
    random = np.random.default_rng(0)
    labels = np.arange(40) % 2
    waves = np.sin(np.outer(1 + labels, np.arange(60)) / 4) + 0.3 * random.normal(size=(40, 60))
    features = linoss.aeon.OscillatorFeatures(n_oscillators=64, random_state=0)
    pipeline = ClassifierPipeline(features, LogisticRegression())
    assert pipeline.fit(waves[:30], labels[:30]).score(waves[30:], labels[30:]) == 1


@pytest.mark.parametrize(("library", "extra"), [("aeon", "data"), ("sktime", "sktime")])
def test_without_the_library(monkeypatch, library, extra):
    monkeypatch.delattr(linoss, library)
    monkeypatch.delitem(sys.modules, f"linoss.{library}")
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf'{library} needs {library}; .*"\.\[{extra}\]"'):
        getattr(linoss, library)
