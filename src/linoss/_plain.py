"""Plain JSON values: made from other values, and compared."""

import math
from typing import Any, NamedTuple

import numpy as np


def plain(value: Any, *, lenient: bool = False) -> Any:
    """`value` as JSON holds it: NumPy's numbers and arrays as Python's, tuples as lists.

    Other types raise a `TypeError`. With `lenient` they become text, and numbers that are not
    finite, for which JSON has no word, become None.

    ```python
    >>> import numpy as np
    >>> from linoss._plain import plain
    >>> plain({"sizes": (1, np.int64(2)), 3: np.ones(2)})
    {'sizes': [1, 2], '3': [1.0, 1.0]}
    >>> plain([float("nan"), int], lenient=True)
    [None, "<class 'int'>"]

    ```
    """
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): plain(entry, lenient=lenient) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry, lenient=lenient) for entry in value]
    if lenient and isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, str | int | float | None):
        return value
    if lenient:
        return str(value)
    raise TypeError(f"{value!r} cannot be written as JSON")


class Difference(NamedTuple):
    """An entry of nested dictionaries that differs."""

    path: tuple[str, ...]
    """The keys that lead to it."""
    before: Any
    now: Any


def first_difference(before: Any, now: Any, path: tuple[str, ...] = ()) -> Difference | None:
    """The first entry in which two plain values differ; a missing entry equals None.

    ```python
    >>> from linoss._plain import first_difference
    >>> first_difference({"model": {"size": 4, "norm": None}}, {"model": {"size": 5}})
    Difference(path=('model', 'size'), before=4, now=5)

    ```
    """
    if isinstance(before, dict) and isinstance(now, dict):
        for key in dict.fromkeys((*now, *before)):
            found = first_difference(before.get(key), now.get(key), (*path, key))
            if found is not None:
                return found
        return None
    return None if before == now else Difference(path, before, now)
