"""report.html: a self-contained page about a run."""

import platform
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from linoss._files import write_text
from linoss.cli import _pictures as pictures
from linoss.cli._attribution import ExplainedCase, explained_cases, mean_attributions
from linoss.cli._data_report import About, data_section, prediction_sections, summary
from linoss.cli._forecast_report import forecast_sections
from linoss.cli._html import section as _section
from linoss.cli._html import table as _table
from linoss.cli._html import text as _text
from linoss.cli._inspect import (
    SPECTRUM_COLUMNS,
    BlockSpectrum,
    banks,
    span,
    spectrum_row,
    untrained_facts,
)
from linoss.cli._output import number
from linoss.cli._runs import Run
from linoss.cli._scores import ClassScore, Evaluation, ForecastScore, NumberScore
from linoss.fitted import Fitted

_MOST_CLASSES, _MOST_CHANNELS = 20, 8
_STYLE = """
:root { color-scheme: light dark; --page: #f6f7f9; --card: #ffffff; --ink: #1c1f26;
  --soft: #5b6472; --faint: #c9ced6; --mark: 31, 119, 208; PALETTE }
@media (prefers-color-scheme: dark) { :root { --page: #14171c; --card: #1d2128; --ink: #e6e9ee;
  --soft: #a0a8b4; --faint: #434a56; --mark: 88, 160, 235; DARK } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 2rem 1rem 3rem; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.1rem; margin: 0 0 .75rem; }
p { margin: .25rem 0 .75rem; } .soft { color: var(--soft); }
section { background: var(--card); border: 1px solid var(--faint); border-radius: .6rem;
  padding: 1.1rem 1.25rem; margin-top: 1rem; overflow-x: auto; }
.facts { display: flex; flex-wrap: wrap; gap: 1rem 2.5rem; margin: 0; }
.facts div { min-width: 7rem; } .facts dt { color: var(--soft); }
.facts dd { margin: 0; font-size: 1.35rem; font-weight: 600; }
.facts .main dd { font-size: 2.2rem; line-height: 1.2; }
svg { display: block; width: 100%; min-width: 32rem; height: auto; max-width: 54rem;
  margin: 0 auto; }
svg.small { min-width: 18rem; max-width: 30rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem; text-align: right; border-bottom: 1px solid var(--faint); }
th { font-weight: 600; } th:first-child, td:first-child { text-align: left; }
.name { max-width: 14rem; overflow-wrap: break-word; }
.trials .name { max-width: none; white-space: nowrap; }
.why .name { max-width: none; } .why td { text-align: left; }
.confusion td, .confusion th + th { text-align: center; }
.confusion td { border: 1px solid var(--faint); min-width: 3rem; }
.columns { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(22rem, 100%), 1fr));
  gap: 1rem; }
.columns { margin-top: 1rem; align-items: start; } .columns > section { margin-top: 0; }
.columns > div > section:first-child { margin-top: 0; }
pre { margin: 0; padding: .8rem 1rem; border-radius: .4rem; background: var(--page);
  overflow-x: auto; font: 13px/1.6 ui-monospace, "Cascadia Mono", Menlo, monospace; }
"""


def write_report(path: Path, run: Run, evaluation: Evaluation, about: About) -> None:
    """Write the report of a run."""
    write_text(path, report(run, evaluation, about))


def report(run: Run, evaluation: Evaluation, about: About) -> str:
    """The page: summary and score first, details of the model last."""
    sections = [_section("Score", summary(evaluation) + _facts(run, evaluation))]
    sections += data_section(about, evaluation)
    sections += prediction_sections(evaluation)
    fitted: Fitted | None = None if run.is_forecaster else run.model
    if fitted is None:
        sections += [_section(*each) for each in forecast_sections(run.model, evaluation)]
    history, metric = run.history
    if run.trained:
        sections.append(_section("Learning curves", _curves(history, metric)))
    if fitted is not None and fitted.oscillators is not None and about.cases is not None:
        means = mean_attributions(fitted, about.cases)
        sections.append(_section("Attribution by period and time", _means(means)))
    if fitted is not None and about.cases is not None:
        explained = explained_cases(fitted, about.cases)
        if explained:
            sections.append(_section("Attribution to each value", _explained(explained)))
    if fitted is not None and fitted.oscillators is not None:
        sections.append(_section("Untrained oscillators", _untrained(fitted.oscillators)))
    if run.trained and (spectra := banks(run.trained[0])):
        sections.append(_section("Oscillators", _oscillators(spectra)))
    sections += [
        '<div class="columns">',
        _section("Settings", _table((), _settings(run))),
        "<div>",
        _section("Use this run", _use(run)),
        _section("Environment", _table((), environment())),
        "</div></div>",
    ]
    return page(f"linoss: {run.task}", _subtitle(run), sections)


