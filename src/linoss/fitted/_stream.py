"""Streaming: raw samples in, predictions for the sequence so far out, in constant memory."""

import abc
import copy
import warnings
from collections.abc import Callable, Sequence
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
    >>> from linoss.fitted import NotANumberWarning
    >>> warnings.simplefilter("error", NotANumberWarning)  # to stop there

    ```
    """


class AbstractPredictionStream(abc.ABC):
    """A streaming predictor: one sample in, one prediction out."""

    @abc.abstractmethod
    def __call__(self, sample: Any, time: float | None = None) -> np.ndarray:
        """Return the prediction after one more sample.

        **Arguments:**

        - `sample`: one number for each channel; NaN if it is missing.
        - `time`: the sampling time, required if those of the training were irregular.
        """

    def many(self, samples: np.ndarray, times: Sequence[float | None]) -> np.ndarray:
        """Return the predictions after each of several samples."""
        return np.stack([self(*sample) for sample in zip(samples, times, strict=True)])


class EnsembleStream(AbstractPredictionStream):
    """A stream that combines the predictions of several."""

    def __init__(
        self,
        members: Sequence[AbstractPredictionStream],
        combine: Callable[[list[np.ndarray]], np.ndarray],
    ):
        self._members, self._combine = members, combine

    def __deepcopy__(self, memo: dict[int, Any]) -> "EnsembleStream":
        """Copy the states; what does not change is shared."""
        return EnsembleStream(copy.deepcopy(self._members, memo), self._combine)

    def __call__(self, sample: Any, time: float | None = None) -> np.ndarray:
        """Return the combined prediction after one more sample."""
        return self._combine([member(sample, time)[None] for member in self._members])[0]

    def many(self, samples: np.ndarray, times: Sequence[float | None]) -> np.ndarray:
        """Return the predictions after each of several samples."""
        return self._combine([member.many(samples, times) for member in self._members])


class ModelStream(AbstractPredictionStream):
    """A stream of one trained model. With `every` it also predicts at each step.

    A sample near the largest float makes the prediction NaN, with a `NotANumberWarning`.
    Oscillators that overflowed are then reset, so that later predictions are numbers again.
    """

    def __init__(self, inputs: Inputs, objective: Objective, model: LinOSS):
        self._inputs, self._objective, self._model = inputs, objective, model
        with jax.enable_x64(False):
            self._stream = Stream(model)
        self._steps = 0
        self._first: float | None = None
        self._before: float | None = None
        self._is_finite = True
        self._patch: list[np.ndarray] = []
        self._patch_has_value = False

    def __deepcopy__(self, memo: dict[int, Any]) -> "ModelStream":
        """Copy the state; what does not change is shared."""
        stream = copy.copy(self)
        stream._patch = list(self._patch)
        with jax.enable_x64(False):
            stream._stream = Stream(self._model)
            stream._stream.state = self._stream.state
        return stream

    def __call__(self, sample: Any, time: float | None = None) -> np.ndarray:
        """Return probabilities, or numbers in the units of the targets."""
        return self.many(np.asarray(sample, np.float64)[None], [time])[0]

    def many(self, samples: np.ndarray, times: Sequence[float | None]) -> np.ndarray:
        """Return the predictions after each of several samples."""
        _checks.shape("sample", samples, ("samples", self._inputs.channels))
        observed = ~np.isnan(samples)
        present: Any = observed.any(axis=-1).tolist()
        since, intervals = self._clock(times, present)
        u = self._inputs.arrange(samples[None], observed[None], since[None])[0]
        with jax.enable_x64(False):
            outputs = [self._output(*x) for x in zip(u, intervals, present, strict=True)]
        return self._objective.decode(np.stack(outputs))

    def _output(self, u: np.ndarray, interval: float | None, present: bool) -> np.ndarray:
        if self._inputs.patch == 1:
            return self._step(u, interval, present)
        self._patch.append(u)
        self._patch_has_value = self._patch_has_value or present
        state = self._stream.state
        patch = self._inputs.patches(np.stack(self._patch)[None])[0, 0]
        output = self._step(patch, None, self._patch_has_value)
        if len(self._patch) < self._inputs.patch:
            self._stream.state = state  # the patch, padded with zeros, is not complete yet
        else:
            self._patch, self._patch_has_value = [], False
        return output

    def _step(self, u: np.ndarray, interval: float | None, present: bool) -> np.ndarray:
        self._steps += 1
        output = self._stream(u, interval=interval, present=present)
        is_finite = bool(np.isfinite(output).all())
        if not is_finite:
            count = self._stream.recover()
            if self._is_finite:
                _warn(
                    f"sample {self._steps}: the prediction is not a number, and {count} "
                    "oscillators that overflowed were reset; their memory is lost"
                )
        self._is_finite = is_finite
        return output

    def _clock(
        self, times: Sequence[float | None], present: list[bool]
    ) -> tuple[np.ndarray, list[float | None]]:
        """The time of each sample since the first one, and its interval, in median intervals."""
        if self._inputs.interval is None:
            return self._steps + np.arange(float(len(present))), [None] * len(present)
        since, intervals = [], []
        for time, is_present in zip(times, present, strict=True):
            now, interval = self._interval(time)
            self._before = now if is_present else self._before
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


def warn_of_nan(what: str, predictions: Any) -> None:
    """Warn if predictions, one for each case, are not all finite."""
    wrong = [i for i, each in enumerate(predictions) if not np.isfinite(each).all()]
    if wrong:
        more = f" and {len(wrong) - 1} others" if len(wrong) > 1 else ""
        warnings.warn(
            f"the predictions for {what} {wrong[0]}{more} are not numbers: values of the data or "
            "the weights are too large for single precision",
            NotANumberWarning,
            stacklevel=4,
        )


def _warn(text: str) -> None:
    """Warn. Unlike `warnings.warn`, keep no record of the texts, which would grow without bound."""
    warnings.warn_explicit(text, NotANumberWarning, __file__, 0, __name__)
