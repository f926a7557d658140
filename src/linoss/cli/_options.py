"""Options of several commands, and settings given as `--set NAME=VALUE`.

Options are spelled here and in the commands only; other rooms name arguments as in Python.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from linoss._declare import Declared, check_name, declared
from linoss._settings import ESTIMATORS, MixerName, ModelName, TaskName

if TYPE_CHECKING:
    from linoss.nn import LinOSSConfig

TASKS: tuple[TaskName, ...] = get_args(TaskName)
MODELS: tuple[ModelName, ...] = get_args(ModelName)
SEED = 0
"""The default seed of commands."""
NAMES = {"seed": "random_state", "known": "known_in_advance"}
"""Options with another name than their setting."""
_MANY = 10**6  # number of cases for checking whether settings are consistent
_SPELLED = {
    r"resume=True": "--resume",
    r"\bseries=": "--series ",
    r"\bstart_from\b": "--from",
    r"\b(fit|and) with (\w+)=(\w+)": r"\1 with --set \2=\3",
}
"""Arguments in messages of the library, as patterns, and the options in their place."""

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Label = Annotated[
    str | None,
    typer.Option(help="Label column: name, or position (-1 last).", metavar="COLUMN"),
]
Id = Annotated[str | None, typer.Option(help="Column with the names of cases.", metavar="COLUMN")]
Drop = Annotated[
    list[str] | None, typer.Option(help="Column to ignore; repeatable.", metavar="COLUMN")
]
Devices = Annotated[
    str | None,
    typer.Option(metavar="N", help="Devices, or parts of a batch x shards of time: 2x4."),
]
Coordinator = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="First of several processes, or auto."),
]
NumProcesses = Annotated[int | None, typer.Option(metavar="N", help="Number of processes.")]
ProcessId = Annotated[int | None, typer.Option(metavar="N", help="Index of this process, from 0.")]
Seed = Annotated[int | None, typer.Option(metavar="N", help="Random seed.", show_default=str(SEED))]
Horizon = Annotated[
    int | None, typer.Option(metavar="N", help="Steps to forecast.", show_default="24")
]
Known = Annotated[
    str | None, typer.Option(help="Variables known in advance: hour,day.", metavar="NAMES")
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Another setting; repeatable. linoss settings lists all.",
    ),
]


def roles_of(label: str | None, case: str | None, drop: list[str] | None) -> dict[str, Any]:
    """The given columns that are not channels."""
    given = {"label": label, "case": case, "drop": drop}
    return {role: columns for role, columns in given.items() if columns}


def check_columns(task: TaskName, roles: dict[str, Any]) -> None:
    """Raise for columns of sequences if the task is forecasting."""
    for role in roles if task == "forecasting" else ():
        option = {"case": "id"}.get(role, role)
        raise typer.BadParameter(
            f"--{option} is for classification and regression, not for forecasting"
        )


# ---- Settings ----


def estimator_class(model: ModelName, task: TaskName) -> Any:
    """The estimator of a model and task. Raises a usage error if there is none."""
    if (model, task) not in ESTIMATORS:
        raise typer.BadParameter(f"--model {model} is not for {task}, which has --model linoss")
    room = "forecasting" if task == "forecasting" else "estimators"
    return getattr(import_module(f"linoss.{room}"), ESTIMATORS[model, task])


def settings_of(model: ModelName, task: TaskName) -> dict[str, Declared]:
    """The settings of an estimator by name, and those that only models have."""
    own = declared(estimator_class(model, task))
    return {**further_settings(), **own} if model == "linoss" else own


def further_settings() -> dict[str, Declared]:
    """The settings of a model but those that follow from data."""
    from linoss.nn import FROM_DATA, LinOSSConfig

    known = declared(LinOSSConfig).items()
    return {name: each for name, each in known if name not in FROM_DATA}


def given_settings(options: dict[str, Any], assignments: Iterable[str] | None) -> dict[str, Any]:
    """The settings given on a command line: values of options, and texts of `--set`."""
    given = {
        NAMES.get(name, name): _Text(value) if isinstance(value, str) else value
        for name, value in options.items()
        if value is not None
    }
    for text in assignments or ():
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        name = NAMES.get(name, name)
        if not equals:
            raise typer.BadParameter(f"--set {text}: expected NAME=VALUE, such as dropout=0.1")
        given[name] = _Text(value.strip())
    return given


class _Text(str):
    """A value as text, which is read as the setting wants it."""


def chosen_model(task: TaskName, names: Iterable[str]) -> ModelName:
    """The default model: auto, unless a setting is given that only trained models have."""
    if task == "forecasting":
        return "linoss"
    for model in MODELS:
        known = settings_of(model, task)
        if all(name in known for name in names):
            return model
    return "linoss"


def parameters_of(model: ModelName, task: TaskName, given: dict[str, Any]) -> dict[str, Any]:
    """The parameters of an estimator. Raises a usage error for unknown names and wrong values."""
    known, own = settings_of(model, task), declared(estimator_class(model, task))
    parameters: dict[str, Any] = {}
    with usage_errors():
        for name, value in given.items():
            if name not in known:
                _refuse_name(name, known, model, task)
            if isinstance(value, _Text):
                value = known[name].read(value)
            else:
                known[name].check(value)
            if name in own:
                parameters[name] = value
            else:
                parameters.setdefault("model_options", {})[name] = value
    return parameters


def _refuse_name(name: str, known: Iterable[str], model: ModelName, task: TaskName) -> None:
    """Raise for a setting of another model or task, or an unknown name."""
    others = [key for key in ESTIMATORS if name in settings_of(*key)]
    if any(of == task for _, of in others):
        models = " and ".join(f"--model {other}" for other, of in others if of == task)
        raise ValueError(f"{name} is for {models}, not for --model {model}")
    if others:
        tasks = " and ".join(dict.fromkeys(of for _, of in others))
        raise ValueError(f"{name} is for {tasks}, not for {task}")
    check_name(known, name, "--set")


def check(model: ModelName, task: TaskName, parameters: dict[str, Any]) -> Any:
    """The estimator. Raises a usage error for settings that exclude each other."""
    from linoss.training import TrainingConfig

    estimator = estimator_class(model, task)(**parameters)
    if model == "linoss":
        model_of(task, estimator)
        with usage_errors():
            TrainingConfig.from_settings(estimator, seed=0, cases=_MANY)
    return estimator


def model_of(task: TaskName, estimator: Any, in_size: int = 1, out_size: int = 1) -> "LinOSSConfig":
    """The model of an estimator. Raises a usage error for settings that exclude each other."""
    from linoss.nn import LinOSSConfig

    with usage_errors():
        sizes = {"in_size": in_size + estimator.time_channel, "out_size": out_size}
        return LinOSSConfig.from_settings(estimator, **sizes, task=task)


def with_mixer(model: Any, given: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Resolve a --model that names a mixer."""
    if model not in get_args(MixerName) or model == "linoss":
        return model, given
    if given.get("mixer", model) != model:
        raise typer.BadParameter(f"--model {model} and --set mixer: expected one of the two")
    return "linoss", {**given, "mixer": model}


@contextmanager
def usage_errors() -> Iterator[None]:
    """Context manager: convert ValueError to a usage error."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(spelled(str(error))) from None


def spelled(message: str) -> str:
    """A message of the library with options in place of arguments."""
    for argument, option in _SPELLED.items():
        message = re.sub(argument, option, message)
    return message
