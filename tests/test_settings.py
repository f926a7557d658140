"""Settings: which values they allow, how they are read and shown, and that all are sound."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import equinox as eqx
import jax
import numpy as np
import pytest
from typer.testing import CliRunner

import linoss
from linoss import LinOSS, LinOSSConfig
from linoss._declare import (
    REQUIRED,
    SHARE,
    check_name,
    check_settings,
    declared,
    setting,
    unchecked,
)
from linoss.cli import app
from linoss.training import TrainingConfig

ROOT = Path(__file__).parent.parent
ESTIMATORS = [
    getattr(linoss, f"{model}{task}")
    for task in ("Classifier", "Regressor")
    for model in ("LinOSS", "Oscillator", "Auto")
]
RECORDS = (LinOSSConfig, TrainingConfig, linoss.LinOSSForecaster, *ESTIMATORS)


@dataclass(kw_only=True)
class Example:
    """An example."""

    count: int = setting(REQUIRED, "A number of things.", "[1, inf)")
    rate: int | float = setting(0.5, "A rate.", SHARE)
    size: int | float | Literal["any"] = setting("any", "A size.", "(0, inf)")
    limit: float | None = setting(None, "A limit.", SHARE)
    kind: Literal["a", "b"] | None = setting("a", "A kind.", none="all kinds")
    flag: bool = setting(False, "A flag.")
    pair: int | tuple[int, int] = setting(1, "A pair.", "[1, 9]", other="two")
    word: str = setting("", "Any text.")
    levels: Collection[int | float] = setting((), "Levels.", other="numbers")
    names: Collection[str | int] = setting((), "Names.", other="names")


@dataclass(kw_only=True)
class Other:
    """Settings of an example with another default."""

    configs: ClassVar = (Example,)

    rate: float = 0.1


VALUES = {
    "count": ([1, np.int32(7)], [0, -1, 1.0, "1", True, None, np.float64(1), (1,)]),
    "rate": ([0, 0.5, np.float32(0.25)], [1, -1e-9, float("nan"), "0", True, None, 1j]),
    "size": (["any", 1, 0.5], [0, float("inf"), "all", None]),
    "limit": ([None, 0.1], [1.0, "none"]),
    "kind": (["a", "b", None, np.str_("a")], ["c", "", 0, False]),
    "flag": ([True, np.bool_(False)], [0, 1, "no", None]),
    "pair": ([1, 9, (1, 9)], [0, 10, (0, 1), (1, 2, 3), (1.0, 2), [1, 2]]),
    "word": (["", "none"], [None, 3]),
    "levels": ([(), [50]], [None, 3]),
}


@pytest.mark.parametrize("name", VALUES)
def test_values(name):
    each = declared(Example)[name]
    good, bad = VALUES[name]
    for value in good:
        each.check(value)
    for value in bad:
        with pytest.raises(ValueError, match=rf"^{name} is {re.escape(repr(value))}, expected "):
            each.check(value)


@pytest.mark.parametrize(
    ("name", "expected", "plain"),
    [
        ("count", "an integer >= 1", "an integer >= 1"),
        ("rate", "a number in [0, 1)", "a number in [0, 1)"),
        ("size", "'any' or a finite number > 0", "any or a finite number > 0"),
        ("limit", "None or a number in [0, 1)", "none or a number in [0, 1)"),
        ("kind", "one of None, 'a', 'b'", "one of none, a, b"),
        ("flag", "True or False", "yes or no"),
        ("pair", "an integer in [1, 9] or two", "an integer in [1, 9]"),
    ],
)
def test_values_in_words(name, expected, plain):
    assert declared(Example)[name].expected() == expected
    assert declared(Example)[name].expected(plain=True) == plain


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("count", "3", 3),
        ("rate", "0", 0.0),
        ("size", "any", "any"),
        ("size", "1e-3", 0.001),
        ("limit", "none", None),
        ("kind", "None", None),
        ("flag", "yes", True),
        ("flag", "FALSE", False),
        ("word", "none", "none"),
        ("word", "3", "3"),
        ("levels", "50, 80", [50.0, 80.0]),
        ("names", "hour,3", ["hour", "3"]),
    ],
)
def test_reading_a_text(name, text, value):
    found = declared(Example)[name].read(text)
    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize(
    ("name", "text"),
    [("count", "3.0"), ("rate", "nan"), ("size", "9" * 400), ("kind", "c"), ("levels", "50,x")],
)
def test_a_text_that_is_no_value(name, text):
    each = declared(Example)[name]
    message = f"{name} is {text!r}, expected {each.expected(plain=True)}"
    with pytest.raises(ValueError, match=re.escape(message)):
        each.read(text)


def test_a_record_is_checked_by_name():
    check_settings(Example(count=1))
    with pytest.raises(ValueError, match=r"^rate is 2, expected a number in \[0, 1\)$"):
        check_settings(unchecked(Example, {"count": 1, "rate": 2}))
    with pytest.raises(ValueError, match="it has 'cuont', expected a setting such as count"):
        check_name(declared(Example), "cuont", "it")


def test_a_record_with_another_default():
    rate = declared(Other)["rate"]
    assert (rate.default, rate.about) == (0.1, declared(Example)["rate"].about)


# ---- All that are declared ----


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_declarations(record):
    """Help is a sentence, defaults and ranges of a search are among the values."""
    for each in declared(record).values():
        assert each.about.help.endswith(".")
        assert each.about.help[0].isupper() or each.about.help[0].isdigit()
        if not each.required:
            each.check(each.default)
        for value in each.about.search or ():
            each.check(value)


CHOICES = [
    (name, choice)
    for name, each in declared(LinOSSConfig).items()
    for choice in (*each.choices, *([None] if each.optional else []))
    if name not in ("every", "horizon")
]


@pytest.mark.several
@pytest.mark.parametrize(("name", "choice"), CHOICES)
def test_there_is_a_model_of_every_choice(name, choice):
    sizes = {"in_size": 2, "out_size": 3, "hidden_size": 4, "state_size": 3, "num_blocks": 1}
    if name == "mixer":  # some have no such sizes: the defaults
        del sizes["state_size"], sizes["num_blocks"]
    horizon = 2 if choice == "forecasting" else None
    config = LinOSSConfig(**sizes, horizon=horizon, **{name: choice})
    outputs = eqx.filter_eval_shape(
        lambda key: LinOSS(config, key=key)(np.ones((2, 5, 2))), jax.random.key(0)
    )
    assert (outputs.shape[0], outputs.shape[-1]) == (2, 3)


def test_names_are_those_of_the_registries():
    assert declared(LinOSSConfig)["scheme"].choices == tuple(linoss.dynamics.SCHEMES)
    assert declared(LinOSSConfig)["mixer"].choices == tuple(linoss.nn.MIXERS)


def test_the_page_is_made_of_the_declarations():
    page = CliRunner().invoke(app, ["settings"]).stdout
    assert page == (ROOT / "docs" / "settings.md").read_text()


def test_the_presets_are_models():
    sizes = {"in_size": 1, "out_size": 1}
    published = {"gelu": "tanh", "shared_dropout": True}
    assert LinOSSConfig.published(**sizes) == LinOSSConfig(**sizes, **published)
    assert LinOSSConfig.published(**sizes, task="regression", every=2).squash
