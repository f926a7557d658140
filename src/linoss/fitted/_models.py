"""Trained models: prediction, streaming and attribution."""

import copy
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from linoss import _checks
from linoss.data import DataError, Sequences
from linoss.fitted._attribution import Attribution, attribute_to_values
from linoss.fitted._ensemble import AbstractPredictionStream, EnsembleStream
from linoss.nn import LinOSS, MixerKind, Stream
from linoss.training import Inputs, Objective, predict


@dataclass(frozen=True, eq=False)
class Trained:
    """Trained models with equal settings; their prediction is the mean."""

    models: list[LinOSS]
    inputs: Inputs
    """The conversion of data to the inputs of the models."""
    objective: Objective
    """The objective of their training, which decodes their outputs."""
    history: list[dict[str, Any]]
    """For each evaluation of the first model: step, loss, metric, best, learning_rate, seconds."""
    n_steps: int
    """Number of updates of all models."""
    best_metric: float | None = None
    """The best validation metric of the first model."""

    @property
    def n_channels(self) -> int:
        """Number of channels of the data."""
        return self.inputs.channels

    @property
    def needs_times(self) -> bool:
        """Whether each sample needs a time."""
        return self.inputs.irregular

    @property
    def supports_streaming(self) -> bool:
        """Whether the models read sequences forwards only."""
        config = self.models[0].config
        return not config.bidirectional and not MixerKind.of(config.mixer).follows

    def predict(self, cases: Sequences) -> Any:
        """Probabilities or numbers, `(cases, outputs)`; with `every` a list."""
        return mean_of([self.predict_by(model, cases) for model in self.models])

    def predict_by(self, model: LinOSS, cases: Sequences) -> Any:
        """The predictions of one of the models."""
        with jax.enable_x64(False):
            outputs = predict(model, self.inputs, cases)
        if isinstance(outputs, list):
            return [self.objective.decode(output) for output in outputs]
        return self.objective.decode(outputs)

    def check(self, cases: Sequences) -> None:
        """Raise for cases whose times do not suit the models; warn of unseen kinds of gaps."""
        if self.inputs.ignores_times(cases):
            raise DataError(
                "times are irregular, but those of fit were regular, or there were none; fit "
                "with irregular times"
            )
        if self.needs_times and cases.times is None:
            raise DataError(
                "times are not given, but fit had times; also pass them to predict and score. In "
                "cross-validation: sklearn.set_config(enable_metadata_routing=True), and "
                "estimator.set_fit_request(times=True).set_score_request(times=True)"
            )
        if not self.inputs.indicators and any(map(_is_partly_missing, cases.values)):
            warnings.warn(
                "X has steps where some of the channels are missing; fit had none, so the model "
                "treats these as the mean of their channel. Include such cases in fit",
                stacklevel=4,
            )

    def stream(self) -> EnsembleStream:
        """A streaming predictor."""
        streams = [ModelStream(self.inputs, self.objective, model) for model in self.models]
        return EnsembleStream(streams, mean_of)

    def explain(self, cases: Sequences, **_: int) -> Attribution:
        """Attribution of the outputs to the values of the only case, by integrated gradients."""
        return attribute_to_values(self.models, self.inputs, self.objective, cases)


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
            if time is None:
                raise ValueError("time is None, expected a number: the training had times")
            self._first = time if self._first is None else self._first
            since.append((time - self._first) / self._inputs.interval)
            intervals.append(1.0 if self._before is None else since[-1] - self._before)
            if not intervals[-1] > 0:
                raise ValueError(f"time is {time}, expected a later one than that before")
            self._before = since[-1] if is_present else self._before
        return np.array(since), intervals


def mean_of(several: Sequence[Any]) -> Any:
    """The mean of predictions of several models, each of them an array or a list of arrays."""
    if len(several) == 1:
        return several[0]
    if isinstance(several[0], list):
        return [np.mean(of_case, axis=0) for of_case in zip(*several, strict=True)]
    return np.mean(several, axis=0)


def _is_partly_missing(case: Any) -> bool:
    """Whether some, but not all, channels are missing at a step."""
    missing = np.isnan(case)
    return bool((missing.any(axis=-1) & ~missing.all(axis=-1)).any())


# ---- Predictions that are not numbers ----


class NotANumberWarning(RuntimeWarning):
    """Some predictions are infinite or NaN.

    ```python
    >>> import warnings
    >>> from linoss.fitted import NotANumberWarning
    >>> warnings.simplefilter("error", NotANumberWarning)  # to stop there

    ```
    """


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
