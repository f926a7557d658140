"""Dataclasses of dataclasses as plain values and arrays, and back."""

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from linoss._plain import plain


def packed(value: Any, name: str, arrays: dict[str, np.ndarray]) -> Any:
    """Plain values; arrays are added to `arrays`, named by their place."""
    if isinstance(value, np.ndarray):
        numbers = value.astype(np.int64) if value.dtype.kind == "M" else value
        arrays[name] = np.ascontiguousarray(numbers)
        return value.dtype.str
    if isinstance(value, np.timedelta64):
        return [value.dtype.str, int(value.astype(np.int64))]
    if is_dataclass(value):
        each = ((field.name, getattr(value, field.name)) for field in fields(value))
        return {own: packed(entry, f"{name}.{own}", arrays) for own, entry in each}
    if isinstance(value, list | tuple):
        return [packed(entry, f"{name}.{i}", arrays) for i, entry in enumerate(value)]
    return plain(value)


def unpacked(kind: Any, value: Any, name: str, arrays: dict[str, np.ndarray]) -> Any:
    """The inverse of `packed` for an annotated type. Raises for values of other types."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return None if value is None else unpacked(inner[0], value, name, arrays)
    if kind is np.ndarray:
        is_date = np.dtype(value).kind == "M"
        return arrays[name].astype(value) if is_date else arrays[name]
    if is_dataclass(kind):
        make: Any = kind
        hints = get_type_hints(kind)
        each = {f.name: unpacked(hints[f.name], value[f.name], f"{name}.{f.name}", arrays)
                for f in fields(kind)}  # fmt: skip
        return make(**each)
    if origin in (list, tuple, Sequence):
        several = [unpacked(inner[0], x, f"{name}.{i}", arrays) for i, x in enumerate(value)]
        return several if origin is list else tuple(several)
    if kind is Any:
        return np.array(value[1]).astype(value[0])[()] if isinstance(value, list) else value
    expected = inner if origin is Literal else None
    if expected is None and not isinstance(
        value, (float, int) if kind is float else origin or kind
    ):
        raise ValueError(f"{name} is {value!r}, expected {kind}")
    if expected is not None and value not in expected:
        raise ValueError(f"{name} is {value!r}, expected one of {expected}")
    return value
