"""Docstrings for the reference: settings that a decorator adds, and links to methods."""

import re
from typing import Any

import griffe

import linoss

METHOD = re.compile(r"\[`linoss\.([A-Z]\w+)\.(\w+)`\]\[\]")


class Docstrings(griffe.Extension):
    """Docstrings as they are at run time, with links to where methods are documented."""

    def on_class_instance(self, *, cls: griffe.Class, **_: Any) -> None:
        """Take the docstring of classes decorated with `documented` or `adapter` from the class."""
        names = {str(decorator.value) for decorator in cls.decorators}
        if cls.docstring and names & {"documented", "adapter"}:
            cls.docstring.value = griffe.dynamic_import(cls.path).__doc__

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Methods of what `linoss` exports are documented with the room that it is from."""
        if obj.docstring:
            obj.docstring.value = METHOD.sub(_at_home, obj.docstring.value)


def _at_home(link: re.Match[str]) -> str:
    name, method = link.groups()
    room = getattr(linoss, name).__module__.partition("._")[0]
    return f"[`linoss.{name}.{method}`][{room}.{name}.{method}]"
