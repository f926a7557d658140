"""Options shared by several commands, and options generated from declared settings.

An option that is not given has the default of the estimator's setting, which --help shows.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from linoss._declare import MODEL, TRAINING, Declared, check_settings, declared
from linoss._settings import SETTINGS, MixerName, ModelName, TaskName, TrainedSettings

if TYPE_CHECKING:
    from linoss.nn import LinOSSConfig

Command = Callable[..., None]

_MANY = 10**6  # number of cases for checking whether settings are consistent
ONE_TASK, MACHINES_PANEL, SEARCH = "Options of one task", "Devices and machines", "Search"
OSCILLATORS = "Untrained oscillators"
_PANELS = (None, SEARCH, OSCILLATORS, ONE_TASK, MODEL, TRAINING, MACHINES_PANEL)
MODELS: tuple[ModelName, ...] = tuple(dict.fromkeys(model for model, _ in SETTINGS))
TASKS = ("classification", "regression", "forecasting")
RUN_DEFAULTS = {"random_state": 0}
"""Defaults of commands that differ from those of estimators."""
_TOGETHER = ("n_models", "n_oscillators", "causal", "patch")
MACHINES = ("devices", "coordinator", "num_processes", "process_id")
"""Options of devices and processes, which do not affect the result."""


def option(panel: str | None, help: str, default: Any = False, **rest: Any) -> Any:
    """An option with a text that describes its default."""
    return typer.Option(help=help, rich_help_panel=panel, show_default=default, **rest)


Json = Annotated[bool, typer.Option("--json", help="Print only one JSON object on stdout.")]
Label = Annotated[
    str | None,
    option(
        ONE_TASK,
        "Not for forecasting: label column, by name or position (0 is the first, -1 the last).",
        "label, class, target or y",
    ),
]
Id = Annotated[
    str | None,
    option(
        ONE_TASK, "Not for forecasting: column with the names of cases, likewise.", "case or id"
    ),
]
Drop = Annotated[
    list[str] | None,
    option(ONE_TASK, "Not for forecasting: column to ignore, likewise; repeatable."),
]
Devices = Annotated[
    str | None,
    option(
        MACHINES_PANEL,
        "Number of devices to split each batch over; or, such as 2x4, 2 parts of the batch times "
        "4 shards of time; in all processes together. On a CPU, devices are emulated.",
        "JAX's first device, or all devices of several processes",
    ),
]
Coordinator = Annotated[
    str | None,
    option(
        MACHINES_PANEL,
        "HOST:PORT of the first of several processes, which all run the same command; auto to "
        "detect all of this under Slurm, Kubernetes or Open MPI.",
    ),
]
NumProcesses = Annotated[int | None, option(MACHINES_PANEL, "Number of processes.", min=1)]
ProcessId = Annotated[int | None, option(MACHINES_PANEL, "Index of this process, from 0.", min=0)]


def roles_of(label: str | None, case: str | None, drop: list[str] | None) -> dict[str, Any]:
    """The given columns that are not channels."""
    given = {"label": label, "case": case, "drop": drop}
    return {role: columns for role, columns in given.items() if columns}


# ---- Options of settings ----


def models_of(name: str) -> list[ModelName]:
    """The models whose estimators have a setting, or that support several machines."""
    if name in MACHINES:
        return ["linoss"]
    return [model for model in MODELS if tasks_of(name, model)]


def tasks_of(name: str, model: str | None = None) -> list[TaskName]:
    """The tasks whose estimators have a setting, for a model; by default linoss if it has it."""
    if model is None:
        model = next(iter(reversed(models_of(name))), None)
    having = [key for key, record in SETTINGS.items() if name in declared(record)]
    return [task for of, task in having if of == model]


def settings(
    *, model: str | None = None, group: str | None = None, alone: bool = False
) -> dict[str, Declared]:
    """The settings of all models and tasks that are options, by name, or of one model or group.

    With `alone`, without the settings of an ensemble.
    """
    found: dict[str, Declared] = {}
    for (of, _), record in SETTINGS.items():
        if model in (None, of):
            found = {**found, **declared(record)}
    for name in RUN_DEFAULTS:
        kinds = tuple(kind for kind in found[name].kinds if kind is not NoneType)
        found[name] = replace(found[name], kinds=kinds)
    return {
        name: setting
        for name, setting in found.items()
        if setting.about.group is not None
        and group in (None, setting.about.group)
        and not (alone and name in _TOGETHER)
    }


def with_settings(chosen: dict[str, Declared]) -> Callable[[Command], Command]:
    """Decorator: give a command with `**given` an option for each setting."""

    def decorate(command: Command) -> Command:
        own = inspect.signature(command)
        mine = [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
        more = [_parameter(setting) for setting in chosen.values()]
        parameters = sorted([*mine, *more], key=_panel)
        parameters = [p.replace(kind=p.KEYWORD_ONLY) for p in parameters]
        command.__signature__ = own.replace(  # pyright: ignore[reportFunctionMemberAccess]
            parameters=parameters
        )
        command.__annotations__ = {p.name: p.annotation for p in parameters}
        return command

    return decorate


def _panel(parameter: inspect.Parameter) -> int:
    return _PANELS.index(parameter.annotation.__metadata__[0].rich_help_panel)


def _parameter(setting: Declared) -> inspect.Parameter:
    """The parameter of a command for the option of a setting."""
    kind, details = _kind(setting)
    tasks, models = tasks_of(setting.name), models_of(setting.name)
    untrained = "oscillators" in models and setting.about.group == MODEL
    of_all = len(tasks) == len(TASKS) or untrained or "linoss" not in models
    name = setting.about.option or setting.name
    help = setting.about.help
    if not of_all:
        help = f"{' and '.join(tasks).capitalize()}: {help[0].lower()}{help[1:]}"
    if kind == list[str]:
        help += " Repeatable."
    if not of_all and len(tasks) == 1:
        panel = ONE_TASK
    elif untrained:
        panel = OSCILLATORS
    else:
        panel = setting.about.group if models == ["linoss"] else None
    default = str(RUN_DEFAULTS.get(setting.name, default_text(setting.name)))
    about = option(panel, help, default, **details)
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, about]
    )


def _kind(setting: Declared) -> tuple[Any, dict[str, Any]]:
    """The type of an option for Typer, and its parser."""
    if bool in setting.kinds and not setting.choices:
        return bool, {}
    if not setting.choices and not {int, float, str} & set(setting.kinds):
        return list[str], {"metavar": "NAME=VALUE" if setting.optional else "NAME"}
    words = setting.choices or ("float" if float in setting.kinds else "int",)
    words = ("yes", "no", *words) if bool in setting.kinds else words
    metavar = f"<{'|'.join([*words, 'none'] if setting.optional else words)}>"

    def read(text: str) -> Any:
        try:
            found = setting.read(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
        return "none" if found is None else found  # None marks an option that is not given

    return str, {"parser": read, "metavar": metavar}


def default_text(name: str, model: str | None = None) -> str:
    """The default for --help: one value, or such as "classification 0.2, others 0.1".

    The default of linoss is listed as "others".
    """
    models: list[ModelName] = [each for each in models_of(name) if model in (None, each)]
    texts: dict[str, str] = {
        task: declared(SETTINGS[models[-1], task])[name].default_text() for task in tasks_of(name)
    }
    common = max(texts.values(), key=list(texts.values()).count)
    for other in models[:-1]:
        texts[other] = declared(SETTINGS[other, tasks_of(name, other)[0]])[name].default_text()
    others = [f"{of} {text}" for of, text in texts.items() if text != common]
    return common if not others else ", ".join([*others, f"others {common}"])


# ---- Given values ----


def parameters(given: dict[str, Any]) -> dict[str, Any]:
    """The parameters of the estimator given on the command line."""
    spelled = {setting.about.option: name for name, setting in settings().items()}
    found: dict[str, Any] = {
        spelled.get(name, name): None if value == "none" else value
        for name, value in given.items()
        if value not in (None, [])
    }
    for several in {"known_in_advance", "static"} & found.keys():
        names = [part.strip() for text in found[several] for part in text.split(",")]
        found[several] = [name for name in names if name]
    if "levels" in found:
        parts = [part for text in found["levels"] for part in text.split(",")]
        try:
            found["levels"] = [float(part) for part in parts]
        except ValueError:
            raise typer.BadParameter(f"--levels is {','.join(parts)}, expected numbers") from None
    if "model_options" in found:
        found["model_options"] = dict(map(_model_option, found["model_options"]))
    return found


def with_mixer(model: Any, found: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Resolve a --model that names a mixer; `found` are the given parameters."""
    if model not in get_args(MixerName) or model == "linoss":
        return model, found
    mixer = found.get("mixer", model)
    if mixer != model:
        raise typer.BadParameter(f"--model {model} and --mixer {mixer}: expected one of the two")
    return "linoss", {**found, "mixer": model}


