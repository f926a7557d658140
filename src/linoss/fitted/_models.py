"""Trained models: prediction, streaming and attribution."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from linoss.data import DataError, Sequences
from linoss.fitted._attribution import Attribution, attribute_to_values
from linoss.fitted._stream import EnsembleStream, ModelStream
from linoss.nn import LinOSS, MixerKind
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

    def explain(self, cases: Sequences) -> Attribution:
        """Attribution of the outputs to the values of the only case, by integrated gradients."""
        return attribute_to_values(self.models, self.inputs, self.objective, cases)


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
