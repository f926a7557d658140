"""The result of a fit: inputs, models and decoded outputs; predictions, streams, files."""

from linoss.features import OscillatorSettings
from linoss.fitted._attribution import Attribution
from linoss.fitted._ensemble import FLOOR, AbstractPredictionStream, Choice
from linoss.fitted._files import Description, Stored, load, reading
from linoss.fitted._fit import (
    FitStopped,
    RunOptions,
    TrainedSettings,
    fit_models,
    fit_oscillators,
    train_model,
)
from linoss.fitted._fitted import Fitted, Outputs
from linoss.fitted._learning import Learner
from linoss.fitted._models import NotANumberWarning, Trained, warn_of_nan
from linoss.fitted._oscillators import Untrained

__all__ = [
    "FLOOR",
    "AbstractPredictionStream",
    "Attribution",
    "Choice",
    "Description",
    "FitStopped",
    "Fitted",
    "Learner",
    "NotANumberWarning",
    "OscillatorSettings",
    "Outputs",
    "RunOptions",
    "Stored",
    "Trained",
    "TrainedSettings",
    "Untrained",
    "fit_models",
    "fit_oscillators",
    "load",
    "reading",
    "train_model",
    "warn_of_nan",
]
