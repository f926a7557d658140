"""Decomposition of series into trend and seasonal components, and a residual.

For each variable y of a series the residual is z = (f(y) - e(t)) / d(t), where f is the identity
or the logarithm, e is trend and seasonal components, and d is the deviation of f(y) - e(t), which
may also be seasonal. Linear and trained parts forecast z. For dates, the channels after the
variables are the sine and cosine of the calendar's periods.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from linoss import _checks
from linoss.data import DataError, Table
from linoss.forecasting._seasonal_trend import Clock, SeasonalTrend, known_deviation

_MOST_PERIODS, _MOST_HARMONICS = 8, 1000  # of a file


@dataclass(frozen=True, eq=False)
class Decomposition:
    """The decomposition of all series of a table."""

    clock: Clock
    logarithm: tuple[bool, ...]
    """Whether the logarithm of each target is forecast."""
    has_trend: bool
    is_seasonal: bool
    targets: tuple[int, ...]
    known: tuple[int, ...]
    ids: tuple[Any, ...] | None
    series: Sequence[SeasonalTrend] = ()
    """Trend and seasonal components of each series."""
    effects: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    """(known, targets): the deviation of each known variable's contribution, averaged over
    series."""

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
    ) -> "Decomposition":
        """Fit to all series of a table."""
        targets = tuple(i for i in range(len(data.names)) if i not in known)
        fitted = cls(clock, logarithm, trend, seasonal, targets, known, data.ids)
        pairs = list(zip(data.series, data.index, strict=True))
        series = [fitted._fit_one(values, index) for values, index in pairs]
        effects = [
            np.abs(each.coefficients[len(each.coefficients) - len(known) :])
            * known_deviation(values[:, list(known)])[:, None]
            for each, (values, _) in zip(series, pairs, strict=True)
        ]
        return replace(fitted, series=series, effects=np.mean(effects, axis=0))

    @classmethod
    def identity(cls, data: Table, known: tuple[int, ...]) -> "Decomposition":
        """No trend, no seasonal components: the residual is the series."""
        targets = tuple(i for i in range(len(data.names)) if i not in known)
        clock, zeros = Clock("steps", 1.0), np.zeros((1 + len(known), len(targets)))
        series = [
            SeasonalTrend(
                clock,
                clock.median_step(index),
                start=0.0,
                span=1.0,
                has_trend=False,
                counts=(),
                has_products=False,
                coefficients=zeros,
                spreads=zeros[:0],
                deviation=np.ones(len(targets)),
            )
            for index in data.index
        ]
        plain = (False,) * len(targets)
        return cls(clock, plain, False, True, targets, known, data.ids, series, zeros[1:])

    def _fit_one(self, values: np.ndarray, index: np.ndarray) -> SeasonalTrend:
        known, targets = values[:, list(self.known)], values[:, list(self.targets)]
        options = {"trend": self.has_trend, "seasonal": self.is_seasonal}
        return SeasonalTrend.fit(self.clock, index, self.transform(targets), known, **options)

    @property
    def is_identity(self) -> bool:
        """Whether the residual is the series."""
        return not any(self.logarithm) and not any(each.coefficients.any() for each in self.series)

    @property
    def channels(self) -> int:
        """Number of channels of a residual."""
        return len(self.targets) + len(self.known) + 2 * len(self.clock.periods)

    @property
    def known_channels(self) -> tuple[int, ...]:
        """The channels known in advance."""
        return (*self.known, *range(len(self.targets) + len(self.known), self.channels))

    def transform(self, values: np.ndarray) -> np.ndarray:
        """Apply f, with NaN where a logarithm does not exist."""
        values = values.astype(np.float64, copy=True)
        for column in np.flatnonzero(self.logarithm):
            positive = values[:, column] > 0
            values[:, column] = np.log(np.where(positive, values[:, column], np.nan))
        return values

    def of(self, data: Table) -> list[SeasonalTrend]:
        """The components of each series of a table; new series are fitted."""
        if self.ids is None or data.ids is None:
            return [self.series[0]] * len(data.series)
        places, is_identity = {name: i for i, name in enumerate(self.ids)}, self.is_identity
        return [
            self.series[places.get(name, 0)]
            if name in places or is_identity
            else self._fit_one(values, index)
            for name, values, index in zip(data.ids, data.series, data.index, strict=True)
        ]

    def times(self, one: SeasonalTrend, index: np.ndarray) -> np.ndarray:
        """(time,): times in median steps of the series."""
        return self.clock.numbers(index) / one.step

    def residual(self, one: SeasonalTrend, values: np.ndarray, index: np.ndarray) -> np.ndarray:
        """(time, channels): variables with the residual of targets, calendar."""
        targets = list(self.targets)
        away = self.transform(values[:, targets]) - one(index, values[:, list(self.known)])
        calendar = self.clock.channels(index) if self.clock.periods else np.zeros((len(index), 0))
        channels = values.astype(np.float64)
        channels[:, targets] = away / (one.deviation * one.spread(index))
        return np.concatenate([channels, calendar], axis=1)

    def compose(self, residual: np.ndarray, units: np.ndarray, expected: np.ndarray) -> np.ndarray:
        """The inverse: values (time, targets, ...) from residuals, with d(t) and e(t).

        The inverse of f is monotone, so quantiles remain quantiles.
        """
        more = (...,) + (None,) * (residual.ndim - 2)
        values = residual * units[more] + expected[more]
        for column in np.flatnonzero(self.logarithm):
            with np.errstate(over="ignore"):
                values[:, column] = np.exp(values[:, column])
        return values

    # ---- Files ----

    def facts(self) -> dict[str, Any]:
        """Everything but arrays, as plain values."""
        return {
            "clock": [self.clock.unit, self.clock.step, list(self.clock.periods)],
            "logarithm": list(self.logarithm),
            "trend": self.has_trend,
            "seasonal": self.is_seasonal,
        }

    def arrays(self) -> dict[str, np.ndarray]:
        """All series: steps, spans and numbers of harmonics, coefficients, spreads, deviations."""
        numbers = [(x.step, x.start, x.span, x.has_products, *x.counts) for x in self.series]
        return {
            "numbers": np.array(numbers, np.float64),
            "coefficients": _padded([each.coefficients for each in self.series]),
            "spreads": _padded([each.spreads for each in self.series]),
            "deviation": np.stack([each.deviation for each in self.series]),
            "effects": self.effects,
        }

    @classmethod
    def restored(
        cls,
        facts: dict[str, Any],
        arrays: dict[str, np.ndarray],
        targets: tuple[int, ...],
        known: tuple[int, ...],
        ids: tuple[Any, ...] | None,
    ) -> "Decomposition":
        """The inverse of `facts` and `arrays`. Raises ValueError for inconsistent values."""
        unit, step, periods = facts["clock"]
        clock = Clock(str(unit), float(step), tuple(map(float, periods)))
        count, size = 1 if ids is None else len(ids), len(targets)
        numbers = arrays["numbers"]
        _checks.shape("numbers", numbers, (count, 4 + len(clock.periods)))
        _checks.shape("coefficients", arrays["coefficients"], (count, "terms", size))
        _checks.shape("spreads", arrays["spreads"], (count, "terms", size))
        _checks.shape("deviation", arrays["deviation"], (count, size))
        _checks.shape("effects", arrays["effects"], (len(known), size))
        positive = [clock.step, *clock.periods, *numbers[:, [0, 2]].flat, *arrays["deviation"].flat]
        harmonics = numbers[:, 4:]
        if (
            clock.unit not in ("seconds", "months", "steps")
            or len(clock.periods) > _MOST_PERIODS
            or not all(number > 0 for number in positive)
            or not all(np.isfinite(array).all() for array in arrays.values())
            or not ((harmonics >= 0) & (harmonics <= _MOST_HARMONICS)).all()
            or len(facts["logarithm"]) != size
        ):
            raise ValueError("trend and seasonal components have impossible numbers")
        series = []
        each = zip(
            numbers, arrays["coefficients"], arrays["spreads"], arrays["deviation"], strict=True
        )
        origin = np.zeros(1, np.int64)
        for (step, start, span, products, *counts), coefficients, spreads, deviation in each:
            whole = tuple(int(count) for count in counts)
            one = SeasonalTrend(
                clock, step, start, span, bool(facts["trend"]), whole, bool(products), coefficients
            )
            terms = one.terms(origin, np.zeros((1, len(known)))).shape[1]
            terms_of_spread = one.spread_terms(origin).shape[1] if spreads.any() else 0
            if terms > len(coefficients) or terms_of_spread > len(spreads):
                raise ValueError("the coefficients do not fit the harmonics")
            series.append(
                replace(
                    one,
                    coefficients=coefficients[:terms],
                    spreads=spreads[:terms_of_spread],
                    deviation=deviation,
                )
            )
        return cls(
            clock,
            tuple(bool(x) for x in facts["logarithm"]),
            bool(facts["trend"]),
            bool(facts["seasonal"]),
            targets,
            known,
            ids,
            series,
            arrays["effects"],
        )


def _padded(arrays: list[np.ndarray]) -> np.ndarray:
    """(arrays, terms, variables), with zeros after the terms of each."""
    padded = np.zeros((len(arrays), max(map(len, arrays)), arrays[0].shape[1]))
    for place, array in zip(padded, arrays, strict=True):
        place[: len(array)] = array
    return padded


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
