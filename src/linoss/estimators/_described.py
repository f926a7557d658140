"""Conversion of estimators to plain values, for files, and back."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator

from linoss._files import make_directory, replaced_directory, restore_directory
from linoss._plain import plain
from linoss.training import CheckpointError, holds_files

AnyEstimator = TypeVar("AnyEstimator", bound=BaseEstimator)

_PAIRS = "pairs"


def describe(estimator: BaseEstimator, fitted: dict[str, Any]) -> dict[str, Any]:
    """An estimator's class, parameters and fitted attributes, as JSON values."""
    parameters = {name: _named(value) for name, value in estimator.get_params(deep=False).items()}
    if not isinstance(parameters["random_state"], int | np.integer | None):
        parameters["random_state"] = None  # its state has changed since
    name = type(estimator).__name__
    return {"estimator": name, "parameters": plain(parameters), "fitted": plain(fitted)}


@contextmanager
def saved_into(directory: str | os.PathLike[str], overwrite: bool) -> Iterator[Path]:
    """Yield the directory to save into.

    A new directory appears complete at the end; with `overwrite` it replaces an existing one.
    """
    folder = Path(directory)
    restore_directory(folder.absolute())
    if os.path.lexists(folder) and not (overwrite and holds_files(folder)):
        yield folder
        return
    fresh = folder
    try:
        make_directory(folder.absolute().parent)
        with replaced_directory(folder.absolute()) as fresh:
            yield fresh
    except (CheckpointError, OSError) as error:
        raise CheckpointError(str(error).replace(str(fresh), str(folder))) from error


def described(
    kind: type[AnyEstimator], extra: dict[str, Any], directory: str | os.PathLike[str]
) -> AnyEstimator:
    """The inverse of `describe`, not yet fitted. Raises ValueError for another class."""
    name = extra.get("estimator")
    if name != kind.__name__:
        raise ValueError(
            f"{os.fspath(directory)} holds {f'a {name}' if name else 'no estimator'}, "
            f"expected a {kind.__name__}"
        )
    with understanding(directory):
        return kind(**{name: _unnamed(value) for name, value in extra["parameters"].items()})


@contextmanager
def understanding(directory: str | os.PathLike[str]) -> Iterator[None]:
    """Context manager: convert errors from unexpected content of a directory to
    `CheckpointError`."""
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{os.fspath(directory)}: the estimator in it is invalid: {error!r}"
        ) from None


def _named(value: Any) -> Any:
    """A mapping as pairs unless its keys are strings, the only keys that JSON supports."""
    if isinstance(value, Mapping) and not all(isinstance(key, str) for key in value):
        return {_PAIRS: [[key, entry] for key, entry in value.items()]}
    return value


def _unnamed(value: Any) -> Any:
    """The inverse of `_named`."""
    pairs = value.get(_PAIRS) if isinstance(value, dict) else None
    return dict(pairs) if isinstance(pairs, list) else value