def write_evaluation(path: Path, run: Run, evaluation: Evaluation, about: About) -> None:
    """Write a page about predictions for other data than the training data."""
    assert evaluation.score is not None
    name, value = evaluation.score.headline
    fact = f"<dt>{_text(name)}</dt><dd>{number(value)}</dd>"
    head = f'<dl class="facts"><div class="main">{fact}</div></dl>'
    sections = [_section("Score", summary(evaluation) + head)]
    sections += [*data_section(about, evaluation), *prediction_sections(evaluation)]
    if run.is_forecaster:
        sections += [_section(*each) for each in forecast_sections(run.model, evaluation)]
    sections.append(_section("Environment", _table((), environment())))
    write_text(path, page(f"linoss: {run.task}, evaluated", _subtitle(run), sections))


def page(title: str, subtitle: str, sections: Iterable[str]) -> str:
    """A page of sections; title and subtitle are HTML."""
    style = _STYLE.replace("PALETTE", pictures.palette(dark=False))
    style = style.replace("DARK", pictures.palette(dark=True))
    body = "\n".join(sections)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n<main>\n"
        f'<header><h1>{title}</h1><p class="soft">{subtitle}</p></header>\n'
        f"{body}\n</main>\n</body>\n</html>\n"
    )


def _subtitle(run: Run) -> str:
    oscillators = None if run.is_forecaster else run.model.oscillators
    parts = []
    if oscillators is not None:
        parts.append(f"{oscillators.features.bank_.size:,} untrained oscillators")
    if run.trained:
        config = run.trained[0].config
        models = "" if len(run.trained) == 1 else f"{len(run.trained)} models, each "
        blocks = "1 block" if config.num_blocks == 1 else f"{config.num_blocks} blocks"
        of = f"{config.state_size} oscillators, scheme {config.scheme}"
        of = of if config.mixer == "linoss" else config.mixer
        steps = f"{run.n_steps} training steps" if run.n_steps else "not trained"
        parts.append(f"{models}{blocks} of {of}, {steps}")
    return _text("; and ".join(parts))


# ---- Score ----


