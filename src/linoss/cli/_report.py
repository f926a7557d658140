"""The end of a fit, and report.html: self-contained pages about runs, evaluations and searches.

The template has the words and the order of a page; here are its values and figures.
"""

from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import jinja2
import numpy as np

from linoss._files import write_text
from linoss._stderr import duration
from linoss.cli import _figures as figures
from linoss.cli._doctor import environment
from linoss.cli._inspect import (
    SPECTRUM_COLUMNS,
    Explained,
    bank_facts,
    channel_names,
    span,
    spectra_of,
)
from linoss.cli._output import number, show_json, show_line, word
from linoss.cli._runs import REPORT, models_of, summary_of
from linoss.cli._scores import NAMES, Score, errors_by_series, score_of
from linoss.data import Sequences, Table
from linoss.nn import count_parameters
from linoss.search import Study

_MOST_CLASSES, _MOST_MISTAKES, _MOST_VARIABLES, _MOST_SERIES = 20, 6, 12, 12
_EXPLAINED, _LONGEST = 3, 10_000  # most cases, and most samples of a case
_SECONDS = 5.0  # for attributions, at least; at most half of the time of the fit


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
    fitted = estimator.fitted_
    score, report = score_of(fitted, training, test), out / REPORT
    write_report(report, estimator, score, training, data=data, seconds=seconds)
    choice, models = getattr(fitted, "choice", None), models_of(fitted)
    is_forecaster = fitted.task == "forecasting"
    if json:
        record = {"run": str(out), "report": str(report), "task": fitted.task}
        record |= {"estimator": type(estimator).__name__, "scores": fitted.scores, "test": None}
        record[score.kind.replace("-", "_")] = score.record() if score.metrics else None
        if not is_forecaster:
            record["models"] = list(fitted.members)
            record["choice"] = None if choice is None else asdict(choice)
        if models:
            record["steps"] = fitted.trained.n_steps
            record["parameters"] = sum(map(count_parameters, models))
        show_json(record)
        return
    show_line(" ".join(_words(fitted, score)))
    for name, value in fitted.scores.items():
        show_line(f"{name[0].upper()}{name[1:]} {number(value)}")
    if score.metrics:
        score.show()
    show_line(f"The run is in {out}; see {report}")


# ---- Pages ----


def write_report(
    path: Path,
    estimator: Any,
    score: Score,
    cases: Sequences | Table,
    *,
    data: Path | None = None,
    seconds: float | None = None,
    with_model: bool = True,
) -> None:
    """Write the page of a run: the score first, details of the model last.

    `cases` are those of the training; without the model those of the score.
    """
    fitted = estimator.fitted_
    content: dict[str, Any] = {
        "title": f"linoss: {fitted.task}{'' if with_model else ', evaluated'}",
        "subtitle": "; and ".join(_models(fitted)),
        "estimator": type(estimator).__name__,
        "fitted": fitted,
        "score": score,
        "words": " ".join(_words(fitted, score)),
        "numbers": _facts(fitted, score),
        "data": list(_data(cases, data, seconds)),
        "scored": _forecasts(fitted, score)
        if fitted.task == "forecasting"
        else _predictions(fitted, score),
    }
    if with_model:
        content |= _model(fitted, estimator.get_params(deep=False))
        if isinstance(cases, Sequences):
            content["attributions"] = _attributions(fitted, cases, seconds)
    _write(path, content)


def write_study(path: Path, study: Study, score: Score | None) -> None:
    """Write the page of a search; `score` is that of the best trial on the test part."""
    facts, best = [], study.best
    if best is not None:
        facts = [(f"validation {figures.metric_name(study.metric)}", number(best.value))]
        if score is not None:
            facts.append((f"test {score.headline[0]}", number(score.headline[1])))
        facts.append(("trial", str(best.number)))
    content = {
        "title": "linoss: search",
        "subtitle": f"study {study.name}, {counts(study)}",
        "numbers": facts,
        "best": [] if best is None else [(n, word(v)) for n, v in best.parameters.items()],
        "trials": trials_table(study),
        "errors": [(t.number, t.error[:300]) for t in study.trials if t.error is not None],
    }
    _write(path, content)


def write_explained(path: Path, explained: list[Explained]) -> None:
    """Write the page of some attributions."""
    drawn = [figures.svg(panel) for each in explained for panel in figures.attribution(each)]
    _write(path, {"title": "linoss: explain", "attributions": drawn})


