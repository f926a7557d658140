"""Streaming forecasts: samples in, a forecast after each out."""

from dataclasses import replace
from typing import Any

import numpy as np

from linoss import _checks
from linoss.fitted import AbstractPredictionStream


class ForecastListener(AbstractPredictionStream):
    """A stream of a forecaster, which stores the last samples as input."""

    def __init__(self, forecaster: Any):
        if forecaster.known_:
            raise ValueError(
                "known_in_advance is not empty, but a stream has no future values; use linoss "
                "forecast, or predict(..., future=...)"
            )
        self._forecaster = forecaster
        context = forecaster.context_.pick([0])
        self._table = replace(context, series=[context.series[0][:0]], kind="array")

    def __call__(self, sample: Any, time: float | None = None) -> np.ndarray:
        """Return the forecast after this sample, `(horizon, variables)`, in units of the data.

        Without a `time` (a number, or the seconds of a date) the sample is one step after the last
        one, the first sample one step after the data of `fit`.
        """
        names = self._forecaster.names_
        values = np.asarray(sample, np.float64)
        _checks.shape("sample", values, (len(names),))
        past, (index,) = self._forecaster.past_, self._table.index
        index = np.concatenate([index, self._when(time)])[-past - 1 :]
        series = np.concatenate([self._table.series[0], values[None]])[-past:]
        self._table = replace(self._table, series=[series], index=[index])
        return self._forecaster.predict(data=replace(self._table, index=[index[-len(series) :]]))

    def _when(self, time: float | None) -> np.ndarray:
        """The time of the next sample: as given, or one step after the last."""
        if time is None:
            return self._table.continued(1)[0]
        if self._table.index[0].dtype.kind == "M":
            return np.array([round(time * 1e6)]).astype("datetime64[us]")
        return np.array([round(time)])
