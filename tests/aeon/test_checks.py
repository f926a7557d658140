"""The estimators keep aeon's contract: all of its checks, and the answers of those inside."""

import sys

import numpy as np
import pytest
from aeon.classification.compose import ClassifierPipeline
from aeon.testing.estimator_checking import parametrize_with_checks
from sklearn.linear_model import LogisticRegression

import linoss
import linoss.aeon

pytestmark = pytest.mark.usefixtures("unchecked")

FACES = [getattr(linoss.aeon, name) for name in linoss.aeon.__all__]
for _face in FACES:
    if "steps" in _face.small:  # is trained; this scheme is compiled in half the time
        _face.small = {**_face.small, "scheme": "im", "damped": False}


@parametrize_with_checks(FACES)
def test_aeons_own_checks(check):
    check()


@pytest.mark.parametrize("face", FACES)
def test_settings_are_those_of_the_estimator_inside(face):
    inside = getattr(linoss, face.__name__)
    assert face().get_params() == inside().get_params()
    about, settings = face.__doc__.split("**Arguments:**")
    assert settings == inside.__doc__.split("**Arguments:**")[1]
    assert f"[`linoss.{face.__name__}`][]" in about


@pytest.fixture
def uneven():
    """Cases of two channels and unequal length, some values missing, with labels and numbers."""
    random = np.random.default_rng(0)
    cases = [random.normal(size=(2, length)) for length in (30, 21, 25, 30, 18, 27)]
    cases[1][0, 3] = cases[4][1, 5] = np.nan
    return cases, np.array(["a", "b"] * 3), random.normal(size=6)


@pytest.mark.parametrize("face", FACES)
def test_answers_are_those_of_the_estimator_inside(face, uneven):
    cases, labels, numbers = uneven
    y = labels if "Classifier" in face.__name__ else numbers
    settings = {**face._get_test_params(), "random_state": 1}
    outside = face(**settings).fit(cases, y)
    inside = getattr(linoss, face.__name__)(**settings).fit(cases, y)
    for method in ("predict", "predict_proba", "transform"):
        if hasattr(face, method):
            expected = getattr(inside, method)(cases)
            assert np.array_equal(getattr(outside, method)(cases), expected)


def test_features_in_a_pipeline_of_aeon():
    random = np.random.default_rng(0)
    labels = np.arange(40) % 2
    waves = np.sin(np.outer(1 + labels, np.arange(60)) / 4) + 0.3 * random.normal(size=(40, 60))
    features = linoss.aeon.OscillatorFeatures(n_oscillators=64, random_state=0)
    pipeline = ClassifierPipeline(features, LogisticRegression())
    assert pipeline.fit(waves[:30], labels[:30]).score(waves[30:], labels[30:]) == 1


def test_without_aeon(monkeypatch):
    monkeypatch.setitem(sys.modules, "aeon", None)
    monkeypatch.delitem(sys.modules, "linoss.aeon")
    monkeypatch.delattr(linoss, "aeon")
    with pytest.raises(
        ImportError, match=r'linoss.aeon needs aeon; .*pip install "linoss\[data\]"'
    ):
        linoss.aeon  # noqa: B018