def counts(study: Study) -> str:
    """The number of trials in each state, as text."""
    states = ("complete", "pruned", "failed", "running", "waiting")
    parts = [f"{study.count(state)} {state}" for state in states if study.count(state)]
    return ", ".join(parts) or "no trials"


def trials_table(study: Study, most: int | None = None) -> tuple[list[str], list[list[str]]]:
    """Header and rows: complete trials, the best first, then the others."""
    ranked = study.ranked
    rows = []
    for trial in [*ranked, *(t for t in study.trials if t not in ranked)][:most]:
        given = trial.parameters
        cells = [word(given[name]) if name in given else "–" for name in study.space]
        time = "–" if trial.seconds is None else duration(trial.seconds)
        rows.append([str(trial.number), trial.state, number(trial.value), *cells, time])
    return ["trial", "state", study.metric, *study.space, "time"], rows


def _write(path: Path, content: dict[str, Any]) -> None:
    loader = jinja2.PackageLoader("linoss.cli")
    page = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    colors = {"light": figures.LIGHT, "dark": figures.DARK}
    text = page.get_template("report.html").render(environment=environment(), **content, **colors)
    write_text(path, text.encode("utf-8", "replace").decode())  # names may hold surrogates


# ---- Score and data ----


def _models(fitted: Any) -> Iterator[str]:
    oscillators, models = getattr(fitted, "oscillators", None), models_of(fitted)
    if oscillators is not None:
        yield f"{oscillators.features.bank_.size:,} untrained oscillators"
    if models:
        config, steps = models[0].config, fitted.trained.n_steps
        of = f"{config.state_size} oscillators, scheme {config.scheme}"
        yield (
            f"{_several(len(models), 'model')} of {_several(config.num_blocks, 'block')} of "
            f"{of if config.mixer == 'linoss' else config.mixer}, {steps} training steps"
        )


