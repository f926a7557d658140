"""The parts of a forecast that are fitted in closed form.

For each variable y of a series the residual is z = (f(y) - e(t)) / d, where f is the identity or
the logarithm, e is trend and seasonal components, and d is the deviation of f(y) - e(t). Linear and
trained models forecast z. For dates, the channels after the variables are the sine and cosine of
the calendar's periods.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from linoss import _checks
from linoss.data import Table
from linoss.forecasting._linear import LinearModel, Moments
from linoss.forecasting._seasonal_trend import Clock, SeasonalTrend
from linoss.training import Normalization, Windows

_FEW_TARGETS = 16  # with linear models of their own
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
    series: tuple[SeasonalTrend, ...] = ()
    """Trend and seasonal components of each series."""

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
        pairs = zip(data.series, data.index, strict=True)
        return replace(fitted, series=tuple(fitted._fit_one(*pair) for pair in pairs))

    @classmethod
    def identity(cls, data: Table, known: tuple[int, ...]) -> "Decomposition":
        """No trend, no seasonal components: the residual is the series."""
        targets = tuple(i for i in range(len(data.names)) if i not in known)
        clock, zeros = Clock("steps", 1.0), np.zeros((1 + len(known), len(targets)))
        facts, ones = (0.0, 1.0, False, (), False), np.ones(len(targets))
        series = tuple(
            SeasonalTrend(clock, clock.median_step(index), *facts, zeros, ones)
            for index in data.index
        )
        return cls(clock, (False,) * len(targets), False, True, targets, known, data.ids, series)

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
        channels[:, targets] = away / one.deviation
        return np.concatenate([channels, calendar], axis=1)

    def compose(
        self, residual: np.ndarray, deviation: np.ndarray, expected: np.ndarray
    ) -> np.ndarray:
        """The inverse: values (time, targets, ...) from residuals, with d and e(t).

        The inverse of f is monotone, so quantiles remain quantiles.
        """
        more = (...,) + (None,) * (residual.ndim - 2)
        values = residual * deviation[more] + expected[more]
        for column in np.flatnonzero(self.logarithm):
            with np.errstate(over="ignore"):
                values[:, column] = np.exp(values[:, column])
        return values


@dataclass(frozen=True)
class ComponentOptions:
    """The options of the closed-form parts."""

    seasonal: bool = True
    logarithm: bool = False
    trend: bool = False
    normalize: Normalization = "none"


@dataclass(frozen=True, eq=False)
class Components:
    """The closed-form parts of a forecaster."""

    decomposition: Decomposition
    normalize: Normalization
    past: int
    """Number of input steps."""
    horizon: int
    """Number of steps to forecast."""
    season: int = 1
    """Steps of a season, without dates."""
    linear: LinearModel | None = None

    @classmethod
    def fit(
        cls,
        data: Table,
        clock: Clock,
        known: tuple[int, ...],
        sizes: tuple[int, int],
        options: ComponentOptions,
        season: int = 1,
    ) -> "Components":
        """Fit trend and seasonal components, without a linear part; `sizes` is past, horizon."""
        targets = [i for i in range(len(data.names)) if i not in known]
        logarithm = tuple(options.logarithm and is_positive(data, i) for i in targets)
        chosen = {"trend": options.trend, "seasonal": options.seasonal}
        decomposition = Decomposition.fit(data, clock, known, logarithm=logarithm, **chosen)
        return cls(decomposition, options.normalize, *sizes, season)

    def moments(self, data: Table, *, each: bool) -> Moments:
        """The moments that linear models are fitted to; of `each` target, if there are few."""
        few = 1 < len(self.decomposition.targets) <= _FEW_TARGETS
        return Moments.of(self.windows(data), self.season, each=each and few)

    def with_linear(self, weights: np.ndarray) -> "Components":
        """Add a linear model."""
        columns = self.decomposition.targets
        return replace(self, linear=LinearModel(columns, weights.astype(np.float32)))

    # ---- Windows ----

    def windows(self, data: Table, **options: Any) -> Windows:
        """The windows of the residuals of a table."""
        decomposition = self.decomposition
        each = list(zip(decomposition.of(data), data.series, data.index, strict=True))
        return Windows(
            [decomposition.residual(*one) for one in each],
            past=self.past,
            horizon=self.horizon,
            known=decomposition.known_channels,
            min_past=1,
            normalize=self.normalize,
            first=self.linear,
            times=[decomposition.times(one, index) for one, _, index in each],
            **options,
        )

    def restore(
        self, data: Table, windows: Windows, chosen: np.ndarray, relative: np.ndarray
    ) -> np.ndarray:
        """Values (windows, horizon, targets, ...) from outputs relative to the linear part."""
        batch = windows.batch(chosen)
        more = (...,) + (None,) * (relative.ndim - 3)
        residual = batch.known[more] + batch.unit[more] * relative
        decomposition, cache = self.decomposition, {}
        several = decomposition.of(data)
        values = np.empty(residual.shape)
        for row, (i, end) in enumerate(np.transpose(windows.locate(chosen)).tolist()):
            if i not in cache:
                known = data.series[i][:, list(decomposition.known)]
                cache = {i: several[i](data.index[i], known)}
            ahead = cache[i][end : end + self.horizon]
            values[row] = decomposition.compose(residual[row], several[i].deviation, ahead)
        return values

    def check(self, columns: int) -> None:
        """Raise ValueError for values of a file that do not fit each other."""
        one = self.decomposition
        clock, size, known = one.clock, len(one.targets), np.zeros((1, len(one.known)))
        if (
            sorted([*one.targets, *one.known]) != list(range(columns))
            or len(one.series) != len(one.ids or (0,))
            or len(one.logarithm) != size
            or clock.unit not in ("seconds", "months", "steps")
            or len(clock.periods) > _MOST_PERIODS
            or min(self.past, self.horizon, self.season, clock.step, *clock.periods) <= 0
        ):
            raise ValueError("trend and seasonal components do not fit the variables")
        for each in one.series:
            positive = [each.step, each.span, *each.deviation]
            if each.clock != clock or len(each.counts) != len(clock.periods) or min(positive) <= 0:
                raise ValueError("trend and seasonal components have impossible numbers")
            if not all(0 <= count <= _MOST_HARMONICS for count in each.counts):
                raise ValueError("trend and seasonal components have impossible harmonics")
            origin = np.zeros(1, np.int64)
            terms = each.terms(origin, known).shape[1]
            _checks.shape("coefficients", each.coefficients, (terms, size))
            _checks.shape("deviation", each.deviation, (size,))
        if self.linear is not None:
            shared = size if len(self.linear.weights) > 1 else 1
            _checks.shape("linear", self.linear.weights, (shared, self.past, self.horizon))
            if self.linear.columns != one.targets:
                raise ValueError("the linear model is of other variables")


def is_positive(data: Table, column: int) -> bool:
    """Whether a variable has values, and all are positive."""
    least = [np.min(array[:, column], where=~np.isnan(array[:, column]), initial=np.inf)
             for array in data.series]  # fmt: skip
    return 0 < min(least) < np.inf
