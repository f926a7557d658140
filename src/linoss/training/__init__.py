"""Training: loss, loop, checkpoints, history."""

from linoss.training._callbacks import Callback, JsonLines, Progress, TensorBoard
from linoss.training._config import TrainingConfig
from linoss.training._devices import make_mesh
from linoss.training._gradients import IntegratedGradients, integrated_gradients
from linoss.training._inputs import Cases, Inputs, usual_interval
from linoss.training._objectives import Classification, Forecasting, Objective, Regression
from linoss.training._predict import evaluate, predict
from linoss.training._result import CheckpointError, TrainingError, TrainingResult, TrainingStopped
from linoss.training._saved import (
    Saved,
    holds_files,
    load_arrays,
    load_model,
    read_extra,
    save_arrays,
    save_model,
)
from linoss.training._scaling import Scaling
from linoss.training._train import train
from linoss.training._windows import Normalization, WindowBatch, Windows

__all__ = [
    "Callback",
    "Cases",
    "CheckpointError",
    "Classification",
    "Forecasting",
    "Inputs",
    "IntegratedGradients",
    "JsonLines",
    "Normalization",
    "Objective",
    "Progress",
    "Regression",
    "Saved",
    "Scaling",
    "TensorBoard",
    "TrainingConfig",
    "TrainingError",
    "TrainingResult",
    "TrainingStopped",
    "WindowBatch",
    "Windows",
    "evaluate",
    "holds_files",
    "integrated_gradients",
    "load_arrays",
    "load_model",
    "make_mesh",
    "predict",
    "read_extra",
    "save_arrays",
    "save_model",
    "train",
    "usual_interval",
]
