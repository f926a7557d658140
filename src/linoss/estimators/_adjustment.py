"""Adjustment of series by trend and seasons before the model, and its inverse for forecasts.

For each variable y of a series the model's input is z = (f(y) - e(t)) / d(t), where f is the
identity or the logarithm, e is trend and seasons, and d is the deviation of f(y) - e(t), which may
also be seasonal. For dates, the channels after the variables are the sine and cosine of the
calendar's periods; then come the static features.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from linoss.data import DataError, Table
from linoss.estimators._known import known_mean
from linoss.estimators._seasons import Clock, Seasons
from linoss.estimators._statics import Statics


@dataclass(frozen=True, eq=False)
class Adjustment:
    """The adjustment of all series of a table."""

    clock: Clock
    logarithm: tuple[bool, ...]
    """Whether the logarithm of each target is forecast."""
    trend: bool
    targets: tuple[int, ...]
    known: tuple[int, ...]
    ids: tuple[Any, ...] | None
    seasons: Sequence[Seasons]
    """Trend and seasons of each series."""
    deviation: np.ndarray
    """(series, targets), which a seasonal spread multiplies."""
    effects: np.ndarray
    """(known, targets): the deviation of each known variable's contribution, averaged over
    series."""
    statics: Statics = field(default_factory=Statics)
    seasonal: bool = True
    """Whether there are seasons."""

    @classmethod
    def fit(
        cls,
        data: Table,
        clock: Clock,
        known: tuple[int, ...],
        *,
        logarithm: tuple[bool, ...],
        trend: bool,
        seasonal: bool = True,
    ) -> "Adjustment":
        """Fit to all series of a table."""
        targets = tuple(i for i in range(len(data.names)) if i not in known)
        empty = (), np.ones(0), np.ones(0)
        more = (*empty, Statics.of(data), seasonal)
        made = cls(clock, logarithm, trend, targets, known, data.ids, *more)
        seasons, deviations, effects = [], [], []
        for values, index in zip(data.series, data.index, strict=True):
            fitted, deviation = made._of_one(values, index)
            seasons.append(fitted)
            deviations.append(deviation)
            last = fitted.coefficients[len(fitted.coefficients) - len(known) :]
            there = values[:, list(known)]
            spread = np.sqrt(known_mean((there - known_mean(there, 0)) ** 2, 0))
            effects.append(np.abs(last) * np.nan_to_num(spread)[:, None])
        effects = np.mean(effects, axis=0)
        return replace(made, seasons=seasons, deviation=np.stack(deviations), effects=effects)

    @classmethod
    def none(cls, data: Table, known: tuple[int, ...]) -> "Adjustment":
        """The identity."""
        targets = tuple(i for i in range(len(data.names)) if i not in known)
        count, clock = len(data.series), Clock("steps", 1.0)
        zeros = np.zeros((1 + len(known), len(targets)))
        flat = [
            Seasons(clock, clock.usual(index), 0.0, 1.0, False, (), False, zeros)
            for index in data.index
        ]
        numbers = np.ones((count, len(targets))), np.zeros((len(known), len(targets)))
        logarithm = (False,) * len(targets)
        statics = Statics.of(data)
        return cls(clock, logarithm, False, targets, known, data.ids, flat, *numbers, statics)

    @property
    def changes(self) -> bool:
        """Whether it differs from the identity."""
        return any(each.coefficients.any() for each in self.seasons) or any(self.logarithm)

    def _of_one(self, values: np.ndarray, index: np.ndarray) -> tuple[Seasons, np.ndarray]:
        known, plain = values[:, list(self.known)], self.transform(values[:, list(self.targets)])
        how = {"trend": self.trend, "seasonal": self.seasonal}
        fitted = Seasons.fit(self.clock, index, plain, known, **how)
        rest = (plain - fitted(index, known)) / fitted.spread(index)
        return fitted, _deviation(rest, plain)

    @property
    def channels(self) -> int:
        """Number of channels of adjusted series."""
        own = len(self.targets) + len(self.known)
        return own + 2 * len(self.clock.periods) + self.statics.channels

    @property
    def known_channels(self) -> tuple[int, ...]:
        """The channels known in advance."""
        return (*self.known, *range(len(self.targets) + len(self.known), self.channels))

    def transform(self, values: np.ndarray) -> np.ndarray:
        """Apply f, with NaN where a logarithm does not exist."""
        values = values.astype(np.float64, copy=True)
        for column, taken in enumerate(self.logarithm):
            if taken:
                positive = values[:, column] > 0
                values[:, column] = np.log(np.where(positive, values[:, column], np.nan))
        return values

    def place(self, data: Table) -> list[tuple[Seasons, np.ndarray]]:
        """Seasons and deviation of each series of a table; new series are fitted."""
        if self.ids is None or data.ids is None:
            return [(self.seasons[0], self.deviation[0])] * len(data.series)
        places = {name: i for i, name in enumerate(self.ids)}
        found = []
        for i, name in enumerate(data.ids):
            if name in places or not self.changes:
                place = places.get(name, 0)
                found.append((self.seasons[place], self.deviation[place]))
            else:
                found.append(self._of_one(data.series[i], data.index[i]))
        return found

    def times(self, where: tuple[Seasons, np.ndarray], index: np.ndarray) -> np.ndarray:
        """(time,): times in median steps of the series."""
        return self.clock.numbers(index) / where[0].step

    def apply(
        self,
        where: tuple[Seasons, np.ndarray],
        values: np.ndarray,
        index: np.ndarray,
        static: np.ndarray,
    ) -> np.ndarray:
        """(time, channels): variables with adjusted targets, calendar, static features."""
        seasons, deviation = where
        known = values[:, list(self.known)]
        rest = self.transform(values[:, list(self.targets)]) - seasons(index, known)
        calendar = self.clock.channels(index) if self.clock.periods else np.zeros((len(index), 0))
        adjusted = values.astype(np.float64)
        adjusted[:, list(self.targets)] = rest / (deviation * seasons.spread(index))
        constant = np.broadcast_to(static, (len(index), len(static)))
        return np.concatenate([adjusted, calendar, constant], axis=1)

    def undo(self, deviation: np.ndarray, adjusted: np.ndarray, expected: np.ndarray) -> np.ndarray:
        """The inverse: values (time, targets, ...) from adjusted ones, with e(t) and d(t).

        The inverse of f is monotone, so quantiles remain quantiles.
        """
        more = (...,) + (None,) * (adjusted.ndim - 2)
        found = adjusted * deviation[more] + expected[more]
        for column, taken in enumerate(self.logarithm):
            if taken:
                with np.errstate(over="ignore"):
                    found[:, column] = np.exp(found[:, column])
        return found

    # ---- Files ----

    def facts(self) -> dict[str, Any]:
        """Everything but arrays, as plain values."""
        return {
            "unit": self.clock.unit,
            "step": self.clock.step,
            "periods": list(self.clock.periods),
            "logarithm": list(self.logarithm),
            "trend": self.trend,
            "seasonal": self.seasonal,
            "seasons": [each.facts() for each in self.seasons],
            "static": self.statics.facts(),
        }

    def arrays(self) -> dict[str, np.ndarray]:
        """Coefficients and deviations."""
        most = max(len(each.coefficients) for each in self.seasons)
        padded = np.zeros((len(self.seasons), most, len(self.targets)))
        for i, each in enumerate(self.seasons):
            padded[i, : len(each.coefficients)] = each.coefficients
        terms = max(len(each.spreads) for each in self.seasons)
        spreads = np.zeros((len(self.seasons), terms, len(self.targets)))
        for i, each in enumerate(self.seasons):
            if len(each.spreads):
                spreads[i, : len(each.spreads)] = each.spreads
        return {
            "adjustment.coefficients": padded,
            "adjustment.spreads": spreads,
            "adjustment.deviation": self.deviation,
            "adjustment.effects": self.effects,
        }

    @classmethod
    def restored(
        cls,
        facts: dict[str, Any],
        arrays: dict[str, np.ndarray],
        targets: tuple[int, ...],
        known: tuple[int, ...],
        ids: tuple[Any, ...] | None,
    ) -> "Adjustment":
        """The inverse of `facts` and `arrays`. Raises ValueError for inconsistent values."""
        clock = Clock(str(facts["unit"]), float(facts["step"]), tuple(map(float, facts["periods"])))
        if clock.unit not in ("seconds", "months", "steps") or not clock.step > 0:
            raise ValueError(
                f"unit {clock.unit!r} and step {clock.step!r} are not those of a clock"
            )
        if not all(period > 0 for period in clock.periods) or len(clock.periods) > 8:
            raise ValueError("periods are not positive numbers")
        logarithm = tuple(bool(x) for x in facts["logarithm"])
        count = 1 if ids is None else len(ids)
        table, deviation = arrays["adjustment.coefficients"], arrays["adjustment.deviation"]
        shapes = (len(facts["seasons"]), len(table), deviation.shape, len(logarithm))
        if shapes != (count, count, (count, len(targets)), len(targets)):
            raise ValueError("the adjustment does not fit the series")
        effects = arrays["adjustment.effects"]
        if effects.shape != (len(known), len(targets)):
            raise ValueError("the effects do not fit the known variables")
        spreads = arrays["adjustment.spreads"]
        if len(spreads) != count or spreads.shape[2:] != (len(targets),):
            raise ValueError("the spreads do not fit the series")
        if not np.isfinite([table.sum(), spreads.sum()]).all() or not (deviation > 0).all():
            raise ValueError("the adjustment has numbers that are not finite")
        seasons = []
        for each, coefficients, spread in zip(facts["seasons"], table, spreads, strict=True):
            counts = tuple(int(c) for c in each["counts"])
            if not float(each["step"]) > 0:
                raise ValueError(f"the step of a series is {each['step']!r}, expected more than 0")
            if len(counts) != len(clock.periods) or not all(0 <= c <= 1000 for c in counts):
                raise ValueError("the harmonics do not fit the periods")
            made = Seasons(
                clock,
                float(each["step"]),
                float(each["start"]),
                float(each["span"]),
                bool(each["trend"]),
                counts,
                bool(each["products"]),
                coefficients,
            )
            terms = made.terms(np.zeros(1, np.int64), np.zeros((1, len(known)))).shape[1]
            if terms > len(coefficients) or coefficients.shape[1] != len(targets):
                raise ValueError("the coefficients do not fit the seasons")
            if spread.any():
                terms_of_spread = made.spread_terms(np.zeros(1, np.int64)).shape[1]
                if terms_of_spread > len(spread):
                    raise ValueError("the spreads do not fit the seasons")
                made = replace(made, spreads=spread[:terms_of_spread])
            seasons.append(replace(made, coefficients=coefficients[:terms]))
        return cls(
            clock,
            logarithm,
            bool(facts["trend"]),
            targets,
            known,
            ids,
            seasons,
            deviation,
            effects,
            Statics.restored(facts["static"]),
            bool(facts["seasonal"]),
        )


def _deviation(rest: np.ndarray, values: np.ndarray) -> np.ndarray:
    """(variables,), the standard deviation; 1 for a constant variable."""
    found = np.nan_to_num(np.sqrt(known_mean((rest - known_mean(rest, 0)) ** 2, 0)))
    size = np.max(np.nan_to_num(np.abs(values)), axis=0, initial=0)
    return np.where(found > 1e-9 * size, found, 1.0)


def refuse_logarithm(data: Table, targets: Sequence[int]) -> None:
    """Raise for logarithms of values that are not positive."""
    for i, values in enumerate(data.series):
        for column in targets:
            wrong = values[:, column] <= 0
            if wrong.any():
                raise DataError(
                    f"logarithm is True, but {data.title(i)} has {values[wrong, column][0]:g} in "
                    f"{data.names[column]!r}, expected numbers above 0; use logarithm=False"
                )
