"""Streaming: raw samples in, predictions for the sequence so far out, in constant memory."""

import abc
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from linoss import _checks
from linoss.nn import LinOSS, Stream
from linoss.training import Inputs, Objective


class NotANumberWarning(RuntimeWarning):
    """Some predictions are infinite or NaN.

    ```python
    >>> import warnings
    >>> from linoss.estimators import NotANumberWarning
    >>> warnings.simplefilter("error", NotANumberWarning)  # to stop there

    ```
    """


class AbstractListener(abc.ABC):
    """A stream of an estimator: one sample in, one prediction out."""

    @abc.abstractmethod
    def __call__(self, sample: Any, time: float | None = None) -> np.ndarray:
        """Return the prediction after one more sample."""

    def many(self, samples: np.ndarray, times: Sequence[float | None]) -> np.ndarray:
        """Return the predictions after each of several samples."""
        return np.stack([self(*sample) for sample in zip(samples, times, strict=True)])


class FunctionListener(AbstractListener):
    """A stream given by a function of a sample and its time."""

    def __init__(self, answer: Callable[[Any, float | None], np.ndarray]):
        self._answer = answer

    def __call__(self, sample: Any, time: float | None = None) -> np.ndarray:
        """Call the function."""
        return self._answer(sample, time)


class Together(AbstractListener):
    """A stream that combines the predictions of several."""

    def __init__(
        self,
        listeners: Sequence[AbstractListener],
        combine: Callable[[list[np.ndarray]], np.ndarray],
    ):
        self._listeners, self._combine = listeners, combine

    def __call__(self, sample: Any, time: float | None = None) -> np.ndarray:
        """Return the combined prediction after one more sample."""
        return self._combine([listener(sample, time)[None] for listener in self._listeners])[0]

    def many(self, samples: np.ndarray, times: Sequence[float | None]) -> np.ndarray:
        """Return the predictions after each of several samples."""
        return self._combine([listener.many(samples, times) for listener in self._listeners])


class Listener(AbstractListener):
    """A stream of one model of a classifier or regressor.

    With `every` it also predicts at each step.
    """

    def __init__(self, inputs: Inputs, objective: Objective, model: LinOSS):
        self._inputs, self._objective = inputs, objective
        with jax.enable_x64(False):
            self._stream = Stream(model)
        self._steps = 0
        self._first: float | None = None
        self._before: float | None = None
        self._good = True
        self._patch: list[np.ndarray] = []
        self._seen = False

    def __call__(self, sample: Any, time: float | None = None) -> np.ndarray:
        """Return probabilities, or numbers in the units of the targets.

        A sample near the largest float makes the prediction NaN, with a
        [`NotANumberWarning`][linoss.estimators.NotANumberWarning]. Oscillators that overflowed are
        then reset, so that later predictions are numbers again.

        **Arguments:**

        - `sample`: one number for each channel; NaN if it is missing.
        - `time`: the sampling time, required if the training had times.
        """
        return self.many(np.asarray(sample, np.float64)[None], [time])[0]

    def many(self, samples: np.ndarray, times: Sequence[float | None]) -> np.ndarray:
        """Return the predictions after each of several samples."""
        _checks.shape("sample", samples, ("samples", self._inputs.channels))
        observed = ~np.isnan(samples)
        there: Any = observed.any(axis=-1).tolist()
        since, intervals = self._when(times, there)
        u = self._inputs.arrange(samples[None], observed[None], since[None])[0]
        with jax.enable_x64(False):
            answers = [self._answer(*x) for x in zip(u, intervals, there, strict=True)]
        return self._objective.decode(np.stack(answers))

    def _answer(self, u: np.ndarray, interval: float | None, present: bool) -> np.ndarray:
        if self._inputs.patch > 1:
            return self._answer_to_patch(u, present)
        return self._step(u, interval, present)

    def _answer_to_patch(self, u: np.ndarray, present: bool) -> np.ndarray:
        """The prediction after an incomplete patch padded with zeros, without changing the
        state."""
        self._patch.append(u)
        self._seen = self._seen or present
        state = self._stream.state
        found = self._step(
            self._inputs.patches(np.stack(self._patch)[None])[0, 0], None, self._seen
        )
        if len(self._patch) < self._inputs.patch:
            self._stream.state = state
        else:
            self._patch, self._seen = [], False
        return found

    def _step(self, u: np.ndarray, interval: float | None, present: bool) -> np.ndarray:
        self._steps += 1
        found = self._stream(u, interval=interval, present=present)
        good = bool(np.isfinite(found).all())
        if not good:
            count = self._stream.recover()
            if self._good:
                _warn(
                    f"sample {self._steps}: the prediction is not a number, and {count} "
                    "oscillators that overflowed were reset; their memory is lost"
                )
        self._good = good
        return found

    def _when(
        self, times: Sequence[float | None], there: list[bool]
    ) -> tuple[np.ndarray, list[float | None]]:
        """The time of each sample since the first one, and its interval, in median intervals."""
        if self._inputs.interval is None:
            return self._steps + np.arange(float(len(there))), [None] * len(there)
        since, intervals = [], []
        for time, present in zip(times, there, strict=True):
            now, interval = self._interval(time)
            self._before = now if present else self._before
            since.append(now)
            intervals.append(interval)
        return np.array(since), intervals

    def _interval(self, time: float | None) -> tuple[float, float]:
        """Time since the first sample and since the last one, in median intervals."""
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
    """Warn. Unlike `warnings.warn`, keep no record of the texts, which would grow without bound."""
    warnings.warn_explicit(text, NotANumberWarning, __file__, 0, __name__)


class ForecastListener(AbstractListener):
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
