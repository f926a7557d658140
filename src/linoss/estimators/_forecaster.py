"""Forecasting with prediction intervals."""

import os
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from sklearn.utils.validation import check_is_fitted

from linoss import _checks
from linoss._declare import check_settings, documented
from linoss.data import DataError, Table
from linoss.estimators._abstract_forecaster import AbstractForecaster
from linoss.estimators._adjustment import Adjustment
from linoss.estimators._asked import Asked, quantile_levels
from linoss.estimators._at_times import between_steps, future_times, steps_until
from linoss.estimators._backtest import Origins
from linoss.estimators._base import (
    OnProgress,
    RunOptions,
    drawn_seed,
    warn_of_nan,
)
from linoss.estimators._conformal import Calibration
from linoss.estimators._forecast_context import (
    context_arrays,
    context_facts,
    future_of,
    last_of,
    restored_context,
)
from linoss.estimators._forecast_stream import ForecastListener
from linoss.estimators._foundation import Foundation, FoundationOptions, cut
from linoss.estimators._founding import Founded, candidates_of, divide
from linoss.estimators._seasons import Clock, on_grid, strongest_period
from linoss.training import Forecasting, Inputs, Scaling, Windows, replace_arrays

_VALIDATION_WINDOWS = 256
_CALIBRATION_WINDOWS, _CALIBRATION_NUMBERS = 512, 2 * 10**6
_LONGEST_SEASON = 400


