"""Declared settings: what they allow, how they are read and shown, and that all are sound."""

import ast
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, get_args

import equinox as eqx
import jax
import numpy as np
import pytest

import linoss
from linoss import LinOSS, LinOSSConfig, _declare, _plain, _settings
from linoss._declare import Declared, Setting, check_settings, declared, documented, shared_with
from linoss._settings import SETTINGS, MixerName, SchemeName
from linoss.cli._settings_page import settings_page
from linoss.dynamics import SCHEMES
from linoss.nn import MIXERS
from linoss.training import TrainingConfig

ROOT = Path(__file__).parent.parent
RECORDS = (LinOSSConfig, TrainingConfig, *SETTINGS.values())
Rate = Annotated[int | float, Setting("A rate.", within="[0, 1)")]


@dataclass(kw_only=True)
class Example:
    """An example."""

    count: Annotated[int, Setting("A number of things.", within="[1, inf)")]
    rate: Rate = 0.5
    size: Annotated[int | float | Literal["any"], Setting("A size.", within="(0, inf)")] = "any"
    limit: Rate | None = None
    kind: Annotated[Literal["a", "b"] | None, Setting("A kind.", none="all kinds")] = "a"
    scheme: Annotated[SchemeName, Setting("A scheme.")] = "im"
    flag: Annotated[bool, Setting("A flag.")] = False
    pair: Annotated[int | tuple[int, int], Setting("A pair.", within="[1, 9]", other="two")] = 1
    word: Annotated[str, Setting("Any text.")] = ""


VALUES = {
    "count": ([1, np.int32(7)], [0, -1, 1.0, "1", True, None, np.float64(1), (1,)]),
    "rate": ([0, 0.5, np.float32(0.25)], [1, -1e-9, float("nan"), "0", True, None, 1j]),
    "size": (["any", 1, 0.5], [0, float("inf"), "all", None]),
    "limit": ([None, 0.1], [1.0, "none"]),
    "kind": (["a", "b", None, np.str_("a")], ["c", "", 0, False]),
    "scheme": (["im", "exact"], ["euler", None]),
    "flag": ([True, np.bool_(False)], [0, 1, "no", None]),
    "pair": ([1, 9, (1, 9)], [0, 10, (0, 1), (1, 2, 3), (1.0, 2), [1, 2]]),
    "word": (["", "none"], [None, 3]),
}


@pytest.mark.parametrize("name", VALUES)
def test_values(name):
    setting = declared(Example)[name]
    good, bad = VALUES[name]
    for value in good:
        setting.check(value)
    for value in bad:
        with pytest.raises(ValueError, match=rf"^{name} is {re.escape(repr(value))}, expected "):
            setting.check(value)


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
    ],
)
def test_reading_a_word(name, text, value):
    found = declared(Example)[name].read(text)
    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("count", "3.0"),
        ("rate", "nan"),
        ("size", "9" * 400),
        ("kind", "c"),
        ("flag", "1"),
        ("size", ""),
    ],
)
def test_a_word_that_means_nothing(name, text):
    setting = declared(Example)[name]
    message = f"{text!r}, expected {setting.expected(plain=True)}"
    with pytest.raises(ValueError, match=re.escape(message)):
        setting.read(text)


def test_a_record_is_checked_by_name():
    check_settings(Example(count=1))
    with pytest.raises(ValueError, match=r"^rate is 2, expected a number in \[0, 1\)$"):
        check_settings(Example(count=1, rate=2))


def test_a_field_that_is_no_setting():
    @dataclass
    class Other:
        plain: int = 1

    with pytest.raises(TypeError, match=r"Other\.plain is not annotated with a Setting"):
        declared(Other)


def test_an_interval_that_is_none():
    with pytest.raises(ValueError, match="'0 to 1' is not an interval"):
        Declared("x", (int,), 0, Setting("", within="0 to 1")).check(1)


def test_values_that_two_records_share():
    @dataclass(kw_only=True)
    class Other:
        rate: Rate = 0.1
        more: Rate = 0.2

    assert shared_with(Example(count=1, rate=0.7), Other) == {"rate": 0.7}


def test_documentation():
    text = " ".join(documented(Example).__doc__.split())
    assert text.startswith("An example. **Arguments:** - `count`: A number of things. Expects a")
    assert "- `limit`: A rate. Expects None or a number in [0, 1); by default None, none." in text
    assert "- `kind`: A kind. Expects one of None, 'a', 'b'; by default 'a'." in text


# ---- All that are declared ----


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_declarations(record):
    """Help is a sentence, defaults and ranges of a search are among the values."""
    for setting in declared(record).values():
        assert setting.about.help.endswith(".")
        assert setting.about.help[0].isupper() or setting.about.help[0].isdigit()
        if not setting.required:
            setting.check(setting.default)
        for value in setting.about.search or ():
            setting.check(value)


def test_records_with_the_same_setting_share_its_declaration():
    found = {}
    for record in RECORDS:
        for name, setting in declared(record).items():
            assert found.setdefault(name, setting.about) == setting.about


CHOICES = [
    (name, choice)
    for name, setting in declared(LinOSSConfig).items()
    for choice in (*setting.choices, *([None] if setting.optional else []))
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

    def answers(key):
        return LinOSS(config, key=key)(np.ones((2, 5, 2)))

    found = eqx.filter_eval_shape(answers, jax.random.key(0))
    assert (found.shape[0], found.shape[-1]) == (2, 3)


def test_names_are_those_of_the_registries():
    assert get_args(SchemeName) == tuple(SCHEMES)
    assert get_args(MixerName) == tuple(MIXERS)


@pytest.mark.parametrize("module", [_declare, _plain, _settings])
def test_declarations_need_no_other_library(module):
    """So that a command can show its help without them."""
    tree = ast.parse(Path(module.__file__).read_text())
    names = {
        name.split(".")[0] if not name.startswith("linoss") else name
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert not names & {"numpy", "jax", "jaxtyping", "equinox", "sklearn", "optax"}
    allowed = {"linoss._declare", "linoss._plain"}
    assert {name for name in names if name.startswith("linoss")} <= allowed


def test_the_page_is_made_of_the_declarations():
    assert settings_page() == (ROOT / "docs" / "settings.md").read_text()


def test_the_presets_are_models():
    published = linoss.LinOSSConfig.published(in_size=1, out_size=1)
    assert published == LinOSSConfig(in_size=1, out_size=1)
    assert linoss.LinOSSConfig.published(in_size=1, out_size=1, task="regression", every=2).squash
