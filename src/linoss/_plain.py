"""Plain JSON values: conversion, comparison and checksums.

This module does not import NumPy, so that commands refuse wrong options without it.
"""

import dataclasses
import hashlib
import json
import math
from typing import Any, NamedTuple


def scalar(value: Any) -> Any:
    """A NumPy scalar as a Python number; other values unchanged."""
    return value.item() if getattr(value, "shape", None) == () else value


def plain(value: Any, *, lenient: bool = False) -> Any:
    """Convert to plain JSON values: NumPy scalars and arrays to Python's, tuples to lists, and
    dataclasses to dictionaries of their fields.

    Other types raise `TypeError`. With `lenient` they become text, and numbers that are not finite,
    which JSON cannot represent, become None.
    """
    if hasattr(value, "tolist") and not isinstance(value, type):  # NumPy's types have it, too
        value = value.tolist()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
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
    """A differing entry of nested dictionaries."""

    path: tuple[str, ...]
    """The keys that lead to it."""
    before: Any
    now: Any


def first_difference(before: Any, now: Any, path: tuple[str, ...] = ()) -> Difference | None:
    """The first difference between two plain values; a missing entry equals None."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in dict.fromkeys((*now, *before)):
            difference = first_difference(before.get(key), now.get(key), (*path, key))
            if difference is not None:
                return difference
        return None
    return None if before == now else Difference(path, before, now)


def canonical(record: dict[str, Any]) -> bytes:
    """A dictionary as JSON that does not depend on the order of its entries."""
    return json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def with_checksum(record: dict[str, Any]) -> dict[str, Any]:
    """A dictionary with the checksum of its content as an additional entry, `sha256`."""
    return {**record, "sha256": hashlib.sha256(canonical(record)).hexdigest()}


def without_checksum(record: dict[str, Any]) -> dict[str, Any] | None:
    """The inverse of `with_checksum`; None if the content does not match the checksum."""
    content = {name: value for name, value in record.items() if name != "sha256"}
    try:
        return content if record == with_checksum(content) else None
    except (ValueError, RecursionError):  # numbers that are not finite, or too deeply nested
        return None
