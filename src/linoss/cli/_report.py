"""report.html: a self-contained page about a run."""

import platform
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from linoss._files import write_text
from linoss.cli import _pictures as pictures
from linoss.cli._data_report import About, answer_sections, data_section, summary
from linoss.cli._evidence import AverageEvidence, ExplainedCase
from linoss.cli._forecast_report import forecast_sections
from linoss.cli._forecast_scores import Forecast, ForecastScore
from linoss.cli._html import section as _section
from linoss.cli._html import table as _table
from linoss.cli._html import text as _text
from linoss.cli._output import number
from linoss.cli._scores import ClassScore, NumberScore, Score
from linoss.cli._spectrum import BlockSpectrum, banks, untrained_facts

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


def write_report(
    path: Path,
    estimator: Any,
    score: Score | None,
    forecasts: Sequence[Forecast] = (),
    evidence: Sequence[AverageEvidence] = (),
    explained: Sequence[ExplainedCase] = (),
    about: About | None = None,
) -> None:
    """Write the report of a fitted estimator; `score` is that of the test part."""
    write_text(path, report(estimator, score, forecasts, evidence, explained, about))


def report(
    estimator: Any,
    score: Score | None,
    forecasts: Sequence[Forecast] = (),
    evidence: Sequence[AverageEvidence] = (),
    explained: Sequence[ExplainedCase] = (),
    about: About | None = None,
) -> str:
    """The page: summary and score first, details of the model last."""
    members = estimator.members_
    trained, untrained = members.get("linoss"), members.get("oscillators")
    about = about or About(score=score, kind="test")
    sections = [_section("Score", summary(estimator, about) + _facts(estimator, score, about))]
    sections += data_section(about)
    sections += answer_sections(about)
    sections += [_section(*each) for each in forecast_sections(estimator, score, forecasts)]
    if trained is not None:
        sections.append(_section("Learning curves", _curves(trained)))
    if evidence:
        sections.append(_section("Evidence of untrained oscillators", _evidence(evidence)))
    if explained:
        sections.append(_section("Contribution of each value", _explained(explained)))
    if untrained is not None:
        sections.append(_section("Untrained oscillators", _untrained(untrained)))
    if trained is not None and (found := banks(trained.model_)):
        sections.append(_section("Oscillators", _oscillators(found)))
    sections += [
        '<div class="columns">',
        _section("Settings", _table((), _settings(estimator))),
        "<div>",
        _section("Use this run", _use(estimator)),
        _section("Environment", _table((), environment())),
        "</div></div>",
    ]
    return page(f"linoss: {estimator.task}", _subtitle(estimator), sections)


def write_evaluation(
    path: Path, estimator: Any, about: About, forecasts: Sequence[Forecast] = ()
) -> None:
    """Write a page about predictions for other data than the training data."""
    assert about.score is not None
    name, value = about.score.headline
    fact = f"<dt>{_text(name)}</dt><dd>{number(value)}</dd>"
    head = f'<dl class="facts"><div class="main">{fact}</div></dl>'
    sections = [_section("Score", summary(estimator, about) + head)]
    sections += [*data_section(about), *answer_sections(about)]
    sections += [_section(*each) for each in forecast_sections(estimator, about.score, forecasts)]
    sections.append(_section("Environment", _table((), environment())))
    write_text(path, page(f"linoss: {estimator.task}, evaluated", _subtitle(estimator), sections))


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


def _subtitle(estimator: Any) -> str:
    trained, untrained = (estimator.members_.get(name) for name in ("linoss", "oscillators"))
    parts = []
    if untrained is not None:
        parts.append(f"{untrained.features_.bank_.size:,} untrained oscillators")
    if trained is not None:
        config = trained.model_.config
        blocks = "1 block" if config.num_blocks == 1 else f"{config.num_blocks} blocks"
        of = f"{config.state_size} oscillators, scheme {config.scheme}"
        of = of if config.mixer == "linoss" else config.mixer
        steps = f"{trained.n_steps_} training steps" if trained.n_steps_ else "not trained"
        parts.append(f"{blocks} of {of}, {steps}")
    return _text("; and ".join(parts))


# ---- Score ----


