"""The parts of a forecast that are fitted in closed form: decomposition and linear part.

Options (seasonal components, logarithms, a trend, the normalisation of windows) and the linear part
are selected by the error on the held-out end of each series. If it is short, forecasts from rolling
origins over the second half of the series are used instead, each by a fit to the data before it.
Selections without the origins around a forecast have unbiased errors on it.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from linoss import _checks
from linoss.data import Table
from linoss.forecasting._decomposition import Decomposition, refuse_logarithm
from linoss.forecasting._linear import (
    LinearModel,
    Moments,
    candidate_errors,
    likely_shares,
    naive,
)
from linoss.forecasting._seasonal_trend import Clock, known_mean
from linoss.training import Normalization, Windows

_SERIES, _WINDOWS = 64, 256  # most series and windows for selecting methods
_LONG = 1000  # samples
_FEW_TARGETS = 16  # with linear models of their own
_FEW_WINDOWS = 64  # a held-out part with fewer windows is short
_WORTH = 0.01  # minimum relative improvement of the error by a part
_ORIGINS, _LONG_ORIGINS = 8, 5  # fits of rolling origins
_HELD_OUT = 0.2  # fraction of each series

Split = tuple[Table, Table]
"""A training and a held-out part."""


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
        return self._compose(data, windows, chosen, residual)

    def expected(self, data: Table, windows: Windows, chosen: np.ndarray) -> np.ndarray:
        """(windows, horizon, targets): the forecast by trend, seasons and known variables only."""
        shape = (len(chosen), self.horizon, len(self.decomposition.targets))
        return self._compose(data, windows, chosen, np.zeros(shape))

    def _compose(
        self, data: Table, windows: Windows, chosen: np.ndarray, residual: np.ndarray
    ) -> np.ndarray:
        which, ends = windows.locate(chosen)
        series, cache = self.decomposition.of(data), {}
        values = np.empty(residual.shape)
        for row, (i, end) in enumerate(zip(which.tolist(), ends.tolist(), strict=True)):
            if i not in cache:
                one, index = series[i], data.index[i]
                known = data.series[i][:, list(self.decomposition.known)]
                cache = {i: (one.units(index), one(index, known))}
            units, expected = (each[end : end + self.horizon] for each in cache[i])
            values[row] = self.decomposition.compose(residual[row], units, expected)
        return values

    # ---- Files ----

    def facts(self) -> dict[str, Any]:
        """Everything but arrays, as plain values."""
        return {
            "normalize": self.normalize,
            "sizes": [self.past, self.horizon, self.season],
            "linear": self.linear is not None,
            "decomposition": self.decomposition.facts(),
        }

    def arrays(self) -> dict[str, np.ndarray]:
        """Coefficients."""
        linear = {} if self.linear is None else {"linear": self.linear.weights}
        arrays = self.decomposition.arrays()
        return {**{f"decomposition.{name}": array for name, array in arrays.items()}, **linear}

    @classmethod
    def restored(
        cls,
        facts: dict[str, Any],
        arrays: dict[str, np.ndarray],
        known: tuple[int, ...],
        data: Table,
    ) -> "Components":
        """The inverse of `facts` and `arrays`. Raises for inconsistent values."""
        targets = tuple(i for i in range(len(data.names)) if i not in known)
        prefix = "decomposition."
        own = {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}
        stored = (facts["decomposition"], own, targets, known, data.ids)
        past, horizon, season = map(int, facts["sizes"])
        made = cls(Decomposition.restored(*stored), facts["normalize"], past, horizon, season)
        if not facts["linear"]:
            return made
        weights = arrays["linear"]
        _checks.shape("linear", weights, (len(targets) if len(weights) > 1 else 1, past, horizon))
        if not np.isfinite(weights).all():
            raise ValueError("the linear model has numbers that are not finite")
        return replace(made, linear=LinearModel(targets, weights))


@dataclass(frozen=True)
class TriedMethod:
    """A method that was tried on held-out windows."""

    method: str
    """Its parts, such as `"linear"` or `"seasonal naive (24 steps)"`."""
    error: float
    """Its mean absolute error, relative to the median of all methods; later windows count more."""
    difference: float
    """The difference of its error to that of the best method."""
    standard_error: float
    """The standard error of this difference."""
    is_chosen: bool
    """Whether the forecaster uses it: the simplest method whose difference is within its standard
    error."""


@dataclass(frozen=True)
class Method:
    """A way to forecast: options of components with a linear model, or a naive forecast."""

    name: str
    options: ComponentOptions
    season: int | None = None
    """The season of a naive forecast."""

    @property
    def complexity(self) -> int:
        """The number of its parts."""
        options = self.options
        return (self.season is None) + options.seasonal + options.logarithm + options.trend


Fit = Callable[[Table, ComponentOptions], Components]
"""Fits components, without a linear model, to a table."""


@dataclass(frozen=True, eq=False)
class LinearFit:
    """How the linear model of a method is fitted."""

    season: int | None
    """The season of a naive forecast."""
    errors: list[np.ndarray]
    """The errors of the candidates in each trial."""
    windows: int
    """The number of held-out windows."""
    each: bool

    @classmethod
    def of(
        cls, method: Method, bare: list[Components], splits: list[Split], *, each: bool = True
    ) -> "LinearFit":
        """From trials of the candidates on the components of each training part."""
        pairs = list(zip(bare, splits, strict=True))
        windows = [one.windows(after) for one, (_, after) in pairs]
        errors = []
        if method.season is None:
            moments = [one.moments(training, each=each) for one, (training, _) in pairs]
            errors = [candidate_errors(*pair) for pair in zip(moments, windows, strict=True)]
        return cls(method.season, errors, sum(map(len, windows)), each)

    def added(self, components: Components, data: Table) -> Components:
        """Components with the linear model."""
        if self.season is not None:
            sizes = components.past, components.horizon
            return components.with_linear(naive(*sizes, self.season))
        moments = components.moments(data, each=self.each)
        shares = likely_shares(self.errors, self.windows, components.horizon)
        return components.with_linear(moments.mean(shares))

    def without(self, place: int) -> "LinearFit":
        """Without a trial and those adjacent to it, if there are others."""
        far = [each for i, each in enumerate(self.errors) if abs(i - place) > 1]
        others = [each for i, each in enumerate(self.errors) if i != place]
        return replace(self, errors=far or others or self.errors)


@dataclass(frozen=True, eq=False)
class Selection:
    """The selected components, fitted to all data and to a training part."""

    components: Components
    """Fitted to all data."""
    before: Components
    """Fitted to the training part."""
    training: Table
    held_out: Table | None
    errors: np.ndarray | None = None
    """(windows, horizon, targets): for short series, cross-fitted errors from rolling origins, in
    the units of `components`; otherwise None."""
    trials: tuple[TriedMethod, ...] = ()
    """All methods that were tried, the simplest first."""

    @classmethod
    def of(
        cls, data: Table, fit: Fit, methods: list[Method], fraction: float | None
    ) -> "Selection":
        """Select the simplest of the methods that is not worse than the best one."""
        bare = fit(data, methods[0].options)
        sizes = bare.past, bare.horizon
        training, held_out = split_end(data, *sizes, fraction)
        is_short = held_out is None or len(bare.windows(held_out)) < _FEW_WINDOWS
        splits = rolling_origins(data, *sizes, _ORIGINS if is_short else _LONG_ORIGINS)
        if not splits:
            return cls(bare, bare, training, held_out)
        if is_short:  # the mean of linear models is better than a choice
            methods = [method for method in methods if method.season is None]
        method, trials = _best(splits, fit, methods)
        model = LinearFit.of(method, [fit(part, method.options) for part, _ in splits], splits)

        def finished(part: Table, model: LinearFit) -> Components:
            return model.added(fit(part, method.options), part)

        before, components = finished(training, model), finished(data, model)
        if not is_short or fraction == 0:
            return cls(components, before, training, held_out, trials=trials)
        missed = [
            _missed(finished(part, model.without(place)), after, components)
            for place, (part, after) in enumerate(splits)
        ]
        return cls(components, before, training, held_out, np.concatenate(missed), trials)


def _best(
    splits: list[Split], fit: Fit, methods: list[Method]
) -> tuple[Method, tuple[TriedMethod, ...]]:
    """The simplest method within a standard error of the best one, and what was tried."""
    some = [(_some(training), _some(held_out)) for training, held_out in splits]
    cache: dict[Any, Components] = {}

    def cached(part: Table, options: ComponentOptions) -> Components:
        key = (id(part), replace(options, normalize="none"))
        if key not in cache:
            cache[key] = fit(part, options)
        return replace(cache[key], normalize=options.normalize)

    errors = np.array([_errors(method, some, cached) for method in methods])
    kept = np.isfinite(errors).all(axis=0) & errors.any(axis=0)
    if not kept.any():
        return methods[0], ()
    errors = errors[:, kept] / np.median(errors[:, kept], axis=0)
    count = errors.shape[1]
    weights = np.linspace(1, 2, count) / np.linspace(1, 2, count).sum()
    means = errors @ weights
    best = int(np.argmin(means))
    away = errors - errors[best]
    spread = np.sqrt(((away - (away @ weights)[:, None]) ** 2) @ weights**2)
    spread *= np.sqrt(count / max(count - 1, 1))
    allowed = np.maximum(spread, _WORTH * means[best])
    fine = np.flatnonzero(means - means[best] <= allowed)
    chosen = min(fine.tolist(), key=lambda i: (methods[i].complexity, means[i]))
    rows = zip(means.tolist(), (means - means[best]).tolist(), spread.tolist(), strict=True)
    trials = [TriedMethod(methods[i].name, *row, i == chosen) for i, row in enumerate(rows)]
    return methods[chosen], tuple(trials)


def _errors(method: Method, splits: list[Split], fit: Fit) -> list[float]:
    """The mean absolute error on each held-out part, in deviations of each series."""
    bare = [fit(training, method.options) for training, _ in splits]
    model = LinearFit.of(method, bare, splits, each=False)
    means = []
    for each, (training, held_out) in zip(bare, splits, strict=True):
        fitted = model.added(each, training)
        windows, targets = fitted.windows(held_out), list(fitted.decomposition.targets)
        chosen = np.unique(np.linspace(0, len(windows) - 1, _WINDOWS // len(splits)).astype(int))
        nothing = np.zeros((len(chosen), fitted.horizon, len(targets)))
        forecasts = fitted.restore(held_out, windows, chosen, nothing)
        which, ends = windows.locate(chosen)
        errors = []
        for forecast, i, end in zip(forecasts, which.tolist(), ends.tolist(), strict=True):
            values = held_out.series[i][:, targets]
            unit = known_mean(np.abs(values - known_mean(values, 0)), 0)
            error = np.abs(forecast - values[end : end + fitted.horizon])
            errors.append(np.minimum(error / np.maximum(unit, 1e-12), 1e6))
        means.append(float(known_mean(np.array(errors))))
    return means


def _missed(fitted: Components, held_out: Table, final: Components) -> np.ndarray:
    """Errors on a held-out part, in the units of the final fit."""
    windows = fitted.windows(held_out)
    every = np.arange(len(windows))
    own, last = (
        np.stack([one.deviation for one in each.decomposition.of(held_out)])
        for each in (fitted, final)
    )
    return windows.batch(every).labels * (own / last)[windows.locate(every)[0]][:, None]


def methods_of(
    data: Table, clock: Clock, known: tuple[int, ...], past: int, settings: dict[str, Any]
) -> list[Method]:
    """Naive forecasts, and all options where `settings` has `"auto"`, the simplest first."""
    targets = [i for i in range(len(data.names)) if i not in known]
    if settings["logarithm"] is True:
        refuse_logarithm(data, targets)
    is_long = max(len(array) for array in data.series) >= _LONG
    has_trend = not is_long and (bool(clock.periods) or clock.unit != "steps")
    choices: dict[str, Sequence[Any]] = {
        "seasonal": (False, True) if clock.periods else (False,),
        "logarithm": (False, True) if all(is_positive(data, i) for i in targets) else (False,),
        "trend": (False, True) if has_trend else (False,),
        "normalize": ("level", "none"),
    }
    lists = [
        choices[name] if settings.get(name, "auto") == "auto" else (settings[name],)
        for name in choices
    ]
    methods = []
    plain = ComponentOptions(seasonal=False, normalize="level")
    if not known and not any(settings[name] is True for name in ("logarithm", "trend")):
        methods.append(Method("naive", plain, 1))
        for season in sorted({round(period / clock.step) for period in clock.periods}):
            if 1 < season <= past:
                methods.append(Method(f"seasonal naive ({season} steps)", plain, season))
    for each in itertools.product(*lists):
        options = ComponentOptions(*each)
        if is_long and not options.seasonal and options.normalize == "none" and len(lists[3]) > 1:
            continue  # returns to the mean of all data
        methods.append(Method(_name(options), options))
    return methods


def _name(options: ComponentOptions) -> str:
    parts = [
        *(["trend"] if options.trend else []),
        *(["seasonal components"] if options.seasonal else []),
        "linear model" if options.normalize == "none" else f"linear model ({options.normalize})",
    ]
    return " + ".join(parts) + (", of logarithms" if options.logarithm else "")


def _some(data: Table) -> Table:
    """An evenly spaced subset of the series of a table."""
    if data.ids is None or len(data.series) <= _SERIES:
        return data
    kept = np.linspace(0, len(data.series) - 1, _SERIES).astype(int)
    return data.pick(kept)


def split_end(
    data: Table, past: int, horizon: int, fraction: float | None
) -> tuple[Table, Table | None]:
    """Split off the end of each series, with its past; None if all are too short."""
    fraction = _HELD_OUT if fraction is None else fraction
    if fraction == 0:
        return data, None
    first, second, kept = [], [], []
    for i, array in enumerate(data.series):
        size = max(round(fraction * len(array)), 2 * horizon)
        if len(array) < 2 * size + past:
            size = max(round(fraction * len(array)), horizon)
        if len(array) < 2 * size + past:  # too short to divide
            first.append(slice(None))
            continue
        first.append(slice(None, -size))
        second.append(slice(-size - past, None))
        kept.append(i)
    if not second:
        return data, None
    return cut(data, range(len(first)), first), cut(data, kept, second)


def rolling_origins(data: Table, past: int, horizon: int, count: int) -> list[Split]:
    """Pairs of a training part and the windows after it, over the second half of each series."""
    steps = []
    for array in data.series:
        last = len(array) - horizon
        first = min(max(len(array) // 2, horizon + 1), last + 1)
        steps.append(np.linspace(first, last + 1, count + 1).astype(int))
    splits = []
    for d in range(count):
        kept = [i for i, each in enumerate(steps) if each[d] < each[d + 1]]
        if kept:
            ends = [(int(steps[i][d]), int(steps[i][d + 1])) for i in kept]
            before = [slice(0, start) for start, _ in ends]
            after = [slice(max(0, start - past), end - 1 + horizon) for start, end in ends]
            splits.append((cut(data, kept, before), cut(data, kept, after)))
    return splits


def cut(data: Table, kept: Iterable[int], rows: list[slice]) -> Table:
    """A subset of the series of a table, with a subset of their rows."""
    chosen = data.pick(kept)
    return replace(
        chosen,
        series=[array[row] for array, row in zip(chosen.series, rows, strict=True)],
        index=[index[row] for index, row in zip(chosen.index, rows, strict=True)],
    )


def is_positive(data: Table, column: int) -> bool:
    """Whether a variable has values, and all are positive."""
    values = [array[:, column] for array in data.series]
    return all(bool(np.all((v > 0) | np.isnan(v))) for v in values) and any(
        bool(np.isfinite(v).any()) for v in values
    )
