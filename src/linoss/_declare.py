"""Settings as annotated types, and the checks, messages and docstrings generated from them."""

import functools
import inspect
import math
import re
import textwrap
import types
import typing
from collections.abc import Iterable
from dataclasses import MISSING, dataclass, fields
from typing import Annotated, Any, Literal, TypeVar

from linoss._plain import scalar

MODEL, TRAINING = "Model", "Training"
"""Groups of settings: the panels of a command's `--help`."""
_WORDS = {"yes": True, "true": True, "no": False, "false": False, "none": None, "null": None}
_Class = TypeVar("_Class", bound=type)


@dataclass(frozen=True, repr=False)
class Setting:
    """Metadata of a setting, as an annotation of its type."""

    help: str
    """A sentence in plain text, for docstrings, `--help` and docs/settings.md."""
    group: str | None = None
    """`MODEL`, `TRAINING`, or None for a setting without a command-line option."""
    within: str | None = None
    """The interval of allowed numbers, such as `"[0, 1)"` or `"[1, inf)"`; any number if None."""
    none: str = "none"
    """The meaning of None, if the type allows it."""
    other: str | None = None
    """Description of allowed values other than numbers and names."""
    search: tuple[Any, Any] | list[Any] | None = None
    """The default search range, (low, high) or a list of values; None if it is not searched."""
    option: str | None = None
    """The name of the option if it differs from the name of the setting."""

    def __repr__(self) -> str:
        return f"Setting({self.help!r})"  # short, for signatures


@dataclass(frozen=True)
class Declared:
    """A field of a dataclass of settings: its name, type, default and metadata."""

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
            return bool({int, float} & set(self.kinds)) and self._within(value)
        if isinstance(value, float):
            return float in self.kinds and self._within(value)
        return any(self._is_instance(value, kind) for kind in self.kinds)

    def _within(self, value: Any) -> bool:
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
        whole = all(isinstance(scalar(n), int) and self._within(n) for n in value)
        return whole and len(value) == len(typing.get_args(kind))

    def check(self, value: Any) -> None:
        """Raise a ValueError that names the setting if the value is not allowed."""
        if not self.allows(value):
            raise ValueError(f"{self.name} is {value!r}, expected {self.expected()}")

    def read(self, text: str) -> Any:
        """Parse a command-line argument. Raises ValueError if no allowed value matches."""
        for candidate in _candidates(text, float if float in self.kinds else int):
            if self.allows(candidate):
                return candidate
        raise ValueError(f"{text!r}, expected {self.expected(plain=True)}")

    def expected(self, *, plain: bool = False) -> str:
        """Describe the allowed values, in Python's or, with `plain`, in command-line notation."""

        def word(value: Any) -> str:
            return str(value).lower() if plain else repr(value)

        names = [word(name) for name in ((None,) if self.optional else ()) + self.choices]
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


def check_value(name: str, value: Any, hint: Any) -> None:
    """Raise a ValueError if a declared type, such as `Dropout | None`, does not allow the value."""
    about, kinds = _parts(hint)
    assert about is not None
    Declared(name, kinds, MISSING, about).check(value)


@functools.cache
def declared(record: type) -> dict[str, Declared]:
    """The settings of a dataclass, by name."""
    hints = typing.get_type_hints(record, include_extras=True)
    found = {}
    for field in fields(record):
        about, kinds = _parts(hints[field.name])
        if about is None:
            raise TypeError(f"{record.__name__}.{field.name} is not annotated with a Setting")
        found[field.name] = Declared(field.name, kinds, field.default, about)
    return found


def check_settings(record: Any) -> None:
    """Raise a ValueError for the first setting of a dataclass instance with an invalid value."""
    for name, setting in declared(type(record)).items():
        setting.check(getattr(record, name))


def shared_with(record: Any, other: type) -> dict[str, Any]:
    """The values of the settings that a dataclass instance shares with another dataclass, by name.

    NumPy scalars, which scikit-learn's searches draw, are converted to Python numbers.
    """
    names = declared(type(record)).keys() & declared(other).keys()
    return {name: scalar(getattr(record, name)) for name in names}


def documented(record: _Class) -> _Class:
    """Class decorator: add the settings to the docstring, and plain types to the signature."""
    lines = [_line(setting) for setting in declared(record).values()]
    text = inspect.cleandoc(record.__doc__ or "")
    record.__doc__ = "\n".join([text, "", "**Arguments:**", "", *lines])
    plain = typing.get_type_hints(record)
    record.__init__.__annotations__.update({name: plain[name] for name in declared(record)})
    return record


def _line(setting: Declared) -> str:
    text = f"- `{setting.name}`: {setting.about.help} Expects {setting.expected()}"
    if not setting.required:
        means = f", {setting.about.none}" if setting.default is None else ""
        text += f"; by default {setting.default!r}{means}"
    return textwrap.fill(f"{text}.", 96, subsequent_indent="  ", break_on_hyphens=False)


def _parts(hint: Any) -> tuple[Setting | None, tuple[Any, ...]]:
    """The `Setting` of an annotation, and the members of its type's union."""
    origin = typing.get_origin(hint)
    if origin is Annotated:
        base, *extras = typing.get_args(hint)
        found = next((extra for extra in extras if isinstance(extra, Setting)), None)
        inner, kinds = _parts(base)
        return found or inner, kinds
    if origin in (typing.Union, types.UnionType):
        parts = [_parts(part) for part in typing.get_args(hint)]
        setting = next((setting for setting, _ in parts if setting is not None), None)
        return setting, tuple(kind for _, kinds in parts for kind in kinds)
    return None, typing.get_args(hint) if origin is Literal else (hint,)


@functools.cache
def _interval(text: str) -> tuple[float, float, bool, bool]:
    """Lower and upper bound, and whether each is excluded."""
    found = re.fullmatch(r"([\[(])(\S+), (\S+)([\])])", text)
    if found is None:
        raise ValueError(f"{text!r} is not an interval, expected one such as '[0, 1)'")
    return float(found[2]), float(found[3]), found[1] == "(", found[4] == ")"


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


def _candidates(text: str, number: type[int] | type[float]) -> Iterable[Any]:
    """Yield the possible values of a text: itself, True, False or None, and a number."""
    yield text
    if text.lower() in _WORDS:
        yield _WORDS[text.lower()]
    try:
        yield number(text)
    except ValueError:
        return
