"""Validation of arguments. Each function raises a `ValueError` that names the argument."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax import Array

AnyArray = Array | np.ndarray
"""Arrays that callers may pass."""


def is_concrete(value: Any) -> bool:
    """Whether `value` is concrete, that is, not traced."""
    return not isinstance(value, jax.core.Tracer)


def floating(name: str, value: Any) -> Array:
    """Convert numbers and floating-point arrays to a JAX array; raise for other arrays.

    A concrete value stays concrete, even under `jax.jit`.
    """
    if isinstance(value, list | tuple | int | float) and not isinstance(value, bool):
        try:  # a single number stays weakly typed
            value = np.asarray(value, float)
            with jax.ensure_compile_time_eval():
                value = jnp.asarray(value.item() if value.ndim == 0 else value)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name} must be numbers in a regular array: {error}") from None
    dtype = getattr(value, "dtype", None)
    if dtype is None or not jnp.issubdtype(dtype, jnp.floating):
        actual = type(value).__name__ if dtype is None else f"dtype {dtype}"
        raise ValueError(
            f"{name} has {actual}, expected a floating-point array; convert it with "
            f"`{name}.astype('float32')`"
        )
    if not is_concrete(value):
        return jnp.asarray(value)
    with jax.ensure_compile_time_eval():
        return jnp.asarray(value)


def boolean(name: str, value: Any) -> None:
    """Raise unless `value` is an array of bool."""
    dtype = getattr(value, "dtype", None)
    if dtype is None or not jnp.issubdtype(dtype, jnp.bool_):
        actual = type(value).__name__ if dtype is None else f"dtype {dtype}"
        raise ValueError(f"{name} has {actual}, expected an array of bool")


def nonnegative(name: str, value: Array, *, allow_zero: bool = True) -> None:
    """Raise if a concrete value has negative (or zero), infinite or NaN entries."""
    if not is_concrete(value):
        return
    entries = np.asarray(value)
    good = np.isfinite(entries) & ((entries >= 0) if allow_zero else (entries > 0))
    if not good.all():
        index = tuple(int(i) for i in np.argwhere(~good)[0])
        where = f" at index {index}" if index else ""
        wanted = "finite and >= 0" if allow_zero else "finite and > 0"
        raise ValueError(f"{name} is {entries[index]!s}{where}, expected every entry {wanted}")


def shape(name: str, value: Any, expected: tuple[int | str, ...]) -> None:
    """Raise for another shape. In `expected`, a string is any size, a leading "..." any axes."""
    actual = tuple(np.shape(value))
    fixed = expected[1:] if expected[:1] == ("...",) else expected
    tail = actual[len(actual) - len(fixed) :] if len(actual) >= len(fixed) else None
    rank_fits = tail is not None and (len(actual) == len(fixed) or fixed is not expected)
    sizes_fit = rank_fits and all(
        isinstance(want, str) or want == size for want, size in zip(fixed, tail or (), strict=True)
    )
    if not sizes_fit:
        wanted = ", ".join(str(axis) for axis in expected)
        comma = "," if len(expected) == 1 else ""
        raise ValueError(f"{name} has shape {actual}, expected ({wanted}{comma})")


def one_of(name: str, value: Any, choices: Iterable[Any]) -> None:
    """Raise unless the value is one of the choices."""
    choices = list(choices)
    if not isinstance(value, str | int | float | bool | None) or value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name} is {value!r}, expected one of {listed}")


def positive_integer(name: str, value: Any) -> None:
    """Raise unless the value is an integer >= 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} is {value!r}, expected an integer >= 1")


def number(name: str, value: Any, expected: str, condition: Callable[[float], bool]) -> None:
    """Raise unless the value is a number that satisfies the condition."""
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not is_number or not condition(float(value)):
        raise ValueError(f"{name} is {value!r}, expected {expected}")


def positive_number(name: str, value: Any) -> None:
    """Raise unless the value is a finite number above 0."""
    number(name, value, "a finite number > 0", lambda x: 0 < x < math.inf)


def random_key(name: str, value: Any) -> None:
    """Raise unless the value is a single JAX random key."""
    dtype = getattr(value, "dtype", None)
    new = dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key) and value.ndim == 0
    old = dtype == jnp.uint32 and value.shape == (2,)
    if not (new or old):
        raise ValueError(f"{name} is {value!r}, expected a key, such as jax.random.key(0)")


def boolean_option(name: str, value: Any) -> None:
    """Raise unless the value is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} is {value!r}, expected True or False")
