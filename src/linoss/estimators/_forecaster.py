"""What comes after a series."""

import os
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from sklearn.utils.validation import check_is_fitted

from linoss import _checks
from linoss.data import DataError, Table, table
from linoss.estimators._base import OnProgress, RunOptions, SequenceEstimator
from linoss.estimators._listener import ForecastListener
from linoss.training import Forecasting, Inputs, Windows, predict

_VALIDATION_WINDOWS = 256
_AT_ONCE = 256  # windows of a score


class LinOSSForecaster(SequenceEstimator):
    """A LinOSS model that forecasts one series of several variables, or many series.

    As in the paper: the model reads the past, then `horizon` steps without values, and answers at
    those. Variables are scaled by their mean and deviation, which travel with the model.

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

    def __init__(
        self,
        *,
        horizon: int = 24,
        past: int | None = None,
        known_in_advance: Any = (),
        hidden_size: int = 64,
        state_size: int = 64,
        num_blocks: int = 2,
        scheme: str = "exact",
        damped: bool | None = None,
        bidirectional: bool = False,
        norm: str | None = "batch",
        dropout: float = 0.1,
        time_channel: bool = False,
        model_options: dict[str, Any] | None = None,
        steps: int = 1000,
        batch_size: int = 32,
        learning_rate: float = 2e-3,
        warmup: int | None = None,
        schedule: str = "cosine",
        weight_decay: float = 0.01,
        clip_norm: float | None = 1.0,
        validation_fraction: float | None = None,
        evaluate_every: int | None = None,
        patience: int | None = None,
        devices: int | tuple[int, int] | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        """**Arguments:** as for [`linoss.LinOSSClassifier`][], and

        - `horizon`: steps ahead that the model learns to forecast.
        - `past`: steps that it reads before them; by default three times `horizon`, at least 96,
          fewer if the series are short.
        - `known_in_advance`: variables (names, or columns of an array) that are known for the
          future, such as a calendar or a plan. They are inputs, and are not forecast.
        - `validation_fraction`: the last part of each series, held out to choose the best weights;
          by default a tenth.
        """
        super().__init__(
            hidden_size=hidden_size,
            state_size=state_size,
            num_blocks=num_blocks,
            scheme=scheme,
            damped=damped,
            bidirectional=bidirectional,
            norm=norm,
            dropout=dropout,
            time_channel=time_channel,
            model_options=model_options,
            steps=steps,
            batch_size=batch_size,
            learning_rate=learning_rate,
            warmup=warmup,
            schedule=schedule,
            weight_decay=weight_decay,
            clip_norm=clip_norm,
            validation_fraction=validation_fraction,
            evaluate_every=evaluate_every,
            patience=patience,
            devices=devices,
            random_state=random_state,
            verbose=verbose,
        )
        self.horizon = horizon
        self.past = past
        self.known_in_advance = known_in_advance

    def fit(
        self,
        data: Any,
        y: None = None,
        *,
        directory: str | os.PathLike[str] | None = None,
        resume: bool = False,
        on_progress: OnProgress | None = None,
    ) -> "LinOSSForecaster":
        """Learn from the past.

        **Arguments:**

        - `data`: an array `(time, variables)`, a wide pandas frame (a column for each variable), a
          long one (`unique_id`, `ds`, `y`, and variables known in advance), or
          [`linoss.data.Table`][]. NaN means missing.
        - `y`: is not used.
        - `directory`: where to keep the run, with checkpoints.
        - `resume`: go on with the run in `directory`.
        - `on_progress`: is called with a [`linoss.training.Progress`][], twice a second at most.
        """
        _checks.positive_integer("horizon", self.horizon)
        data = data if isinstance(data, Table) else table(data)
        self.names_ = data.names
        known = self.known_in_advance
        known = [known] if isinstance(known, str) else known
        self.known_ = tuple(self._column(name, data) for name in known)
        self.past_ = self._past(data)
        self.context_ = _last(data, self.past_)
        training, validation = self._split(data)
        windows = self._windows(training)
        inputs = Inputs.from_sequences(windows, time_channel=self.time_channel)
        objective = Forecasting.from_windows(windows, inputs)
        held_out = None
        if validation is not None:
            every = self._windows(validation)
            held_out = replace(every, stride=max(1, len(every) // _VALIDATION_WINDOWS))
        self._train(
            inputs,
            objective,
            windows,
            held_out,
            self._seed(),
            RunOptions(directory, resume, on_progress),
            horizon=self.horizon,
        )
        return self

    def predict(self, horizon: int | None = None, *, data: Any = None, future: Any = None) -> Any:
        """What comes next, as what the data was: an array or a frame whose index goes on.

        **Arguments:**

        - `horizon`: steps ahead; by default those of the model. For more, forecasts are read as if
          they had been seen.
        - `data`: the series to go on from, of the kind that `fit` was given; by default those of
          `fit`.
        - `future`: the variables known in advance, for each of these steps: `(horizon, variables)`
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
        """The mean absolute error over all windows of `data`: lower is better.

        `GridSearchCV` and the like choose what is higher: give them
        `scoring=lambda forecaster, data, y=None: -forecaster.score(data)`.

        **Arguments:**

        - `data`: as in `fit`; each window has `past_` steps before those that are forecast.
        - `y`: is not used.
        - `scaled`: in deviations of each variable in training, not in its own units.
        - `stride`: steps from one window to the next.
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
                truth = some.batch(np.arange(len(some))).labels
                errors = np.abs(self.objective_.decode(np.asarray(answers)) - truth)
                errors = errors / deviation if scaled else errors
                total += float(np.nansum(errors))
                count += float(np.sum(np.isfinite(errors)))
        return total / count if count else float("nan")

    def stream(self) -> ForecastListener:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The trained forecaster, to listen to one sample at a time: after each, a forecast."""
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
        _checks.positive_integer("past", self.past)
        return self.past

    def _windows(self, data: Table) -> Windows:
        return Windows(
            data.series, past=self.past_, horizon=self.horizon, known=self.known_, min_past=1
        )

    def _split(self, data: Table) -> tuple[Table, Table | None]:
        """All but the last part of each series; and that, with the past that it needs."""
        fraction = 0.1 if self.validation_fraction is None else self.validation_fraction
        _checks.number(
            "validation_fraction", fraction, "None or a number in [0, 1)", lambda x: 0 <= x < 1
        )
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
        """The next forecasts of each series, after `done` of them."""
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
        return [self.objective_.decode(answer) for answer in answers]

    def _future(self, context: Table, future: Any, horizon: int) -> list[np.ndarray]:
        """The variables known in advance, for each series (horizon, variables)."""
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
        """The end of each series, from which a forecast goes on."""
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
    """Some of the windows."""

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
    """The end of each series."""
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