@documented
class LinOSSForecaster(AbstractForecaster):
    """A forecaster for one or many series of several variables, with prediction intervals.

    Parts of the forecast are fitted in closed form: trend and seasons of each series, and a linear
    forecast from the end of a window. As in the paper, the trained model reads the past and then
    `horizon` steps without values; it predicts quantiles of the remainder. Held-out steps, the end
    of each series, determine the share of each part and calibrate the intervals.

    ```python
    >>> import numpy as np
    >>> from linoss import LinOSSForecaster
    >>> wave = np.sin(np.arange(400)[:, None] / 5)
    >>> forecaster = LinOSSForecaster(
    ...     horizon=12, past=48, steps=100, hidden_size=16, state_size=16, random_state=0
    ... )
    >>> forecast = forecaster.fit(wave[:-12]).predict(12)
    >>> bool(np.abs(forecast - wave[-12:]).mean() < 0.1)
    True
    >>> forecaster.predict(12, level=[80, 95]).shape  # the forecast, and both ends for each level
    (12, 1, 5)

    ```
    """

    task = "forecasting"

    # ---- Fitting ----

    def fit(
        self,
        data: Any,
        y: None = None,
        *,
        directory: str | os.PathLike[str] | None = None,
        resume: bool = False,
        on_progress: OnProgress | None = None,
    ) -> "LinOSSForecaster":
        """Train on all windows of the series.

        **Arguments:**

        - `data`: an array `(time, variables)`, a wide pandas frame (a column for each variable), a
          long one (`unique_id`, `ds`, `y`, variables known in advance, static features), or
          [`linoss.data.Table`][]. NaN marks a missing value. An array has no times, so seasons are
          not modelled and can only be inferred from the past of a window.
        - `y`: None; the targets are the variables of `data`.
        - `directory`: directory of the run and its checkpoints; None for none.
        - `resume`: resume the run in `directory`.
        - `on_progress`: called with a [`linoss.training.Progress`][], at most twice a second.

        Raises `ValueError`, which names the invalid setting or argument.
        """
        check_settings(self)
        if y is not None:
            raise ValueError(
                "y was given, expected None: the targets of a forecaster are columns of data"
            )
        levels = quantile_levels(self.levels)
        data = self._read(data)
        self.names_ = data.names
        known = self.known_in_advance
        known = [known] if isinstance(known, str) else known
        self.known_ = tuple(self._column(name, data) for name in known)
        clock = self._clock(data)
        self.past_ = self._past(data)
        self.context_ = last_of(data, self.past_)
        founded = self._found(data, clock)
        self.foundation_, before, parts = founded.foundation, founded.before, founded.parts
        self.deviation_ = _deviations(data, self._targets)
        self.calibration_ = self.held_out_ = None

        windows = before.windows(parts[0])
        inputs = Inputs.from_sequences(
            windows, time_channel=bool(self.time_channel), irregular=data.irregular
        )
        objective = Forecasting.from_windows(windows, inputs, levels)
        held_out = None if parts[1] is None else _thinned(before.windows(parts[1]))
        self._levels = objective.levels
        run = RunOptions(directory, resume, on_progress)
        seed, used = drawn_seed(self.random_state), founded.errors is None
        self._train(inputs, objective, windows, held_out, seed, run, used=used)
        if jax.process_index() == 0:
            self._calibrate(founded)
            if directory is not None:
                replace_arrays(directory, self._arrays())
        return self

    def _clock(self, data: Table) -> Clock:
        """The clock of the longest series; an array has no times, and thus no seasons."""
        longest = int(np.argmax([len(array) for array in data.series]))
        dated = data.index[0].dtype.kind == "M"
        if self.calendar is True and not dated:
            raise DataError("calendar is True, but the data have no dates; use calendar='auto'")
        season = self.season
        if season is None and not dated:
            values = data.series[longest][:, self._targets[0]]
            season = strongest_period(on_grid(data.index[longest], values), _LONGEST_SEASON)
        clock = Clock.of(data.index, season, calendar=dated and self.calendar is not False)
        self.season_ = clock.season
        return replace(clock, periods=()) if data.kind == "array" or not self.base else clock

    def _found(self, data: Table, clock: Clock) -> Founded:
        """The closed-form part; without a base, the identity."""
        sizes = (self.past_, self.horizon)
        if not self.base:
            parts = divide(data, *sizes, self.validation_fraction)
            none = Foundation(Adjustment.none(data, self.known_), "none", *sizes)
            return Founded(none, none, parts, None)

        def make(part: Table, options: FoundationOptions) -> Foundation:
            of = (part, clock, self.known_, sizes, options, self.season_)
            return Foundation.without_answer(*of)

        asked = {name: getattr(self, name) for name in ("logarithm", "trend", "normalize")}
        candidates = candidates_of(data, clock, self.known_, asked)
        return Founded.fit(data, make, candidates, self.validation_fraction)

    def _calibrate(self, founded: Founded) -> None:
        """Calibrate on held-out windows, with the closed-form part fitted without them.

        Short series have too few of them to assess a trained model, which is not used.
        """
        before, (_, held_out) = founded.before, founded.parts
        if founded.errors is not None:
            self.calibration_ = Calibration.of_errors(self._levels, founded.errors)
        if held_out is None:
            return
        most = _CALIBRATION_NUMBERS // (self.horizon * len(self._targets))
        windows = before.windows(held_out)
        windows = _thinned(windows, max(1, min(_CALIBRATION_WINDOWS, most)))
        if self.calibration_ is None:
            found = list(self._relative(windows, np.arange(len(windows))))
            quantiles = np.concatenate([quantiles for _, quantiles in found])
            truth = np.concatenate([windows.batch(chosen).labels for chosen, _ in found])
            self.calibration_ = Calibration.fit(self._levels, quantiles, truth, whole=not self.base)
        origins = Origins(*windows.locate(np.arange(len(windows))), self.horizon, self._targets)
        asked = Asked.usual(self)
        found = self._at_origins(before, held_out, origins, asked)
        self.held_out_ = self._compared(held_out, origins, *found, asked)

    # ---- Forecasts ----

    def predict(
        self,
        horizon: int | None = None,
        *,
        data: Any = None,
        future: Any = None,
        level: Any = None,
        samples: int | None = None,
        at: Any = None,
    ) -> Any:
        """Forecast, as an array or a frame whose index continues that of the data.

        **Arguments:**

        - `horizon`: number of steps; by default that of the model. For more steps, the model uses
          its own forecasts as inputs.
        - `data`: the series to continue, of the same kind as in `fit`; by default those of `fit`.
        - `future`: the future values of the variables known in advance: `(horizon, variables)` or a
          frame with their columns.
        - `level`: prediction intervals in percent, such as 80 or `[80, 95]`: frames get the
          additional columns `NAME-lo-80` and `NAME-hi-80`; arrays an additional axis with the
          forecast and both ends of each interval.
        - `samples`: number of sample paths instead of a forecast, for sums over the horizon and
          other joint statistics of several steps: columns `NAME-sample-1`, ..., or an additional
          axis. The same `random_state` draws the same paths.
        - `at`: future times instead of a horizon, on the grid of the data or between: dates, or
          numbers for data without dates. Trend and seasons are evaluated at these times; the
          model's contribution is interpolated between steps.
        """
        check_is_fitted(self)
        if at is not None:
            return self._at(at, data, horizon, level, samples)
        horizon = self.horizon if horizon is None else horizon
        if np.ndim(horizon):
            shape = np.shape(horizon)
            raise ValueError(f"horizon has shape {shape}, expected a number; pass series as data=")
        _checks.positive_integer("horizon", horizon)
        asked = Asked.checked(self, horizon, level, samples)
        context = self.context_ if data is None else last_of(self._table(data), self.past_)
        given = future_of(context, future, [self.names_[i] for i in self.known_], horizon)
        values = self._values(context, given, horizon, asked)
        if context.kind == "array":
            return values[0]
        names = asked.names([self.names_[i] for i in self._targets])
        return context.restore([each.reshape(horizon, -1) for each in values], names)

    def _at(self, at: Any, data: Any, horizon: Any, level: Any, samples: Any) -> Any:
        """Forecasts at arbitrary future times."""
        if horizon is not None or self.known_:
            why = "known_in_advance is not empty" if self.known_ else "horizon was also given"
            raise ValueError(f"at was given, but {why}; forecast by horizon")
        context = self.context_ if data is None else last_of(self._table(data), self.past_)
        times = future_times(at, context)
        steps = steps_until(context, times)
        asked = Asked.checked(self, steps, level, samples)
        values = self._values(context, [np.zeros((steps, 0))] * len(context.series), steps, asked)
        adjustment = self.foundation_.adjustment
        ends = [(i[-1], v[-1]) for i, v in zip(context.index, context.series, strict=True)]
        parts = zip(adjustment.place(context), ends, context.continued(steps), values, strict=True)
        found = [
            between_steps(adjustment, where, end, (grid, each), times)
            for where, end, grid, each in parts
        ]
        if context.kind == "array":
            return found[0]
        names = asked.names([self.names_[i] for i in self._targets])
        return context.restore([each.reshape(len(times), -1) for each in found], names, times)

    def _continued(self, context: Table, given: list[np.ndarray], steps: int) -> Table:
        """The series extended by `steps`, with values of known variables only."""
        series = []
        for past, known in zip(context.series, given, strict=True):
            after = np.full((steps, past.shape[1]), np.nan)
            after[: len(known), list(self.known_)] = known
            series.append(np.concatenate([past, after]))
        if len(context.series) == 1 and len(context.index[0]) == 1:  # the step of the fit
            own = self.context_
            step = own.continued(1)[0][0] - own.index[0][-1] if len(own.index[0]) > 1 else 1
            after = [context.index[0][-1] + step * np.arange(1, steps + 1)]
        else:
            after = context.continued(steps)
        index = [np.concatenate(parts) for parts in zip(context.index, after, strict=True)]
        return replace(context, series=series, index=index)

    def _values(
        self, context: Table, given: list[np.ndarray], horizon: int, asked: Asked
    ) -> np.ndarray:
        """Forecasts `(series, horizon, targets)`, with an additional axis for intervals or
        paths."""
        rounds = -(-horizon // self.horizon)
        ahead, found = self._continued(context, given, rounds * self.horizon), []
        for done in range(rounds):
            lacking = (rounds - 1 - done) * self.horizon
            rows = [slice(0, len(array) - lacking) for array in ahead.series]
            current = cut(ahead, range(len(rows)), rows)
            windows = self.foundation_.windows(current, only_last=True)
            part = np.concatenate(
                [
                    self.foundation_.restore(current, windows, *self._answered(each, asked))
                    for each in self._relative(windows, np.arange(len(windows)))
                ]
            )
            warn_of_nan("series", part)
            if rounds > 1:  # input of later rounds
                for array, values, row in zip(ahead.series, part, rows, strict=True):
                    array[row.stop - self.horizon : row.stop, self._targets] = values
            found.append(part)
        return np.concatenate(found, axis=1)[:, :horizon]

    def stream(self) -> ForecastListener:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return a function that processes one sample at a time and returns a forecast after each.

        Samples continue the data of `fit`.
        """
        check_is_fitted(self)
        return ForecastListener(self)

    # ---- Files ----

    def _fitted(self) -> dict[str, Any]:
        return {
            **super()._fitted(),
            **context_facts(self.context_),
            "past": self.past_,
            "known": list(self.known_),
            "season": self.season_,
            "foundation": self.foundation_.facts(),
        }

    def _arrays(self) -> dict[str, np.ndarray]:
        """Return the end of each series, closed-form parts, and the calibration.

        Before calibration, files contain placeholders of the same shape.
        """
        found = self.calibration_
        if found is None:
            found = Calibration.empty(self._levels, self.horizon, len(self._targets))
        return {
            **context_arrays(self.context_),
            **self.foundation_.arrays(),
            **found.arrays(),
            "deviation": self.deviation_,
        }

    def _restore(self, fitted: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        super()._restore(fitted, arrays)
        self.past_, self.known_ = int(fitted["past"]), tuple(fitted["known"])
        self.season_ = int(fitted["season"])
        self.context_ = restored_context(fitted, arrays)
        self.names_ = self.context_.names
        assert isinstance(self.objective_, Forecasting)
        self._levels, targets = self.objective_.levels, tuple(self._targets)
        self.deviation_ = arrays["deviation"]
        _checks.shape("deviation", self.deviation_, (len(targets),))
        sizes, columns = (self.past_, self.horizon), (targets, self.known_)
        self.foundation_ = Foundation.restored(
            fitted["foundation"], arrays, sizes, columns, self.context_.ids
        )
        self.calibration_ = Calibration.restored(self._levels, self.horizon, len(targets), arrays)


def _thinned(windows: Windows, most: int = _VALIDATION_WINDOWS) -> Windows:
    return replace(windows, stride=max(1, -(-len(windows) // most)))


def _deviations(data: Table, targets: list[int]) -> np.ndarray:
    """(targets,), the standard deviation over all series; 1 for a constant variable."""
    return Scaling.from_sequences([array[:, targets] for array in data.series]).deviation
