"""The space of a search: ranges of parameters, from text or Python values, for Optuna."""

import itertools
from collections.abc import Collection, Iterable, Mapping
from types import NoneType
from typing import Any

import numpy as np

from linoss._declare import Declared, declared
from linoss._plain import scalar
from linoss.search._storage import extra

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
    """The default ranges of a search, without fixed parameters.

    **Arguments:**

    - `kind`: the class of the estimator.
    - `named`: `"paper"` for the grid of the paper.
    - `fixed`: parameters that are not searched.

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
            raise ValueError(
                f"a grid needs lists of values, but {name} is from {values.low} to {values.high}; "
                f"list some, such as {name}={values.low},{values.high}"
            )
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


# ---- Values ----


def _searchable(setting: Declared) -> bool:
    """Whether a setting can be searched: it has numbers, names, booleans or None as values, or a
    choice of names beside objects."""
    plain = all(isinstance(kind, str) or kind in _PLAIN for kind in setting.kinds)
    named = plain or len(setting.choices) > 1
    return named and setting.name not in _DECIDE_THE_SCORE | {"verbose"}


def _range(setting: Declared, given: Any) -> Any:
    if isinstance(given, str):
        if ".." in given:
            low, _, high = given.partition("..")
            return _span(setting, low, high, given)
        given = [_read(setting, part) for part in given.split(",")]
    if isinstance(given, tuple) and len(given) == 2:
        return _span(setting, *given, given)
    if isinstance(given, list | tuple) and given:
        values = tuple(_checked(setting, value) for value in given)
        if len({(type(value), value) for value in values}) == len(values):
            return extra("optuna").distributions.CategoricalDistribution(values)
    raise ValueError(
        f"the range of {setting.name} is {given!r}, expected LOW..HIGH, or different values with "
        f"commas, {_EXAMPLE}; in Python (low, high), or a list"
    )


def _span(setting: Declared, low: Any, high: Any, given: Any) -> Any:
    if not {int, float} & set(setting.kinds):
        raise ValueError(
            f"the range of {setting.name} is {given!r}, expected a list of values: it is no number"
        )
    read = _read if isinstance(given, str) else _checked
    low, high = read(setting, low), read(setting, high)
    if any(isinstance(bound, str | None) for bound in (low, high)):
        raise ValueError(f"the range of {setting.name} is {given!r}, expected numbers as bounds")
    if not low < high:
        raise ValueError(f"the range of {setting.name} is {given!r}, expected a lower bound first")
    kinds = extra("optuna").distributions
    kind = kinds.IntDistribution if isinstance(low, int) else kinds.FloatDistribution
    return kind(low, high, log=low > 0 and high >= 10 * low)


def _checked(setting: Declared, value: Any) -> Any:
    """Validate a value, and convert numbers to the setting's type."""
    value = scalar(value)
    if not setting.allows(value) or not isinstance(value, _PLAIN):
        expected = setting.expected()
        raise ValueError(f"the range of {setting.name} has {value!r}, expected {expected}")
    return float(value) if type(value) is int and float in setting.kinds else value


def _read(setting: Declared, text: str) -> Any:
    """Parse a value of a command line."""
    try:
        return setting.read(text.strip())
    except ValueError as error:
        raise ValueError(f"a value in the range of {error}") from None
