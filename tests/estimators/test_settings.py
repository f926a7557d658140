"""Parameters of the estimators: signature, documentation, checks, and that they come back."""

import inspect
import pickle
import re
from dataclasses import fields

import numpy as np
import pandas
import pytest
from sklearn.base import clone

import linoss
from linoss import LinOSSClassifier, LinOSSForecaster, LinOSSRegressor, load
from linoss.training import load_model

ESTIMATORS = (LinOSSClassifier, LinOSSRegressor, LinOSSForecaster)
EVERY = pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
HALF = np.arange(24) % 2

COUNTS = (0, -1, 2.5, "3", True)
POSITIVE = (0, -1.0, float("nan"), float("inf"), "fast", True)
SHARE = (1, -0.1, float("nan"), "half", False)
FLAG = ("no", 1, 0.0)
PARAMETERS = {
    "hidden_size": (4, COUNTS),
    "state_size": (3, COUNTS),
    "num_blocks": (1, COUNTS),
    "scheme": ("imex", ("euler", None, 3)),
    "damped": (False, FLAG),
    "bidirectional": (True, (*FLAG, None)),
    "norm": (None, ("group", 1, True)),
    "dropout": (0.05, (*SHARE, None)),
    "mixer": ("linoss", ("rnn", None, 3)),
    "precision": ("bfloat16", ("float64", None, 16)),
    "memory": (0, (-1, 2.5, "1 GB", None)),
    "time_channel": (True, (*FLAG, None)),
    "model_options": ({"feedthrough": "dense", "min_radius": 0.5}, ("pooling", ["pooling"], 3)),
    "steps": (3, ["-1", -1, 1.5, True]),
    "batch_size": (6, COUNTS),
    "learning_rate": (0.005, (*POSITIVE, None)),
    "warmup": (1, (-1, 2.5, "long")),
    "schedule": ("constant", ("linear", None, 1)),
    "weight_decay": (0.0, (-0.1, float("inf"), float("nan"), "some", None)),
    "clip_norm": (None, POSITIVE),
    "validation_fraction": (0.25, SHARE),
    "evaluate_every": (2, COUNTS),
    "patience": (4, COUNTS),
    "min_loss": (1e-4, (-1, float("inf"), "little", None)),
    "epochs": (None, POSITIVE),
    "n_models": (2, COUNTS),
    "patch": (1, COUNTS),
    "pooling": ("last+max", ("sum", "max+mean", None, 1)),
    "minutes": (30, (-1, float("nan"), float("inf"), "two")),
    "random_state": (5, (-1, 2**32, 0.5, "now")),
    "devices": ((2, 1), (0, 1.5, (1, 0), (1, 2, 3), "2x4")),
    "verbose": (True, (-1, "yes", None)),
    "class_weight": ({0: 1.0, 1: 2.0}, ("equal", 2.0, [1.0, 2.0])),
    "label_smoothing": (0.1, (*SHARE, None)),
    "every": (10, COUNTS),
    "horizon": (5, (*COUNTS, None)),
    "past": (12, COUNTS),
    "known_in_advance": (["x"], (3, None)),
    "base": (False, (*FLAG, None)),
    "levels": ([60, 90], (3, None)),
    "calendar": (False, ("weekly", 1, None)),
    "season": (7, (1, 2.5, "week")),
    "trend": (False, ("up", 1, None)),
    "logarithm": (False, ("ln", 1, None)),
    "normalize": ("level", ("mean", None, 1)),
}
"""A value other than the default for each parameter, and values that it refuses.

The others can be fitted together, but for the mixer: others have other settings; and for epochs:
there are steps.
"""
OTHER = {name: other for name, (other, _) in PARAMETERS.items()}


def names(kind):
    return list(inspect.signature(kind).parameters)


def others(kind, *left_out):
    return {name: OTHER[name] for name in names(kind) if name not in left_out}


def data(kind):
    """Something small to fit."""
    draw = np.random.default_rng(0)
    if kind is LinOSSForecaster:
        series = {"unique_id": "a", "ds": range(120)}
        return (pandas.DataFrame({**series, "y": draw.normal(size=120), "x": 0.5}),)
    values = draw.normal(size=(24, 1, 20))
    return values, HALF if kind is LinOSSClassifier else values[:, 0, 9::10]


@pytest.mark.parametrize("name", [*linoss.estimators.__all__, "LinOSSForecaster"])
def test_an_estimator_inherits_from_two_classes_of_ours(name):
    own = [each for each in getattr(linoss, name).__mro__[1:] if "linoss" in each.__module__]
    assert len(own) <= 2


@EVERY
def test_parameters_are_explicit_and_documented(kind):
    text, estimator = " ".join(inspect.getdoc(kind).split()), kind()
    for name, parameter in inspect.signature(kind).parameters.items():
        assert parameter.kind is parameter.KEYWORD_ONLY
        assert parameter.default == getattr(estimator, name)
        (about,) = re.findall(rf"- `{name}`: (.*?)(?: - `|$)", text)
        assert f"by default {parameter.default!r}" in about


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
        shared = {each.name for each in fields(config)} & {*names(kind)} - {"minutes"}
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
        for value in PARAMETERS[name][1]:
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
