"""Parameters of the estimators: signature, documentation, checks, and that they come back."""

import inspect
import pickle
import re

import numpy as np
import pandas
import pytest
from sklearn.base import clone

from linoss import LinOSSClassifier, LinOSSForecaster, LinOSSRegressor, load
from linoss._declare import declared
from linoss.dynamics import SCHEMES
from linoss.training import load_model

ESTIMATORS = (LinOSSClassifier, LinOSSRegressor, LinOSSForecaster)
EVERY = pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
HALF = np.arange(24) % 2

OTHER = {
    "hidden_size": 4,
    "state_size": 3,
    "num_blocks": 1,
    "scheme": "imex",
    "damped": False,
    "bidirectional": True,
    "norm": None,
    "dropout": 0.05,
    "mixer": "linoss",
    "precision": "bfloat16",
    "memory": 0,
    "time_channel": True,
    "model_options": {"feedthrough": "dense", "min_radius": 0.5},
    "steps": 3,
    "batch_size": 6,
    "learning_rate": 0.005,
    "warmup": 1,
    "schedule": "constant",
    "weight_decay": 0.0,
    "clip_norm": None,
    "validation_fraction": 0.25,
    "evaluate_every": 2,
    "patience": 4,
    "min_loss": 1e-4,
    "epochs": None,
    "n_models": 2,
    "patch": 1,
    "pooling": "last+max",
    "minutes": 30,
    "random_state": 5,
    "devices": (2, 1),
    "verbose": True,
    "class_weight": {0: 1.0, 1: 2.0},
    "label_smoothing": 0.1,
    "every": 10,
    "horizon": 5,
    "past": 12,
    "known_in_advance": ["x"],
    "static": ["place"],
    "base": False,
    "levels": [60, 90],
    "calendar": False,
    "season": 7,
    "trend": False,
    "logarithm": False,
    "normalize": "level",
}
"""A value other than the default for each parameter; together they can be fitted.

But for the mixer: others have other settings; and for epochs: there are steps.
"""

COUNTS = (0, -1, 2.5, "3", True)
POSITIVE = (0, -1.0, float("nan"), float("inf"), "fast", True)
SHARE = (1, -0.1, float("nan"), "half", False)
FLAG = ("no", 1, 0.0)
WRONG = {
    "hidden_size": COUNTS,
    "state_size": COUNTS,
    "num_blocks": COUNTS,
    "scheme": ("euler", None, 3),
    "damped": FLAG,
    "bidirectional": (*FLAG, None),
    "norm": ("group", 1, True),
    "dropout": (*SHARE, None),
    "mixer": ("rnn", None, 3),
    "precision": ("float64", None, 16),
    "memory": (-1, 2.5, "1 GB", None),
    "time_channel": (*FLAG, None),
    "model_options": ("pooling", ["pooling"], 3),
    "steps": ["-1", -1, 1.5, True],
    "batch_size": COUNTS,
    "learning_rate": (*POSITIVE, None),
    "warmup": (-1, 2.5, "long"),
    "schedule": ("linear", None, 1),
    "weight_decay": (-0.1, float("inf"), float("nan"), "some", None),
    "clip_norm": POSITIVE,
    "validation_fraction": SHARE,
    "evaluate_every": COUNTS,
    "patience": COUNTS,
    "min_loss": (-1, float("inf"), "little", None),
    "epochs": POSITIVE,
    "n_models": COUNTS,
    "patch": COUNTS,
    "pooling": ("sum", "max+mean", None, 1),
    "minutes": (-1, float("nan"), float("inf"), "two"),
    "random_state": (-1, 2**32, 0.5, "now"),
    "devices": (0, 1.5, (1, 0), (1, 2, 3), "2x4"),
    "verbose": (-1, "yes", None),
    "class_weight": ("equal", 2.0, [1.0, 2.0]),
    "label_smoothing": (*SHARE, None),
    "every": COUNTS,
    "horizon": (*COUNTS, None),
    "past": COUNTS,
    "known_in_advance": (3, None),
    "static": (3, None),
    "base": (*FLAG, None),
    "levels": (3, None),
    "calendar": ("weekly", 1, None),
    "season": (1, 2.5, "week"),
    "trend": ("up", 1, None),
    "logarithm": ("ln", 1, None),
    "normalize": ("mean", None, 1),
}
"""Values that each parameter refuses."""


def names(kind):
    return list(inspect.signature(kind).parameters)


def others(kind, *left_out):
    return {name: OTHER[name] for name in names(kind) if name not in left_out}


def data(kind):
    """Something small to fit."""
    draw = np.random.default_rng(0)
    if kind is LinOSSForecaster:
        series = {"unique_id": "a", "ds": range(120), "place": "north"}
        return (pandas.DataFrame({**series, "y": draw.normal(size=120), "x": 0.5}),)
    values = draw.normal(size=(24, 1, 20))
    return values, HALF if kind is LinOSSClassifier else values[:, 0, 9::10]


@EVERY
def test_the_signature_is_explicit(kind):
    parameters = inspect.signature(kind).parameters
    assert list(parameters) == list(declared(kind))
    for name, parameter in parameters.items():
        assert parameter.kind is parameter.KEYWORD_ONLY
        assert parameter.default == declared(kind)[name].default
        assert "Setting" not in str(parameter.annotation)


