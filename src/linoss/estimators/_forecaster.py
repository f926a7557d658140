"""Forecasts of series."""

import os
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from sklearn.utils.validation import check_is_fitted

from linoss import _checks
from linoss._declare import check_settings, documented
from linoss._settings import ForecasterSettings
from linoss.data import DataError, Table, table
from linoss.estimators._base import (
    OnProgress,
    RunOptions,
    SequenceEstimator,
    drawn_seed,
    warn_of_nan,
)
from linoss.estimators._listener import ForecastListener
from linoss.training import Forecasting, Inputs, Windows, predict

_VALIDATION_WINDOWS = 256
_AT_ONCE = 256  # windows of a score


@documented
class LinOSSForecaster(ForecasterSettings, SequenceEstimator):
    """A forecaster of one series of several variables, or of many series.

    As in the paper, the model reads the past and then `horizon` steps without values, for which it
    answers. Variables are scaled by their mean and deviation, which are saved with the model.

    ```python
    >>> import numpy as np
    >>> from linoss import LinOSSForecaster
    >>> wave = np.sin(np.arange(400)[:, None] / 5)
    >>> forecaster = LinOSSForecaster(
    ...     horizon=12, past=48, steps=100, hidden_size=16, state_size=16, random_state=0
    ... )
    >>> forecast = forecaster.fit(wave[:-12]).predict(12)
    >>> bool(np.abs(forecast - wave[-12:]).mean() < 0.3)
    True

    ```
    """

    task = "forecasting"

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
          long one (`unique_id`, `ds`, `y`, and variables known in advance), or
          [`linoss.data.Table`][]. NaN means missing.
        - `y`: not used.
        - `directory`: directory of the run and its checkpoints; None to keep none.
        - `resume`: resume the run in `directory`.
        - `on_progress`: called with a [`linoss.training.Progress`][], at most twice a second.

        Raises a `ValueError` that names the setting or the argument that is wrong.
        """
        check_settings(self)
        data = data if isinstance(data, Table) else table(data)
        self.names_ = data.names
        known = self.known_in_advance
        known = [known] if isinstance(known, str) else known
        self.known_ = tuple(self._column(name, data) for name in known)
        self.past_ = self._past(data)
        self.context_ = _last(data, self.past_)
        training, validation = self._split(data)
        windows = self._windows(training)
        inputs = Inputs.from_sequences(windows, time_channel=bool(self.time_channel))
        objective = Forecasting.from_windows(windows, inputs)
        held_out = None
        if validation is not None:
            every = self._windows(validation)
            held_out = replace(every, stride=max(1, len(every) // _VALIDATION_WINDOWS))
        run = RunOptions(directory, resume, on_progress)
        self._train(inputs, objective, windows, held_out, drawn_seed(self.random_state), run)
        return self

    def predict(self, horizon: int | None = None, *, data: Any = None, future: Any = None) -> Any:
        """Forecast, as an array or as a frame whose index continues that of the data.

        **Arguments:**

        - `horizon`: number of steps; by default that of the model. For more, the model reads its
          own forecasts as if they were data.
        - `data`: the series to continue, of the same kind as in `fit`; by default those of `fit`.
        - `future`: the variables known in advance at each of these steps: `(horizon, variables)`
          or a frame with their columns.
        """
        check_is_fitted(self)
        horizon = self.horizon if horizon is None else horizon
        if np.ndim(horizon):
            shape = np.shape(horizon)
            raise ValueError(f"horizon has shape {shape}, expected a number; pass series as data=")
        _checks.positive_integer("horizon", horizon)
        context = self.context_ if data is None else _last(self._table(data), self.past_)
        given = self._future(context, future, horizon)
        series = [
            np.concatenate([past, np.full((horizon, past.shape[1]), np.nan)])
            for past in context.series
        ]
        for array, known in zip(series, given, strict=True):
            array[-horizon:, list(self.known_)] = known
        lengths = [len(array) - horizon for array in series]
        targets = [i for i in range(len(self.names_)) if i not in self.known_]
        for done in range(0, horizon, self.horizon):
            answers = self._ahead(series, lengths, done)
            for array, length, ahead in zip(series, lengths, answers, strict=True):
                rows = slice(length + done, min(length + done + self.horizon, len(array)))
                array[rows, targets] = ahead[: rows.stop - rows.start]
        names = [self.names_[i] for i in targets]
        return context.restore([array[-horizon:, targets] for array in series], names)

    def score(self, data: Any, y: None = None, *, scaled: bool = False, stride: int = 1) -> float:
        """Mean absolute error over all windows of `data`; lower is better.

        `GridSearchCV` and others choose the highest score; give them
        `scoring=lambda forecaster, data, y=None: -forecaster.score(data)`.

        **Arguments:**

        - `data`: as in `fit`; each window has `past_` steps before the forecast.
        - `y`: not used.
        - `scaled`: divide errors by the deviation of each variable in training.
        - `stride`: number of steps from one window to the next.
        """
        check_is_fitted(self)
        windows = replace(self._windows(self._table(data)), stride=stride)
        assert isinstance(self.objective_, Forecasting)
        assert self.objective_.scaling is not None
        deviation = self.objective_.scaling.deviation
        total = count = 0.0
        with jax.enable_x64(False):
            for start in range(0, len(windows), _AT_ONCE):
                some = _Some(windows, np.arange(start, min(start + _AT_ONCE, len(windows))))
                answers = predict(self.model_, self.inputs_, some)
                warn_of_nan("window", answers)
                truth = some.batch(np.arange(len(some))).labels
                errors = np.abs(self.objective_.decode(np.asarray(answers)) - truth)
                errors = errors / deviation if scaled else errors
                known = ~np.isnan(truth)
                total += float(np.sum(errors, where=known))
                count += float(np.sum(known))
        return total / count if count else float("nan")

    def stream(self) -> ForecastListener:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return a function that takes one sample at a time and returns a forecast after each."""
        check_is_fitted(self)
        return ForecastListener(self)

    # ---- Series ----

    def _column(self, name: Any, data: Table) -> int:
        if name in data.names:
            return data.names.index(name)
        if data.kind == "array" and name in range(len(data.names)):
            return int(name)
        known = ", ".join(repr(n) for n in data.names)
        raise ValueError(f"known_in_advance has {name!r}, expected variables of the data: {known}")

    def _past(self, data: Table) -> int:
        longest = max(len(array) for array in data.series)
        if longest <= self.horizon:
            raise DataError(
                f"the longest series has {longest} steps, expected more than horizon, "
                f"{self.horizon}; make horizon smaller"
            )
        if self.past is None:
            return max(1, min(max(3 * self.horizon, 96), (longest - self.horizon) // 2))
        return self.past

    def _windows(self, data: Table) -> Windows:
        return Windows(
            data.series,
            past=self.past_,
            horizon=self.horizon,
            known=self.known_,
            min_past=1,
            names=data.names,
        )

    def _split(self, data: Table) -> tuple[Table, Table | None]:
        """Split off the end of each series for validation, with the past that it needs."""
        fraction = 0.1 if self.validation_fraction is None else self.validation_fraction
        if fraction == 0:
            return data, None
        first, second = [], []
        for array in data.series:
            part = max(round(fraction * len(array)), self.horizon)
            if len(array) < 2 * part + self.past_:  # too short to be divided
                first.append(array)
                continue
            first.append(array[:-part])
            second.append(array[-part - self.past_ :])
        if not second:
            return data, None
        return replace(data, series=first), replace(data, series=second)

    def _table(self, data: Any) -> Table:
        data = data if isinstance(data, Table) else table(data)
        if data.names != self.names_:
            raise DataError(
                f"data has the variables {list(data.names)}, expected {list(self.names_)}, "
                "those of fit"
            )
        return data

    def _ahead(self, series: list[np.ndarray], lengths: list[int], done: int) -> list[np.ndarray]:
        """Forecast each series once more, after `done` steps."""
        rows = []
        for array, length in zip(series, lengths, strict=True):
            until = length + done + self.horizon
            lacking = np.full((max(until - len(array), 0), array.shape[1]), np.nan)
            rows.append(np.concatenate([array[:until], lacking]))
        windows = Windows(
            rows,
            past=self.past_,
            horizon=self.horizon,
            known=self.known_,
            min_past=1,
            only_last=True,
        )
        with jax.enable_x64(False):
            answers = predict(self.model_, self.inputs_, windows)
        warn_of_nan("series", answers)
        return [self.objective_.decode(answer) for answer in answers]

    def _future(self, context: Table, future: Any, horizon: int) -> list[np.ndarray]:
        """Variables known in advance, `(horizon, variables)` for each series."""
        names = [self.names_[i] for i in self.known_]
        if not names:
            if future is not None:
                raise ValueError("future was given, but known_in_advance is empty")
            return [np.zeros((horizon, 0))] * len(context.series)
        if future is None:
            raise ValueError(
                f"future is None, expected the variables known in advance, {names}, for "
                f"{horizon} steps"
            )
        if isinstance(future, np.ndarray | list | tuple):
            parts = [np.asarray(future, float)] * len(context.series)
        elif context.ids is None:
            parts = [_columns(future, names)]
        else:
            if context.id_name not in future:
                raise DataError(f"future has no column {context.id_name!r}, expected one")
            groups = dict(list(future.groupby(context.id_name, sort=False)))
            missing = [name for name in context.ids if name not in groups]
            if missing:
                raise DataError(f"future has no rows for series {missing[0]!r}")
            parts = [
                _columns(groups[name].sort_values(context.time_name), names) for name in context.ids
            ]
        for part in parts:
            _checks.shape("future", part, (horizon, len(names)))
        return parts

    # ---- Files ----

    def _fitted(self) -> dict[str, Any]:
        context = self.context_
        return {
            **super()._fitted(),
            "past": self.past_,
            "names": list(context.names),
            "known": list(self.known_),
            "kind": context.kind,
            "ids": None if context.ids is None else list(context.ids),
            "time_name": context.time_name,
            "id_name": context.id_name,
            "in_index": context.in_index,
            "index": context.index[0].dtype.str,
            "timezone": None if context.timezone is None else str(context.timezone),
        }

    def _arrays(self) -> dict[str, np.ndarray]:
        """Return the end of each series, which a forecast continues."""
        arrays = {f"series.{i}": array for i, array in enumerate(self.context_.series)}
        for i, index in enumerate(self.context_.index):
            arrays[f"index.{i}"] = index.astype(np.int64)
        return arrays

    def _restore(self, fitted: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        super()._restore(fitted, arrays)
        self.past_, self.known_ = int(fitted["past"]), tuple(fitted["known"])
        self.names_ = tuple(fitted["names"])
        series = [arrays[f"series.{i}"] for i in range(len(arrays) // 2)]
        index = [arrays[f"index.{i}"].astype(fitted["index"]) for i in range(len(series))]
        ids = fitted["ids"]
        self.context_ = Table(
            series=series,
            index=index,
            names=self.names_,
            kind=fitted["kind"],
            ids=None if ids is None else tuple(ids),
            time_name=fitted["time_name"],
            id_name=fitted["id_name"],
            in_index=fitted["in_index"],
            timezone=fitted["timezone"],
        )


@dataclass(frozen=True, eq=False)
class _Some:
    """A subset of windows."""

    windows: Windows
    chosen: np.ndarray

    def __len__(self) -> int:
        return len(self.chosen)

    @property
    def lengths(self) -> np.ndarray:
        return self.windows.lengths[self.chosen]

    @property
    def num_channels(self) -> int:
        return self.windows.num_channels

    @property
    def values(self) -> Any:
        return self.windows.values

    def batch(self, indices: Any, length: int | None = None) -> Any:
        return self.windows.batch(self.chosen[np.asarray(indices)], length)


def _last(data: Table, past: int) -> Table:
    """Keep the last `past` steps of each series."""
    return replace(
        data,
        series=[array[-past:] for array in data.series],
        index=[index[-past:] for index in data.index],
    )


def _columns(frame: Any, names: list[Any]) -> np.ndarray:
    missing = [name for name in names if name not in frame]
    if missing:
        raise DataError(f"future has no column {missing[0]!r}, expected {names}")
    return frame[names].to_numpy(float)
