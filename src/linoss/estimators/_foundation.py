"""The closed-form part of a forecaster: trend, seasons, and a linear forecast.

Options (logarithms, a trend, the normalisation of windows) are selected by the error on held-out
windows. A trained model then forecasts the remainder.
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from linoss.data import DataError, Table
from linoss.estimators._adjustment import Adjustment, refuse_logarithm
from linoss.estimators._direct import Direct, LinearChoice, choose, lag_blocks, sums_of
from linoss.estimators._known import known_mean
from linoss.estimators._seasons import Clock
from linoss.training import Normalization, Windows

_SERIES, _WINDOWS = 32, 128  # most series and windows for selecting options
_FEWEST_WINDOWS = 2  # fewest windows for any selection
_FEW_WINDOWS = 64  # with fewer windows, options are selected on several divisions of the data
_WORTH = 0.02  # minimum relative improvement of the error by an option
_DIVISIONS, _FEW_DIVISIONS = 3, 6  # most divisions; the latter with very few windows
_VERY_FEW_WINDOWS = 16
_HELD_OUT = 0.2  # fraction of each series


@dataclass(frozen=True)
class FoundationOptions:
    """The options of the closed-form part."""

    seasonal: bool = True
    logarithm: bool = False
    trend: bool = False
    normalize: Normalization = "none"


@dataclass(frozen=True, eq=False)
class Foundation:
    """The closed-form part of a forecaster."""

    adjustment: Adjustment
    normalize: Normalization
    past: int
    horizon: int
    direct: Direct | None = None

    # ---- Fitting ----

    @classmethod
    def fit(
        cls,
        parts: tuple[Table, Table | None],
        clock: Clock,
        known: tuple[int, ...],
        sizes: tuple[int, int],
        options: FoundationOptions,
    ) -> "tuple[Foundation, LinearChoice | None]":
        """Fit to a training part; select the share of the linear forecast on the held-out part."""
        training, held_out = parts
        bare = cls.without_answer(training, clock, known, sizes, options)
        return (bare, None) if held_out is None else bare.with_answer(training, held_out)

    def with_answer(self, training: Table, held_out: Table) -> "tuple[Foundation, LinearChoice]":
        """Add the linear forecast that is best on held-out windows."""
        sums = sums_of(self.windows(training))
        choice = choose(sums, self.windows(held_out))
        return replace(self, direct=choice.weights(sums)), choice

    @classmethod
    def again(
        cls,
        data: Table,
        clock: Clock,
        known: tuple[int, ...],
        sizes: tuple[int, int],
        options: FoundationOptions,
        choice: LinearChoice | None,
    ) -> "Foundation":
        """Refit to all data, with the same choices."""
        bare = cls.without_answer(data, clock, known, sizes, options)
        if choice is None:
            return bare
        return replace(bare, direct=choice.weights(sums_of(bare.windows(data))))

    @classmethod
    def without_answer(
        cls,
        data: Table,
        clock: Clock,
        known: tuple[int, ...],
        sizes: tuple[int, int],
        options: FoundationOptions,
    ) -> "Foundation":
        """Only trend and seasons."""
        targets = [i for i in range(len(data.names)) if i not in known]
        logarithm = tuple(options.logarithm and _positive(data, i) for i in targets)
        how = {"trend": options.trend, "seasonal": options.seasonal}
        adjustment = Adjustment.fit(data, clock, known, logarithm=logarithm, **how)
        return cls(adjustment, options.normalize, *sizes)

    # ---- Windows ----

    def windows(self, data: Table, **more: Any) -> Windows:
        """The adjusted windows of a table."""
        places, static = self.adjustment.place(data), self.adjustment.statics(data)
        series = [
            self.adjustment.apply(*each)
            for each in zip(places, data.series, data.index, static, strict=True)
        ]
        return Windows(
            series,
            past=self.past,
            horizon=self.horizon,
            known=self.adjustment.known_channels,
            min_past=1,
            normalize=self.normalize,
            first=self.direct,
            times=[self.adjustment.times(*each) for each in zip(places, data.index, strict=True)],
            **more,
        )

    def restore(
        self, data: Table, windows: Windows, chosen: np.ndarray, relative: np.ndarray
    ) -> np.ndarray:
        """Values (windows, horizon, targets, ...) from outputs relative to the base forecast."""
        batch = windows.batch(chosen)
        more = (...,) + (None,) * (relative.ndim - 3)
        adjusted = batch.known[more] + batch.unit[more] * relative
        return self._undone(data, windows, chosen, adjusted)

    def expected(self, data: Table, windows: Windows, chosen: np.ndarray) -> np.ndarray:
        """(windows, horizon, targets): the forecast by trend, seasons and known variables only."""
        shape = (len(chosen), self.horizon, len(self.adjustment.targets))
        return self._undone(data, windows, chosen, np.zeros(shape))

    def _undone(
        self, data: Table, windows: Windows, chosen: np.ndarray, adjusted: np.ndarray
    ) -> np.ndarray:
        which, ends = windows.locate(chosen)
        places, cache = self.adjustment.place(data), {}
        found = np.empty(adjusted.shape)
        for row, (i, end) in enumerate(zip(which.tolist(), ends.tolist(), strict=True)):
            seasons, deviation = places[i]
            if i not in cache:
                known = data.series[i][:, list(self.adjustment.known)]
                spread = seasons.spread(data.index[i])
                units = np.broadcast_to(deviation * spread, (len(known), len(deviation)))
                cache = {i: (seasons(data.index[i], known), units)}
            expected, units = (each[end : end + self.horizon] for each in cache[i])
            found[row] = self.adjustment.undo(units, adjusted[row], expected)
        return found

    # ---- Files ----

    def facts(self) -> dict[str, Any]:
        """Everything but arrays, as plain values."""
        return {
            "normalize": self.normalize,
            "linear": self.direct is not None,
            "adjustment": self.adjustment.facts(),
        }

    def arrays(self) -> dict[str, np.ndarray]:
        """Coefficients."""
        linear = {} if self.direct is None else {"direct.weights": self.direct.weights}
        return {**self.adjustment.arrays(), **linear}

    @classmethod
    def restored(
        cls,
        facts: dict[str, Any],
        arrays: dict[str, np.ndarray],
        sizes: tuple[int, int],
        columns: tuple[tuple[int, ...], tuple[int, ...]],
        ids: tuple[Any, ...] | None,
    ) -> "Foundation":
        """The inverse of `facts` and `arrays`. Raises for inconsistent values."""
        adjustment = Adjustment.restored(facts["adjustment"], arrays, *columns, ids)
        made = cls(adjustment, facts["normalize"], *sizes)
        if not facts["linear"]:
            return made
        (past, horizon), targets = sizes, len(columns[0])
        blocks, weights = lag_blocks(past, targets), arrays["direct.weights"]
        if weights.shape != (targets * len(blocks) + 1, horizon * targets):
            raise ValueError(f"the linear answer has shape {weights.shape}, which does not fit")
        if not np.isfinite(weights).all():
            raise ValueError("the linear answer has numbers that are not finite")
        return replace(made, direct=Direct(blocks, columns[0], horizon, weights))


def choose_options(
    data: Table,
    divisions: list[tuple[Table, Table]],
    clock: Clock,
    known: tuple[int, ...],
    sizes: tuple[int, int],
    asked: dict[str, Any],
) -> FoundationOptions:
    """Select the options for which `asked` has `"auto"`, by the error on held-out windows.

    `divisions` are pairs of a training and a held-out part. The simplest option is kept unless
    another one is better by a margin.
    """
    targets = [i for i in range(len(data.names)) if i not in known]
    if asked["logarithm"] is True:
        refuse_logarithm(data, targets)
    choices: dict[str, Iterable[Any]] = {
        "seasonal": (True, False) if clock.periods else (True,),
        "logarithm": (False, True) if all(_positive(data, i) for i in targets) else (False,),
        "trend": (False, True) if clock.periods or clock.unit != "steps" else (False,),
        "normalize": ("none", "level"),
    }
    asked = {"seasonal": "auto", **asked}
    lists = [choices[name] if asked[name] == "auto" else (asked[name],) for name in choices]
    candidates = [FoundationOptions(*each) for each in itertools.product(*lists)]
    seen = sum(_count(held_out, sizes) for _, held_out in divisions)
    if len(candidates) == 1 or seen < _FEWEST_WINDOWS:
        return candidates[0]
    pairs = [(_some(training), _some(held_out)) for training, held_out in divisions]
    cache: dict[Any, Foundation] = {}
    errors = [
        np.mean([_error(each, parts, clock, known, sizes, cache) for parts in pairs])
        for each in candidates
    ]
    best = int(np.nanargmin(errors)) if np.isfinite(errors).any() else 0
    good = [i for i, e in enumerate(errors) if e <= (1 + _WORTH) * errors[best]]
    return candidates[min(good, default=0)]


def _error(
    options: FoundationOptions,
    parts: tuple[Table, Table],
    clock: Clock,
    known: tuple[int, ...],
    sizes: tuple[int, int],
    cache: dict[Any, Foundation],
) -> float:
    """The mean absolute error on the held-out part, in standard deviations of each series."""
    training, held_out = parts
    key = (id(training), options.seasonal, options.logarithm, options.trend)
    if key not in cache:
        cache[key] = Foundation.without_answer(training, clock, known, sizes, options)
    bare = replace(cache[key], normalize=options.normalize)
    made, _ = bare.with_answer(training, held_out)
    windows = made.windows(held_out)
    chosen = np.unique(np.linspace(0, len(windows) - 1, _WINDOWS).astype(int))
    found = made.restore(held_out, windows, chosen, np.zeros((len(chosen), *_shape(made))))
    which, ends = windows.locate(chosen)
    errors = []
    for answer, i, end in zip(found, which.tolist(), ends.tolist(), strict=True):
        values = held_out.series[i][:, list(made.adjustment.targets)]
        unit = known_mean(np.abs(values - known_mean(values, 0)), 0)
        errors.append(np.abs(answer - values[end : end + made.horizon]) / np.maximum(unit, 1e-12))
    return float(known_mean(np.minimum(errors, 1e6)))


def _count(held_out: Table, sizes: tuple[int, int]) -> int:
    return sum(max(len(array) - sum(sizes) + 1, 0) for array in held_out.series)


def _shape(made: Foundation) -> tuple[int, int]:
    return made.horizon, len(made.adjustment.targets)


def _some(data: Table) -> Table:
    """An evenly spaced subset of the series of a table."""
    if data.ids is None or len(data.series) <= _SERIES:
        return data
    kept = np.linspace(0, len(data.series) - 1, _SERIES).astype(int)
    return data.pick(kept)


def divide(
    data: Table, past: int, horizon: int, fraction: float | None
) -> tuple[Table, Table | None]:
    """Split off the end of each series, with its past; None if all are too short."""
    fraction = _HELD_OUT if fraction is None else fraction
    if fraction == 0:
        return data, None
    first, second, kept = [], [], []
    for i, array in enumerate(data.series):
        part = max(round(fraction * len(array)), 2 * horizon)
        if len(array) < 2 * part + past:
            part = max(round(fraction * len(array)), horizon)
        if len(array) < 2 * part + past:  # too short to divide
            first.append(slice(None))
            continue
        first.append(slice(None, -part))
        second.append(slice(-part - past, None))
        kept.append(i)
    if not second:
        return data, None
    return cut(data, range(len(first)), first), cut(data, kept, second)


def divisions(
    data: Table, past: int, horizon: int, fraction: float | None
) -> list[tuple[Table, Table]]:
    """Divisions for selecting options; several for short series, each ending before the next."""
    found: list[tuple[Table, Table]] = []
    seen = 0
    while len(found) < (_DIVISIONS if seen >= _VERY_FEW_WINDOWS else _FEW_DIVISIONS):
        training, held_out = divide(data, past, horizon, fraction)
        if held_out is None:
            break
        found.append((training, held_out))
        count = _count(held_out, (past, horizon))
        if count >= _FEW_WINDOWS:
            break
        seen += count
        rows = [slice(0, -max(horizon // 2, 1)) for _ in data.series]
        data = training if count >= _VERY_FEW_WINDOWS else cut(data, range(len(rows)), rows)
    return found


def cut(data: Table, kept: Iterable[int], rows: list[slice]) -> Table:
    """A subset of the series of a table, with a subset of their rows."""
    chosen = data.pick(kept)
    return replace(
        chosen,
        series=[array[row] for array, row in zip(chosen.series, rows, strict=True)],
        index=[index[row] for index, row in zip(chosen.index, rows, strict=True)],
    )


def _positive(data: Table, column: int) -> bool:
    """Whether a variable has values, and all are positive."""
    values = [array[:, column] for array in data.series]
    return all(bool(np.all((v > 0) | np.isnan(v))) for v in values) and any(
        bool(np.isfinite(v).any()) for v in values
    )


def refuse_short(data: Table, horizon: int) -> int:
    """The length of the longest series. Raises if it is not longer than the horizon."""
    longest = max(len(array) for array in data.series)
    if longest <= horizon:
        raise DataError(
            f"the longest series has {longest} steps, expected more than horizon, {horizon}; make "
            "horizon smaller"
        )
    return longest
