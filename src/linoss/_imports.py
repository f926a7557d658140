"""A user's own mixer or scheme in files: by its import path, and only on request.

Loading a file must not run code of whoever wrote it. So a file has the import path of such an
object only if `save` has `allow_import=True`, and `load` imports it only with the same.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any

_ALLOWED: ContextVar[bool] = ContextVar("imports are allowed", default=False)
_NAMES, _NESTED, _KEY = {"mixer", "scheme"}, "linoss_options", "import"


class ImportRefusedError(ValueError):
    """Settings hold an object of a user, and imports are not allowed."""


@contextmanager
def imports_allowed(allow: bool) -> Iterator[None]:
    """Context manager: write and read import paths, if `allow`."""
    token = _ALLOWED.set(allow)
    try:
        yield
    finally:
        _ALLOWED.reset(token)


def as_paths(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with import paths in place of a user's objects."""
    values = dict(settings)
    for name in _NAMES & values.keys():
        if not isinstance(values[name], str):
            values[name] = {_KEY: _path(values[name])}
    if values.get(_NESTED):
        values[_NESTED] = as_paths(values[_NESTED])
    return values


def check_writable(settings: Mapping[str, Any]) -> None:
    """Raise for import paths in settings to be written, unless they are allowed."""
    if settings.get(_NESTED):
        check_writable(settings[_NESTED])
    for name, path in _paths(settings):
        if "<locals>" in path:
            raise ImportRefusedError(
                f"{name} is {path}, which cannot be imported; define it in a module"
            )
        if not _ALLOWED.get():
            raise ImportRefusedError(
                f"{name} is {path}, of which a file can hold only the import path; fit without "
                "directory, and save with allow_import=True"
            )


def from_paths(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `as_paths`. Raises for import paths, unless they are allowed."""
    values = dict(settings)
    for name, path in _paths(settings):
        if not _ALLOWED.get():
            raise ImportRefusedError(
                f"{name} is {path}, and loading would import it; if you trust it, load with "
                "allow_import=True"
            )
        module, _, attributes = path.partition(":")
        value = import_module(module)
        for attribute in attributes.split("."):
            value = getattr(value, attribute)
        values[name] = value
    if values.get(_NESTED):
        values[_NESTED] = from_paths(values[_NESTED])
    return values


def _paths(settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in sorted(_NAMES):
        value = settings.get(name)
        if isinstance(value, dict) and set(value) == {_KEY}:
            yield name, str(value[_KEY])


def _path(value: Any) -> str:
    """The module and name of an object."""
    if hasattr(value, "__qualname__"):
        return f"{value.__module__}:{value.__qualname__}"
    for place, module in sorted(sys.modules.items(), key=lambda item: item[0] == "__main__"):
        for name, each in list(getattr(module, "__dict__", {}).items()):
            if type(each) is type(value) and each == value:
                return f"{place}:{name}"
    return f"{type(value).__name__}:<locals>"
