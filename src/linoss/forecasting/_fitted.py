"""What the fit of a forecaster ends with: its parts, forecasts, scores, streams, files."""

import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, get_type_hints

import jax
import numpy as np

from linoss import _checks
from linoss.data import DataError, Table, lay, read_table
from linoss.fitted import (
    AbstractPredictionStream,
    Description,
    Stored,
    Trained,
    reading,
    warn_of_nan,
)
from linoss.forecasting._backtest import Backtest, compare, last_origins
from linoss.forecasting._components import Components
from linoss.forecasting._files import packed, unpacked
from linoss.forecasting._intervals import Calibration, Request
from linoss.forecasting._selection import TriedMethod, cut
from linoss.training import Windows, predict

_AT_ONCE, _NUMBERS = 256, 2 * 10**6  # most windows and numbers forecast at a time
_STORED = ("context", "components", "calibration", "mase")


@dataclass(frozen=True, eq=False, repr=False)
class FittedForecaster:
    """A fitted forecaster: components, trained part, calibrated intervals, and the last steps.

    Every [`linoss.LinOSSForecaster`][] has one as `fitted_`; commands, exports and reports use
    nothing else. Data are of the same kind as in `fit`.

    ```python
    >>> import numpy as np
    >>> from linoss import LinOSSForecaster
    >>> wave = np.sin(np.arange(200)[:, None] / 5)
    >>> sizes = {"hidden_size": 8, "state_size": 8, "num_blocks": 1}
    >>> fitted = LinOSSForecaster(horizon=4, steps=2, **sizes).fit(wave).fitted_
    >>> fitted.task, fitted.past, fitted.predict().shape
    ('forecasting', 62, (4, 1))

    ```
    """

    task: ClassVar[str] = "forecasting"

    context: Table
    """The end of each series of the fit."""
    components: Components
    """Trend and seasonal components, and the linear part."""
    seed: int
    trained: Trained | None = None
    """The trained part."""
    calibration: Calibration | None = None
    """Shares and intervals by held-out steps; None if there were none."""
    mase: float | None = None
    """The mean absolute scaled error on held-out steps, which calibrated the intervals."""
    held_out: Backtest | None = None
    """The backtest of held-out steps; not stored in files."""
    trials: tuple[TriedMethod, ...] = ()
    """The methods that were tried on held-out steps; not stored in files."""

    def __repr__(self) -> str:
        series, names = len(self.context.series), ", ".join(map(str, self.targets[:3]))
        more = ", ..." if len(self.targets) > 3 else ""
        steps = f"{self.horizon} steps from {self.past}"
        return f"FittedForecaster({steps}, {series} series of {names}{more})"

    @property
    def horizon(self) -> int:
        """Number of steps to forecast."""
        return self.components.horizon

    @property
    def past(self) -> int:
        """Number of input steps."""
        return self.components.past

    @property
    def names(self) -> tuple[Any, ...]:
        """Names of the variables."""
        return self.context.names

    @property
    def known(self) -> tuple[int, ...]:
        """Columns of the variables known in advance."""
        return self.components.decomposition.known

    @property
    def targets(self) -> tuple[Any, ...]:
        """Names of the forecast variables."""
        return tuple(self.names[i] for i in self._targets)

    @property
    def _targets(self) -> list[int]:
        return list(self.components.decomposition.targets)

    @property
    def n_outputs(self) -> int:
        """Number of forecast variables."""
        return len(self._targets)

    @property
    def n_channels(self) -> int:
        """Number of variables of the data."""
        return len(self.names)

    @property
    def needs_times(self) -> bool:
        """Whether each sample needs a time: for seasons, or after training on irregular times."""
        return bool(self.components.decomposition.clock.periods) or (
            self.trained is not None and self.trained.needs_times
        )

    @property
    def supports_streaming(self) -> bool:
        """Whether forecasts can be made sample by sample, without future values."""
        return not self.known

    @property
    def scores(self) -> dict[str, float]:
        """Scores without a test part, by name."""
        return {} if self.mase is None else {"held-out MASE": self.mase}

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
        """Forecast, see [`linoss.LinOSSForecaster.predict`][]."""
        context = self.context if data is None else last_of(self.read(data), self.past)
        horizon = self.horizon if horizon is None else horizon
        if np.ndim(horizon):
            shape = np.shape(horizon)
            raise ValueError(f"horizon has shape {shape}, expected a number; pass series as data=")
        _checks.positive_integer("horizon", horizon)
        request = Request.checked(self.calibration, horizon, level, samples)
        given = future_of(context, future, [self.names[i] for i in self.known], horizon)
        values = self._forecast(context, given, horizon, request)
        if context.kind == "array":
            return values[0]
        flat = [each.reshape(len(each), -1) for each in values]
        return context.restore(flat, request.columns(list(self.targets)))

    def _forecast(
        self, context: Table, given: list[np.ndarray], horizon: int, request: Request
    ) -> np.ndarray:
        """Forecasts `(series, horizon, targets)`, with another axis for intervals or paths.

        `given` are future values of the known variables. For more steps than those of the model,
        forecasts are its inputs.
        """
        rounds = -(-horizon // self.horizon)
        ahead, parts = continued(context, given, self.known, rounds * self.horizon), []
        for k in range(rounds):
            lacking = (rounds - 1 - k) * self.horizon
            rows = [slice(0, len(array) - lacking) for array in ahead.series]
            current = cut(ahead, range(len(rows)), rows)
            windows = self.components.windows(current, only_last=True)
            every = np.arange(len(windows))
            part = self._values(self.components, current, windows, every, request)
            warn_of_nan("series", part)
            if rounds > 1:
                for array, values, row in zip(ahead.series, part, rows, strict=True):
                    array[row.stop - self.horizon : row.stop, self._targets] = values
            parts.append(part)
        return np.concatenate(parts, axis=1)[:, :horizon]

    def _values(
        self,
        components: Components,
        data: Table,
        windows: Windows,
        chosen: np.ndarray,
        request: Request,
    ) -> np.ndarray:
        """Forecasts of some windows, `(windows, horizon, targets, ...)`."""
        parts = []
        for some, output in self.outputs(windows, chosen):
            calibration = self.calibration
            relative = calibration and calibration.compute(output, request, self.seed)
            parts.append(
                components.restore(data, windows, some, output if relative is None else relative)
            )
        return np.concatenate(parts)

    def outputs(
        self, windows: Windows, chosen: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield batches of windows, with the trained model's output, or zeros."""
        calibration, trained = self.calibration, self.trained
        is_used = trained is not None and (calibration is None or calibration.share.any())
        at_once = max(1, min(_AT_ONCE, _NUMBERS // (self.horizon * self.n_outputs)))
        for start in range(0, len(chosen), at_once):
            some = chosen[start : start + at_once]
            if not is_used:
                yield some, np.zeros((len(some), self.horizon, self.n_outputs))
                continue
            assert trained is not None
            with jax.enable_x64(False):
                part = replace(windows, chosen=some)
                outputs = predict(trained.models[0], trained.inputs, part)
            yield some, trained.objective.decode(np.asarray(outputs))

    def stream(self) -> "ForecastStream":
        """A function that processes one sample at a time and returns a forecast after each.

        Samples continue the first series of the fit.
        """
        if self.known:
            raise ValueError(
                "known_in_advance is not empty, but a stream has no future values; use linoss "
                "forecast, or predict(..., future=...)"
            )
        return ForecastStream(self)

    # ---- Scores ----

    def backtest(
        self,
        data: Any,
        *,
        windows: int = 20,
        stride: int | None = None,
        level: Any = None,
        refit: Callable[[Table], "FittedForecaster"] | None = None,
    ) -> Backtest:
        """Forecast from past origins, see [`linoss.LinOSSForecaster.backtest`][].

        With `refit`, a function that fits another forecaster to the data before each origin.
        """
        data = self.read(data)
        _checks.positive_integer("windows", windows)
        stride = self.horizon if stride is None else stride
        _checks.positive_integer("stride", stride)
        request = Request.usual(self.calibration)
        if level is not None:
            request = Request.checked(self.calibration, self.horizon, level, None)
        origins = last_origins(data, self.past, self.horizon, windows, stride)
        if refit is None:
            return self.compare(self.components, data, origins, request)
        times = np.array([data.index[i][end - 1] for i, end in origins])
        parts: dict[int, np.ndarray] = {}
        for time in np.unique(times):
            counts = [int(np.searchsorted(index, time, side="right")) for index in data.index]
            known = [i for i, count in enumerate(counts) if count]
            fitted = refit(cut(data, known, [slice(0, counts[i]) for i in known]))
            request = Request() if fitted.calibration is None else request
            chosen = np.flatnonzero(times == time)
            forecasts = fitted._at(fitted.components, data, origins[chosen], request)
            parts |= dict(zip(chosen.tolist(), forecasts, strict=True))
        width = 1 if request.percent is None else 1 + 2 * len(request.percent)
        forecasts = np.stack([parts[i][..., :width] for i in range(len(origins))])
        return self._compared(data, origins, forecasts, request)

    def compare(
        self, components: Components, data: Table, origins: np.ndarray, request: Request
    ) -> Backtest:
        """Compare forecasts on components with simple ones; see `last_origins`."""
        forecasts = self._at(components, data, origins, request)
        return self._compared(data, origins, forecasts, request)

    def _compared(
        self, data: Table, origins: np.ndarray, forecasts: np.ndarray, request: Request
    ) -> Backtest:
        decomposition, season = self.components.decomposition, self.components.season
        clock, several = decomposition.clock, decomposition.of(data)
        seasons = [clock.season_of(one.step) if clock.periods else season for one in several]
        return compare(data, origins, self._targets, seasons, forecasts, request.percent)

    def _at(
        self, components: Components, data: Table, origins: np.ndarray, request: Request
    ) -> np.ndarray:
        """Forecasts `(windows, horizon, targets, 1 + 2 levels)`."""
        windows = components.windows(data)
        chosen = windows.find(*origins.T)
        forecasts = self._values(components, data, windows, chosen, request)
        return forecasts if request.percent is not None else forecasts[..., None]

    # ---- Data and files ----

    def read(self, data: Any) -> Table:
        """Validate data with the variables of the fit."""
        data = read_table(data).ordered(self.names)
        data = conform(data, self.context)
        if data.irregular and self.trained is not None and not self.trained.needs_times:
            warnings.warn(
                "data has irregular times, but those of fit were regular: seasons follow the "
                "times, but the trained model counts samples; fit with irregular times",
                stacklevel=4,
            )
        return data

    def facts(self) -> dict[str, Any]:
        """Everything but arrays and the trained part, as plain values."""
        return {name: packed(getattr(self, name), name, {}) for name in _STORED}

    def arrays(self) -> dict[str, np.ndarray]:
        """The end of each series, closed-form parts, and the calibration."""
        arrays: dict[str, np.ndarray] = {}
        for name in _STORED:
            packed(getattr(self, name), name, arrays)
        return arrays

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> tuple["FittedForecaster", Description]:
        """Load what a fit or `save` wrote, and the description of its estimator.

        Loading executes no code. An unfinished run is loaded without calibration, with a warning.
        """
        stored = Stored.read(directory)
        arrays, facts = stored.arrays, stored.facts
        with reading(directory):
            assert facts is not None  # a fit begins with its components
            steps = stored.description.parameters["steps"]
            if not facts["models"] and facts["calibration"] is None and steps != 0:
                warnings.warn(
                    f"{os.fspath(directory)}: was stopped before its end, and has no intervals; "
                    "continue it with resume=True",
                    stacklevel=3,
                )
                stored = replace(stored, facts={**facts, "models": 1})
            for name, array in arrays.items():
                if not name.startswith("context.series") and not np.isfinite(array).all():
                    raise ValueError(f"{name} has numbers that are not finite")
            hints = get_type_hints(cls)
            parts = {name: unpacked(hints[name], facts[name], name, arrays) for name in _STORED}
            fitted = cls(**parts, seed=stored.description.seed, trained=stored.trained())
            fitted._check()
            return fitted, stored.description

    def _check(self) -> None:
        """Raise ValueError for parts of a file that do not fit each other."""
        context, sizes = self.context, (self.horizon, self.n_outputs)
        lengths = {len(each) for each in (context.series, context.index, context.frequencies)}
        if (
            lengths != {len(context.ids or (0,))}
            or context.ids != self.components.decomposition.ids
        ):
            raise ValueError("the ends of the series do not fit their names")
        for values, index in zip(context.series, context.index, strict=True):
            _checks.shape("series", values, (len(index), len(self.names)))
            if not len(index) or index.ndim != 1 or index.dtype.kind not in "ifM":
                raise ValueError("an index has no times")
        self.components.check(len(self.names))
        if self.calibration is not None:
            self.calibration.check(sizes)
        objective = None if self.trained is None else self.trained.objective
        if objective is not None and getattr(objective, "horizon", None) != self.horizon:
            raise ValueError("the trained part does not fit the components")


class ForecastStream(AbstractPredictionStream):
    """A stream of a forecaster, which stores the last samples as input."""

    def __init__(self, fitted: FittedForecaster):
        self._fitted = fitted
        context = fitted.context.pick([0])
        self._table = replace(context, series=[context.series[0][:0]], kind="array")

    def __call__(self, sample: Any, time: float | None = None) -> np.ndarray:
        """Return the forecast after this sample, `(horizon, variables)`, in units of the data.

        Without a `time` (a number, or the seconds of a date) the sample is one step after the last
        one, the first sample one step after the data of `fit`.
        """
        values, past = np.asarray(sample, np.float64), self._fitted.past
        _checks.shape("sample", values, (len(self._fitted.names),))
        index = np.concatenate([self._table.index[0], self._when(time)])[-past - 1 :]
        series = np.concatenate([self._table.series[0], values[None]])[-past:]
        self._table = replace(self._table, series=[series], index=[index])
        return self._fitted.predict(data=replace(self._table, index=[index[-len(series) :]]))

    def _when(self, time: float | None) -> np.ndarray:
        """The time of the next sample: as given, or one step after the last."""
        if time is None:
            return self._table.continued(1)[0]
        if self._table.index[0].dtype.kind == "M":
            return np.array([round(time * 1e6)]).astype("datetime64[us]")
        return np.array([round(time)])


def last_of(data: Table, past: int) -> Table:
    """Keep the last `past` steps of each series."""
    return replace(
        data,
        series=[array[-past:] for array in data.series],
        index=[index[-past:] for index in data.index],
        timezone=None if data.timezone is None else str(data.timezone),
    )


def conform(data: Table, fit: Table) -> Table:
    """Lay the series of data on the grids of those of the fit.

    Gaps become missing values. Raises for data of another frequency; irregular data and series that
    the fit did not see stay as they are.
    """
    if data.kind == "array":
        return data
    places = {None: 0} if fit.ids is None else {name: i for i, name in enumerate(fit.ids)}
    index, series, frequencies = list(data.index), list(data.series), list(data.frequencies)
    for i, name in enumerate([None] * len(index) if data.ids is None else data.ids):
        own, place = frequencies[i], places.get(name)
        expected = None if place is None else fit.frequencies[place]
        if expected is None or not expected.is_regular or (own and own.matches(expected)):
            continue
        grid = lay(expected, index[i], series[i])
        if grid is not None:
            (index[i], series[i]), frequencies[i] = grid, expected
        elif own is not None and own.is_regular:
            raise DataError(f"{data.title(i)} has {own}, expected {expected}, as in fit")
    return replace(data, index=index, series=series, frequencies=tuple(frequencies))


def continued(context: Table, given: list[np.ndarray], known: tuple[int, ...], steps: int) -> Table:
    """The series extended by `steps`, with values of known variables only."""
    series = []
    for past, future in zip(context.series, given, strict=True):
        after = np.full((steps, past.shape[1]), np.nan)
        after[: len(future), list(known)] = future
        series.append(np.concatenate([past, after]))
    after = context.continued(steps)
    index = [np.concatenate(pair) for pair in zip(context.index, after, strict=True)]
    return replace(context, series=series, index=index)


def future_of(context: Table, future: Any, names: list[Any], horizon: int) -> list[np.ndarray]:
    """Variables known in advance, `(horizon, variables)` for each series."""
    if not names:
        if future is not None:
            raise ValueError("future was given, but known_in_advance is empty")
        return [np.zeros((horizon, 0))] * len(context.series)
    if future is None:
        raise ValueError(
            f"future is None, expected the variables known in advance, {names}, for {horizon} steps"
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


def _columns(frame: Any, names: list[Any]) -> np.ndarray:
    missing = [name for name in names if name not in frame]
    if missing:
        raise DataError(f"future has no column {missing[0]!r}, expected {names}")
    return frame[names].to_numpy(float)
