"""The options of `linoss fit`, each the parameter of an estimator that has its name.

One that is not given keeps the estimator's default, which is shown beside it.
"""

import json
from typing import Annotated, Any, Literal

import typer

Task = Literal["classification", "regression", "forecasting"]
_MODEL, _TRAINING, _TASK = "Model", "Training", "Options of one task"
_MACHINES = "Devices and machines"

ONLY_FOR: dict[str, tuple[str, ...]] = {
    "class_weight": ("classification",),
    "label_smoothing": ("classification",),
    "label": ("classification", "regression"),
    "every": ("regression",),
    "horizon": ("forecasting",),
    "past": ("forecasting",),
    "known_in_advance": ("forecasting",),
}
"""Options that have no meaning for the other tasks."""


def _option(panel: str, help: str, default: Any = None, name: str | None = None) -> Any:
    shown = False if default is None else str(default)
    names = () if name is None else (name,)
    return typer.Option(*names, help=help, rich_help_panel=panel, show_default=shown)


Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on stdout, and nothing else there.")
]

HiddenSize = Annotated[int | None, _option(_MODEL, "Channels between blocks.", 64)]
StateSize = Annotated[int | None, _option(_MODEL, "Oscillators in each block.", 64)]
NumBlocks = Annotated[int | None, _option(_MODEL, "Blocks.", 2)]
Scheme = Annotated[
    str | None, _option(_MODEL, "Discretisation: exact, im, imex or verlet.", "exact")
]
Damped = Annotated[
    bool | None,
    _option(_MODEL, "Learn how fast each oscillator is damped.", "yes, but not with verlet"),
]
Bidirectional = Annotated[
    bool | None, _option(_MODEL, "Read sequences from their end, too; not for streams.")
]
Norm = Annotated[str | None, _option(_MODEL, "batch, layer, running or none.", "batch")]
Dropout = Annotated[float | None, _option(_MODEL, "Probability.", "classification 0.2, others 0.1")]
TimeChannel = Annotated[bool | None, _option(_MODEL, "Tell the model the time since the start.")]
ModelOption = Annotated[
    list[str] | None,
    _option(_MODEL, "NAME=VALUE, a further setting of LinOSSConfig; may be repeated."),
]

Steps = Annotated[int | None, _option(_TRAINING, "Updates of the weights.", 1000)]
BatchSize = Annotated[int | None, _option(_TRAINING, "Cases in an update.", 32)]
LearningRate = Annotated[
    float | None, _option(_TRAINING, "At its highest.", "forecasting 0.002, others 0.003")
]
Warmup = Annotated[int | None, _option(_TRAINING, "Updates until then.", "a tenth, at most 100")]
Schedule = Annotated[str | None, _option(_TRAINING, "cosine, falling to 0, or constant.", "cosine")]
WeightDecay = Annotated[float | None, _option(_TRAINING, "On matrices.", 0.01)]
ClipNorm = Annotated[
    float | None, _option(_TRAINING, "Largest norm of a gradient; 0 for any.", 1.0)
]
ValidationFraction = Annotated[
    float | None,
    _option(
        _TRAINING,
        "Share of the cases, or of each series' end, held out to choose the best weights.",
        "0.1; of fewer than 500 cases none",
    ),
]
EvaluateEvery = Annotated[
    int | None, _option(_TRAINING, "Updates between evaluations and checkpoints.", "a twentieth")
]
Patience = Annotated[
    int | None, _option(_TRAINING, "Stop after so many evaluations without improvement.", "never")
]
Seed = Annotated[int | None, _option(_TRAINING, "Decides all that is drawn.", 0)]

MACHINES = ("devices", "coordinator", "num_processes", "process_id")
"""Options that say where to train, and nothing of what comes out."""
Devices = Annotated[
    str | None,
    _option(
        _MACHINES,
        "Train on so many, or, such as 2x4, on 2 parts of a batch times 4 of time; in all "
        "processes together. On a CPU they are made.",
        "JAX's first, or all of several processes",
    ),
]
Coordinator = Annotated[
    str | None,
    _option(
        _MACHINES,
        "HOST:PORT of the first of several processes, which all run the same command; auto to "
        "find all of this under Slurm, Kubernetes or Open MPI.",
    ),
]
NumProcesses = Annotated[int | None, _option(_MACHINES, "How many processes there are.")]
ProcessId = Annotated[int | None, _option(_MACHINES, "Which of them this is, from 0.")]

Label = Annotated[
    str | None, _option(_TASK, "Column of labels in a table.", "label, class, target or y")
]
ClassWeight = Annotated[
    str | None, _option(_TASK, "Classification: balanced counts each class alike.", "none")
]
LabelSmoothing = Annotated[
    float | None, _option(_TASK, "Classification: share spread over all classes.", 0.0)
]
Every = Annotated[
    int | None, _option(_TASK, "Regression: an answer at every k-th step.", "one a sequence")
]
Horizon = Annotated[int | None, _option(_TASK, "Forecasting: steps ahead.", 24)]
Past = Annotated[
    int | None, _option(_TASK, "Forecasting: steps to read.", "3 horizons, at least 96")
]
Known = Annotated[
    list[str] | None,
    _option(
        _TASK,
        "Forecasting: a variable that is known in advance; several with commas.",
        name="--known",
    ),
]


def parameters(given: dict[str, Any]) -> dict[str, Any]:
    """The estimator's parameters that were given on the command line."""
    found = {name: value for name, value in given.items() if value not in (None, [])}
    if "seed" in found:
        found["random_state"] = found.pop("seed")
    if found.get("norm") == "none":
        found["norm"] = None
    if found.get("class_weight") == "none":
        found["class_weight"] = None
    if found.get("clip_norm") == 0:
        found["clip_norm"] = None
    if "known" in found:
        names = [name.strip() for names in found.pop("known") for name in names.split(",")]
        found["known_in_advance"] = [name for name in names if name]
    if "model_option" in found:
        found["model_options"] = dict(_setting(text) for text in found.pop("model_option"))
    return found


def _setting(text: str) -> tuple[str, Any]:
    """NAME=VALUE; a value that is not JSON is text."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise typer.BadParameter(f"{text!r}: expected NAME=VALUE, such as pooling=last")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def check_task(task: str, found: dict[str, Any]) -> None:
    """Refuse options of another task."""
    for name in found:
        tasks = ONLY_FOR.get(name, (task,))
        if task not in tasks:
            option = {"known_in_advance": "known"}.get(name, name).replace("_", "-")
            raise typer.BadParameter(f"--{option} is for {' and '.join(tasks)}, not for {task}")
