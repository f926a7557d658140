"""What a search tries: ranges as text and as Python."""

import re

import pytest

from linoss import LinOSSClassifier, LinOSSForecaster
from linoss.search import _space
from linoss.search._space import Span, Values, default_ranges, grid_points, make_space, parse_ranges
from paper.models import GRID, Hyperparameters


def space_of(text):
    """The one range of a text, for a classifier."""
    (values,) = make_space(parse_ranges([text]), LinOSSClassifier).values()
    return values


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("learning_rate=1e-4..1e-2", Span(1e-4, 1e-2, log=True)),
        ("learning_rate=0.001..0.002", Span(0.001, 0.002, log=False)),
        ("learning-rate=1..2", Span(1.0, 2.0, log=False)),
        ("dropout=0..0.5", Span(0.0, 0.5, log=False)),
        ("num_blocks=1..4", Span(1, 4, log=False)),
        ("hidden_size=8..128", Span(8, 128, log=True)),
        ("hidden_size=16, 64,128", Values((16, 64, 128))),
        ("dropout=0,0.2", Values((0.0, 0.2))),
        ("time_channel=yes,no", Values((True, False))),
        ("damped=true,none", Values((True, None))),
        ("norm=batch,none", Values(("batch", None))),
        ("scheme=im", Values(("im",))),
    ],
)
def test_a_range_in_words(text, expected):
    assert space_of(text) == expected


def test_a_range_in_python():
    space = make_space({"dropout": (0, 0.5), "hidden_size": [8, 16]}, LinOSSClassifier)
    assert space == {"dropout": Span(0.0, 0.5, log=False), "hidden_size": Values((8, 16))}


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
        ("hidden_size=1.5..3", "has '1.5', expected an integer >= 1"),
        ("hidden_size=16,many", "has 'many', expected an integer >= 1"),
        ("hidden_size=16,16", "expected LOW..HIGH, or different values"),
        ("learning_rate=1e-3..inf", "has 'inf', expected a finite number > 0"),
        ("learning_rate=low..high", "has 'low', expected a finite number > 0"),
        ("learning_rate=none,1e-3", "has 'none', expected a finite number > 0"),
        ("time_channel=0,1", "has '0', expected yes or no"),
        ("patience=none..3", "expected numbers as bounds"),
        ("dropout=0..2", "has '2', expected a number in [0, 1)"),
        ("scheme=im,euler", "has 'euler', expected one of"),
        ("scheme=1..3", "expected a list of values: it is no number"),
    ],
)
def test_a_range_that_cannot_be(text, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        space_of(text)


def test_a_parameter_has_one_range():
    with pytest.raises(ValueError, match="there are two ranges of dropout"):
        parse_ranges(["dropout=0,0.1", "dropout=0.2,0.3"])


def test_a_search_needs_something_to_search():
    with pytest.raises(ValueError, match="there is nothing to search"):
        make_space({}, LinOSSClassifier)


@pytest.mark.parametrize("kind", [LinOSSClassifier, LinOSSForecaster])
@pytest.mark.parametrize("named", ["paper", None])
def test_usual_ranges_are_ranges(kind, named):
    assert make_space(default_ranges(named, ()), kind)


def test_what_is_fixed_is_not_searched():
    assert "dropout" not in default_ranges(None, {"dropout"})


def test_the_grid_is_the_papers():
    points = grid_points(make_space(_space.PAPER, LinOSSClassifier), seed=0)
    names = {"time_channel": "include_time"}
    found = {
        Hyperparameters(**{names.get(name, name): value for name, value in point.items()})
        for point in points
    }
    assert found == set(GRID)
    assert len(points) == 162


def test_the_order_of_a_grid_is_a_function_of_the_seed():
    space = make_space({"hidden_size": [8, 16, 32], "dropout": [0.0, 0.1]}, LinOSSClassifier)
    first, again, other = (grid_points(space, seed) for seed in (3, 3, 4))
    assert first == again
    assert first != other
    assert sorted(map(str, first)) == sorted(map(str, other))


def test_a_grid_is_of_lists():
    space = make_space({"dropout": (0.0, 0.5)}, LinOSSClassifier)
    with pytest.raises(ValueError, match="a grid needs lists of values, but dropout is"):
        grid_points(space, 0)
