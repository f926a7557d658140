"""Static features: one value for each series, as constant channels of a model."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from linoss.data import DataError, Table

_MOST_KINDS = 32


@dataclass(frozen=True)
class Statics:
    """Conversion of static features to channels: numbers unchanged, categories one-hot encoded."""

    kinds: dict[Any, tuple[str, ...] | None] = field(default_factory=dict)
    """Maps names to the categories in training; None for numbers."""

    @classmethod
    def of(cls, data: Table) -> "Statics":
        """The static features of the series of a table."""
        kinds: dict[Any, tuple[str, ...] | None] = {}
        for name, values in data.static.items():
            if all(isinstance(value, float) for value in values):
                kinds[name] = None
                continue
            kinds[name] = found = tuple(sorted(set(values) - {""}))
            if len(found) > _MOST_KINDS:
                raise DataError(
                    f"static has {name!r} with {len(found)} different texts, expected at most "
                    f"{_MOST_KINDS}; join some, or leave it out"
                )
        return cls(kinds)

    @property
    def channels(self) -> int:
        """Number of channels."""
        return sum(1 if kinds is None else len(kinds) for kinds in self.kinds.values())

    def __call__(self, data: Table) -> np.ndarray:
        """(series, channels), NaN where missing; an unknown category is 0 in all channels."""
        if list(data.static) != list(self.kinds):
            raise DataError(
                f"data has the static features {list(data.static)}, expected {list(self.kinds)}, "
                "those of fit; name them in table(..., static=...)"
            )
        parts = [np.zeros((len(data.series), 0))]
        for name, kinds in self.kinds.items():
            values = data.static[name]
            if kinds is None and not all(isinstance(value, float) for value in values):
                raise DataError(f"data has texts in {name!r}, expected numbers, as in fit")
            if kinds is None:
                parts.append(np.array(values)[:, None])
            else:
                parts.append(np.array([[value == kind for kind in kinds] for value in values]))
        return np.concatenate(parts, axis=1)

    def facts(self) -> list[Any]:
        """Convert to plain values."""
        return [
            [name, None if kinds is None else list(kinds)] for name, kinds in self.kinds.items()
        ]

    @classmethod
    def restored(cls, facts: list[Any]) -> "Statics":
        """The inverse of `facts`."""
        return cls({name: None if kinds is None else tuple(kinds) for name, kinds in facts})
