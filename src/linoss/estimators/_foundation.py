"""The closed-form part of a forecaster: trend, seasons, and a linear forecast.

A trained model then forecasts the remainder.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from linoss.data import DataError, Table
from linoss.estimators._adjustment import Adjustment
from linoss.estimators._direct import (
    Direct,
    LinearChoice,
    LinearSums,
    LinearTrial,
    lag_blocks,
    sums_of,
)
from linoss.estimators._seasons import Clock
from linoss.training import Normalization, Windows


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
    season: int = 1
    """Steps per season of the linear forecast; used for fitting only."""

    # ---- Fitting ----

    def trial(self, training: Table, held_out: Table) -> LinearTrial:
        """Candidates of the linear forecast, fitted to a training part, with held-out windows."""
        return LinearTrial.of(self.sums(training), self.windows(held_out))

    def sums(self, data: Table) -> LinearSums:
        """The sums of products that linear forecasts are fitted to."""
        return sums_of(self.windows(data), self.season)

    def with_answer(self, choice: LinearChoice, sums: LinearSums) -> "Foundation":
        """Add a linear forecast."""
        return replace(self, direct=choice.weights(sums))

    @classmethod
    def without_answer(
        cls,
        data: Table,
        clock: Clock,
        known: tuple[int, ...],
        sizes: tuple[int, int],
        options: FoundationOptions,
        season: int = 1,
    ) -> "Foundation":
        """Only trend and seasons."""
        targets = [i for i in range(len(data.names)) if i not in known]
        logarithm = tuple(options.logarithm and positive(data, i) for i in targets)
        how = {"trend": options.trend, "seasonal": options.seasonal}
        adjustment = Adjustment.fit(data, clock, known, logarithm=logarithm, **how)
        return cls(adjustment, options.normalize, *sizes, season=season)

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


def cut(data: Table, kept: Iterable[int], rows: list[slice]) -> Table:
    """A subset of the series of a table, with a subset of their rows."""
    chosen = data.pick(kept)
    return replace(
        chosen,
        series=[array[row] for array, row in zip(chosen.series, rows, strict=True)],
        index=[index[row] for index, row in zip(chosen.index, rows, strict=True)],
    )


def positive(data: Table, column: int) -> bool:
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