def _facts(run: Run, evaluation: Evaluation) -> str:
    from linoss.nn import count_parameters

    score, test = evaluation.score, evaluation.test
    choice = None if run.is_forecaster else run.model.choice
    own = [(_spelled(name), number(value)) for name, value in run.scores.items()]
    facts = []
    if test is not None:
        name, value = test.headline
        facts.append((f"test {name}", number(value)))
    if isinstance(test, ClassScore):
        facts.append(("test cases", str(len(test.truth))))
    elif isinstance(test, NumberScore):
        facts += [("test R²", number(test.r2)), ("test RMSE", number(test.rmse))]
        facts.append(("test cases", str(test.cases)))
    elif isinstance(test, ForecastScore):
        facts.append(("steps ahead", str(test.horizon)))
    facts += [fact for fact in own if fact not in facts]
    history, _ = run.history
    if not facts and score is not None:
        name, value = score.headline
        facts.append((f"{evaluation.kind} {name}", number(value)))
    if not facts and history:
        facts.append(("last training loss", number(history[-1]["loss"])))
    if run.trained:
        facts.append(("parameters", f"{sum(map(count_parameters, run.trained)):,}"))
    entries = [f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>" for name, value in facts]
    first, *others = entries
    shown = f'<div class="main">{first}</div>' + "".join(f"<div>{e}</div>" for e in others)
    note = "" if choice is None else f"<p>{_text(choice.why)}.</p>"
    if test is None:
        note += '<p class="soft">The data have no test part.</p>'
    return f'<dl class="facts">{shown}</dl>{note}'


def _spelled(name: str) -> str:
    """The display name of a score."""
    part, metric, *rest = name.split(" ", 2)
    part = "best validation" if part == "validation" else part
    return " ".join([part, pictures.metric_name(metric), *rest])


def _curves(history: Any, metric: str) -> str:
    if not history:
        return "<p>There were no evaluations.</p>"
    figure = pictures.learning_curves(history, metric)
    return pictures.svg(figure, "Learning curves")


# ---- Model ----


def _means(means: Sequence[ExplainedCase]) -> str:
    """Figures of mean attributions of untrained oscillators, and their channels."""
    note = (
        '<p class="soft">Mean attribution for some training cases of each class, by period and '
        "part of the sequence: blue supports the class, orange opposes it.</p>"
    )
    content = note + pictures.svg(pictures.mean_attribution_plot(means), "Attribution")
    if len(means[0].channels) == 1:
        return content
    loudest = np.argsort(-np.abs(means[0].channels))[:_MOST_CHANNELS]
    header = ("attribution to", *(f"channel {i}" for i in loudest))
    rows = [(one.name, *(number(float(one.channels[i]), 2) for i in loudest)) for one in means]
    return content + _table(header, rows)


def _explained(several: Sequence[ExplainedCase]) -> str:
    """Figures of the attribution of predictions for some cases to each value."""
    note = (
        '<p class="soft">The contribution of each value to the output of the trained models, '
        "relative to channels at their mean: blue supports the prediction, orange opposes it. "
        "Titles have the sum of each channel.</p>"
    )
    names = [f"channel {i}" for i in range(len(several[0].channels))]
    return note + "".join(
        pictures.svg(pictures.attribution_plot(one, names, most=2), "Attribution to each value")
        for one in several
    )


def _untrained(oscillators: Any) -> str:
    """The random bank of untrained oscillators."""
    facts = untrained_facts(oscillators)
    rows = [
        (name.replace("_", " "), f"{value:,}" if isinstance(value, int) else span(value))
        for name, value in facts.items()
    ]
    note = '<p class="soft">Minimum / median / maximum; periods are in samples.</p>'
    return note + _table((), rows)


def _oscillators(spectra: Sequence[BlockSpectrum]) -> str:
    note = (
        '<p class="soft">Times are in samples: minimum / median / maximum. In a decay time a state '
        "falls to 1/e; a free particle is an oscillator with A = 0.</p>"
    )
    picture = pictures.svg(pictures.spectrum(spectra), "Spectrum of the oscillators")
    return picture + note + _table(SPECTRUM_COLUMNS, [spectrum_row(each) for each in spectra])


def _settings(run: Run) -> list[tuple[str, str]]:
    return [
        (name, "none" if value is None else str(value))
        for name, value in run.parameters.items()
        if name != "verbose"
    ]


def environment() -> list[tuple[str, str]]:
    """Versions and the kind of machine, without personal data."""
    import jax

    from linoss import __version__
    from linoss.scan import resolve_engine

    return [
        ("linoss", __version__),
        ("engine", resolve_engine("auto")),
        ("jax", jax.__version__),
        ("device", jax.default_backend()),
        ("numpy", np.__version__),
        ("python", platform.python_version()),
        ("system", platform.system()),
        ("machine", platform.machine()),
    ]


def _use(run: Run) -> str:
    commands = ["evaluate RUN DATA"]
    if run.is_forecaster:
        commands.append(f"forecast RUN --horizon {run.model.horizon} --out forecast.csv")
        commands.append("backtest RUN DATA")
    else:
        commands.append("predict RUN DATA --out predictions.csv")
    if run.supports_streaming:
        commands.append("stream RUN < samples.csv")
    commands.append("inspect RUN")
    lines = [f"linoss {command}" for command in commands]
    python = [f"from linoss import {run.estimator}", f'model = {run.estimator}.load("RUN")']
    return (
        "<p>On the command line, where RUN is the directory of this page:</p>"
        f"<pre>{_text(chr(10).join(lines))}</pre><p></p><p>In Python:</p>"
        f"<pre>{_text(chr(10).join(python))}</pre>"
    )
