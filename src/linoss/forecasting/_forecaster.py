"""Forecasting with prediction intervals."""

import os
import sys
import warnings
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from linoss._declare import COUNT, Number, check_settings, documented, setting
from linoss._imports import imports_allowed
from linoss._stderr import say
from linoss.data import DataError, Table, read_table
from linoss.fitted import (
    AbstractPredictionStream,
    Description,
    RunOptions,
    Trained,
    TrainedSettings,
    train_model,
)
from linoss.forecasting._backtest import Backtest
from linoss.forecasting._components import ComponentOptions, Components, Decomposition
from linoss.forecasting._fitted import FittedForecaster, last_of
from linoss.forecasting._intervals import Calibration, Request, best_shares, percents
from linoss.forecasting._seasonal_trend import Clock, strongest_period
from linoss.forecasting._selection import Selection, methods_of, split_end
from linoss.training import (
    Callback,
    Forecasting,
    Inputs,
    TrainingConfig,
    TrainingResult,
    TrainingStopped,
    Windows,
)

_VALIDATION_WINDOWS = 256
_CALIBRATION_WINDOWS, _CALIBRATION_NUMBERS = 512, 2 * 10**6
_LONGEST_SEASON = 400
_LONGEST_PAST = 720


@dataclass(kw_only=True, eq=False, repr=False)
class LinOSSForecasterSettings(TrainedSettings):
    """Settings of `LinOSSForecaster`."""

    steps: int | None = setting(
        0,
        "Number of updates that train a model of the residual; 0 for none. It is used where it "
        "helps on held-out steps.",
        "[0, inf)",
        none="from epochs, or 20 sqrt(n), at least 100, for n windows",
    )
    learning_rate: Number = 2e-3
    horizon: int = 24
    past: int | None = setting(
        None,
        "Length of the input window before a forecast, in steps.",
        COUNT,
        none="3 horizons, at least 96; up to 720 for long series, fewer for short ones",
    )
    known_in_advance: Collection[str | int] = setting(
        (),
        "Variables whose future values are known, such as a calendar, by name or column; they are "
        "inputs and are not forecast.",
        other="names of variables",
    )
    base: bool = setting(
        True,
        "Add the trained model to a base of trend, seasons and a linear model, fitted in closed "
        "form; without it the trained model forecasts alone, as in the paper.",
    )
    levels: Collection[int | float] = setting(
        (50, 80, 95),
        "Coverage of the prediction intervals, in percent; a forecast may request others "
        "up to the largest of these.",
        other="numbers between 0 and 100",
    )
    calendar: bool | Literal["auto"] = setting(
        "auto", "Model yearly, weekly and daily seasons; auto: if the data have dates."
    )
    season: int | None = setting(
        None,
        "Period of a further season, in steps.",
        "[2, inf)",
        none="detected, if the data have no dates",
    )
    trend: bool | Literal["auto"] = setting(
        "auto", "Extrapolate a damped trend; auto: if it improves forecasts of held-out steps."
    )
    logarithm: bool | Literal["auto"] = setting(
        "auto",
        "Forecast the logarithm of each variable; auto: if it improves forecasts of held-out "
        "steps.",
    )
    normalize: Literal["auto", "none", "level", "deviation", "difference"] = setting(
        "auto",
        "Normalisation of each window: none, by its last value (level), by its mean and standard "
        "deviation, or by the previous step (difference); auto: none or level, whichever is better "
        "on held-out steps.",
    )


