"""The parts of a forecast that are fitted in closed form: decomposition and linear part.

Options (seasonal components, logarithms, a trend, the normalisation of windows) and the linear part
are selected by the error on the held-out end of each series. If it is short, forecasts from rolling
origins over the second half of the series are used instead, each by a fit to the data before it.
Selections without the origins around a forecast have unbiased errors on it.
"""

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from linoss import _checks
from linoss.data import Table
from linoss.forecasting._decomposition import Decomposition, refuse_logarithm
from linoss.forecasting._linear import (
    LinearPart,
    LinearSums,
    LinearTrial,
    choose,
    lag_blocks,
    relative_errors,
    sums_of,
)
from linoss.forecasting._seasonal_trend import Clock, SeasonalTrend, known_mean
from linoss.training import Normalization, Windows

_SERIES, _WINDOWS = 32, 128  # most series and windows for selecting options
_FEW_WINDOWS = 64  # a held-out part with fewer windows is short
_WORTH = 0.02  # minimum relative improvement of the error by an option
_ORIGINS = 8  # fits of rolling origins
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
    linear: LinearPart | None = None

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

    def trial(self, training: Table, held_out: Table) -> LinearTrial:
        """Candidates of the linear part, fitted to a training part, with held-out windows."""
        return LinearTrial.of(self.sums(training), self.windows(held_out))

    def sums(self, data: Table) -> LinearSums:
        """The sums of products that linear parts are fitted to."""
        return sums_of(self.windows(data), self.season)

    def with_linear(self, shares: np.ndarray, sums: LinearSums) -> "Components":
        """Add a linear part, with a share of each candidate."""
        return replace(self, linear=sums.part(shares))

    # ---- Windows ----

    def windows(self, data: Table, **options: Any) -> Windows:
        """The windows of the residuals of a table."""
        decomposition = self.decomposition
        series, static = decomposition.of(data), decomposition.static(data)
        each = list(zip(series, data.series, data.index, static, strict=True))
        return Windows(
            [decomposition.residual(*one) for one in each],
            past=self.past,
            horizon=self.horizon,
            known=decomposition.known_channels,
            min_past=1,
            normalize=self.normalize,
            first=self.linear,
            times=[decomposition.times(one, index) for one, _, index, _ in each],
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

    def between_steps(
        self,
        one: SeasonalTrend,
        end: tuple[Any, np.ndarray],
        ahead: tuple[np.ndarray, np.ndarray],
        times: np.ndarray,
    ) -> np.ndarray:
        """Values (times, targets, ...) from those of the steps `ahead` (times and values).

        Trend and seasonal components are those of each time; residuals are interpolated. `end` is
        the time and value before the steps.
        """
        decomposition, (last, value), (grid, values) = self.decomposition, end, ahead
        none = np.zeros((len(grid), 0))
        flat = values.reshape(len(grid), len(one.deviation), -1)
        columns = [decomposition.transform(flat[..., i]) for i in range(flat.shape[-1])]
        residual = np.stack(columns, axis=-1) - one(grid, none)[..., None]
        now = decomposition.transform(value[None]) - one(np.array([last]), none[:1])
        start = np.where(np.isnan(now)[..., None], residual[:1], now[..., None])
        residual = np.concatenate([np.broadcast_to(start, (1, *residual.shape[1:])), residual])
        numbers = decomposition.clock.numbers
        known = numbers(np.concatenate([np.array([last]), grid]))
        wanted = numbers(times)
        between = [np.interp(wanted, known, y) for y in residual.reshape(len(known), -1).T]
        between = np.stack(between, axis=1).reshape(len(times), *values.shape[1:])
        expected = one(times, np.zeros((len(times), 0)))
        return decomposition.compose(between, np.ones(expected.shape), expected)

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
        blocks, weights = lag_blocks(past, len(targets)), arrays["linear"]
        size = len(targets) * len(blocks) + 1
        _checks.shape("linear", weights, (size, horizon * len(targets)))
        if not np.isfinite(weights).all():
            raise ValueError("the linear part has numbers that are not finite")
        return replace(made, linear=LinearPart(blocks, targets, horizon, weights))


Fit = Callable[[Table, ComponentOptions], Components]
"""Fits components, without a linear part, to a table."""


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

    @classmethod
    def of(
        cls, data: Table, fit: Fit, candidates: list[ComponentOptions], fraction: float | None
    ) -> "Selection":
        """Select one of the candidates; the first unless another one is better by a margin."""
        bare = fit(data, candidates[0])
        sizes = bare.past, bare.horizon
        training, held_out = split_end(data, *sizes, fraction)
        is_short = held_out is None or len(bare.windows(held_out)) < _FEW_WINDOWS
        is_short = is_short and fraction != 0
        splits = [] if held_out is None else [(training, held_out)]
        splits = rolling_origins(data, *sizes) if is_short else splits
        if not splits:
            return cls(bare, bare, training, held_out)
        options, trials = _best(splits, fit, candidates, mean=is_short)
        shares = choose(trials, mean=is_short)
        before, components = fit(training, options), fit(data, options)
        before = before.with_linear(shares, before.sums(training))
        components = components.with_linear(shares, components.sums(data))
        if not is_short:
            return cls(components, before, training, held_out)
        errors = []
        for place, (part, after) in enumerate(splits):
            without = choose(_far(trials, place), mean=True)
            fitted = fit(part, options).with_linear(without, trials[place].sums)
            errors.append(_errors(fitted, after, components))
        return cls(components, before, training, held_out, np.concatenate(errors))


def _best(
    splits: list[Split], fit: Fit, candidates: list[ComponentOptions], *, mean: bool
) -> tuple[ComponentOptions, list[LinearTrial]]:
    """The best candidate, and its trials on each of the held-out parts."""
    if len(candidates) > 1:
        some = [(_some(training), _some(held_out)) for training, held_out in splits]
        cache: dict[Any, Components] = {}

        def cached(part: Table, options: ComponentOptions) -> Components:
            key = (id(part), replace(options, normalize="none"))
            if key not in cache:
                cache[key] = fit(part, options)
            return replace(cache[key], normalize=options.normalize)

        errors = np.array([_errors_of(each, some, cached, mean=mean) for each in candidates])
        errors = relative_errors(errors.T)
        best = int(np.nanargmin(errors)) if np.isfinite(errors).any() else 0
        good = [i for i, e in enumerate(errors) if e <= (1 + _WORTH) * errors[best]]
        candidates = [candidates[min(good, default=0)]]
    (options,) = candidates
    return options, [fit(split[0], options).trial(*split) for split in splits]


def _errors_of(
    options: ComponentOptions, splits: list[Split], fit: Fit, *, mean: bool
) -> list[float]:
    """The mean absolute error on each held-out part, in deviations of each series."""
    bare = [fit(training, options) for training, _ in splits]
    trials = [each.trial(*split) for each, split in zip(bare, splits, strict=True)]
    shares = choose(trials, mean=mean)
    means = []
    for each, trial, (_, held_out) in zip(bare, trials, splits, strict=True):
        fitted = each.with_linear(shares, trial.sums)
        windows, targets = fitted.windows(held_out), list(fitted.decomposition.targets)
        chosen = np.unique(np.linspace(0, len(windows) - 1, _WINDOWS).astype(int))
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


def _far(trials: list[LinearTrial], place: int) -> list[LinearTrial]:
    """The trials that are not adjacent to one."""
    far = [each for i, each in enumerate(trials) if abs(i - place) > 1]
    return far or [each for i, each in enumerate(trials) if i != place] or trials


def _errors(fitted: Components, held_out: Table, final: Components) -> np.ndarray:
    """Errors on a held-out part, in the units of the final fit."""
    windows = fitted.windows(held_out)
    every = np.arange(len(windows))
    own, last = (
        np.stack([one.deviation for one in each.decomposition.of(held_out)])
        for each in (fitted, final)
    )
    return windows.batch(every).labels * (own / last)[windows.locate(every)[0]][:, None]


def candidates_of(
    data: Table, clock: Clock, known: tuple[int, ...], settings: dict[str, Any]
) -> list[ComponentOptions]:
    """All options where `settings` has `"auto"`, the simplest first."""
    targets = [i for i in range(len(data.names)) if i not in known]
    if settings["logarithm"] is True:
        refuse_logarithm(data, targets)
    choices: dict[str, Iterable[Any]] = {
        "seasonal": (True, False) if clock.periods else (True,),
        "logarithm": (False, True) if all(is_positive(data, i) for i in targets) else (False,),
        "trend": (False, True) if clock.periods or clock.unit != "steps" else (False,),
        "normalize": ("none", "level"),
    }
    settings = {"seasonal": "auto", **settings}
    lists = [choices[name] if settings[name] == "auto" else (settings[name],) for name in choices]
    return [ComponentOptions(*each) for each in itertools.product(*lists)]


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


def rolling_origins(data: Table, past: int, horizon: int) -> list[Split]:
    """Pairs of a training part and the windows after it, over the second half of each series."""
    steps = []
    for array in data.series:
        last = len(array) - horizon
        first = min(max(len(array) // 2, horizon + 1), last + 1)
        steps.append(np.linspace(first, last + 1, _ORIGINS + 1).astype(int))
    splits = []
    for d in range(_ORIGINS):
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
