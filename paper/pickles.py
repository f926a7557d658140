"""Reading pickles of NumPy arrays without executing their code.

A pickle is a program. This reader accepts only the few names that arrays use, and substitutes its
own records for them: no function of NumPy or Python is called. It reads what Python 2, and Python 3
by protocols 3 and 4, write.
"""

import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np

from linoss.data import DataError

_NUMBERS = re.compile(r"[biuf][1248]")


class _Type:
    """The record of a dtype in a pickle."""

    code: Any = None
    order: Any = "="

    def __init__(self, code: Any, *rest: Any):
        self.code = code

    def __setstate__(self, state: Any) -> None:
        self.order = state[1]

    def dtype(self) -> np.dtype[Any]:
        if not isinstance(self.code, str) or not _NUMBERS.fullmatch(self.code):
            raise DataError(f"an array has type {self.code!r}, expected numbers")
        if self.order not in ("<", ">", "=", "|"):
            raise DataError(f"an array has byte order {self.order!r}, expected < or >")
        return np.dtype(self.order + self.code)


class Pickled:
    """The record of an array in a pickle; `array` converts it to an array."""

    state: Any = None

    def __init__(self, *rest: Any):
        """Accepts the arguments that NumPy passes; the content comes with the state."""

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def array(self) -> np.ndarray:
        """The array. Raises ValueError if it is not one of numbers."""
        try:
            _, shape, kind, column_major, content = self.state
        except (TypeError, ValueError):
            raise DataError("an array has no content, expected a shape, a type and bytes") from None
        if not isinstance(kind, _Type) or not isinstance(content, (bytes, str)):
            raise DataError("an array has content of another kind, expected the bytes of numbers")
        dtype, order = kind.dtype(), "F" if column_major else "C"
        try:
            if isinstance(content, str):  # of Python 2
                content = content.encode("latin1")
            return np.frombuffer(content, dtype).reshape(shape, order=order)
        except (TypeError, ValueError) as error:
            raise DataError(f"an array does not fit its content ({error})") from None


class _Class:
    """Represents the class of arrays, which a pickle may name, but not call or change."""

    def __new__(cls, *rest: Any) -> Any:
        raise pickle.UnpicklingError("makes an array in another way than NumPy does")

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError("changes a class")


_KNOWN: dict[tuple[str, str], Any] = {
    ("numpy", "dtype"): _Type,
    ("numpy", "ndarray"): _Class,
    **{
        (module, name): Pickled
        for module in ("numpy.core.multiarray", "numpy._core.multiarray")
        for name in ("_reconstruct", "scalar")
    },
}


class _Reader(pickle.Unpickler):
    """An unpickler that accepts only arrays."""

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        """The record that represents a name."""
        try:
            return _KNOWN[module_name, global_name]
        except KeyError:
            raise pickle.UnpicklingError(
                f"asks for {module_name}.{global_name}, which is no part of an array"
            ) from None


def read_pickle(path: Path) -> Any:
    """The plain values of a pickle, with [`Pickled`][] for arrays.

    Raises for a pickle that refers to anything else, before executing it.
    """
    try:
        with path.open("rb") as file:
            return _Reader(file, encoding="latin1").load()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
    except Exception as error:
        # Damaged bytes can raise any error.
        reason = str(error) or type(error).__name__
        raise DataError(
            f"{path}: is not read: {reason}; expected a pickle of NumPy arrays, and nothing else"
        ) from None


def array_at(path: Path, content: Any, *names: str) -> np.ndarray:
    """The array at a path in nested dicts."""
    for name in names:
        if not isinstance(content, dict) or name not in content:
            raise DataError(f"{path}: has no {'/'.join(names)}, expected an array there")
        content = content[name]
    if not isinstance(content, Pickled):
        raise DataError(f"{path}: {'/'.join(names)} is no array, expected one")
    try:
        return content.array()
    except DataError as error:
        raise DataError(f"{path}, {'/'.join(names)}: {error}") from None
