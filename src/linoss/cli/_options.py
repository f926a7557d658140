"""Options of several commands, settings given as `--set NAME=VALUE`, and `linoss settings`.

Options are spelled here and in the commands only; other rooms name arguments as in Python.
`python -m linoss.cli._options > docs/settings.md` writes the page of settings.
"""

import re
import sys
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from linoss._declare import Declared, check_name, declared
from linoss._settings import ESTIMATORS, MixerName, ModelName, TaskName
from linoss.cli._output import show_table

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
    r"\bresume=True": "--resume",
    r"\b(label|drop|series)=": r"--\1 ",
    r"\bcase=": "--id ",
    r"\bstart_from\b": "--from",
    r"\b(fit|and) with (\w+)=(\w+)": r"\1 with --set \2=\3",
}
"""Arguments in messages of the library, as patterns, and the options in their place."""
_PAGE = """# Settings

`linoss settings` prints this page, which is generated from the declarations in the source.

A setting is a parameter of estimators and, as `--set NAME=VALUE`, of `linoss fit`, `search` and
`plan`; the commonest have options of their own, such as `--hidden-size`. Lists are written
`levels=50,80`, None is `none`. Values are checked once, at the beginning of a fit; a wrong one is
an error that names the setting and what is expected.

Defaults are chosen for small data. `LinOSSConfig` and `TrainingConfig` have their own: those of the
published models. A setting of `LinOSSConfig` that an estimator does not have is passed in
`model_options`, such as `model_options={"feedthrough": "dense"}`, or as `--set feedthrough=dense`.
"""
_OF_MODEL = ("time_channel", "model_options", "patch")

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


def device_shape(text: str) -> tuple[int, int]:
    """Parse `2` or `2x4`."""
    match = re.fullmatch(r"(\d+)(?:x(\d+))?", text)
    if not match or "0" in (match[1], match[2]):
        raise typer.BadParameter(f"--devices is {text!r}, expected a number, or such as 2x4")
    return int(match[1]), int(match[2] or 1)


def spelled(message: str) -> str:
    """A message of the library with options in place of arguments."""
    for argument, option in _SPELLED.items():
        message = re.sub(argument, option, message)
    return message


# ---- linoss settings ----


def settings(
    model: Annotated[
        ModelName | None, typer.Argument(help="Only the settings of this model.")
    ] = None,
) -> None:
    """Show all settings: their meaning, values and defaults."""
    for title, of, known in _groups(model):
        rows = [(each.name, _default(each), _meaning(each)) for each in known.values()]
        show_table(f"{title} ({of})", ("setting", "default", "meaning"), rows, left=True)


def settings_page() -> str:
    """The text of docs/settings.md."""
    parts = [_PAGE]
    for title, of, known in _groups(None):
        rows = [(f"`{n}`", _meaning(each), _default(each)) for n, each in known.items()]
        table = [("setting", "meaning", "default"), ("---",) * 3, *rows]
        lines = "\n".join(f"| {' | '.join(row)} |" for row in table)
        parts.append(f"\n## {title}: {of}\n\n{lines}\n")
    return "".join(parts)


def _groups(model: ModelName | None) -> list[tuple[str, str, dict[str, Declared]]]:
    """The settings of a model, or of all, in groups: title, whose they are, and the settings."""
    bank, auto = (
        declared(estimator_class(each, "classification")) for each in ("oscillators", "auto")
    )
    if model == "oscillators":
        return [("Untrained oscillators", "`oscillators` and `auto`", bank)]
    groups = [
        ("Untrained oscillators", "`oscillators` and `auto`", bank),
        ("Auto", "`auto`", _without(auto, bank)),
    ]
    if model == "auto":
        return groups
    trained = {task: declared(estimator_class("linoss", task)) for task in TASKS}
    classifier, regressor, forecaster = trained.values()
    further = further_settings()
    common = {name: each for name, each in regressor.items() if name in forecaster}
    of_model = {n: e for n, e in common.items() if n in further or n in _OF_MODEL}
    labelled = {n: each for n, each in _without(regressor, common).items() if n in classifier}
    own = {task: _without(known, {**common, **labelled}) for task, known in trained.items()}
    of_trained = [
        ("Model", "`linoss`", of_model),
        ("Training", "`linoss`", _without(common, of_model)),
        ("Classification and regression", "`linoss`", labelled),
        *((task.capitalize(), "`linoss`", known) for task, known in own.items()),
        ("Model, rarely", "`LinOSSConfig`", _without(further, {**regressor, **forecaster})),
    ]
    return of_trained if model == "linoss" else groups + of_trained


def _without(known: dict[str, Declared], others: Container[str]) -> dict[str, Declared]:
    return {name: each for name, each in known.items() if name not in others}


def _meaning(each: Declared) -> str:
    values = each.expected(plain=True)
    return each.about.help if values == "yes or no" else f"{each.about.help} Values: {values}."


def _default(each: Declared) -> str:
    """The default, with those of other tasks if they differ."""
    texts = {
        task: known[each.name].default_text()
        for model, task in ESTIMATORS
        if model == "linoss" and each.name in (known := declared(estimator_class(model, task)))
    }
    common = max(texts.values(), key=list(texts.values()).count) if texts else each.default_text()
    if each.default_text() not in texts.values():
        return each.default_text()
    others = [f"{text} for {task}" for task, text in texts.items() if text != common]
    return "; ".join([common, *others])


if __name__ == "__main__":
    sys.stdout.write(settings_page())
