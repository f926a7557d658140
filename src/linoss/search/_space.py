"""The space of a search: ranges of parameters, from text or Python values, for Optuna."""

import itertools
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from types import NoneType
from typing import Any

import numpy as np

from linoss import _extras
from linoss._declare import Declared, declared
from linoss._plain import scalar

extra = partial(_extras.optional, purpose="a search", extra="search")

PAPER: dict[str, Any] = {
    "learning_rate": [1e-5, 1e-4, 1e-3],
    "num_blocks": [2, 4, 6],
    "hidden_size": [16, 64, 128],
    "state_size": [16, 64, 256],
    "time_channel": [True, False],
}
"""The grid of the paper."""
_DECIDE_THE_SCORE = frozenset(
    {"validation_fraction", "random_state", "horizon", "every", "evaluate_every"}
)
_PLAIN = (int, float, str, bool, NoneType)
_EXAMPLE = "such as learning_rate=1e-4..1e-2 or hidden_size=16,64,128"


Space = dict[str, Any]
"""Optuna's distribution of each parameter."""


def parse_ranges(texts: Iterable[str]) -> dict[str, str]:
    """Parse texts `NAME=VALUES` into a dictionary.

    ```python
    >>> from linoss.search import parse_ranges
    >>> parse_ranges(["hidden_size=16,64", "learning-rate=1e-4..1e-2"])
    {'hidden_size': '16,64', 'learning_rate': '1e-4..1e-2'}

    ```
    """
    ranges: dict[str, str] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not name.isidentifier() or not values.strip():
            raise ValueError(f"the range {text!r} is invalid, expected one {_EXAMPLE}")
        if name in ranges:
            raise ValueError(f"there are two ranges of {name}, expected one; join their values")
        ranges[name] = values.strip()
    return ranges


def make_space(ranges: Mapping[str, Any], kind: type) -> Space:
    """Parse the ranges of a caller into a search space for the parameters of an estimator.

    ```python
    >>> from linoss import LinOSSClassifier
    >>> from linoss.search._space import make_space
    >>> space = make_space({"hidden_size": [8, 16], "dropout": "0..0.5"}, LinOSSClassifier)
    >>> space["hidden_size"], space["dropout"].high
    (CategoricalDistribution(choices=(8, 16)), 0.5)

    ```
    """
    known = {name: setting for name, setting in declared(kind).items() if _searchable(setting)}
    space: Space = {}
    for name, given in ranges.items():
        if name in _DECIDE_THE_SCORE:
            raise ValueError(f"{name} cannot be searched: it determines how trials are compared")
        if name not in known:
            listed = ", ".join(known)
            raise ValueError(
                f"the range of {name!r} is not that of a parameter, expected one of {listed}"
            )
        space[name] = _range(known[name], given)
    if not space:
        raise ValueError(f"there is nothing to search, expected ranges, {_EXAMPLE}")
    return space


def default_ranges(kind: type, named: str | None, fixed: Collection[str]) -> dict[str, Any]:
    """The default ranges of a search for a class of estimators, or those `named` `"paper"`, without
    the parameters that are `fixed`.

    ```python
    >>> from linoss import LinOSSClassifier
    >>> from linoss.search import default_ranges
    >>> sizes = ["num_blocks", "hidden_size", "state_size"]
    >>> default_ranges(LinOSSClassifier, "paper", fixed=sizes)
    {'learning_rate': [1e-05, 0.0001, 0.001], 'time_channel': [True, False]}

    ```
    """
    usual = {name: setting.about.search for name, setting in declared(kind).items()}
    ranges = PAPER if named == "paper" else {n: s for n, s in usual.items() if s is not None}
    return {name: values for name, values in ranges.items() if name not in fixed}


def grid_points(space: Space, seed: int) -> list[dict[str, Any]]:
    """Every combination of lists of values, in an order drawn from the seed."""
    for name, values in space.items():
        if not hasattr(values, "choices"):
            raise ValueError(f"a grid needs lists of values, but {name} is a range; list some")
    lists = [values.choices for values in space.values()]
    points = [dict(zip(space, point, strict=True)) for point in itertools.product(*lists)]
    return [points[i] for i in np.random.default_rng(seed).permutation(len(points))]


def described(space: Space) -> dict[str, Any]:
    """The space for JSON: lists, or low, high and whether logarithmic."""
    return {
        name: list(values.choices)
        if hasattr(values, "choices")
        else {"low": values.low, "high": values.high, "log": values.log}
        for name, values in space.items()
    }


def _searchable(setting: Declared) -> bool:
    """Whether a setting can be searched: it has numbers, names, booleans or None as values, or a
    choice of names beside objects."""
    plain = all(isinstance(kind, str) or kind in _PLAIN for kind in setting.kinds)
    named = plain or len(setting.choices) > 1
    return named and setting.name not in _DECIDE_THE_SCORE | {"verbose"}


def _range(setting: Declared, given: Any) -> Any:
    """Optuna's distribution of a list of values, or of a low and a high one."""
    kinds, name = extra("optuna").distributions, f"the range of {setting.name}"
    ends = tuple(given.split("..", 1)) if isinstance(given, str) and ".." in given else given
    values = ends.split(",") if isinstance(ends, str) else ends
    if isinstance(ends, tuple) and len(ends) == 2:
        if not {int, float} & set(setting.kinds):
            raise ValueError(f"{name} is {given!r}, expected a list of values: it is no number")
        low, high = (_value(setting, end, is_text=isinstance(given, str)) for end in ends)
        if any(isinstance(end, str | None) for end in (low, high)):
            raise ValueError(f"{name} is {given!r}, expected numbers as bounds")
        if not low < high:
            raise ValueError(f"{name} is {given!r}, expected a lower bound first")
        kind = kinds.IntDistribution if isinstance(low, int) else kinds.FloatDistribution
        return kind(low, high, log=low > 0 and high >= 10 * low)
    if isinstance(values, list | tuple) and values:
        chosen = tuple(_value(setting, x, is_text=isinstance(given, str)) for x in values)
        if len({(type(value), value) for value in chosen}) == len(chosen):
            return kinds.CategoricalDistribution(chosen)
    raise ValueError(
        f"{name} is {given!r}, expected LOW..HIGH, or different values with commas, {_EXAMPLE}; "
        "in Python (low, high), or a list"
    )


def _value(setting: Declared, value: Any, *, is_text: bool) -> Any:
    """Validate a value, or parse that of a command line; numbers get the setting's type."""
    if is_text:
        try:
            return setting.read(value.strip())
        except ValueError as error:
            raise ValueError(f"a value in the range of {error}") from None
    value = scalar(value)
    if not setting.allows(value) or not isinstance(value, _PLAIN):
        expected = setting.expected()
        raise ValueError(f"the range of {setting.name} has {value!r}, expected {expected}")
    return float(value) if type(value) is int and float in setting.kinds else value