@EVERY
def test_every_parameter_is_documented(kind):
    text = " ".join(inspect.getdoc(kind).split())
    for name, setting in declared(kind).items():
        assert f"- `{name}`: {setting.about.help}" in text
        assert f"by default {setting.default!r}" in text


def test_defaults_that_differ_by_task():
    assert [kind().dropout for kind in ESTIMATORS] == [0.2, 0.1, 0.1]
    assert [kind().learning_rate for kind in ESTIMATORS] == [3e-3, 3e-3, 2e-3]


@EVERY
@pytest.mark.usefixtures("unchecked")
def test_an_unknown_parameter_is_refused(kind):
    with pytest.raises(TypeError, match="unexpected keyword argument 'momentum'"):
        kind(momentum=0.9)
    with pytest.raises(ValueError, match="Invalid parameter 'momentum' for estimator"):
        kind().set_params(momentum=0.9)


@EVERY
def test_parameters_are_kept_as_they_are(kind):
    estimator = kind(**others(kind))
    for again in (
        estimator,
        clone(estimator),
        kind().set_params(**others(kind)),
        pickle.loads(pickle.dumps(estimator)),
    ):
        assert again.get_params() == others(kind)
    for name in names(kind):
        default = getattr(kind(), name)
        assert name in ("mixer", "epochs") or OTHER[name] != default, f"{name} is at its default"
    assert "hidden_size=4" in repr(estimator)


@pytest.mark.integration
@EVERY
@pytest.mark.usefixtures("single_precision")
def test_parameters_reach_the_training_and_come_back_from_a_directory(kind, tmp_path):
    """Each with a value other than its default; but devices and memory are those of a machine."""
    estimator = kind(**others(kind, "devices")).fit(*data(kind), directory=tmp_path / "run")
    estimator.save(tmp_path / "model")
    for directory in ("run", "model"):
        again = load(tmp_path / directory)
        assert type(again) is kind
        assert again.get_params() == {**others(kind), "devices": None, "memory": kind().memory}
    part = tmp_path / "run"
    saved = load_model(part / "model-1")
    for config in (saved.model.config, saved.training):
        shared = declared(type(config)).keys() & declared(kind).keys() - {"minutes"}
        assert {name: getattr(config, name) for name in shared} == {n: OTHER[n] for n in shared}
    assert saved.model.config.feedthrough == OTHER["model_options"]["feedthrough"]
    count = 1 if kind is LinOSSForecaster else OTHER["n_models"]
    assert saved.training.minutes == OTHER["minutes"] / count
    assert saved.training.seed == OTHER["random_state"]
    assert saved.inputs.time_channel


@EVERY
@pytest.mark.usefixtures("unchecked")
def test_wrong_values_are_refused_by_fit_and_named(kind):
    """Not by the constructor, as scikit-learn wants it."""
    cases = data(kind)
    for name in names(kind):
        for value in WRONG[name]:
            estimator = kind(**{name: value})
            message = f"^{name} is {re.escape(repr(value))}, expected "
            with pytest.raises(ValueError, match=message):
                estimator.fit(*cases)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"model_options": {"colour": 3}},
            "model_options has 'colour', expected one of hidden_size",
        ),
        (
            {"model_options": {"in_size": 3}},
            "model_options has 'in_size', expected a setting such as",
        ),
        ({"model_options": {"pooling": "sum"}}, "pooling is 'sum', expected one of 'mean'"),
        ({"steps": 5, "warmup": 5}, "warmup is 5, expected an integer below steps, 5"),
        ({"scheme": "verlet", "damped": True}, "damped is True, but scheme 'verlet' has no"),
        ({"patience": 3, "n_models": 1}, "patience is 3, but nothing is held out"),
        ({"steps": 5, "epochs": 2}, "epochs is 2, but steps is 5; set one of them"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_settings_that_do_not_go_together(settings, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        LinOSSClassifier(**settings).fit(*data(LinOSSClassifier))


@pytest.mark.usefixtures("single_precision")
@pytest.mark.parametrize("scheme", [name for name, rule in SCHEMES.items() if not rule.damped])
def test_a_scheme_without_damping_is_fitted_without_it(scheme):
    small = {"hidden_size": 4, "state_size": 3, "num_blocks": 1, "steps": 1, "random_state": 0}
    classifier = LinOSSClassifier(scheme=scheme, **small).fit(*data(LinOSSClassifier))
    assert not classifier.fitted_.trained.models[0].config.damped


@pytest.mark.usefixtures("unchecked", "single_precision")
def test_numbers_of_numpy(tmp_path):
    """As searches of scikit-learn draw them, also in a dict of weights."""
    settings = {
        "hidden_size": np.int64(4),
        "state_size": np.int32(3),
        "num_blocks": np.int64(1),
        "steps": np.int64(2),
        "dropout": np.float64(0.25),
        "learning_rate": np.float32(0.5),
        "time_channel": np.bool_(True),
        "scheme": np.str_("im"),
        "random_state": np.int64(3),
        "n_models": np.int64(1),
        "class_weight": {np.int64(0): np.float64(1.0), np.int64(1): 2.0},
    }
    classifier = LinOSSClassifier(**settings).fit(*data(LinOSSClassifier))
    classifier.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert {name: getattr(again, name) for name in settings} == settings
    cases = data(LinOSSClassifier)[0]
    assert np.array_equal(again.predict_proba(cases), classifier.predict_proba(cases))