def refuse_foreign(found: dict[str, Any]) -> None:
    """Raise for parameters that only other mixers have."""
    from linoss.nn import MIXERS

    mixer, given = found.get("mixer", "linoss"), {**found, **(found.get("model_options") or {})}
    for name in sorted(MIXERS[mixer].foreign & given.keys()):
        known = settings()
        own = [
            _spelled(each) if each in known else f"--model-option {each}"
            for each in MIXERS[mixer].settings
        ]
        spelled = _spelled(name) if name in known else f"--model-option {name}"
        raise typer.BadParameter(
            f"{spelled} is not for --model {mixer}, whose own options are: "
            f"{', '.join(own) or 'none'}"
        )


def _model_option(text: str) -> tuple[str, Any]:
    """Parse a setting of LinOSSConfig from NAME=VALUE."""
    from linoss.nn import LinOSSConfig

    name, equals, value = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"{text!r}: expected NAME=VALUE, such as pooling=last")
    known = declared(LinOSSConfig)
    if name not in known:
        raise typer.BadParameter(
            f"--model-option {name} is not a setting of LinOSSConfig, expected one of "
            f"{', '.join(known)}"
        )
    try:
        return name, known[name].read(value)
    except ValueError as error:
        raise typer.BadParameter(f"--model-option {name} is {error}") from None


