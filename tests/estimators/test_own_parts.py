"""A user's own mixer and scheme: fitted, cloned, and saved by their import path if asked."""

import numpy as np
import pytest
from sklearn.base import clone

import linoss
from linoss import LinOSSClassifier, LinOSSConfig
from tests.estimators.own_parts import OWN, Decay

X = np.random.default_rng(0).normal(size=(24, 1, 20))
Y = np.arange(24) % 2
SMALL = {"steps": 2, "hidden_size": 4, "num_blocks": 1, "n_models": 1, "random_state": 0}


@pytest.mark.usefixtures("single_precision")
@pytest.mark.parametrize("own", [{"mixer": Decay}, {"scheme": OWN, "state_size": 4}], ids=min)
def test_it_is_fitted_and_saved_on_request(own, tmp_path):
    classifier = clone(LinOSSClassifier(**SMALL, **own))
    with pytest.raises(ValueError, match=r"own_parts:\w+, of which a file can hold only"):
        classifier.fit(X, Y, directory=tmp_path / "run")  # before the fit
    assert not list(tmp_path.glob("run/*"))
    classifier.fit(X, Y)
    with pytest.raises(ValueError, match="save with allow_import=True"):
        classifier.save(tmp_path / "model")
    classifier.save(tmp_path / "model", allow_import=True)
    with pytest.raises(ValueError, match="loading would import it; if you trust it, load with"):
        linoss.load(tmp_path / "model")
    again = linoss.load(tmp_path / "model", allow_import=True)
    assert again.get_params() == classifier.get_params()
    assert np.array_equal(again.predict_proba(X), classifier.predict_proba(X))
    if "mixer" in own:
        stream = again.stream()
        for sample in X[0].T:
            probabilities = stream(sample)
        np.testing.assert_allclose(probabilities, again.predict_proba(X[:1])[0], atol=1e-5)


@pytest.mark.usefixtures("unchecked")
def test_mixers_that_cannot_be():
    with pytest.raises(ValueError, match=r"mixer is 3, expected one of 'linoss', .* class of your"):
        LinOSSConfig(in_size=1, out_size=1, mixer=3)
    with pytest.raises(ValueError, match=r"max_stiffness is 2.0, but mixer .* has no such setting"):
        LinOSSConfig(in_size=1, out_size=1, mixer=Decay, max_stiffness=2.0)

    def needy(hidden_size, patience, *, key):
        return Decay(hidden_size, key=key)

    with pytest.raises(ValueError, match="whose argument patience is not a setting"):
        LinOSSConfig(in_size=1, out_size=1, mixer=needy)
