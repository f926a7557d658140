"""Forecasts of windows of data by a fitted forecaster, and their scores."""

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from linoss import _checks
from linoss._settings import LinOSSForecasterSettings
from linoss.data import DataError, Table, table
from linoss.estimators._asked import Asked
from linoss.estimators._backtest import Backtest, Origins, compare
from linoss.estimators._base import SequenceEstimator, drawn_seed, warn_of_nan
from linoss.estimators._conformal import Calibration
from linoss.estimators._foundation import Foundation, refuse_short
from linoss.training import Forecasting, Windows, predict

_AT_ONCE = 256  # windows scored at a time


class AbstractForecaster(LinOSSForecasterSettings, SequenceEstimator):
    """Forecasts of windows, scores, backtests, and checks of the data."""

    names_: tuple[Any, ...]
    known_: tuple[int, ...]
    past_: int
    season_: int
    deviation_: np.ndarray
    foundation_: Foundation
    calibration_: Calibration | None
    _levels: tuple[float, ...]

    # ---- Forecasts of windows ----

    def _answered(
        self, answers: tuple[np.ndarray, np.ndarray], asked: Asked
    ) -> tuple[np.ndarray, np.ndarray]:
        """Windows, and the requested statistics of their quantiles."""
        chosen, quantiles = answers
        if self.calibration_ is None:
            return chosen, quantiles[..., len(self._levels) // 2]
        if asked.samples is not None:
            seed = drawn_seed(self.random_state)
            return chosen, self.calibration_.samples(quantiles, asked.samples, seed)
        if asked.percent is not None:
            return chosen, self.calibration_.intervals(quantiles, asked.percent)
        return chosen, self.calibration_.forecast(quantiles)

    def _relative(
        self, windows: Windows, chosen: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield batches of windows, with quantiles relative to the base forecast."""
        assert isinstance(self.objective_, Forecasting)
        used = self.calibration_ is None or self.calibration_.uses_model
        shape = (self.horizon, len(self._targets), len(self._levels))
        for start in range(0, len(chosen), _AT_ONCE):
            some = chosen[start : start + _AT_ONCE]
            if not used:
                yield some, np.zeros((len(some), *shape))
                continue
            with jax.enable_x64(False):
                answers = predict(self.model_, self.inputs_, windows.some(some))
            yield some, self.objective_.quantiles(np.asarray(answers))

    # ---- Scores ----

    def score(self, data: Any, y: None = None, *, scaled: bool = False, stride: int = 1) -> float:
        """Mean absolute error over all windows of `data`; lower is better.

        `GridSearchCV` and others maximise the score; pass them
        `scoring=lambda forecaster, data, y=None: -forecaster.score(data)`.

        **Arguments:**

        - `data`: as in `fit`; each window has `past_` input steps.
        - `y`: not used.
        - `scaled`: divide errors by the standard deviation of each variable in training.
        - `stride`: number of steps from one window to the next.
        """
        total, count = self._sum_of_errors(data, stride)
        total = total / self.deviation_ if scaled else total
        return float(total.sum() / count.sum()) if count.any() else float("nan")

    def errors_by_variable(self, data: Any, *, stride: int = 1) -> dict[Any, float]:
        """Mean absolute error of each variable, in its unit, over all windows of `data`."""
        total, count = self._sum_of_errors(data, stride)
        errors = np.where(count > 0, total / np.maximum(count, 1), np.nan)
        return {self.names_[i]: float(e) for i, e in zip(self._targets, errors, strict=True)}

    def _sum_of_errors(self, data: Any, stride: int) -> tuple[np.ndarray, np.ndarray]:
        """(targets,), the sum of absolute errors of all windows, and their number."""
        check_is_fitted(self)
        data = self._table(data)
        windows = replace(self.foundation_.windows(data), stride=stride)
        total, count = np.zeros((2, len(self._targets)))
        for each in self._relative(windows, np.arange(len(windows))):
            chosen, relative = self._answered(each, Asked())
            found = self.foundation_.restore(data, windows, chosen, relative)
            warn_of_nan("window", found)
            truth = self.foundation_.restore(data, windows, chosen, windows.batch(chosen).labels)
            known = ~np.isnan(truth)
            total += np.sum(np.abs(found - truth), axis=(0, 1), where=known)
            count += known.sum(axis=(0, 1))
        return total, count

    def known_effects(self) -> dict[Any, dict[Any, float]]:
        """The standard deviation of each known variable's contribution to each target in training.

        In the unit of the target; relative, if the logarithm of the target is forecast.
        """
        check_is_fitted(self)
        targets = [self.names_[i] for i in self._targets]
        return {
            self.names_[i]: dict(zip(targets, row.tolist(), strict=True))
            for i, row in zip(self.known_, self.foundation_.adjustment.effects, strict=True)
        }

    def backtest(
        self,
        data: Any,
        *,
        windows: int = 20,
        stride: int | None = None,
        refit: bool = False,
        level: Any = None,
    ) -> Backtest:
        """Forecast from several past origins, and compare with the observed values.

        Naive, seasonal naive and drift forecasts, and forecasts by trend and seasons alone, are
        scored on the same windows.

        **Arguments:**

        - `data`: as in `fit`, including the steps to forecast and those before them.
        - `windows`: number of forecast origins in each series, the last ones that fit.
        - `stride`: steps between origins; by default the horizon.
        - `refit`: refit before each origin on the data up to it, instead of using this fit. Without
          it, scores of windows within the data of the fit are too optimistic.
        - `level`: prediction intervals whose coverage is computed, in percent; by default 80 and
          95, if they are calibrated.
        """
        check_is_fitted(self)
        data = self._table(data)
        _checks.positive_integer("windows", windows)
        stride = self.horizon if stride is None else stride
        _checks.positive_integer("stride", stride)
        asked = Asked.usual(self)
        if level is not None:
            asked = Asked.checked(self, self.horizon, level, None)
        sizes = (self.past_, self.horizon)
        origins = Origins.last(data, self._targets, sizes, windows, stride)
        if not refit:
            found, expected = self._at_origins(self.foundation_, data, origins, asked)
            return self._compared(data, origins, found, expected, asked)
        parts = []
        for time in np.unique(origins.times(data)):
            fitted: Any = clone(self)  # pyright: ignore[reportAssignmentType]
            fitted.fit(origins.known_at(data, time))
            if fitted.calibration_ is None:
                asked = Asked()
            chosen = np.flatnonzero(origins.times(data) == time)
            found = fitted._at_origins(fitted.foundation_, data, origins.only(chosen), asked)
            parts.append((chosen, *found))
        order = np.argsort(np.concatenate([chosen for chosen, _, _ in parts]))
        width = 1 if asked.percent is None else 1 + 2 * len(asked.percent)
        found = np.concatenate([each[..., :width] for _, each, _ in parts])[order]
        expected = np.concatenate([each for _, _, each in parts])[order]
        return self._compared(data, origins, found, expected, asked)

    def _compared(
        self, data: Table, origins: Origins, found: np.ndarray, expected: np.ndarray, asked: Asked
    ) -> Backtest:
        """Compare with simple forecasts, by the season and the times of each series."""
        adjustment = self.foundation_.adjustment
        places, clock = adjustment.place(data), adjustment.clock
        seasons = [
            clock.season_of(each.step) if clock.periods else self.season_ for each, _ in places
        ]
        times = [adjustment.times(*each) for each in zip(places, data.index, strict=True)]
        return compare(seasons, times, data, origins, found, expected, asked.percent)

    def _at_origins(
        self, foundation: Foundation, data: Table, origins: Origins, asked: Asked
    ) -> tuple[np.ndarray, np.ndarray]:
        """Forecasts `(windows, horizon, targets, 1 + 2 levels)`, and those by seasons alone."""
        windows = foundation.windows(data)
        parts, expected = [], []
        for each in self._relative(windows, windows.find(origins.series, origins.ends)):
            chosen, relative = self._answered(each, asked)
            relative = relative if asked.percent is not None else relative[..., None]
            parts.append(foundation.restore(data, windows, chosen, relative))
            expected.append(foundation.expected(data, windows, chosen))
        return np.concatenate(parts), np.concatenate(expected)

    # ---- Series ----

    @property
    def n_outputs_(self) -> int:
        """Number of forecast variables."""
        return len(self._targets)

    @property
    def n_channels_(self) -> int:
        """Number of variables of the data."""
        return len(self.names_)

    @property
    def timed_(self) -> bool:
        """Whether each sample needs a time: for seasons, or after training on irregular times."""
        return bool(self.foundation_.adjustment.clock.periods) or self.inputs_.irregular

    @property
    def _targets(self) -> list[int]:
        return [i for i in range(len(self.names_)) if i not in self.known_]

    def _column(self, name: Any, data: Table) -> int:
        if name in data.names:
            return data.names.index(name)
        if data.kind == "array" and name in range(len(data.names)):
            return int(name)
        known = ", ".join(repr(n) for n in data.names)
        raise ValueError(f"known_in_advance has {name!r}, expected variables of the data: {known}")

    def _past(self, data: Table) -> int:
        longest = refuse_short(data, self.horizon)
        if self.past is None:
            half = (longest - self.horizon) // 2  # two seasons, if the series has four
            return max(
                1, min(max(3 * self.horizon, 96), max(half // 2, min(2 * self.season_, half)))
            )
        if self.past > longest - self.horizon:
            warnings.warn(
                f"past is {self.past}, but the longest series has {longest} steps, of which "
                f"{self.horizon} are forecast: nothing is left for the past; set past to at most "
                f"{longest - self.horizon}",
                stacklevel=3,
            )
        return self.past

    def _read(self, data: Any) -> Table:
        if not isinstance(data, Table):
            return table(data, static=self.static)
        if list(data.static) != list(self.static):
            raise DataError(
                f"static is {list(self.static)}, but data is a table that was read with "
                f"{list(data.static)}; name them in table(..., static=...)"
            )
        return data

    def _table(self, data: Any) -> Table:
        data = self._read(data)
        if data.names != self.names_:
            raise DataError(
                f"data has the variables {list(data.names)}, expected {list(self.names_)}, "
                "those of fit"
            )
        if data.irregular and not self.inputs_.irregular:
            warnings.warn(
                "data has irregular times, but those of fit were regular: seasons follow the "
                "times, but the trained model counts samples; fit with irregular times",
                stacklevel=3,
            )
        return data
