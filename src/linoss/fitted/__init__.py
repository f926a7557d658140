"""What a fit ends with: prepared inputs, models, decoded outputs; predictions, streams, files."""

from linoss.fitted._attribution import Attribution
from linoss.fitted._ensemble import FLOOR, Choice
from linoss.fitted._files import (
    Description,
    Storable,
    begin,
    describe,
    described,
    finish,
    load,
    read,
    read_trained,
    save,
    saved_into,
    understanding,
)
from linoss.fitted._fitted import (
    Fitted,
    HeldOut,
    Outputs,
    calibrated,
    choose,
    warn_of_nan,
)
from linoss.fitted._members import Trained, Untrained
from linoss.fitted._ridge import Ridge, fit_ridge
from linoss.fitted._stream import AbstractPredictionStream, NotANumberWarning
from linoss.fitted._train import (
    FitStopped,
    OnProgress,
    RunOptions,
    drawn_seed,
    fit_models,
    train_model,
    warn_of_stop,
)

__all__ = [
    "FLOOR",
    "AbstractPredictionStream",
    "Attribution",
    "Choice",
    "Description",
    "FitStopped",
    "Fitted",
    "HeldOut",
    "NotANumberWarning",
    "OnProgress",
    "Outputs",
    "Ridge",
    "RunOptions",
    "Storable",
    "Trained",
    "Untrained",
    "begin",
    "calibrated",
    "choose",
    "describe",
    "described",
    "drawn_seed",
    "finish",
    "fit_models",
    "fit_ridge",
    "load",
    "read",
    "read_trained",
    "save",
    "saved_into",
    "train_model",
    "understanding",
    "warn_of_nan",
    "warn_of_stop",
]
