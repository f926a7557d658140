"""A trained estimator that listens: raw samples in, answers out, in constant memory.

The answer after a sample is the batch prediction for the sequence so far.
"""

from collections import deque
from typing import Any

import numpy as np

from linoss.cli._samples import Sample


class Listener:
    """A classifier or a regressor. A regressor with `every` answers at each step."""

    def __init__(self, estimator: Any):
        self.model, self.inputs = estimator.model_, estimator.inputs_
        self.objective = estimator.objective_
        self.stream = estimator.stream()
        self._steps = 0
        self._first: float | None = None
        self._before: float | None = None

    def __call__(self, sample: Sample) -> np.ndarray:
        """(outputs,): probabilities, or numbers in the units of the labels."""
        values = sample.values.astype(np.float32)
        observed = ~np.isnan(values)
        time, interval = float(self._steps), None
        if self.inputs.interval is not None:
            assert sample.time is not None
            self._first = sample.time if self._first is None else self._first
            time = (sample.time - self._first) / self.inputs.interval
            interval = 1.0 if self._before is None else time - self._before
            self._before = time if observed.any() else self._before
        self._steps += 1
        u = self._channels(values, observed, time)
        if observed.any() and interval is None:
            answer = self.stream(u)
        else:
            answer = self._one_step(u, there=bool(observed.any()), interval=interval)
        return self.objective.decode(np.asarray(answer)[None])[0]

    def _one_step(self, u: np.ndarray, *, there: bool, interval: float | None) -> np.ndarray:
        """One that is missing, or comes after an interval of its own."""
        intervals = None if interval is None else np.array([interval], u.dtype)
        answers, self.stream.state = self.model.run(
            self.stream.state,
            u[None],
            mask=None if there else np.array([False]),
            intervals=intervals,
            engine="sequential",
        )
        return answers[0]

    def _channels(self, values: np.ndarray, observed: np.ndarray, time: float) -> np.ndarray:
        dtype = self.model.encoder.weight.dtype
        found = self.inputs._channels(
            values[None, None], observed[None, None], np.array([[time]]), dtype
        )
        return found[0, 0]


class Forecasts:
    """A forecaster, which keeps the samples that it reads: as many as its past has."""

    def __init__(self, estimator: Any):
        if estimator.known_:
            raise ValueError(
                "the forecaster wants variables that are known in advance, which a stream does "
                "not tell; use linoss forecast"
            )
        self.estimator, self.seen = estimator, deque(maxlen=estimator.past_)

    def __call__(self, sample: Sample) -> np.ndarray:
        """(horizon, variables), in the units of the data."""
        from linoss.data import Table

        self.seen.append(sample.values)
        series = np.stack(self.seen)
        names = self.estimator.names_
        return self.estimator.predict(data=Table([series], [np.arange(len(series))], names))
