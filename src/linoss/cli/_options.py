"""Options of several commands, settings given as `--set NAME=VALUE`, and `linoss settings`.

An option has the name of its argument in Python. docs/settings.md is what `linoss settings` writes.
"""

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Annotated, Any, get_args

import typer
from typer import Argument, Option

from linoss._declare import Declared, check_name, declared
from linoss._settings import ESTIMATORS, MixerName, ModelName, TaskName
from linoss.cli._output import show_markdown

TASKS: tuple[TaskName, ...] = get_args(TaskName)
MODELS: tuple[ModelName, ...] = get_args(ModelName)
SEED = 0
"""The default seed of commands."""
_MANY = 10**6  # number of cases for checking whether settings are consistent
_SPELLED = {
    r"\bresume=True": "--resume",
    r"\b(label|case|time|channels|groups|drop|series)=": r"--\1 ",
    r"\bstart_from\b": "--start-from",
    r"\b(fit|and) with (\w+)=(\w+)": r"\1 with --set \2=\3",
}
"""Arguments in messages of the library, as patterns, and the options in their place."""
_PAGE = """# Settings

`linoss settings` prints this page, which is generated from the declarations in the source.

A setting is a parameter of estimators and, as `--set NAME=VALUE`, of `linoss fit`, `search` and
`plan`; the commonest have options of their own, such as `--steps`. Lists are written
`levels=50,80`, None is `none`. Values are checked once, at the beginning of a fit; a wrong one is
an error that names the setting and what is expected.

Defaults are chosen for small data. `LinOSSConfig` and `TrainingConfig` have their own: those of the
published models. A setting of `LinOSSConfig` that an estimator does not have is passed in
`model_options`, such as `model_options={"feedthrough": "dense"}`, or as `--set feedthrough=dense`.
"""
_OF_MODEL = {"time_channel", "model_options", "patch"}

Json = Annotated[bool, Option("--json", help="Print one JSON object.")]
Seed = Annotated[int | None, Option(metavar="N", help="Seed.", show_default=str(SEED))]
Horizon = Annotated[int | None, Option(metavar="N", help="Steps to forecast.", show_default="24")]
Known = Annotated[str | None, Option(help="Variables known in advance: hour,day.", metavar="NAMES")]
Set = Annotated[
    list[str] | None,
    Option(
        "--set",
        metavar="NAME=VALUE",
        help="Another setting; repeatable. linoss settings lists all.",
    ),
]
COLUMNS: dict[str, tuple[Any, str]] = {
    "label": (str | None, "Label column: name, or position (-1 last)."),
    "time": (str | None, "Column of times."),
    "channels": (str | None, "Columns of channels: a,b,c; by default all others."),
    "groups": (str | None, "Column of groups, such as subjects, that are held out as a whole."),
    "case": (str | None, "Column with the names of cases."),
    "drop": (list[str] | None, "Column to ignore; repeatable."),
}
"""Options of columns that are not channels, with their types and help."""


def _help_all(context: typer.Context, asked: bool) -> None:
    if asked:
        for each in context.command.params:
            setattr(each, "hidden", False)  # noqa: B010
        typer.echo(context.get_help())
        raise typer.Exit


_HelpAll = Annotated[
    bool, Option("--help-all", is_eager=True, callback=_help_all, help="Show all options.")
]


def with_columns(command: Callable[..., None]) -> Callable[..., None]:
    """Decorator: add the options of columns to a command, which gets those given as `roles`.

    Hidden options are in the help of `--help-all`.
    """

    @functools.wraps(command)
    def call(help_all: bool, **given: Any) -> None:
        roles = {name: given.pop(name) for name in COLUMNS}
        if roles["channels"]:
            roles["channels"] = roles["channels"].split(",")
        command(**given, roles={name: columns for name, columns in roles.items() if columns})

    own = inspect.signature(command).parameters
    options: dict[str, Any] = {name: each for name, each in own.items() if name != "roles"}
    keyword: Any = inspect.Parameter.KEYWORD_ONLY
    for name, (kind, words) in COLUMNS.items():
        is_rare = name in ("case", "drop")
        hint = Annotated[kind, Option(help=words, metavar="COLUMN", hidden=is_rare)]
        options[name] = inspect.Parameter(name, keyword, default=None, annotation=hint)
    options["all"] = inspect.Parameter("help_all", keyword, default=False, annotation=_HelpAll)
    ordered = sorted(options.values(), key=lambda each: each.kind)
    setattr(call, "__signature__", inspect.Signature(ordered))  # noqa: B010
    return call


