"""`linoss settings`: all settings with their defaults, as tables, and as docs/settings.md.

`python -m linoss.cli._settings > docs/settings.md` writes the page.
"""

import sys
from typing import Annotated, NamedTuple

import typer

from linoss._declare import Declared, declared
from linoss._settings import ESTIMATORS, ModelName
from linoss.cli import _options as options
from linoss.cli._output import show_table

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


class _Group(NamedTuple):
    title: str
    of: str
    """Whose settings they are."""
    settings: dict[str, Declared]


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


def _groups(model: ModelName | None) -> list[_Group]:
    """The settings of a model, or of all, in groups."""
    trained = {task: declared(options.estimator_class("linoss", task)) for task in options.TASKS}
    classifier, regressor, forecaster = trained.values()
    further = options.further_settings()
    common = {name: each for name, each in regressor.items() if name in forecaster}
    labelled = {n: each for n, each in regressor.items() if n not in common and n in classifier}
    of_model = {n: e for n, e in common.items() if n in further or n in _OF_MODEL}
    known = {n for settings in trained.values() for n in settings}
    alone = {
        task: {n: e for n, e in own.items() if n not in common and n not in labelled}
        for task, own in trained.items()
    }
    groups = [
        _Group("Untrained oscillators", "`oscillators` and `auto`", _settings_of("oscillators")),
        _Group("Auto", "`auto`", _without(_settings_of("auto"), _settings_of("oscillators"))),
        _Group("Model", "`linoss`", of_model),
        _Group("Training", "`linoss`", _without(common, of_model)),
        _Group("Classification and regression", "`linoss`", labelled),
        *(_Group(task.capitalize(), "`linoss`", own) for task, own in alone.items()),
        _Group("Model, rarely", "`LinOSSConfig`", _without(further, known)),
    ]
    if model is None:
        return groups
    trains = model == "linoss"
    return [each for each in groups if trains == (each.of in ("`linoss`", "`LinOSSConfig`"))][
        : 1 if model == "oscillators" else None
    ]


def _settings_of(model: ModelName) -> dict[str, Declared]:
    return declared(options.estimator_class(model, "classification"))


def _without(known: dict[str, Declared], others: object) -> dict[str, Declared]:
    return {name: each for name, each in known.items() if name not in others}  # pyright: ignore


def _meaning(each: Declared) -> str:
    values = each.expected(plain=True)
    return each.about.help if values == "yes or no" else f"{each.about.help} Values: {values}."


def _default(each: Declared) -> str:
    """The default, with those of other tasks if they differ."""
    texts = {
        task: known[each.name].default_text()
        for model, task in ESTIMATORS
        if model == "linoss"
        and each.name in (known := declared(options.estimator_class(model, task)))
    }
    common = max(texts.values(), key=list(texts.values()).count) if texts else each.default_text()
    if each.default_text() not in texts.values():
        return each.default_text()
    others = [f"{text} for {task}" for task, text in texts.items() if text != common]
    return "; ".join([common, *others])


if __name__ == "__main__":
    sys.stdout.write(settings_page())