@documented
class LinOSSForecaster(LinOSSForecasterSettings, BaseEstimator):
    """A forecaster for one or many series of several variables, with prediction intervals.

    Parts of the forecast are fitted in closed form: trend and seasonal components of each series,
    and a linear part, which forecasts from the end of a window. As in the paper, the trained part
    reads the past and then `horizon` steps without values; it predicts quantiles of the residual.
    Held-out steps, the end of each series, determine the share of each part and calibrate the
    intervals.

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
    fitted_: FittedForecaster
    """What `fit` ends with, see [`linoss.forecasting.FittedForecaster`][]."""

    def fit(
        self,
        data: Any,
        y: None = None,
        *,
        directory: str | os.PathLike[str] | None = None,
        resume: bool = False,
        on_progress: Callback | None = None,
    ) -> "LinOSSForecaster":
        """Train on all windows of the series.

        **Arguments:**

        - `data`: an array `(time, variables)`, a wide pandas frame (a column for each variable), a
          long one (`unique_id`, `ds`, `y`, variables known in advance), or
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
        levels = percents("levels", self.levels)
        data = read_table(data)
        if self.verbose and data.gaps:
            say(f"{data.gaps} samples are missing at gaps, and are treated as missing values")
        if self.verbose:
            say("Choosing trend, seasonal components and a linear model by rolling origins")
        with threadpool_limits(1):  # the matrices are small
            selection = self._select(data)
        for trial in selection.trials if self.verbose else ():
            mark = "*" if trial.is_chosen else " "
            say(f"{mark} {trial.method}: held-out error {trial.error:.3f}")
        components = selection.components
        description = Description.of(self)
        fitted = FittedForecaster(
            last_of(data, components.past),
            components,
            description.seed,
            trials=selection.trials,
        )
        description = description.begin(directory, fitted, resume=resume)
        fitted = replace(fitted, seed=description.seed)
        if self.steps != 0 and not selection.is_short:
            run = RunOptions(directory, resume, on_progress).model(0, 1)
            fitted = self._train(fitted, selection, data.irregular, run, description)
        self.fitted_ = _calibrated(fitted, selection, levels, whole=not self.base)
        self._description = description
        if directory is not None:
            description.finish(directory, self.fitted_)
        return self

    def _train(
        self,
        fitted: FittedForecaster,
        selection: Selection,
        irregular: bool,
        run: RunOptions,
        description: Description,
    ) -> FittedForecaster:
        """Add a model of the residual, or without a base of the series."""
        windows = selection.before.windows(selection.training)
        inputs = Inputs.from_sequences(
            windows, time_channel=bool(self.time_channel), irregular=irregular
        )
        objective = Forecasting.from_windows(windows, inputs)
        validation = selection.held_out
        if validation is not None:
            validation = _thinned(selection.before.windows(validation), _VALIDATION_WINDOWS)
        config = TrainingConfig.from_settings(self, fitted.seed, len(windows))

        def trained(result: TrainingResult) -> FittedForecaster:
            counts = result.history, result.steps, result.best_metric
            return replace(fitted, trained=Trained([result.model], inputs, objective, *counts))

        try:
            with run.shown(objective.metric, self.verbose) as shown:
                result = train_model(self, inputs, objective, windows, validation, config, shown)
        except TrainingStopped as stop:
            self.fitted_, self._description = trained(stop.result), description
            run.warn_of_stop(f"{stop.result.steps} of {config.steps} updates")
            raise
        return trained(result)

    def _select(self, data: Table) -> Selection:
        """The components that suit the data; without a base, the identity."""
        known = self.known_in_advance
        known = tuple(
            _column(name, data) for name in ([known] if isinstance(known, str) else known)
        )
        names = [data.names[i] for i in known]
        targets = [i for i in range(len(data.names)) if i not in known]
        clock = self._clock(data, targets)
        season = clock.season
        if data.kind == "array" or not self.base:
            clock = replace(clock, periods=())
        sizes = self._past(data, season), self.horizon
        fraction = self.validation_fraction
        if not self.base:
            if self.steps == 0:
                raise ValueError(
                    "base is False, but steps is 0: nothing forecasts; set steps, such as 1000"
                )
            identity = Components(Decomposition.identity(data, known), "none", *sizes, season)
            return Selection(identity, identity, *split_end(data, *sizes, fraction))
        settings = {name: getattr(self, name) for name in ("logarithm", "trend", "normalize")}

        def fit(part: Table, options: ComponentOptions) -> Components:
            columns = tuple(part.names.index(name) for name in names)
            return Components.fit(part, clock, columns, sizes, options, season)

        methods = methods_of(data, clock, known, sizes[0], settings)
        return Selection.of(data, fit, methods, fraction, names)

    def _clock(self, data: Table, targets: list[int]) -> Clock:
        """The clock of the longest series."""
        longest = int(np.argmax([len(array) for array in data.series]))
        has_dates = data.index[0].dtype.kind == "M"
        if self.calendar is True and not has_dates:
            raise DataError("calendar is True, but the data have no dates; use calendar='auto'")
        season = self.season
        if season is None and not has_dates:
            values = data.series[longest][:, targets[0]]
            season = strongest_period(values, _LONGEST_SEASON)
        return Clock.of(data.index, season, calendar=has_dates and self.calendar is not False)

    def _past(self, data: Table, season: int) -> int:
        longest = max(len(array) for array in data.series)
        if longest <= self.horizon:
            raise DataError(
                f"the longest series has {longest} steps, expected more than horizon, "
                f"{self.horizon}; make horizon smaller"
            )
        if self.past is None:
            half = (longest - self.horizon) // 2  # two seasons, if the series has four
            few = min(
                max(3 * self.horizon, 96), _LONGEST_PAST, max(half // 2, min(2 * season, half))
            )
            return max(1, few, min(_LONGEST_PAST, (longest - self.horizon) // 8))
        if self.past > longest - self.horizon:
            warnings.warn(
                f"past is {self.past}, but the longest series has {longest} steps, of which "
                f"{self.horizon} are forecast: nothing is left for the past; set past to at most "
                f"{longest - self.horizon}",
                stacklevel=4,
            )
        return self.past

    # ---- Forecasts ----

    def predict(
        self,
        horizon: int | None = None,
        *,
        data: Any = None,
        future: Any = None,
        level: Any = None,
        samples: int | None = None,
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
          axis. They are drawn with the seed of the fit, so they are the same in each call.
        """
        check_is_fitted(self)
        return self.fitted_.predict(horizon, data=data, future=future, level=level, samples=samples)

    def stream(self) -> AbstractPredictionStream:
        """Return a function that processes one sample at a time and returns a forecast after each.

        Samples continue the data of `fit`.
        """
        check_is_fitted(self)
        return self.fitted_.stream()

    # ---- Scores ----

    def score(self, data: Any, y: None = None, *, stride: int = 1) -> float:
        """Mean absolute error over all windows of `data`; lower is better.

        `GridSearchCV` and others maximise the score; pass them
        `scoring=lambda forecaster, data, y=None: -forecaster.score(data)`.

        **Arguments:**

        - `data`: as in `fit`; each window has `fitted_.past` input steps.
        - `y`: not used.
        - `stride`: number of steps from one window to the next.
        """
        check_is_fitted(self)
        return self.fitted_.backtest(data, windows=sys.maxsize, stride=stride).error("mae")

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

        Naive, seasonal naive and drift forecasts are scored on the same windows.

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

        def again(part: Table) -> FittedForecaster:
            forecaster: Any = clone(self)  # pyright: ignore[reportAssignmentType]
            return forecaster.fit(part).fitted_

        options = {"windows": windows, "stride": stride, "level": level}
        return self.fitted_.backtest(data, **options, refit=again if refit else None)

    # ---- Files ----

    def save(
        self,
        directory: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        allow_import: bool = False,
    ) -> None:
        """Write the fitted forecaster to a directory, as JSON and safetensors.

        Raises if it holds an estimator or a run; with `overwrite` it is replaced atomically.
        A mixer or scheme of your own is written by its import path, with `allow_import` only.
        """
        check_is_fitted(self)
        with imports_allowed(allow_import):
            self._description.save(directory, self.fitted_, overwrite=overwrite)

    @classmethod
    def load(
        cls, directory: str | os.PathLike[str], *, allow_import: bool = False
    ) -> "LinOSSForecaster":
        """Load a forecaster of `save` or `fit(..., directory=...)`.

        It executes no code, but for importing your own mixer or scheme with `allow_import`.
        """
        with imports_allowed(allow_import):
            fitted, description = FittedForecaster.load(directory)
            forecaster = description.create(cls, directory)
        forecaster.fitted_, forecaster._description = fitted, description
        return forecaster


def _calibrated(
    fitted: FittedForecaster, selection: Selection, levels: list[float], *, whole: bool
) -> FittedForecaster:
    """Calibrate on held-out windows, with the closed-form parts fitted without them.

    Short series have too few of them to assess a trained model, which is not used: intervals are
    those of cross-fitted errors.
    """
    before, held_out = selection.before, selection.held_out
    if selection.errors is not None and fitted.trained is None:
        calibration = Calibration.fit(levels, selection.errors, is_short=selection.is_short)
        fitted = replace(fitted, calibration=calibration)
    if held_out is None:
        return fitted
    targets = list(before.decomposition.targets)
    most = _CALIBRATION_NUMBERS // (fitted.horizon * len(targets))
    windows = before.windows(held_out)
    windows = _thinned(windows, max(1, min(_CALIBRATION_WINDOWS, most)))
    every = np.arange(len(windows))
    if fitted.calibration is None:
        truth = windows.batch(every).labels
        output = np.concatenate([part for _, part in fitted.outputs(windows, every)])
        share = np.ones(truth.shape[1:]) if whole else best_shares(truth, output)
        calibration = Calibration.fit(levels, truth - share * output, share)
        fitted = replace(fitted, calibration=calibration)
    origins = np.transpose(windows.locate(every))
    backtest = fitted.compare(before, held_out, origins, Request.usual(fitted.calibration))
    mase = backtest.error("mase")
    return replace(fitted, held_out=backtest, mase=mase if np.isfinite(mase) else None)


def _thinned(windows: Windows, most: int) -> Windows:
    return replace(windows, stride=max(1, -(-len(windows) // most)))


def _column(name: Any, data: Table) -> int:
    if name in data.names:
        return data.names.index(name)
    if data.kind == "array" and name in range(len(data.names)):
        return int(name)
    known = ", ".join(repr(n) for n in data.names)
    raise ValueError(f"known_in_advance has {name!r}, expected variables of the data: {known}")
