"""What the fit of a forecaster ends with: its parts, forecasts, scores, streams, files."""

import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import jax
import numpy as np

from linoss import _checks
from linoss.data import Table, read_table
from linoss.fitted import (
    AbstractPredictionStream,
    Description,
    Stored,
    Trained,
    reading,
    warn_of_nan,
)
from linoss.forecasting._backtest import Backtest, Origins, compare
from linoss.forecasting._components import Components, TriedMethod, cut
from linoss.forecasting._context import (
    conform,
    continued,
    future_of,
    last_of,
    restored_table,
    table_facts,
)
from linoss.forecasting._intervals import Calibration, Request
from linoss.training import Forecasting, Windows, predict

_AT_ONCE, _NUMBERS = 256, 10**7  # most windows and numbers forecast at a time


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
    deviation: np.ndarray
    """(targets,): the standard deviation of each target in training."""
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
        for some, quantiles in self.quantiles(windows, chosen):
            if self.calibration is None:
                relative = quantiles[..., quantiles.shape[-1] // 2]
            else:
                relative = self.calibration.compute(quantiles, request, self.seed)
            parts.append(components.restore(data, windows, some, relative))
        return np.concatenate(parts)

    def quantiles(
        self, windows: Windows, chosen: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield batches of windows, with the trained part's quantiles, not calibrated."""
        calibration, trained = self.calibration, self.trained
        is_used = trained is not None and (calibration is None or calibration.uses_model)
        levels = 1 if calibration is None else len(calibration.levels)
        at_once = max(1, min(_AT_ONCE, _NUMBERS // (self.horizon * self.n_outputs * levels)))
        for start in range(0, len(chosen), at_once):
            some = chosen[start : start + at_once]
            if not is_used:
                yield some, np.zeros((len(some), self.horizon, self.n_outputs, levels))
                continue
            assert trained is not None
            assert isinstance(trained.objective, Forecasting)
            with jax.enable_x64(False):
                part = replace(windows, chosen=some)
                outputs = predict(trained.models[0], trained.inputs, part)
            yield some, trained.objective.quantiles(np.asarray(outputs))

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

    def known_effects(self) -> dict[Any, dict[Any, float]]:
        """The standard deviation of each known variable's contribution to each target in training.

        In the unit of the target; relative, if the logarithm of the target is forecast.
        """
        effects = self.components.decomposition.effects
        return {
            self.names[i]: dict(zip(self.targets, row.tolist(), strict=True))
            for i, row in zip(self.known, effects, strict=True)
        }

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
        origins = Origins.last(data, self._targets, (self.past, self.horizon), windows, stride)
        if refit is None:
            return self.compare(self.components, data, origins, request)
        times, parts = origins.times(data), []
        for time in np.unique(times):
            fitted = refit(origins.known_at(data, time))
            request = Request() if fitted.calibration is None else request
            chosen = np.flatnonzero(times == time)
            of_time = fitted._at_origins(fitted.components, data, origins.only(chosen), request)
            parts.append((chosen, *of_time))
        order = np.argsort(np.concatenate([chosen for chosen, _, _ in parts]))
        width = 1 if request.percent is None else 1 + 2 * len(request.percent)
        forecasts = np.concatenate([each[..., :width] for _, each, _ in parts])[order]
        expected = np.concatenate([each for _, _, each in parts])[order]
        return self._compared(data, origins, forecasts, expected, request)

    def compare(
        self, components: Components, data: Table, origins: Origins, request: Request
    ) -> Backtest:
        """Compare forecasts on components with simple ones."""
        forecasts, expected = self._at_origins(components, data, origins, request)
        return self._compared(data, origins, forecasts, expected, request)

    def _compared(
        self,
        data: Table,
        origins: Origins,
        forecasts: np.ndarray,
        expected: np.ndarray,
        request: Request,
    ) -> Backtest:
        """Compare with simple forecasts, by the season and the times of each series."""
        decomposition, season = self.components.decomposition, self.components.season
        series, clock = decomposition.of(data), decomposition.clock
        seasons = [clock.season_of(one.step) if clock.periods else season for one in series]
        times = [decomposition.times(*each) for each in zip(series, data.index, strict=True)]
        return compare(data, origins, seasons, times, forecasts, expected, request.percent)

    def _at_origins(
        self, components: Components, data: Table, origins: Origins, request: Request
    ) -> tuple[np.ndarray, np.ndarray]:
        """Forecasts `(windows, horizon, targets, 1 + 2 levels)`, and those by seasons alone."""
        windows = components.windows(data)
        chosen = windows.find(origins.series, origins.ends)
        forecasts = self._values(components, data, windows, chosen, request)
        forecasts = forecasts if request.percent is not None else forecasts[..., None]
        return forecasts, components.expected(data, windows, chosen)

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
        return {
            "context": table_facts(self.context),
            "known": list(self.known),
            "components": self.components.facts(),
            "calibrated": self.calibration is not None,
            "mase": self.mase,
        }

    def arrays(self) -> dict[str, np.ndarray]:
        """The end of each series, closed-form parts, and the calibration."""
        calibration = {} if self.calibration is None else self.calibration.arrays()
        return {
            "series": np.concatenate(self.context.series),
            "index": _numbers(np.concatenate(self.context.index)),
            "deviation": self.deviation,
            **{f"components.{name}": array for name, array in self.components.arrays().items()},
            **{f"calibration.{name}": array for name, array in calibration.items()},
        }

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
            if not facts["models"] and not facts["calibrated"] and steps != 0:
                warnings.warn(
                    f"{os.fspath(directory)}: was stopped before its end, and has no intervals; "
                    "continue it with resume=True",
                    stacklevel=3,
                )
                stored = replace(stored, facts={**facts, "models": 1})
            trained = stored.trained()
            context = restored_table(facts["context"], arrays["series"], arrays["index"])
            components, calibration = (
                {n.removeprefix(part): a for n, a in arrays.items() if n.startswith(part)}
                for part in ("components.", "calibration.")
            )
            known = tuple(map(int, facts["known"]))
            restored = Components.restored(facts["components"], components, known, context)
            sizes = restored.horizon, len(context.names) - len(known)
            _checks.shape("deviation", arrays["deviation"], sizes[1:])
            objective = None if trained is None else trained.objective
            if objective is not None and getattr(objective, "horizon", None) != sizes[0]:
                raise ValueError("the trained part does not fit the components")
            return (
                cls(
                    context,
                    restored,
                    arrays["deviation"],
                    stored.description.seed,
                    trained,
                    Calibration.restored(sizes, calibration) if facts["calibrated"] else None,
                    None if facts["mase"] is None else float(facts["mase"]),
                ),
                stored.description,
            )


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


def _numbers(index: np.ndarray) -> np.ndarray:
    return index if index.dtype.kind == "f" else index.astype(np.int64)
