"""The end of a fit, and report.html: self-contained pages about runs, evaluations and searches.

A page is a list of sections, a section a list of parts; the template writes their HTML.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup

from linoss._files import write_text
from linoss._stderr import duration
from linoss.cli import _figures as figures
from linoss.cli._attribution import channel_names, explained_cases
from linoss.cli._doctor import environment
from linoss.cli._inspect import SPECTRUM_COLUMNS, bank_facts, spectra_of, word
from linoss.cli._output import number, show_json, show_line
from linoss.cli._runs import REPORT, Run
from linoss.cli._scores import (
    ClassScore,
    Evaluation,
    ForecastScore,
    NumberScore,
    Score,
    evaluate_run,
    show_score,
)
from linoss.data import Sequences, Table
from linoss.nn import count_parameters
from linoss.search import Study

_MOST_CLASSES, _MOST_MISTAKES, _MOST_VARIABLES = 20, 6, 12
Part = dict[str, Any]


@dataclass(frozen=True)
class Section:
    """A section of a page."""

    title: str
    parts: Sequence[Part]
    is_half: bool = False
    """Whether it takes half of the width, where there is room."""


@dataclass(frozen=True, eq=False)
class About:
    """The data of a report."""

    data: Path | None
    cases: Sequences | Table
    """The training or evaluation data."""
    seconds: float | None = None
    """The duration of the fit."""


# ---- The end of a fit ----


def finish(
    estimator: Any,
    out: Path,
    training: Any,
    test: Any,
    *,
    data: Path | None = None,
    seconds: float | None = None,
    json: bool,
) -> None:
    """Score a fitted estimator, write its report, and print the results."""
    run = Run.of(estimator)
    evaluation = evaluate_run(run, training, test)
    score, scores = evaluation.score, run.model.scores
    write_report(out / REPORT, run, evaluation, About(data, training, seconds))
    choice = None if run.is_forecaster else run.model.choice
    if json:
        record = {"run": str(out), "report": str(out / REPORT), "task": run.model.task}
        record |= {"estimator": run.estimator, "scores": scores, "test": None}
        record[evaluation.kind.replace("-", "_")] = None if score is None else score.record()
        if not run.is_forecaster:
            record["models"] = list(run.model.members)
            record["choice"] = None if choice is None else asdict(choice)
        if run.trained:
            record["steps"] = run.model.trained.n_steps
            record["parameters"] = sum(map(count_parameters, run.trained))
        show_json(record)
        return
    if choice is not None:
        show_line(f"{choice.why}.")
    for name, value in scores.items():
        note = "" if evaluation.is_test else " (there is no test part)"
        show_line(f"{name[0].upper()}{name[1:]} {number(value)}{note}")
    if score is not None and (evaluation.is_test or run.is_forecaster):
        show_line(f"On {evaluation.of}:")
        show_score(score)
    elif score is not None and evaluation.kind == "training":
        name, value = score.headline
        show_line(
            f"Training {name} {number(value)}, on training cases; expect lower scores for new "
            "ones. Use --set validation_fraction=0.2, or linoss evaluate with other data"
        )
    if run.is_forecaster and not run.model.trained.n_steps:
        show_line(
            "No model is trained, because the series are short or --steps is 0: forecasts are made "
            "of trend, seasons and linear forecasts"
        )
    show_line(f"The run is in {out}; see {out / REPORT}")


# ---- Pages ----


def write_report(
    path: Path, run: Run, evaluation: Evaluation, about: About, *, with_model: bool = True
) -> None:
    """Write the page of a run: the score first, details of the model last.

    Without them it is about predictions for other data than the training data.
    """
    sections = [_score(run, evaluation), _data(about), *_predictions(evaluation)]
    if run.is_forecaster:
        sections += _forecasts(run, evaluation)
    if with_model:
        sections += _model(run, about.cases)
    oscillators = None if run.is_forecaster else run.model.oscillators
    about_models = []
    if oscillators is not None:
        about_models.append(f"{oscillators.features.bank_.size:,} untrained oscillators")
    if run.trained:
        config, steps = run.trained[0].config, run.model.trained.n_steps
        of = f"{config.state_size} oscillators, scheme {config.scheme}"
        about_models.append(
            f"{_several(len(run.trained), 'model')} of {_several(config.num_blocks, 'block')} of "
            f"{of if config.mixer == 'linoss' else config.mixer}, {steps} training steps"
        )
    title = f"linoss: {run.model.task}{'' if with_model else ', evaluated'}"
    _write(path, title, "; and ".join(about_models), sections)


def write_study(path: Path, study: Study, score: Score | None) -> None:
    """Write the page of a search; `score` is that of the best trial on the test part."""
    sections, best = [Section("Best", [_text("No trial is complete.")])], study.best
    if best is not None:
        facts = [(f"validation {figures.metric_name(study.metric)}", number(best.value))]
        if score is not None:
            facts.append((f"test {score.headline[0]}", number(score.headline[1])))
        rows = [(name, figures.word(value)) for name, value in best.parameters.items()]
        use = "Its run is in the directory best, beside this page; the validation part selected it."
        facts = _facts([*facts, ("trial", str(best.number))])
        sections = [Section("Best", [facts, _text(use), _table(rows)])]
        note = "The best trial is circled."
        note += " Percentages are the importance of each parameter." * bool(study.importance)
        sections.append(Section("Parameters", [_note(note), _figure(figures.parameters(study))]))
    header, rows = trials_table(study)
    sections.append(Section("Trials", [_table(rows, header, "wide")]))
    errors = [(t.number, t.error[:300]) for t in study.trials if t.error is not None]
    if errors:
        sections.append(Section("Failures", [_table(errors, ("trial", "error"), "words")]))
    _write(path, "linoss: search", f"study {study.name}, {counts(study)}", sections)


def counts(study: Study) -> str:
    """The number of trials in each state, as text."""
    states = ("complete", "pruned", "failed", "running", "waiting")
    parts = [f"{study.count(state)} {state}" for state in states if study.count(state)]
    return ", ".join(parts) or "no trials"


def trials_table(study: Study, most: int | None = None) -> tuple[list[str], list[list[str]]]:
    """Header and rows: complete trials, the best first, then the others."""
    ranked = study.ranked
    chosen = {trial.number for trial in ranked}
    rows = []
    for trial in [*ranked, *(t for t in study.trials if t.number not in chosen)][:most]:
        given = trial.parameters
        cells = [figures.word(given[name]) if name in given else "–" for name in study.space]
        time = "–" if trial.seconds is None else duration(trial.seconds)
        rows.append([str(trial.number), trial.state, number(trial.value), *cells, time])
    return ["trial", "state", study.metric, *study.space, "time"], rows


def _write(path: Path, title: str, subtitle: str, sections: list[Section]) -> None:
    loader = jinja2.PackageLoader("linoss.cli")
    page = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    sections = [*sections, Section("Environment", [_table(environment().items())], is_half=True)]
    content = {"title": title, "subtitle": subtitle, "sections": sections}
    colors = {"light": figures.LIGHT, "dark": figures.DARK}
    write_text(path, page.get_template("report.html").render(**content, **colors))


# ---- Parts ----


def _text(text: str) -> Part:
    return {"kind": "text", "text": text}


def _note(text: str) -> Part:
    return {"kind": "note", "text": text}


def _code(*lines: str) -> Part:
    return {"kind": "code", "text": "\n".join(lines)}


def _facts(facts: Sequence[tuple[str, str]]) -> Part:
    return {"kind": "facts", "facts": facts}


def _table(rows: Iterable[Sequence[Any]], header: Sequence[str] = (), style: str = "") -> Part:
    return {"kind": "table", "rows": rows, "header": header, "style": style}


def _figure(figure: Any, style: str = "") -> Part:
    title = figure.axes[0].get_title("left")
    return {"kind": "figure", "svg": Markup(figures.svg(figure, title, style))}


# ---- Score and data ----


def _score(run: Run, evaluation: Evaluation) -> Section:
    """The score, a baseline, and the most frequent error."""
    score, of = evaluation.score, evaluation.of
    words, facts = "", []
    if score is not None:
        facts.append((f"{evaluation.kind} {score.headline[0]}", number(score.headline[1])))
    if isinstance(score, ClassScore):
        right, total = int(np.trace(score.confusion)), len(score.truth)
        cases = score.by_class[2]
        words = (
            f"{right} of {total} predictions for {of} are correct ({right / max(total, 1):.1%}). "
            f"Always predicting {score.classes[np.argmax(cases)]}, the most frequent class, would "
            f"be correct for {cases.max() / max(total, 1):.1%}."
        )
        wrong = score.confusion * (1 - np.eye(len(score.classes), dtype=int))
        if wrong.any():
            i, j = np.unravel_index(np.argmax(wrong), wrong.shape)
            words += (
                f" The most frequent error: {score.classes[i]} is predicted as {score.classes[j]}: "
                f"{wrong[i, j]} cases."
            )
    elif isinstance(score, NumberScore):
        facts += [("R²", number(score.r2)), ("RMSE", number(score.rmse))]
        words = (
            f"The mean absolute error of predictions for {of} is {number(score.headline[1])}; "
            f"they explain {score.r2:.1%} of the variance (predicting the mean explains 0%)."
        )
    elif isinstance(score, ForecastScore):
        words = f"On {of}, {_compared_with_season(score.backtest)}."
    if evaluation.kind == "training":
        words += " The model was trained on these cases: expect lower scores for new ones."
    facts += [(name, number(value)) for name, value in run.model.scores.items()]
    if run.trained:
        facts.append(("parameters", f"{sum(map(count_parameters, run.trained)):,}"))
    parts = [_text(words), _facts(facts)]
    if not run.is_forecaster and run.model.choice is not None:
        parts.append(_text(f"{run.model.choice.why}."))
    if not evaluation.is_test:
        parts.append(_note("The data have no test part."))
    return Section("Score", parts)


def _compared_with_season(backtest: Any) -> str:
    """The error compared with repeating the last season, and the coverage of intervals."""
    own, simple = (backtest.error("mase", of) for of in ("forecast", "seasonal naive"))
    words = [f"the mean absolute scaled error is {number(own)}"]
    if simple > 0:
        compared = f"{abs(1 - own / simple):.0%} {'lower' if own < simple else 'higher'}"
        words = [f"the error is {compared} than that of the value {backtest.season} steps before"]
    for level in backtest.intervals:
        share = backtest.coverage(level)
        if np.isfinite(share).any():
            words.append(f"{np.nanmean(share):.1%} of the values are in intervals of {level:g} %")
    return "; ".join(words)


def _data(about: About) -> Section:
    """A table that describes the data."""
    cases = about.cases
    rows = [("date", f"{datetime.now().astimezone():%Y-%m-%d %H:%M %Z}")]
    rows += [] if about.seconds is None else [("duration", duration(about.seconds))]
    rows += [] if about.data is None else [("file", about.data.name)]
    if isinstance(cases, Table):
        names, count = cases.names, len(cases.names)
        first, last = (str(cases.index[0][i])[:19].replace("T", " ") for i in (0, -1))
        rows += [("series", f"{len(cases.series):,}"), ("from", first), ("to", last)]
        arrays, lengths = cases.series, [len(series) for series in cases.series]
    else:
        names, count = cases.names, cases.num_channels
        rows += [("cases", f"{len(cases):,}")]
        arrays, lengths = cases.values, cases.lengths
    named = "" if names is None else f" ({', '.join(map(str, names[:8]))})"
    shortest, longest = int(np.min(lengths)), int(np.max(lengths))
    length = f"{longest:,}" if shortest == longest else f"{shortest:,} to {longest:,}"
    missing = sum(int(np.isnan(array).sum()) for array in arrays)
    total = sum(np.size(array) for array in arrays)
    rows += [("channels", f"{count}{named}"), ("length", length)]
    rows.append(("missing values", f"{missing:,} of {total:,}" if missing else "none"))
    return Section("Data", [_table(rows, style="words")])


# ---- Predictions ----


def _predictions(evaluation: Evaluation) -> Iterator[Section]:
    """Predictions and errors of classes and numbers."""
    score, note = evaluation.score, _note(f"Predictions for {evaluation.of}.")
    if isinstance(score, NumberScore):
        figure = _figure(figures.predicted_against_true(score), "small")
        yield Section("Predictions", [note, figure])
    elif isinstance(score, ClassScore):
        is_half = len(score.classes) < 8
        if len(score.classes) <= _MOST_CLASSES:
            yield Section("Confusion", [note, _confusion(score)], is_half)
        yield Section("Classes", [note, _table(score.rows(), score.header)], is_half)
        worst = score.mistakes(_MOST_MISTAKES)
        if len(worst):
            wrong = int((score.predicted != score.truth).sum())
            text = f"The most confident of {wrong} wrong predictions: check whether the labels are "
            figure = _figure(figures.mistakes(score, evaluation.cases, worst))
            yield Section("Worst mistakes", [_note(f"{text}correct."), figure])


def _confusion(score: ClassScore) -> Part:
    """The confusion matrix, true classes in rows."""
    totals = np.maximum(score.confusion.sum(axis=1), 1)
    rows = [
        (name, [(int(count), f"{0.55 * count / total:.3f}") for count in row])
        for name, row, total in zip(score.classes, score.confusion, totals, strict=True)
    ]
    return {"kind": "confusion", "classes": score.classes, "rows": rows}


def _forecasts(run: Run, evaluation: Evaluation) -> Iterator[Section]:
    forecaster, table, score = run.model, evaluation.cases, evaluation.score
    assert isinstance(table, Table)
    long = [i for i, series in enumerate(table.series) if len(series) > forecaster.horizon]
    if long:
        one = table.pick(long[:1])
        figure = _figure(figures.forecast(one, forecaster.backtest(one, windows=1)))
        yield Section("Forecast", [_note("Forecasts of the last steps of the data."), figure])
    if isinstance(score, ForecastScore):
        rows = score.rows()[: _MOST_VARIABLES * len(score.backtest.forecasts)]
        note = _note(f"On {evaluation.of}: {score.line}")
        yield Section("Errors", [note, _table(rows, score.header)])
    if forecaster.known:
        note = _note(
            "The effect of each variable on each forecast: the standard deviation of its "
            "contribution to the linear part, in the unit of the target."
        )
        effects, targets = forecaster.known_effects(), forecaster.targets[:_MOST_VARIABLES]
        rows = [(name, *(number(e[each], 3) for each in targets)) for name, e in effects.items()]
        table = _table(rows, ("known", *map(str, targets)))
        yield Section("Variables known in advance", [note, table])


# ---- Model ----


def _model(run: Run, cases: Sequences | Table) -> Iterator[Section]:
    """Learning curves, attributions, oscillators and settings."""
    trained = run.model.trained
    if trained is not None and trained.history:
        curves = figures.learning_curves(trained.history, trained.objective.metric)
        yield Section("Learning curves", [_figure(curves)])
    if isinstance(cases, Sequences):
        yield from _attributions(run.model, cases)
    if not run.is_forecaster and run.model.oscillators is not None:
        facts = bank_facts(run.model.oscillators)
        rows = [(name.replace("_", " "), word(value)) for name, value in facts.items()]
        note = _note("Minimum / median / maximum; periods are in samples.")
        yield Section("Untrained oscillators", [note, _table(rows)])
    spectra = spectra_of(run.trained[0]) if run.trained else []
    if spectra:
        note = _note(
            "Times are in samples: minimum / median / maximum. In a decay time a state falls to "
            "1/e; a free particle is an oscillator with A = 0."
        )
        table = _table([each.row() for each in spectra], SPECTRUM_COLUMNS)
        yield Section("Oscillators", [_figure(figures.spectrum(spectra)), note, table])
    predict = "forecast RUN" if run.is_forecaster else "predict RUN DATA --out predictions.csv"
    commands = [predict, "evaluate RUN DATA", "inspect RUN"]
    commands += ["stream RUN < samples.csv"] if run.model.supports_streaming else []
    python = _code(f"from linoss import {run.estimator}", f'{run.estimator}.load("RUN")')
    text = _text("RUN is the directory of this page.")
    use = [text, _code(*(f"linoss {command}" for command in commands)), python]
    yield Section("Use this run", use)
    given = [(n, figures.word(v)) for n, v in run.parameters.items() if n != "verbose"]
    yield Section("Settings", [_table(given)], is_half=True)


def _attributions(fitted: Any, cases: Sequences) -> Iterator[Section]:
    explained = explained_cases(fitted, cases)
    if explained:
        note = _note(
            "What parts of a sequence contribute to the prediction: for trained models each value, "
            "relative to channels at their mean; for untrained oscillators periods and times. Blue "
            "supports the prediction, orange opposes it."
        )
        names = channel_names(fitted)
        drawn = [_figure(figures.attribution(one, names, most=2)) for one in explained]
        yield Section("Attribution", [note, *drawn])


def _several(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
