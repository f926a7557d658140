"""What a search tries: ranges as text and as Python."""

import itertools
import re

import pytest
from optuna.distributions import (
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from linoss import LinOSSClassifier, LinOSSForecaster
from linoss.search import default_ranges, make_space, parse_ranges
from paper.models import GRID, Hyperparameters


def space_of(text):
    """The one range of a text, for a classifier."""
    (values,) = make_space(parse_ranges([text]), LinOSSClassifier).values()
    return values


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("learning_rate=1e-4..1e-2", FloatDistribution(1e-4, 1e-2, log=True)),
        ("learning_rate=0.001..0.002", FloatDistribution(0.001, 0.002, log=False)),
        ("learning-rate=1..2", FloatDistribution(1.0, 2.0, log=False)),
        ("dropout=0..0.5", FloatDistribution(0.0, 0.5, log=False)),
        ("num_blocks=1..4", IntDistribution(1, 4, log=False)),
        ("hidden_size=8..128", IntDistribution(8, 128, log=True)),
        ("hidden_size=16, 64,128", CategoricalDistribution((16, 64, 128))),
        ("dropout=0,0.2", CategoricalDistribution((0.0, 0.2))),
        ("time_channel=yes,no", CategoricalDistribution((True, False))),
        ("damped=true,none", CategoricalDistribution((True, None))),
        ("norm=batch,none", CategoricalDistribution(("batch", None))),
        ("scheme=im", CategoricalDistribution(("im",))),
    ],
)
def test_a_range_in_words(text, expected):
    assert space_of(text) == expected


def test_a_range_in_python():
    space = make_space({"dropout": (0, 0.5), "hidden_size": [8, 16]}, LinOSSClassifier)
    assert space == {
        "dropout": FloatDistribution(0.0, 0.5, log=False),
        "hidden_size": CategoricalDistribution((8, 16)),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hidden_size", "is invalid, expected one such as learning_rate="),
        ("hidden_size=", "is invalid"),
        ("=3,4", "is invalid"),
        (
            "width=3,4",
            "the range of 'width' is not that of a parameter, expected one of hidden_size",
        ),
        ("verbose=0,1", "is not that of a parameter"),
        ("model_options=1,2", "is not that of a parameter"),
        ("random_state=1,2", "random_state cannot be searched: it determines how trials are"),
        ("validation_fraction=0.1..0.3", "cannot be searched"),
        ("hidden_size=64..16", "expected a lower bound first"),
        ("hidden_size=16..16", "expected a lower bound first"),
        ("hidden_size=1.5..3", "is '1.5', expected an integer >= 1"),
        ("hidden_size=16,many", "is 'many', expected an integer >= 1"),
        ("hidden_size=16,16", "expected LOW..HIGH, or different values"),
        ("learning_rate=1e-3..inf", "is 'inf', expected a finite number > 0"),
        ("learning_rate=low..high", "is 'low', expected a finite number > 0"),
        ("learning_rate=none,1e-3", "is 'none', expected a finite number > 0"),
        ("time_channel=0,1", "is '0', expected yes or no"),
        ("patience=none..3", "expected numbers as bounds"),
        ("dropout=0..2", "is '2', expected a number in [0, 1)"),
        ("scheme=im,euler", "is 'euler', expected one of"),
        ("scheme=1..3", "expected a list of values: it is no number"),
    ],
)
def test_a_range_that_cannot_be(text, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        space_of(text)


def test_a_parameter_has_one_range_and_a_search_something_to_search():
    with pytest.raises(ValueError, match="there are two ranges of dropout"):
        parse_ranges(["dropout=0,0.1", "dropout=0.2,0.3"])
    with pytest.raises(ValueError, match="there is nothing to search"):
        make_space({}, LinOSSClassifier)


@pytest.mark.parametrize("kind", [LinOSSClassifier, LinOSSForecaster])
@pytest.mark.parametrize("named", ["paper", None])
def test_usual_ranges_are_ranges(kind, named):
    assert make_space(default_ranges(kind, named, ()), kind)


def test_the_grid_is_the_papers():
    ranges = default_ranges(LinOSSClassifier, "paper", ())
    names = [{"time_channel": "include_time"}.get(name, name) for name in ranges]
    points = itertools.product(*ranges.values())
    assert {Hyperparameters(**dict(zip(names, p, strict=True))) for p in points} == set(GRID)
    assert len(GRID) == 162
