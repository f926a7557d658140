"""The page docs/settings.md, generated from the declared settings.

`python -m linoss.cli._settings_page > docs/settings.md` regenerates it.
"""

import sys
from collections.abc import Iterable

from linoss._declare import MODEL, TRAINING, Declared, declared
from linoss._settings import SETTINGS, LinOSSForecasterSettings, LinOSSRegressorSettings
from linoss.cli import _options as options
from linoss.nn import LinOSSConfig
from linoss.training import TrainingConfig

_TEXT = """# Settings

This page is generated from the declarations in the source; a test checks that it is up to date.

A setting is a parameter of the estimators and an option of `linoss fit`, `linoss search` and, for
settings of the model, `linoss plan`: `hidden_size` is `--hidden-size`. The settings of
`--model oscillators` and `--model auto` come first; all others are settings of `--model linoss`.
Options with a different name:
{spelled}.
On the command line, write `none` for None, and `--damped` or `--no-damped` for True or False.

Any other value is an error whose message names the setting: `fit` of an estimator raises
`ValueError`, and a command reports a usage error before it reads data.

The defaults are those of estimators and commands, chosen for small data. `LinOSSConfig` and
`TrainingConfig` have their own; those of `LinOSSConfig` are the published models.

## Untrained oscillators, and auto

Settings of `OscillatorClassifier` and `OscillatorRegressor`, `--model oscillators`, and of
`AutoClassifier` and `AutoRegressor`, `--model auto`.

{untrained}

## Model

{model}

## Training

{training}

The default seed of commands is 0.

## Settings of one task

{of_one_task}

`class_weight` is a setting of all classifiers.

## Further settings of the model

These are fields of `LinOSSConfig` only. Estimators take them in `model_options`, such as
`model_options={{"pooling": "last"}}`, and commands as `--model-option pooling=last`.

{further}

## Devices and progress

Parameters of the estimators; `linoss fit --help` shows the options for devices.

{others}
"""
_FROM_DATA = ("in_size", "out_size", "task")


def settings_page() -> str:
    """The text of docs/settings.md."""
    forecaster, regressor = declared(LinOSSForecasterSettings), declared(LinOSSRegressorSettings)
    common = {name: setting for name, setting in regressor.items() if name in forecaster}
    chosen = options.settings(model="linoss")
    groups = {
        group: [setting for setting in common.values() if setting.about.group == group]
        for group in (MODEL, TRAINING, None)
    }
    further = [
        setting
        for name, setting in declared(LinOSSConfig).items()
        if name not in chosen and name not in _FROM_DATA
    ]
    return _TEXT.format(
        spelled=_spelled(chosen),
        untrained=_untrained(),
        model=_table(groups[MODEL], LinOSSConfig),
        training=_table(groups[TRAINING], TrainingConfig),
        of_one_task=_table(s for name, s in chosen.items() if name not in common),
        further=_table(further),
        others=_table(groups[None]),
    )


def _untrained() -> str:
    """Table of the settings of `oscillators` and `auto`, without those of one task."""
    records = {model: declared(SETTINGS[model, "regression"]) for model in ("oscillators", "auto")}
    rows = [["setting", "meaning", "values", "oscillators", "auto"], ["---"] * 5]
    for name, setting in {**records["oscillators"], **records["auto"]}.items():
        defaults = [
            record[name].default_text() if name in record else "" for record in records.values()
        ]
        rows.append([f"`{name}`", setting.about.help, setting.expected(), *defaults])
    return _joined(rows)


def _joined(rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _spelled(chosen: dict[str, Declared]) -> str:
    """The options whose name differs from their setting."""
    pairs = [(s.about.option, name) for name, s in chosen.items() if s.about.option is not None]
    names = [f"`--{option.replace('_', '-')}` (`{name}`)" for option, name in pairs]
    return ", ".join(names)


def _table(settings: Iterable[Declared], config: type | None = None) -> str:
    """Table of settings, with a column for their defaults in `config` if it is given."""
    header = ["setting", "meaning", "values", "default"]
    header += [] if config is None else [f"in `{config.__name__}`"]
    rows = [header, ["---"] * len(header)]
    for setting in settings:
        tasks = options.tasks_of(setting.name)
        row = [
            f"`{setting.name}`" + (f" ({tasks[0]})" if len(tasks) == 1 else ""),
            setting.about.help,
            setting.expected(),
            options.default_text(setting.name, "linoss") if tasks else setting.default_text(),
        ]
        if config is not None:
            there = declared(config).get(setting.name)
            row.append("" if there is None else there.default_text())
        rows.append(row)
    return _joined(rows)


if __name__ == "__main__":
    sys.stdout.write(settings_page())