def _facts(estimator: Any, score: Score | None, about: About) -> str:
    from linoss.nn import count_parameters

    trained, choice = estimator.members_.get("linoss"), getattr(estimator, "choice_", None)
    own = [(_spelled(name), number(value)) for name, value in estimator.own_scores_.items()]
    facts = []
    if score is not None:
        name, value = score.headline
        facts.append((f"test {name}", number(value)))
    if isinstance(score, ClassScore):
        facts.append(("test cases", str(int(score.confusion.sum()))))
    elif isinstance(score, NumberScore):
        facts += [("test R²", number(score.r2)), ("test RMSE", number(score.rmse))]
        facts.append(("test cases", str(score.cases)))
    elif isinstance(score, ForecastScore):
        facts.append(("steps ahead", str(score.horizon)))
    facts += [fact for fact in own if fact not in facts]
    if not facts and about.score is not None:
        name, value = about.score.headline
        facts.append((f"{about.kind} {name}", number(value)))
    if not facts and trained is not None and trained.history_:
        facts.append(("last training loss", number(trained.history_[-1]["loss"])))
    if trained is not None:
        facts.append(("parameters", f"{count_parameters(trained.model_):,}"))
    entries = [f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>" for name, value in facts]
    first, *others = entries
    shown = f'<div class="main">{first}</div>' + "".join(f"<div>{e}</div>" for e in others)
    note = "" if choice is None else f"<p>{_text(choice.why)}.</p>"
    if score is None:
        note += '<p class="soft">The data have no test part.</p>'
    return f'<dl class="facts">{shown}</dl>{note}'


def _spelled(name: str) -> str:
    """The display name of a score."""
    part, metric, *rest = name.split(" ", 2)
    part = "best validation" if part == "validation" else part
    return " ".join([part, pictures.metric_name(metric), *rest])


def _curves(estimator: Any) -> str:
    if not estimator.history_:
        return "<p>There were no evaluations.</p>"
    figure = pictures.learning_curves(estimator.history_, estimator.objective_.metric)
    return pictures.svg(figure, "Learning curves")


# ---- Model ----


def _evidence(found: Sequence[AverageEvidence]) -> str:
    """Figures of the evidence of untrained oscillators, and its channels."""
    note = (
        '<p class="soft">Mean evidence of the untrained oscillators for some training cases of '
        "each class, by period and part of the sequence: blue supports the class, orange opposes "
        "it.</p>"
    )
    content = note + pictures.svg(pictures.evidence_plot(found), "Evidence")
    if len(found[0].channels) == 1:
        return content
    loudest = np.argsort(-np.abs(found[0].channels))[:_MOST_CHANNELS]
    header = ("evidence through", *(f"channel {i}" for i in loudest))
    rows = [(one.name, *(number(float(one.channels[i]), 2) for i in loudest)) for one in found]
    return content + _table(header, rows)


def _explained(found: Sequence[ExplainedCase]) -> str:
    """Figures of the contribution of each value of some cases to the prediction."""
    note = (
        '<p class="soft">The contribution of each value to the output of the trained models, '
        "relative to channels at their mean: blue supports the prediction, orange opposes it. "
        "Titles have the sum of each channel.</p>"
    )
    names = [f"channel {i}" for i in range(len(found[0].values))]
    return note + "".join(
        pictures.svg(pictures.contributions_plot(one, names, most=2), "Contribution of each value")
        for one in found
    )


def _untrained(estimator: Any) -> str:
    """The random bank of untrained oscillators."""
    facts = untrained_facts(estimator)
    rows = [(name.replace("_", " "), _span(value)) for name, value in facts.items()]
    note = '<p class="soft">Minimum / median / maximum; periods are in samples.</p>'
    return note + _table((), rows)


def _span(value: Any) -> str:
    """A count, or minimum, median and maximum."""
    if value is None:
        return "–"
    if not isinstance(value, dict):
        return f"{value:,}"
    return " / ".join(number(value[name], 3) for name in ("min", "median", "max"))


def _oscillators(found: Sequence[BlockSpectrum]) -> str:
    header = ("", "oscillators", "period", "decay time", "no decay", "free particles")
    rows = []
    for bank in found:
        facts = bank.summary()
        rows.append(
            (
                bank.name,
                facts["oscillators"],
                _span(facts["period"]),
                _span(facts["decay_time"]),
                facts["without_decay"],
                facts["free_particles"],
            )
        )
    note = (
        '<p class="soft">Times are in samples: minimum / median / maximum. In a decay time a state '
        "falls to 1/e; a free particle is an oscillator with A = 0.</p>"
    )
    picture = pictures.svg(pictures.spectrum(found), "Spectrum of the oscillators")
    return picture + note + _table(header, rows)


def _settings(estimator: Any) -> list[tuple[str, str]]:
    parameters = estimator.get_params(deep=False)
    return [
        (name, "none" if value is None else str(value))
        for name, value in parameters.items()
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


def _use(estimator: Any) -> str:
    commands = ["evaluate RUN DATA"]
    if estimator.task == "forecasting":
        commands.append(f"forecast RUN --horizon {estimator.horizon} --out forecast.csv")
        commands.append("backtest RUN DATA")
    else:
        commands.append("predict RUN DATA --out predictions.csv")
    if estimator.can_stream_:
        commands.append("stream RUN < samples.csv")
    commands.append("inspect RUN")
    lines = [f"linoss {command}" for command in commands]
    python = ["import linoss.estimators", 'model = linoss.estimators.load("RUN")']
    return (
        "<p>On the command line, where RUN is the directory of this page:</p>"
        f"<pre>{_text(chr(10).join(lines))}</pre><p></p><p>In Python:</p>"
        f"<pre>{_text(chr(10).join(python))}</pre>"
    )
