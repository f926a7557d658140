"""Settings: dataclass fields with a help text and a range, and what follows from them.

A setting is a field of a dataclass, declared once where it is used:

    hidden_size: int = setting(64, "Number of channels between blocks.", "[1, inf)")

A dataclass with the same setting and another default, such as that of an estimator, has a plain
field of that name, and the dataclass of the declaration in `configs`. From the declarations follow
the validation of values, docstrings, the values of `--set NAME=VALUE`, and docs/settings.md.
"""

import functools
import inspect
import math
import re
import textwrap
import types
import typing
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import MISSING, dataclass, field, fields
from difflib import get_close_matches
from typing import Annotated, Any, Literal, TypeVar

from linoss._plain import scalar

Number = int | float
COUNT, POSITIVE, SHARE = "[1, inf)", "(0, inf)", "[0, 1)"
REQUIRED: Any = MISSING
"""The default of a setting without default."""
_WORDS = {"yes": True, "true": True, "no": False, "false": False, "none": None, "null": None}
_MOST_NAMES = 12
_Class = TypeVar("_Class", bound=type)
_Record = TypeVar("_Record")


@dataclass(frozen=True)
class Setting:
    """What a setting means."""

    help: str
    """A sentence in plain text."""
    within: str | None = None
    """The interval of allowed numbers, such as `"[0, 1)"`; any number if None."""
    none: str = "none"
    """The meaning of None, if the type allows it."""
    other: str | None = None
    """Description of allowed values other than numbers and names."""
    search: tuple[Any, Any] | list[Any] | None = None
    """The default search range, (low, high) or a list of values; None if it is not searched."""


def setting(default: Any, help: str, within: str | None = None, **about: Any) -> Any:
    """A dataclass field that declares a setting; the arguments are those of `Setting`."""
    return field(default=default, metadata={"setting": Setting(help, within, **about)})