def chosen_model(task: TaskName, found: Iterable[str]) -> ModelName:
    """The default model: auto, unless an option is given that only another model has."""
    names = [name for name in found if models_of(name)]
    for model in MODELS:
        if (model, task) in SETTINGS and all(model in models_of(name) for name in names):
            return model
    return "linoss"


def record(
    model: ModelName, task: TaskName, found: dict[str, Any], roles: dict[str, Any] | None = None
) -> Any:
    """The settings of an estimator. Raises for options of other tasks and models."""
    if (model, task) not in SETTINGS:
        raise typer.BadParameter(f"--model {model} is not for {task}, which has --model linoss")
    for name in found:
        models = models_of(name)
        if not models:  # in the files of a run of another version
            raise ValueError(f"{name} is not a setting of an estimator; train in another directory")
        if name not in MACHINES and not any(task in tasks_of(name, each) for each in models):
            tasks = " and ".join(tasks_of(name))
            raise typer.BadParameter(f"{_spelled(name)} is for {tasks}, not for {task}")
        if model not in models:
            others = " and ".join(f"--model {each}" for each in models)
            raise typer.BadParameter(f"{_spelled(name)} is for {others}, not for --model {model}")
    for role in (roles or {}) if task == "forecasting" else ():
        option = {"case": "id"}.get(role, role)
        raise typer.BadParameter(
            f"--{option} is for classification and regression, not for forecasting"
        )
    chosen = SETTINGS[model, task](**{n: value for n, value in found.items() if n not in MACHINES})
    with usage_errors():
        check_settings(chosen)
    return chosen


def _spelled(name: str) -> str:
    """The option of a setting."""
    found = settings().get(name)
    name = name if found is None else found.about.option or name
    return f"--{name.replace('_', '-')}"


def check(
    model: ModelName, task: TaskName, found: dict[str, Any], roles: dict[str, Any] | None = None
) -> None:
    """Raise a usage error for options that no estimator accepts, before data are read."""
    from linoss.training import TrainingConfig

    chosen = record(model, task, found, roles)
    if model == "linoss":
        model_of(task, chosen)
        with usage_errors():
            TrainingConfig.from_settings(chosen, seed=0, cases=_MANY)


def model_of(
    task: str, chosen: TrainedSettings, in_size: int = 1, out_size: int = 1
) -> "LinOSSConfig":
    """The model settings of an estimator. Inconsistent settings raise a usage error."""
    from linoss.nn import LinOSSConfig

    with usage_errors():
        sizes = {"in_size": in_size + chosen.time_channel, "out_size": out_size}
        return LinOSSConfig.from_settings(chosen, **sizes, task=task)


@contextmanager
def usage_errors() -> Iterator[None]:
    """Context manager: convert ValueError to a usage error."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
