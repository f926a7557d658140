"""The selection of a method, by rolling origins.

A method is a set of options (seasonal components, logarithms, a trend, the normalisation of
windows) with a linear model, or a naive forecast. Each is fitted to the data before several
origins in the second half of the series, and forecasts the windows between an origin and the next;
later ones count more. The simplest method within a standard error of the best one is chosen. For
short series, the errors of the chosen method, without the origins around a forecast, are unbiased.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from linoss.data import DataError, Table
from linoss.forecasting._components import ComponentOptions, Components, is_positive
from linoss.forecasting._linear import Moments, candidate_errors, likely_shares, naive
from linoss.forecasting._seasonal_trend import Clock, known_mean

_SERIES, _TARGETS, _WINDOWS = 64, 32, 256  # most of them for selecting methods
_LONG = 1000  # samples
_FEW_WINDOWS = 64  # a held-out part with fewer windows is short
_WORTH = 0.01  # minimum relative improvement of the error by a part
_ORIGINS, _LONG_ORIGINS = 8, 5  # fits of rolling origins
_HELD_OUT = 0.2  # fraction of each series
_ERRORS, _ERROR_NUMBERS = 1024, 2 * 10**6  # most errors of rolling origins

Split = tuple[Table, Table]
"""A training and a held-out part."""


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
        options, simple = self.options, {1: 0, None: 2}.get(self.season, 1)
        return simple + options.seasonal + options.logarithm + options.trend


Fit = Callable[[Table, ComponentOptions], Components]
"""Fits components, without a linear model, to a table."""


@dataclass(frozen=True, eq=False)
class LinearFits:
    """The linear models of a method, with trials of the candidates after several origins."""

    season: int | None
    """The season of a naive forecast."""
    bare: list[Components]
    """The components of each trial, without a linear model."""
    moments: list[Moments]
    errors: list[np.ndarray]
    """The errors of the candidates in each trial."""
    windows: int
    """The number of held-out windows."""
    each: bool

    @classmethod
    def of(cls, method: Method, splits: list[Split], fit: Fit, *, each: bool) -> "LinearFits":
        """Fit the components to each training part, and try the candidates on the windows after."""
        bare = [fit(training, method.options) for training, _ in splits]
        windows = [one.windows(after) for one, (_, after) in zip(bare, splits, strict=True)]
        moments, errors = [], []
        if method.season is None:
            pairs = zip(bare, splits, strict=True)
            moments = [one.moments(training, each=each) for one, (training, _) in pairs]
            errors = [candidate_errors(*pair) for pair in zip(moments, windows, strict=True)]
        return cls(method.season, bare, moments, errors, sum(map(len, windows)), each)

    def of_trial(self, place: int, *, with_own: bool) -> Components:
        """Those of a trial; the shares of candidates by all trials, or by those that are not
        adjacent to it."""
        if self.season is not None:
            return self.to(self.bare[place], None)
        errors = self.errors
        if not with_own:
            far = [each for i, each in enumerate(errors) if abs(i - place) > 1]
            errors = far or [each for i, each in enumerate(errors) if i != place] or errors
        return self.to(self.bare[place], self.moments[place], errors)

    def to(
        self, bare: Components, moments: Moments | None, errors: list[np.ndarray] | None = None
    ) -> Components:
        """Components with a linear model, or a naive forecast."""
        sizes = bare.past, bare.horizon
        if moments is None:
            return bare.with_linear(naive(*sizes, self.season or 1))
        errors = self.errors if errors is None else errors
        return bare.with_linear(moments.mean(likely_shares(errors, self.windows, bare.horizon)))

    def fitted(self, bare: Components, data: Table) -> Components:
        """Fit to other data."""
        return self.to(bare, None if self.season else bare.moments(data, each=self.each))


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
    """(windows, horizon, targets): errors of forecasts from rolling origins, in the units of
    `components`."""
    is_short: bool = False
    """Whether there are too few windows to tell whether a trained model helps."""
    trials: tuple[TriedMethod, ...] = ()
    """All methods that were tried, the simplest first."""

    @classmethod
    def of(
        cls,
        data: Table,
        fit: Fit,
        methods: list[Method],
        fraction: float | None,
        known: Sequence[Any] = (),
    ) -> "Selection":
        """Select the simplest of the methods that is not worse than the best one.

        `known` are the names of variables known in advance.
        """
        bare = fit(data, methods[0].options)
        sizes = bare.past, bare.horizon
        training, held_out = split_end(data, *sizes, fraction)
        is_short = held_out is None or len(bare.windows(held_out)) < _FEW_WINDOWS
        splits = rolling_origins(data, *sizes, _ORIGINS if is_short else _LONG_ORIGINS)
        if not splits:
            return cls(bare, bare, training, held_out)
        if is_short:  # the mean of linear models is better than a choice
            methods = [method for method in methods if method.season is None]
        method, trials = _best(splits, fit, methods, known)
        fits = LinearFits.of(method, splits, fit, each=True)
        before, components = (
            fits.fitted(fit(part, method.options), part) for part in (training, data)
        )
        errors = None if fraction == 0 else np.concatenate([
            _missed(fits.of_trial(i, with_own=not is_short), after, components, len(splits))
            for i, (_, after) in enumerate(splits)
        ])  # fmt: skip
        return cls(components, before, training, held_out, errors, is_short, trials)


def _best(
    splits: list[Split], fit: Fit, methods: list[Method], known: Sequence[Any]
) -> tuple[Method, tuple[TriedMethod, ...]]:
    """The simplest method within a standard error of the best one, and what was tried."""
    some = [(_some(training, known), _some(held_out, known)) for training, held_out in splits]
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
    fits = LinearFits.of(method, splits, fit, each=False)
    means = []
    for place, (_, held_out) in enumerate(splits):
        fitted = fits.of_trial(place, with_own=True)
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


def _missed(fitted: Components, held_out: Table, final: Components, parts: int) -> np.ndarray:
    """Errors on a held-out part, in the units of the final fit."""
    windows, targets = fitted.windows(held_out), len(fitted.decomposition.targets)
    most = min(_ERRORS, _ERROR_NUMBERS // (fitted.horizon * targets)) // parts
    some = np.unique(np.linspace(0, len(windows) - 1, max(1, most)).astype(int))
    own, last = (
        np.stack([one.deviation for one in each.decomposition.of(held_out)])
        for each in (fitted, final)
    )
    return windows.batch(some).labels * (own / last)[windows.locate(some)[0]][:, None]


def methods_of(
    data: Table, clock: Clock, known: tuple[int, ...], past: int, settings: dict[str, Any]
) -> list[Method]:
    """Naive forecasts, and all options where `settings` has `"auto"`, the simplest first."""
    targets = [i for i in range(len(data.names)) if i not in known]
    has_logarithm = all(is_positive(data, i) for i in targets)
    if settings["logarithm"] is True and not has_logarithm:
        raise DataError(
            "logarithm is True, but some values are not above 0; use logarithm=False, or 'auto'"
        )
    is_long = max(len(array) for array in data.series) >= _LONG
    has_trend = not is_long and (bool(clock.periods) or clock.unit != "steps")
    choices: dict[str, Sequence[Any]] = {
        "seasonal": (False, True) if clock.periods else (False,),
        "logarithm": (False, True) if has_logarithm else (False,),
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


def _some(data: Table, known: Sequence[Any]) -> Table:
    """An evenly spaced subset of the series and targets of a table, with its known variables."""
    kept = np.linspace(0, len(data.series) - 1, min(len(data.series), _SERIES)).astype(int)
    data = data.pick(kept)
    targets = [i for i, name in enumerate(data.names) if name not in known]
    chosen = np.linspace(0, len(targets) - 1, min(len(targets), _TARGETS)).astype(int)
    left_out = set(targets) - {targets[i] for i in chosen}
    columns = [i for i in range(len(data.names)) if i not in left_out]
    series = [values[:, columns] for values in data.series]
    return replace(data, series=series, names=tuple(data.names[i] for i in columns))


def split_end(
    data: Table, past: int, horizon: int, fraction: float | None
) -> tuple[Table, Table | None]:
    """Split off the end of each series, with its past; None if all are too short."""
    fraction = _HELD_OUT if fraction is None else fraction
    if fraction == 0:
        return data, None
    sizes = []
    for length in map(len, data.series):
        few = max(round(fraction * length), horizon)
        size = next((n for n in (max(few, 2 * horizon), few) if length >= 2 * n + past), 0)
        sizes.append(size)  # 0 if it is too short to divide
    kept = [i for i, size in enumerate(sizes) if size]
    if not kept:
        return data, None
    training = [slice(0, len(array) - size) for array, size in zip(data.series, sizes, strict=True)]
    return (
        cut(data, range(len(sizes)), training),
        cut(data, kept, [slice(-sizes[i] - past, None) for i in kept]),
    )


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
