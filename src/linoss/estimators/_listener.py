"""Streaming: raw samples in, the prediction for the sequence so far out, in constant memory."""

import warnings
from collections import deque
from typing import Any

import jax
import numpy as np

from linoss import _checks
from linoss.data import Table
from linoss.nn import Stream


class NotANumberWarning(RuntimeWarning):
    """Some answers are infinite or NaN.

    ```python
    >>> import warnings
    >>> from linoss.estimators import NotANumberWarning
    >>> warnings.simplefilter("error", NotANumberWarning)  # to stop there

    ```
    """


class Listener:
    """A stream of a classifier or a regressor. With `every` it still answers at each step."""

    def __init__(self, estimator: Any):
        self._inputs, self._objective = estimator.inputs_, estimator.objective_
        with jax.enable_x64(False):
            self._stream = Stream(estimator.model_)
        self._steps = 0
        self._first: float | None = None
        self._before: float | None = None
        self._good = True

    def __call__(self, sample: Any, time: float | None = None) -> np.ndarray:
        """Return probabilities, or numbers in the units of the targets.

        A sample near the largest number makes the answer NaN, of which a [`NotANumberWarning`][
        linoss.estimators.NotANumberWarning] tells. Oscillators that it drove beyond the numbers are
        then reset, so that later answers are numbers again.

        **Arguments:**

        - `sample`: a number for each channel; NaN if it is missing.
        - `time`: sampling time, required if the training had times.
        """
        values = np.asarray(sample, np.float64)
        _checks.shape("sample", values, (self._inputs.channels,))
        observed = ~np.isnan(values)
        there, since = bool(observed.any()), float(self._steps)
        interval = None
        if self._inputs.interval is not None:
            since, interval = self._interval(time)
            self._before = since if there else self._before
        self._steps += 1
        u = self._inputs.arrange(values[None, None], observed[None, None], np.array([[since]]))
        with jax.enable_x64(False):
            found = self._stream(u[0, 0], interval=interval, present=there)
        good = bool(np.isfinite(found).all())
        if not good:
            count = self._stream.recover()
            if self._good:
                _warn(
                    f"sample {self._steps}: the answer is not a number, and {count} oscillators "
                    "that left the range of numbers were reset; later answers do not know what "
                    "these remembered"
                )
        self._good = good
        return self._objective.decode(found[None])[0]

    def _interval(self, time: float | None) -> tuple[float, float]:
        """Time since the first sample and since the last one, in units of the usual interval."""
        assert self._inputs.interval is not None
        if time is None:
            raise ValueError("time is None, expected a number: the training had times")
        self._first = time if self._first is None else self._first
        since = (time - self._first) / self._inputs.interval
        interval = 1.0 if self._before is None else since - self._before
        if not interval > 0:
            raise ValueError(f"time is {time}, expected a later one than that of the sample before")
        return since, interval


def _warn(text: str) -> None:
    """Warn. Unlike `warnings.warn`, keep no record of the text: a stream has no end."""
    warnings.warn_explicit(text, NotANumberWarning, __file__, 0, __name__)


class ForecastListener:
    """A stream of a forecaster, which keeps the last samples that a forecast reads."""

    def __init__(self, forecaster: Any):
        if forecaster.known_:
            raise ValueError(
                "known_in_advance is not empty, and a stream does not tell the future; use "
                "linoss forecast, or predict(..., future=...)"
            )
        self._forecaster = forecaster
        self._seen: deque[np.ndarray] = deque(maxlen=forecaster.past_)

    def __call__(self, sample: Any, time: None = None) -> np.ndarray:
        """Return the forecast after this sample, `(horizon, variables)`, in units of the data."""
        names = self._forecaster.names_
        values = np.asarray(sample, np.float64)
        _checks.shape("sample", values, (len(names),))
        self._seen.append(values)
        series = np.stack(self._seen)
        return self._forecaster.predict(data=Table([series], [np.arange(len(series))], names))