@dataclass(frozen=True)
class Declared:
    """A setting of a dataclass: its name, type, default and meaning."""

    name: str
    kinds: tuple[Any, ...]
    """The members of the type's union: classes, and the values of a `Literal`."""
    default: Any
    """The default value; `dataclasses.MISSING` if there is none."""
    about: Setting

    @property
    def required(self) -> bool:
        """Whether the setting has no default."""
        return self.default is MISSING

    @property
    def optional(self) -> bool:
        """Whether None is allowed."""
        return types.NoneType in self.kinds

    @property
    def choices(self) -> tuple[str, ...]:
        """The allowed names; empty if the setting has no choices."""
        return tuple(kind for kind in self.kinds if isinstance(kind, str))

    def allows(self, value: Any) -> bool:
        """Whether a value has an allowed type and is in range."""
        value = scalar(value)
        if value is None:
            return self.optional
        if isinstance(value, bool):
            return bool in self.kinds
        if isinstance(value, str) and (self.choices or str in self.kinds):
            return value in self.choices if self.choices else True
        if isinstance(value, int):
            return bool({int, float} & set(self.kinds)) and self._is_within(value)
        if isinstance(value, float):
            return float in self.kinds and self._is_within(value)
        return any(self._is_instance(value, kind) for kind in self.kinds)

    def _is_within(self, value: Any) -> bool:
        if self.about.within is None:
            return True
        low, high, above, below = _interval(self.about.within)
        inside = (value > low if above else value >= low) and (
            value < high if below else value <= high
        )
        return bool(inside)

    def _is_instance(self, value: Any, kind: Any) -> bool:
        origin = typing.get_origin(kind) or kind
        if not isinstance(origin, type) or not isinstance(value, origin):
            return False
        if origin is not tuple:
            return True
        whole = all(isinstance(scalar(n), int) and self._is_within(n) for n in value)
        return whole and len(value) == len(typing.get_args(kind))

    def check(self, value: Any) -> None:
        """Raise a ValueError that names the setting if the value is not allowed."""
        if not self.allows(value):
            raise ValueError(f"{self.name} is {value!r}, expected {self.expected()}")

    def read(self, text: str) -> Any:
        """Parse a value of a command line. Raises ValueError if no allowed value matches."""
        for candidate in self._candidates(text):
            if self.allows(candidate):
                return candidate
        raise ValueError(f"{self.name} is {text!r}, expected {self.expected(plain=True)}")

    def _candidates(self, text: str) -> Iterable[Any]:
        """Yield the possible values of a text: itself, True, False or None, a number, a list."""
        items = [kind for kind in self.kinds if typing.get_origin(kind) is Collection]
        if not items:
            yield text
        if text.lower() in _WORDS:
            yield _WORDS[text.lower()]
        with suppress(ValueError):
            yield (float if float in self.kinds else int)(text)
        for kind in items:
            number = float in typing.get_args(typing.get_args(kind)[0])
            parts = map(str.strip, text.split(","))
            with suppress(ValueError):
                yield [float(part) if number else part for part in parts if part]

    def expected(self, *, plain: bool = False) -> str:
        """Describe the allowed values, in Python's or, with `plain`, in command-line notation."""

        def word(value: Any) -> str:
            return str(value).lower() if plain else repr(value)

        names = [word(name) for name in ((None,) if self.optional else ()) + self.choices]
        names = names if len(names) <= _MOST_NAMES else [*names[: _MOST_NAMES // 2], "..."]
        parts = [f"one of {', '.join(names)}"] if self.choices[1:] else names
        if bool in self.kinds and int not in self.kinds:
            parts += ["yes", "no"] if plain else ["True", "False"]
        if {int, float} & set(self.kinds):
            parts.append(_numbers(self.about.within, whole=float not in self.kinds))
        if str in self.kinds and not self.choices:
            parts.append("text")
        if self.about.other is not None and not (plain and parts):
            parts.append(self.about.other)
        return " or ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))

    def default_text(self) -> str:
        """The default as text; for None its meaning."""
        if self.default is None or self.default == ():
            return self.about.none
        if isinstance(self.default, bool):
            return "yes" if self.default else "no"
        return str(self.default)


@functools.cache
def declared(record: type) -> dict[str, Declared]:
    """The settings of a dataclass, by name."""
    hints = typing.get_type_hints(record)
    return {
        each.name: Declared(each.name, _kinds(hints[each.name]), each.default, _about(record, each))
        for each in fields(record)
    }


def _about(record: type, each: Any) -> Setting:
    """The meaning of a field: its own, or that of the same setting in `configs`."""
    if "setting" in each.metadata:
        return each.metadata["setting"]
    for config in getattr(record, "configs", ()):
        if each.name in declared(config):
            return declared(config)[each.name].about
    raise TypeError(f"{record.__name__}.{each.name} is not declared as a setting")


def check_name(known: Iterable[str], name: str, where: str) -> None:
    """Raise a ValueError with the nearest names if `where` has a name that is not known."""
    known = list(known)
    if name not in known:
        near = get_close_matches(name, known, n=3)
        expected = (
            f"a setting such as {' or '.join(near)}" if near else f"one of {', '.join(known)}"
        )
        raise ValueError(f"{where} has {name!r}, expected {expected}")


def check_value(name: str, value: Any, hint: Any) -> None:
    """Raise a ValueError if a type, such as `Annotated[int, "[1, inf)"]`, forbids the value."""
    within = None
    if typing.get_origin(hint) is Annotated:
        hint, within = typing.get_args(hint)
    Declared(name, _kinds(hint), MISSING, Setting("", within)).check(value)


def check_settings(record: Any) -> None:
    """Raise a ValueError for the first setting of a dataclass instance with an invalid value.

    An estimator calls it once in `fit`; what is made of its values is not checked again.
    """
    for name, each in declared(type(record)).items():
        each.check(getattr(record, name))


def unchecked(kind: type[_Record], values: dict[str, Any]) -> _Record:
    """An instance of a frozen dataclass of values that were checked before; others are defaults."""
    record = object.__new__(kind)
    for each in fields(kind):  # pyright: ignore[reportArgumentType]
        object.__setattr__(record, each.name, values.get(each.name, each.default))
    return record


def changed(record: _Record, **values: Any) -> _Record:
    """A copy of a frozen dataclass with other values, which are not checked."""
    return unchecked(type(record), {**vars(record), **values})


def shared_with(record: Any, other: type) -> dict[str, Any]:
    """The values of the settings that a dataclass instance shares with another dataclass, by name.

    NumPy scalars, which scikit-learn's searches draw, are converted to Python numbers.
    """
    names = declared(type(record)).keys() & declared(other).keys()
    return {name: scalar(getattr(record, name)) for name in names}


def documented(record: _Class, of: type | None = None) -> _Class:
    """Class decorator: add the settings to the docstring, or those of another class."""
    lines = [_line(each) for each in declared(of or record).values()]
    text = inspect.cleandoc(record.__doc__ or "")
    record.__doc__ = "\n".join([text, "", "**Arguments:**", "", *lines])
    initialise: Any = record.__init__
    initialise.__qualname__ = f"{record.__name__}.__init__"  # in errors of unknown arguments
    return record


def _line(each: Declared) -> str:
    text = f"- `{each.name}`: {each.about.help} Expects {each.expected()}"
    if not each.required:
        means = f", {each.about.none}" if each.default is None else ""
        text += f"; by default {each.default!r}{means}"
    return textwrap.fill(f"{text}.", 96, subsequent_indent="  ", break_on_hyphens=False)


def _kinds(hint: Any) -> tuple[Any, ...]:
    """The members of a union, with the values of a `Literal`."""
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return tuple(kind for part in typing.get_args(hint) for kind in _kinds(part))
    return typing.get_args(hint) if origin is Literal else (hint,)


@functools.cache
def _interval(text: str) -> tuple[float, float, bool, bool]:
    """Lower and upper bound, and whether each is excluded."""
    match = re.fullmatch(r"([\[(])(\S+), (\S+)([\])])", text)
    if match is None:
        raise ValueError(f"{text!r} is not an interval, expected one such as '[0, 1)'")
    return float(match[2]), float(match[3]), match[1] == "(", match[4] == ")"


def _numbers(within: str | None, *, whole: bool) -> str:
    noun = "an integer" if whole else "a number"
    if within is None:
        return noun
    low, high, above, _ = _interval(within)
    if high < math.inf:
        return f"{noun} in {within}"
    if whole:
        return f"an integer >= {low:g}"
    return f"a finite number {'>' if above else '>='} {low:g}"
