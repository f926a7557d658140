"""Training: loss, loop, checkpoints, history."""

from linoss.training._config import TrainingConfig
from linoss.training._devices import make_mesh
from linoss.training._distributed import join_processes, watched
from linoss.training._errors import CheckpointError, TrainingError, TrainingStopped
from linoss.training._gather import from_first
from linoss.training._gradients import IntegratedGradients, integrated_gradients
from linoss.training._inputs import Cases, Inputs, usual_interval
from linoss.training._objectives import Classification, Forecasting, Objective, Regression
from linoss.training._outcome import TrainingResult
from linoss.training._predict import evaluate, predict
from linoss.training._progress import Progress, ProgressLine
from linoss.training._saved import (
    Saved,
    holds_files,
    load_arrays,
    load_model,
    read_extra,
    read_training,
    replace_arrays,
    save_arrays,
    save_model,
)
from linoss.training._scaling import Scaling
from linoss.training._train import train
from linoss.training._watchers import JsonLines, TensorBoard, Watcher, together
from linoss.training._windows import Normalization, WindowBatch, Windows

__all__ = [
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
    "ProgressLine",
    "Regression",
    "Saved",
    "Scaling",
    "TensorBoard",
    "TrainingConfig",
    "TrainingError",
    "TrainingResult",
    "TrainingStopped",
    "Watcher",
    "WindowBatch",
    "Windows",
    "evaluate",
    "from_first",
    "holds_files",
    "integrated_gradients",
    "join_processes",
    "load_arrays",
    "load_model",
    "make_mesh",
    "predict",
    "read_extra",
    "read_training",
    "replace_arrays",
    "save_arrays",
    "save_model",
    "together",
    "train",
    "usual_interval",
    "watched",
]