def check_columns(task: TaskName, roles: Iterable[str]) -> None:
    """Raise for columns of sequences if the task is forecasting."""
    for role in roles if task == "forecasting" else ():
        raise typer.BadParameter(
            f"--{role} is for classification and regression, not for forecasting"
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
    return {**_further(), **own} if model == "linoss" else own


def _further() -> dict[str, Declared]:
    """The settings of a model but those that follow from data."""
    from linoss.nn import FROM_DATA, LinOSSConfig

    known = declared(LinOSSConfig).items()
    return {name: each for name, each in known if name not in FROM_DATA}


def given_settings(options: dict[str, Any], assignments: Iterable[str] | None) -> dict[str, Any]:
    """The settings given on a command line: values of options, and texts of `--set`."""
    given = {name: value for name, value in options.items() if value is not None}
    for text in assignments or ():
        name, equals, value = text.partition("=")
        if not equals:
            raise typer.BadParameter(f"--set {text}: expected NAME=VALUE, such as dropout=0.1")
        given[name.strip().replace("-", "_")] = value.strip()
    return given


def chosen_model(task: TaskName, names: Iterable[str]) -> ModelName:
    """The default model: auto, unless a setting is given that only trained models have."""
    if task == "forecasting":
        return "linoss"
    for model in MODELS:
        if settings_of(model, task).keys() >= set(names):
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
            if isinstance(value, str):
                value = known[name].read(value)
            else:
                known[name].check(value)
            place = parameters if name in own else parameters.setdefault("model_options", {})
            place[name] = value
    return parameters


def _refuse_name(name: str, known: Iterable[str], model: ModelName, task: TaskName) -> None:
    """Raise for a setting of another model or task, or an unknown name."""
    others = [key for key in ESTIMATORS if name in settings_of(*key)]
    models = [f"--model {other}" for other, of in others if of == task]
    if models:
        raise ValueError(f"{name} is for {' and '.join(models)}, not for --model {model}")
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


def model_of(task: TaskName, estimator: Any, in_size: int = 1, out_size: int = 1) -> Any:
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
        raise typer.BadParameter(str(error)) from error


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
    model: Annotated[ModelName | None, Argument(help="Only the settings of this model.")] = None,
) -> None:
    """Show all settings: their meaning, values and defaults."""
    parts = [_PAGE]
    for title, of, known in _groups():
        if model is None or f"`{model}`" in of:
            rows = [(f"`{each.name}`", _meaning(each), _default(each)) for each in known]
            table = [("setting", "meaning", "default"), ("---",) * 3, *rows]
            lines = "\n".join(f"| {' | '.join(row)} |" for row in table)
            parts.append(f"\n## {title}: {of}\n\n{lines}\n")
    show_markdown("".join(parts))


def _groups() -> Iterator[tuple[str, str, list[Declared]]]:
    """All settings in groups: title, whose they are, and those that no group before has."""
    untrained, auto = (settings_of(model, "classification") for model in ("oscillators", "auto"))
    classifier, regressor, forecaster = (declared(estimator_class("linoss", t)) for t in TASKS)
    further = _further()
    both = {name: each for name, each in regressor.items() if name in classifier}
    common = {name: each for name, each in both.items() if name in forecaster}
    groups = [
        ("Untrained oscillators", "`oscillators` and `auto`", untrained),
        ("Auto", "`auto`", auto),
        ("Model", "`linoss`", {n: common[n] for n in common if n in further or n in _OF_MODEL}),
        ("Training", "`linoss`", common),
        ("Classification and regression", "`linoss`", both),
        ("Classification", "`linoss`", classifier),
        ("Regression", "`linoss`", regressor),
        ("Forecasting", "`linoss`", forecaster),
        ("Model, rarely", "`LinOSSConfig`", further),
    ]  # fmt: skip
    seen: set[str] = set()
    for title, of, known in groups:
        seen = set() if title == "Model" else seen
        yield title, of, [each for name, each in known.items() if name not in seen]
        seen |= known.keys()


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
