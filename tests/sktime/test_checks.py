"""The adapters keep sktime's contract: its checks, and the predictions of those inside."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from sktime.utils.estimator_checks import check_estimator, parametrize_with_checks

import linoss
import linoss.sktime

pytestmark = pytest.mark.usefixtures("unchecked")

ADAPTERS = [getattr(linoss.sktime, name) for name in linoss.sktime.__all__]
for _kind in ADAPTERS:
    if "steps" in (_small := _kind.small()):  # is trained; this scheme is compiled in half the time
        _kind.small = partial(dict, _small, scheme="im", damped=False)
ELSEWHERE = "test_doctest_examples"  # with all examples, in tests/test_examples.py
LONG = (
    "test_hierarchical_with_exogenous",
    "test_predict_interval",  # below, against the estimator inside
    "test_predict_time_index",
    "test_predict_time_index_with_X",
    "test_unequal_length_hierarchical_fit_predict",
    "test_update_predict_predicted_index",
    "test_update_predict_single",
    "test_update_with_exogenous_variables",
)


def checks():
    """All of sktime's checks of all estimators; slow are long ones, and those of a classifier whose
    fits take long and which is held to aeon's checks, too."""
    for estimator, check in parametrize_with_checks(
        [kind.create_test_instance() for kind in ADAPTERS]
    ).args[1]:
        name = type(estimator).__name__
        marks = [pytest.mark.slow] if check in LONG or name == "LinOSSClassifier" else []
        if check != ELSEWHERE:
            yield pytest.param(estimator, check, marks=marks, id=f"{name}-{check}")


@pytest.mark.filterwarnings("ignore:Forecasters' predict_proba requires skpro")
@pytest.mark.parametrize(("estimator", "check"), list(checks()))
def test_sktimes_own_checks(estimator, check):
    check_estimator(estimator, tests_to_run=check, raise_exceptions=True, verbose=False)


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_settings_are_those_of_the_estimator_inside(adapter):
    kind = getattr(linoss, adapter.__name__)
    assert adapter().get_params() == kind().get_params()
    assert adapter.__doc__.split("**Arguments:**")[1] == kind.__doc__.split("**Arguments:**")[1]


def test_classifier_predicts_as_the_one_inside():
    random = np.random.default_rng(0)
    cases = [random.normal(size=(2, length)) for length in (30, 21, 25, 30, 18, 27)]
    cases[1][0, 3] = cases[4][1, 5] = np.nan
    labels = np.array(["a", "b"] * 3)
    settings = {"n_oscillators": 16, "random_state": 1}
    outside = linoss.sktime.OscillatorClassifier(**settings)
    outside.fit([pd.DataFrame(case.T) for case in cases], labels)
    inside = linoss.OscillatorClassifier(**settings).fit(cases, labels)
    probabilities = outside.predict_proba([pd.DataFrame(case.T) for case in cases])
    assert np.array_equal(probabilities, inside.predict_proba(cases))


@pytest.fixture(scope="module")
def series():
    """Two variables, and one that is known in advance, by the month."""
    index = pd.period_range("2000-01", periods=60, freq="M")
    values = np.random.default_rng(0).normal(size=(60, 3))
    frame = pd.DataFrame(values, index=index, columns=["a", "b", "known"])
    return frame[["a", "b"]], frame[["known"]]


@pytest.fixture(scope="module")
def fitted(series):
    y, X = series
    adapter = linoss.sktime.LinOSSForecaster
    return adapter(**adapter.get_test_params()[1]).fit(y[:40], X=X[:40])


def test_forecast_and_intervals_are_those_of_the_one_inside(series, fitted):
    y, X = series
    inside = linoss.LinOSSForecaster(**{**fitted.get_params(), "known_in_advance": [2]})
    inside.fit(np.hstack([y, X])[:40])
    expected = inside.predict(5, future=X[40:45].to_numpy(), level=[50, 90])[[0, 2, 4]]
    asked = {"fh": [1, 3, 5], "X": X[40:45]}
    forecast = fitted.predict(**asked)
    assert forecast.index.astype(str).tolist() == ["2003-05", "2003-07", "2003-09"]
    np.testing.assert_allclose(forecast, expected[..., 0], rtol=1e-6)

    intervals = fitted.predict_interval(**asked, coverage=[0.5, 0.9])
    for place, name in enumerate(["a", "b"]):
        for column, share in enumerate((0.5, 0.9)):
            ends = expected[:, place, 2 * column + 1 : 2 * column + 3]
            np.testing.assert_allclose(intervals[name][share], ends, rtol=1e-6)

    quantiles = fitted.predict_quantiles(**asked, alpha=[0.05, 0.5, 0.75])
    np.testing.assert_allclose(quantiles["b"][0.05], expected[:, 1, 3], rtol=1e-6)
    np.testing.assert_allclose(quantiles["b"][0.5], expected[:, 1, 0], rtol=1e-4)
    np.testing.assert_allclose(quantiles["b"][0.75], expected[:, 1, 2], rtol=1e-6)


def test_new_data_without_training(series, fitted):
    y, X = series
    moved = fitted.clone().fit(y[:40], X=X[:40])
    moved.update(y[40:50], X=X[40:50], update_params=False)
    expected = moved.estimator_.predict(
        2, data=np.hstack([y[:50], X[:50]]), future=X[50:52].to_numpy()
    )
    forecast = moved.predict(fh=[1, 2], X=X[50:52])
    assert str(forecast.index[0]) == "2004-03"
    assert np.array_equal(forecast, expected)
