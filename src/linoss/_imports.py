"""A user's own mixer or scheme in files: by its import path, and only on request.

Loading a file must not run code of whoever wrote it. So a file has the import path of such an
object only if `save` has `allow_import=True`, and `load` imports it only with the same.
"""

import operator
import sys
from collections.abc import Callable, Iterator, Mapping
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
    return _converted(
        settings,
        lambda _, value: value if isinstance(value, str | dict) else {_KEY: _path(value)},
    )


def check_writable(settings: Mapping[str, Any]) -> None:
    """Raise for import paths in settings to be written, unless they are allowed."""

    def check(name: str, value: Any) -> None:
        if not isinstance(value, dict):
            return
        if "<locals>" in value[_KEY]:
            raise ImportRefusedError(
                f"{name} is {value[_KEY]}, which cannot be imported; define it in a module"
            )
        if not _ALLOWED.get():
            raise ImportRefusedError(
                f"{name} is {value[_KEY]}, of which a file can hold only the import path; fit "
                "without directory, and save with allow_import=True"
            )

    _converted(settings, check)


def from_paths(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `as_paths`. Raises for import paths, unless they are allowed."""

    def read(name: str, value: Any) -> Any:
        if not (isinstance(value, dict) and set(value) == {_KEY}):
            return value
        path = str(value[_KEY])
        if not _ALLOWED.get():
            raise ImportRefusedError(
                f"{name} is {path}, and loading would import it; if you trust it, load with "
                "allow_import=True"
            )
        module, _, attributes = path.partition(":")
        return operator.attrgetter(attributes)(import_module(module))

    return _converted(settings, read)


def _converted(settings: Mapping[str, Any], convert: Callable[[str, Any], Any]) -> dict[str, Any]:
    """Settings with other mixers and schemes, also in nested options."""
    values = dict(settings)
    values |= {name: convert(name, values[name]) for name in sorted(_NAMES & values.keys())}
    if values.get(_NESTED):
        values[_NESTED] = _converted(values[_NESTED], convert)
    return values


def _path(value: Any) -> str:
    """The module and name of an object."""
    if hasattr(value, "__qualname__"):
        return f"{value.__module__}:{value.__qualname__}"
    for place, module in sorted(sys.modules.items(), key=lambda item: item[0] == "__main__"):
        for name, each in list(getattr(module, "__dict__", {}).items()):
            if type(each) is type(value) and each == value:
                return f"{place}:{name}"
    return f"{type(value).__name__}:<locals>"
