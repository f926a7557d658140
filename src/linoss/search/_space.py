"""The space of a search: ranges of parameters, from text or Python values, for Optuna."""

import inspect
import itertools
import math
import types
import typing
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from linoss.search._extra import extra

PAPER: dict[str, Any] = {
    "learning_rate": [1e-5, 1e-4, 1e-3],
    "num_blocks": [2, 4, 6],
    "hidden_size": [16, 64, 128],
    "state_size": [16, 64, 256],
    "time_channel": [True, False],
}
"""The grid of the paper's own search."""
DEFAULT: dict[str, Any] = {
    "learning_rate": (3e-4, 1e-2),
    "hidden_size": [16, 32, 64, 128],
    "state_size": [16, 32, 64, 128],
    "num_blocks": (1, 4),
    "dropout": (0.0, 0.3),
}
"""The ranges by default."""
_DECIDE_THE_SCORE = frozenset(
    {"validation_fraction", "random_state", "horizon", "every", "evaluate_every"}
)
_WORDS = {"yes": True, "true": True, "no": False, "false": False, "none": None}
_EXAMPLE = "such as learning_rate=1e-4..1e-2 or hidden_size=16,64,128"


@dataclass(frozen=True)
class Values:
    """A choice among values."""

    values: tuple[Any, ...]

    def distribution(self) -> Any:
        """For Optuna."""
        return extra("optuna").distributions.CategoricalDistribution(self.values)


@dataclass(frozen=True)
class Span:
    """A number from `low` to `high`, integers if both are; with `log`, uniform in the logarithm."""

    low: int | float
    high: int | float
    log: bool

    def distribution(self) -> Any:
        """For Optuna."""
        kinds = extra("optuna").distributions
        kind = kinds.IntDistribution if isinstance(self.low, int) else kinds.FloatDistribution
        return kind(self.low, self.high, log=self.log)


Range = Values | Span
Space = dict[str, Range]


def parse_ranges(texts: Iterable[str]) -> dict[str, str]:
    """Split texts `NAME=VALUES` into a dictionary.

    ```python
    >>> from linoss.search import parse_ranges
    >>> parse_ranges(["hidden_size=16,64", "learning-rate=1e-4..1e-2"])
    {'hidden_size': '16,64', 'learning_rate': '1e-4..1e-2'}

    ```
    """
    found: dict[str, str] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not name.isidentifier() or not values.strip():
            raise ValueError(f"the range {text!r} cannot be understood, expected one {_EXAMPLE}")
        if name in found:
            raise ValueError(f"there are two ranges of {name}, expected one; join their values")
        found[name] = values.strip()
    return found


def make_space(ranges: Mapping[str, Any], kind: type) -> Space:
    """The space of ranges as a caller writes them, for the parameters of an estimator.

    ```python
    >>> from linoss import LinOSSClassifier
    >>> from linoss.search._space import make_space
    >>> space = make_space({"hidden_size": [8, 16], "dropout": "0..0.5"}, LinOSSClassifier)
    >>> space["hidden_size"], space["dropout"]
    (Values(values=(8, 16)), Span(low=0.0, high=0.5, log=False))

    ```
    """
    known = {n: p for n, p in inspect.signature(kind).parameters.items() if n != "verbose"}
    space: Space = {}
    for name, given in ranges.items():
        types_ = _types(known[name].annotation) if name in known else set()
        if name in _DECIDE_THE_SCORE:
            raise ValueError(f"{name} cannot be searched: it decides what trials are compared by")
        if not types_:
            searched = (n for n, p in known.items() if _types(p.annotation))
            listed = ", ".join(n for n in searched if n not in _DECIDE_THE_SCORE)
            raise ValueError(f"the range of {name!r} is of no parameter, expected one of {listed}")
        space[name] = _range(name, given, types_)
    if not space:
        raise ValueError(f"there is nothing to search, expected ranges, {_EXAMPLE}")
    return space


def default_ranges(named: str | None, fixed: Collection[str]) -> dict[str, Any]:
    """The ranges of a search that names none, without the parameters that are fixed.

    **Arguments:**

    - `named`: `"paper"` for the grid of the paper.
    - `fixed`: parameters that are not searched.

    ```python
    >>> from linoss.search import default_ranges
    >>> default_ranges("paper", fixed=["num_blocks", "hidden_size", "state_size"])
    {'learning_rate': [1e-05, 0.0001, 0.001], 'time_channel': [True, False]}

    ```
    """
    ranges = PAPER if named == "paper" else DEFAULT
    return {name: values for name, values in ranges.items() if name not in fixed}


def grid_points(space: Space, seed: int) -> list[dict[str, Any]]:
    """Every combination of lists of values, in an order drawn from the seed."""
    for name, values in space.items():
        if isinstance(values, Span):
            raise ValueError(
                f"a grid needs lists of values, but {name} is from {values.low} to {values.high}; "
                f"list some, such as {name}={values.low},{values.high}"
            )
    lists = [values.values for values in space.values() if isinstance(values, Values)]
    points = [dict(zip(space, point, strict=True)) for point in itertools.product(*lists)]
    return [points[i] for i in np.random.default_rng(seed).permutation(len(points))]


def described(space: Space) -> dict[str, Any]:
    """The space for JSON: lists, or low, high and whether logarithmic."""
    return {
        name: list(values.values) if isinstance(values, Values) else asdict(values)
        for name, values in space.items()
    }


# ---- Values ----


def _types(annotation: Any) -> set[type]:
    """The types of a parameter; empty if a search cannot vary it."""
    union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    parts = set(typing.get_args(annotation)) if union else {annotation}
    found = parts & {int, float, str, bool}
    if not found or parts - found - {type(None)}:
        return set()
    return parts


def _range(name: str, given: Any, allowed: set[type]) -> Range:
    if isinstance(given, Values | Span):
        return given
    if isinstance(given, str):
        if ".." in given:
            low, _, high = given.partition("..")
            return _span(name, _value(low), _value(high), allowed, given)
        given = [_value(part) for part in given.split(",")]
    if isinstance(given, tuple) and len(given) == 2:
        return _span(name, *given, allowed, given)
    if isinstance(given, list | tuple) and given:
        values = tuple(_checked(name, value, allowed) for value in given)
        if len({(type(value), value) for value in values}) == len(values):
            return Values(values)
    raise ValueError(
        f"the range of {name} is {given!r}, expected LOW..HIGH, or different values with commas, "
        f"{_EXAMPLE}; in Python (low, high), or a list"
    )


def _span(name: str, low: Any, high: Any, allowed: set[type], given: Any) -> Span:
    if not allowed & {int, float}:
        raise ValueError(
            f"the range of {name} is {given!r}, expected a list of values: it is no number"
        )
    low, high = (_checked(name, bound, allowed - {type(None), bool, str}) for bound in (low, high))
    if not low < high:
        raise ValueError(f"the range of {name} is {given!r}, expected a lower bound first")
    return Span(low, high, log=low > 0 and high >= 10 * low)


def _checked(name: str, value: Any, allowed: set[type]) -> Any:
    """The value, if its type is one of the parameter's."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        pass
    elif type(value) in allowed:
        return value
    elif type(value) is int and float in allowed:
        return float(value)
    names = {int: "whole numbers", float: "numbers", bool: "yes or no", str: "names"}
    wanted = " or ".join(text for kind, text in names.items() if kind in allowed)
    raise ValueError(f"the range of {name} has {value!r}, expected {wanted}")


def _value(text: str) -> Any:
    """The value that a word stands for."""
    text = text.strip()
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