def _several(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _facts(fitted: Any, score: Score) -> list[tuple[str, str]]:
    facts = [(f"{score.kind} {NAMES[n]}", number(value)) for n, value in score.metrics.items()]
    facts += [(name, number(value)) for name, value in fitted.scores.items()]
    models = models_of(fitted)
    if models:
        facts.append(("parameters", f"{sum(map(count_parameters, models)):,}"))
    return facts


def _data(
    cases: Sequences | Table, data: Path | None, seconds: float | None
) -> Iterator[tuple[str, str]]:
    yield "date", f"{datetime.now().astimezone():%Y-%m-%d %H:%M %Z}"
    if seconds is not None:
        yield "duration", duration(seconds)
    if data is not None:
        yield "file", data.name
    yield "contents", summary_of(cases)
    arrays = cases.series if isinstance(cases, Table) else cases.values
    missing = sum(int(np.isnan(array).sum()) for array in arrays)
    total = sum(np.size(array) for array in arrays)
    yield "missing values", f"{missing:,} of {total:,}" if missing else "none"


# ---- Predictions ----


def _words(fitted: Any, score: Score) -> Iterator[str]:
    """The score in sentences, beside that of a simple prediction."""
    if score.confusion is not None:
        cases = score.confusion.sum(axis=1)
        correct, total = np.trace(score.confusion), len(score.truth)
        yield f"{correct} of {total} predictions for {score.of} are correct"
        yield f"({correct / total:.1%}). Always predicting {score.classes[np.argmax(cases)]}, the"
        yield f"most frequent class, would be correct for {cases.max() / total:.1%}."
        wrong = score.confusion * (1 - np.eye(len(cases), dtype=int))
        if wrong.any():
            i, j = np.unravel_index(np.argmax(wrong), wrong.shape)
            yield f"The most frequent error: {score.classes[i]} is predicted as {score.classes[j]}:"
            yield f"{wrong[i, j]} cases."
    elif score.backtest is not None:
        yield f"On {score.of}, {'; '.join(_compared(score.backtest))}."
    elif score.metrics:
        error, share = number(score.metrics["mae"]), score.metrics["r2"]
        yield f"The mean absolute error of predictions for {score.of} is {error}; they explain"
        yield f"{share:.1%} of the variance (predicting the mean explains 0%)."
    if score.kind == "training":
        yield "The model was trained on these cases: expect lower scores for new ones. To hold some"
        yield "out, use --set validation_fraction=0.2, or linoss evaluate with other data."
    elif score.kind != "test":
        yield "The data have no test part."
    for trial in getattr(fitted, "trials", ()):
        if trial.is_chosen:
            yield f"Forecasts are by {trial.method}, the simplest of {len(fitted.trials)} methods"
            yield "within a standard error of the best on held-out steps."


def _compared(backtest: Any) -> Iterator[str]:
    """The error compared with repeating the last season, and the coverage of intervals."""
    own, simple = (backtest.error("mase", of) for of in ("forecast", "seasonal naive"))
    if simple > 0:
        compared = f"{abs(1 - own / simple):.0%} {'lower' if own < simple else 'higher'}"
        yield f"the error is {compared} than that of the value {backtest.season} steps before"
    else:
        yield f"the mean absolute scaled error is {number(own)}"
    for level in backtest.intervals:
        share = backtest.coverage(level)
        if np.isfinite(share).any():
            yield f"{np.nanmean(share):.1%} of the values are in intervals of {level:g} %"


def _predictions(fitted: Any, score: Score) -> dict[str, Any]:
    """Figures and tables of classes and numbers."""
    if score.confusion is None:
        return {"scatter": [figures.svg(partial(figures.predicted_against_true, score))]}
    shares = score.confusion / np.maximum(score.confusion.sum(axis=1, keepdims=True), 1)
    confusion = zip(score.classes, score.confusion.tolist(), shares.tolist(), strict=True)
    names, worst = channel_names(fitted), score.mistakes(_MOST_MISTAKES).tolist()
    return {
        "confusion": list(confusion) if len(score.classes) <= _MOST_CLASSES else [],
        "classes": score.rows,
        "is_half": len(score.classes) < 8,
        "wrong": int(np.sum(score.predicted != score.truth)),
        "mistakes": [figures.svg(partial(figures.mistake, score, names, i)) for i in worst],
    }


def _forecasts(fitted: Any, score: Score) -> dict[str, Any]:
    """Figures and tables of forecasts."""
    table, backtest = score.cases, score.backtest
    content: dict[str, Any] = {
        "methods": [
            (t.method, number(t.error, 3), number(t.standard_error, 2), "used" * t.is_chosen)
            for t in fitted.trials
        ]
    }
    long = [i for i, each in enumerate(table.series) if len(each) > fitted.horizon][:1]
    if long:
        one = table.pick(long)
        last = fitted.backtest(one, windows=1)
        drawn = range(min(len(last.names), figures.MOST_CHANNELS))
        panels = (partial(figures.forecast, one, last, i) for i in drawn)
        content["forecasts"] = list(map(figures.svg, panels))
    if backtest is not None:
        content["errors"] = score.rows[: _MOST_VARIABLES * len(backtest.forecasts)]
        content["by_series"] = errors_by_series(backtest)[:_MOST_SERIES]
    return content


# ---- Model ----


def _model(fitted: Any, parameters: dict[str, Any]) -> dict[str, Any]:
    """Learning curves, oscillators and settings."""
    trained, curves = fitted.trained, []
    if trained is not None and trained.history:
        curves = [partial(figures.training_loss, trained.history)]
        scored = [record for record in trained.history if record["metric"] is not None]
        if scored:
            curves.append(partial(figures.validation, scored, trained.objective.metric))
    models, oscillators = models_of(fitted), getattr(fitted, "oscillators", None)
    spectra = spectra_of(models[0]) if models else []
    bank = {} if oscillators is None else bank_facts(oscillators)
    return {
        "curves": list(map(figures.svg, curves)),
        "bank": [(name.replace("_", " "), span(value)) for name, value in bank.items()],
        "spectra": list(map(figures.svg, figures.spectrum(spectra))) if spectra else [],
        "spectrum_columns": SPECTRUM_COLUMNS,
        "spectrum": [each.row() for each in spectra],
        "settings": [(n, word(v)) for n, v in parameters.items() if n != "verbose"],
    }


def _attributions(fitted: Any, cases: Sequences, seconds: float | None) -> list[Any]:
    """The first case of some labels, by each member, as far as time allows; none if there are many
    outputs."""
    if fitted.outputs.every is not None:
        return []
    labels = np.asarray(cases.labels).reshape(len(cases), -1)[:, 0]
    first = np.sort(np.unique(labels, return_index=True)[1]).tolist()
    short = [i for i in first if cases.lengths[i] <= _LONGEST][:_EXPLAINED]
    begun, drawn = monotonic(), []
    for member in fitted.members:
        for i in short:
            if monotonic() - begun > max(_SECONDS, (seconds or 0) / 2):
                break
            shown = Explained.of(fitted, member, cases.select([i]), f"training case {i}")
            drawn += map(figures.svg, figures.attribution(shown, most=2))
    return drawn
