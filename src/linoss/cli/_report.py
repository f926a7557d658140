"""The end of a fit, and report.html: self-contained pages about runs, evaluations and searches.

A page is a list of sections, a section a list of parts; the template writes their HTML.
"""

import platform
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup

from linoss._files import write_text
from linoss._stderr import duration
from linoss.cli import _figures as figures
from linoss.cli._attribution import explained_cases, mean_attributions
from linoss.cli._inspect import SPECTRUM_COLUMNS, bank_facts, spectra_of, word
from linoss.cli._output import number, show_json, show_line
from linoss.cli._run_settings import REPORT
from linoss.cli._runs import Run
from linoss.cli._scores import (
    CLASS_COLUMNS,
    ClassScore,
    Evaluation,
    ForecastScore,
    NumberScore,
    Score,
    evaluate_run,
)
from linoss.data import Sequences, Table
from linoss.search import Study, Trial

_MOST_CLASSES, _MOST_CHANNELS, _MOST_MISTAKES, _MOST_VARIABLES = 20, 8, 6, 12
_STATES = ("complete", "pruned", "failed", "running", "waiting")
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

    data: Path | None = None
    cases: Sequences | Table | None = None
    """The training or evaluation data."""
    seconds: float | None = None
    """The duration of the fit."""
    when: datetime = field(default_factory=lambda: datetime.now().astimezone())


def write_report(
    path: Path, run: Run, evaluation: Evaluation, about: About, *, with_model: bool = True
) -> None:
    """Write the page of a run: the score first, details of the model last.

    Without them it is about predictions for other data than the training data.
    """
    score = [*_summary(evaluation), *_score_facts(run, evaluation)]
    sections = [Section("Score", score), *_results(run, evaluation, about)]
    if with_model:
        sections += _model(run, about)
    title = f"linoss: {run.task}{'' if with_model else ', evaluated'}"
    _write(path, title, _subtitle(run), [*sections, _environment()])


def write_study(path: Path, study: Study, score: Score | None) -> None:
    """Write the page of a search; `score` is that of the best trial on the test part."""
    sections = [Section("Best", _best(study, score))]
    if study.trials:
        sections.append(Section("Trials", [_figure(figures.trials(study))]))
    if study.best is not None:
        note = "The best trial is circled."
        note += " Percentages are the importance of each parameter." * bool(study.importance)
        sections.append(Section("Parameters", [_note(note), _figure(figures.parameters(study))]))
    rows = trial_rows(study)
    sections.append(Section("All trials", [_table(rows, trial_header(study), "wide")]))
    errors = [(t.number, t.error[:300]) for t in study.trials if t.error is not None]
    if errors:
        sections.append(Section("Failures", [_table(errors, ("trial", "error"), "words")]))
    sections.append(_environment())
    _write(path, "linoss: search", f"study {study.name}, {counts(study)}", sections)


def _write(path: Path, title: str, subtitle: str, sections: Iterable[Section]) -> None:
    loader = jinja2.PackageLoader("linoss.cli")
    page = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    content = {"title": title, "subtitle": subtitle, "sections": sections}
    colors = {"light": figures.LIGHT, "dark": figures.DARK}
    write_text(path, page.get_template("report.html").render(**content, **colors))


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
    return "; and ".join(parts)


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
    write_report(out / REPORT, run, evaluation, About(data, training, seconds))
    if json:
        show_json(_record(run, out, evaluation))
        return
    if not run.is_forecaster and run.model.choice is not None:
        show_line(f"{run.model.choice.why}.")
    for name, value in run.scores.items():
        note = "" if evaluation.test is not None else " (there is no test part)"
        show_line(f"{name[0].upper()}{name[1:]} {number(value)}{note}")
    score = evaluation.score
    if score is not None and (evaluation.kind == "test" or run.is_forecaster):
        show_line(f"On {evaluation.of}:")
        score.show()
    elif evaluation.kind == "training" and score is not None:
        name, value = score.headline
        show_line(
            f"Training {name} {number(value)}, on training cases; expect lower scores for new "
            "ones. Use --set validation_fraction=0.2, or linoss evaluate with other data"
        )
    if run.is_forecaster and run.n_steps == 0:
        show_line(
            "No model is trained, because the series are short or --steps is 0: forecasts are made "
            "of trend, seasons and linear forecasts"
        )
    show_line(f"The run is in {out}; see {out / REPORT}")


def _record(run: Run, out: Path, evaluation: Evaluation) -> dict[str, Any]:
    """The results for JSON."""
    score = None if evaluation.score is None else evaluation.score.record()
    record: dict[str, Any] = {"run": str(out), "report": str(out / REPORT), "task": run.task}
    record |= {"estimator": run.estimator, "scores": run.scores, "test": None}
    record[evaluation.kind.replace("-", "_")] = score
    if not run.is_forecaster:
        choice = run.model.choice
        record["models"] = list(run.model.members)
        record["choice"] = None if choice is None else asdict(choice)
    if run.trained:
        from linoss.nn import count_parameters

        record["steps"] = run.n_steps
        record["parameters"] = sum(map(count_parameters, run.trained))
    return record


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


# ---- Score ----


def _summary(evaluation: Evaluation) -> list[Part]:
    """A paragraph with the score, a baseline, and the most frequent error."""
    score, of = evaluation.score, evaluation.of
    if isinstance(score, ClassScore):
        right, total = int(np.trace(score.confusion)), len(score.truth)
        often = int(np.argmax(score.cases))
        words = (
            f"{right} of {total} predictions for {of} are correct ({right / max(total, 1):.1%}). "
            f"Always predicting {score.classes[often]}, the most frequent class, would be correct "
            f"for {score.cases[often] / max(total, 1):.1%}."
        )
        confused = _confused(score)[:1]
        words += "".join(
            f" The most frequent error: {truth} is predicted as {predicted}: {count} cases."
            for truth, predicted, count in confused
        )
    elif isinstance(score, NumberScore):
        words = (
            f"The mean absolute error of predictions for {of} is {number(score.headline[1])}; "
            f"they explain {score.r2:.1%} of the variance (predicting the mean explains 0%)."
        )
    elif isinstance(score, ForecastScore):
        words = f"On {of}, {_compared_with_season(score.backtest)}."
    else:
        return []
    if evaluation.kind == "training":
        words += " The model was trained on these cases: expect lower scores for new ones."
    return [_text(words)]


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


def _score_facts(run: Run, evaluation: Evaluation) -> list[Part]:
    from linoss.nn import count_parameters

    score, test = evaluation.score, evaluation.test
    history, _ = run.history
    facts = []
    if score is not None:
        facts.append((f"{evaluation.kind} {score.headline[0]}", number(score.headline[1])))
    elif history:
        facts.append(("last training loss", number(history[-1]["loss"])))
    if isinstance(score, NumberScore):
        facts += [("R²", number(score.r2)), ("RMSE", number(score.rmse))]
    facts += [(_spelled(name), number(value)) for name, value in run.scores.items()]
    if run.trained:
        facts.append(("parameters", f"{sum(map(count_parameters, run.trained)):,}"))
    parts = [_facts(facts)]
    if not run.is_forecaster and run.model.choice is not None:
        parts.append(_text(f"{run.model.choice.why}."))
    if test is None:
        parts.append(_note("The data have no test part."))
    return parts


def _spelled(name: str) -> str:
    """The display name of a score."""
    part, metric = name.split(" ", 1)
    return f"{'best validation' if part == 'validation' else part} {figures.metric_name(metric)}"


# ---- Data and predictions ----


def _results(run: Run, evaluation: Evaluation, about: About) -> Iterator[Section]:
    """The data, predictions and errors."""
    if about.cases is not None:
        yield from _data(about, evaluation.score)
    score, note = evaluation.score, _note(f"Predictions for {evaluation.of}.")
    if isinstance(score, NumberScore):
        figure = _figure(figures.predicted_against_true(score), "small")
        yield Section("Predictions", [note, figure])
    elif isinstance(score, ClassScore):
        is_half = len(score.classes) < 8
        yield Section("Confusion", [note, *_confusion(score)], is_half)
        yield Section("Classes", [note, _table(score.rows(), CLASS_COLUMNS)], is_half)
        worst = score.mistakes(_MOST_MISTAKES)
        if len(worst):
            wrong = int((score.predicted != score.truth).sum())
            text = f"The most confident of {wrong} wrong predictions: check whether the labels are "
            figure = _figure(figures.mistakes(score, evaluation.cases, worst))
            yield Section("Worst mistakes", [_note(f"{text}correct."), figure])
    if run.is_forecaster:
        yield from _forecasts(run.model, evaluation)


def _data(about: About, score: Score | None) -> Iterator[Section]:
    """Tables that describe the data."""
    cases = about.cases
    rows = [("date", f"{about.when:%Y-%m-%d %H:%M %Z}")]
    rows += [] if about.seconds is None else [("duration", duration(about.seconds))]
    rows += [] if about.data is None else [("file", about.data.name)]
    if isinstance(cases, Table):
        names = ", ".join(map(str, cases.names[:8])) + ", ..." * (len(cases.names) > 8)
        first, last = (str(cases.index[0][i])[:19].replace("T", " ") for i in (0, -1))
        rows += [("series", f"{len(cases.series):,}"), ("variables", names)]
        rows += [("steps", _span([len(series) for series in cases.series]))]
        rows += [("from", first), ("to", last), ("missing values", _missing(cases.series))]
        yield Section("Data", [_table(rows, style="words")])
        return
    assert cases is not None
    names = f" ({', '.join(cases.names[:8])})" if cases.names is not None else ""
    rows += [("cases", f"{len(cases):,}"), ("channels", f"{cases.num_channels}{names}")]
    rows += [("length", _span(cases.lengths)), ("missing values", _missing(cases.values))]
    if cases.times is not None:
        usual = float(np.median(np.concatenate([np.diff(times) for times in cases.times])))
        rows.append(("median interval", f"{usual:.6g}"))
    yield Section("Data", [_table(rows, style="words")], isinstance(score, ClassScore))
    if isinstance(score, ClassScore):
        numbers = Counter(str(label) for label in np.asarray(cases.labels).tolist())
        table = _table(numbers.most_common(_MOST_CLASSES), ("class", "cases"))
        more = len(numbers) - _MOST_CLASSES
        parts = [table, _note(f"and {more} more classes")] if more > 0 else [table]
        yield Section("Cases of each class", parts, is_half=True)


def _span(lengths: Any) -> str:
    shortest, longest = int(np.min(lengths)), int(np.max(lengths))
    return f"{longest:,}" if shortest == longest else f"{shortest:,} to {longest:,}"


def _missing(arrays: Any) -> str:
    missing = sum(int(np.isnan(array).sum()) for array in arrays)
    total = sum(np.size(array) for array in arrays)
    return f"{missing:,} of {total:,} ({missing / total:.1%})" if missing else "none"


def _confusion(score: ClassScore) -> list[Part]:
    """The confusion matrix; for many classes, the most frequent confusions."""
    if len(score.classes) > _MOST_CLASSES:
        rows = _confused(score)[:_MOST_CLASSES]
        return [_table(rows, ("true", "predicted", "cases"))]
    totals = np.maximum(score.confusion.sum(axis=1), 1)
    rows = [
        (name, [(int(count), f"{0.55 * count / total:.3f}") for count in counts])
        for name, counts, total in zip(score.classes, score.confusion, totals, strict=True)
    ]
    note = _note("Rows are true classes, columns predicted ones.")
    return [note, {"kind": "confusion", "classes": score.classes, "rows": rows}]


def _confused(score: ClassScore) -> list[tuple[str, str, int]]:
    """True class, predicted class and number of cases, the most frequent errors first."""
    wrong = score.confusion * (1 - np.eye(len(score.classes), dtype=int))
    order = np.argsort(-wrong, axis=None, kind="stable")[: np.count_nonzero(wrong)]
    pairs = zip(*np.unravel_index(order, wrong.shape), strict=True)
    return [(score.classes[i], score.classes[j], int(wrong[i, j])) for i, j in pairs]


# ---- Forecasts ----


def _forecasts(forecaster: Any, evaluation: Evaluation) -> Iterator[Section]:
    score = evaluation.score
    if evaluation.forecasts:
        levels = ", with prediction intervals" * bool(evaluation.forecasts[0].intervals)
        note = _note(f"Forecasts of the last steps of the data{levels}.")
        yield Section("Forecast", [note, _figure(figures.forecast(evaluation.forecasts))])
    if isinstance(score, ForecastScore):
        most = _MOST_VARIABLES * len(score.backtest.forecasts)
        note = _note(f"On {evaluation.of}: {score.note}")
        yield Section("Errors", [note, _table(score.rows()[:most], score.header())])
        yield Section("Errors by horizon", [_figure(figures.errors_by_horizon(score.backtest))])
    if forecaster.known:
        effects = forecaster.known_effects()
        targets = list(next(iter(effects.values())))[:_MOST_VARIABLES]
        rows = [
            (name, *(number(row[each], 3) for each in targets)) for name, row in effects.items()
        ]
        note = _note(
            "The effect of each variable on each forecast: the standard deviation of its "
            "contribution to the linear part, in the unit of the target."
        )
        header = ("known", *map(str, targets))
        yield Section("Variables known in advance", [note, _table(rows, header)])


# ---- Model ----


def _model(run: Run, about: About) -> Iterator[Section]:
    """Learning curves, attributions and oscillators."""
    fitted = None if run.is_forecaster else run.model
    history, metric = run.history
    if run.trained:
        curves = [_figure(figures.learning_curves(history, metric))] if history else []
        yield Section("Learning curves", curves or [_text("There were no evaluations.")])
    if fitted is not None and isinstance(about.cases, Sequences):
        means = mean_attributions(fitted, about.cases)
        if means:
            yield Section("Attribution by period and time", _mean_attributions(means))
        explained = explained_cases(fitted, about.cases)
        if explained:
            yield Section("Attribution to each value", _attributions(explained))
    if fitted is not None and fitted.oscillators is not None:
        facts = bank_facts(fitted.oscillators)
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
    yield Section("Use this run", _use(run))
    settings = [
        (name, "none" if value is None else value)
        for name, value in run.parameters.items()
        if name != "verbose"
    ]
    yield Section("Settings", [_table(settings)], is_half=True)


def _mean_attributions(means: Sequence[Any]) -> list[Part]:
    note = _note(
        "Mean attribution for some training cases of each class, by period and part of the "
        "sequence: blue supports the class, orange opposes it."
    )
    parts = [note, _figure(figures.mean_attributions(means))]
    if len(means[0].channels) > 1:
        loudest = np.argsort(-np.abs(means[0].channels))[:_MOST_CHANNELS]
        rows = [(one.name, *(number(float(one.channels[i]), 2) for i in loudest)) for one in means]
        parts.append(_table(rows, ("attribution to", *(f"channel {i}" for i in loudest))))
    return parts


def _attributions(explained: Sequence[Any]) -> list[Part]:
    note = _note(
        "The contribution of each value to the output of the trained models, relative to channels "
        "at their mean: blue supports the prediction, orange opposes it. Titles have the sum of "
        "each channel."
    )
    names = [f"channel {i}" for i in range(len(explained[0].channels))]
    return [note, *(_figure(figures.attribution(one, names, most=2)) for one in explained)]


def _use(run: Run) -> list[Part]:
    commands = ["evaluate RUN DATA"]
    if run.is_forecaster:
        commands.append(f"forecast RUN --horizon {run.model.horizon} --out forecast.csv")
        commands.append("backtest RUN DATA")
    else:
        commands.append("predict RUN DATA --out predictions.csv")
    if run.supports_streaming:
        commands.append("stream RUN < samples.csv")
    commands.append("inspect RUN")
    return [
        _text("On the command line, where RUN is the directory of this page:"),
        _code(*(f"linoss {command}" for command in commands)),
        _text("In Python:"),
        _code(f"from linoss import {run.estimator}", f'model = {run.estimator}.load("RUN")'),
    ]


def _environment() -> Section:
    """Versions and the kind of machine, without personal data."""
    import jax

    from linoss import __version__
    from linoss.scan import resolve_engine

    rows = [
        ("linoss", __version__),
        ("engine", resolve_engine("auto")),
        ("jax", jax.__version__),
        ("device", jax.default_backend()),
        ("numpy", np.__version__),
        ("python", platform.python_version()),
        ("system", platform.system()),
        ("machine", platform.machine()),
    ]
    return Section("Environment", [_table(rows)], is_half=True)


# ---- Searches ----


def counts(study: Study) -> str:
    """The number of trials in each state, as text."""
    parts = [f"{study.count(state)} {state}" for state in _STATES if study.count(state)]
    return ", ".join(parts) or "no trials"


def _best(study: Study, score: Score | None) -> list[Part]:
    best = study.best
    if best is None:
        return [_text("No trial is complete.")]
    facts = [(f"validation {figures.metric_name(study.metric)}", number(best.value))]
    if score is not None:
        facts.append((f"test {score.headline[0]}", number(score.headline[1])))
    facts.append(("trial", str(best.number)))
    use = (
        "Its run is in the directory best, beside this page. It was selected by the validation "
        "part only."
    )
    rows = [(name, figures.word(value)) for name, value in best.parameters.items()]
    return [_facts(facts), _text(use), _table(rows)]


def trial_header(study: Study) -> list[str]:
    """The header of a table of trials."""
    return ["trial", "state", study.metric, *study.space, "time"]


def trial_rows(study: Study, most: int | None = None) -> list[list[str]]:
    """Complete trials, the best first, then the others."""
    ranked = study.ranked
    chosen = {trial.number for trial in ranked}
    order = [*ranked, *(trial for trial in study.trials if trial.number not in chosen)]
    return [_trial_row(study, trial) for trial in order[:most]]


def _trial_row(study: Study, trial: Trial) -> list[str]:
    time = "–" if trial.seconds is None else duration(trial.seconds)
    settings = trial.parameters
    cells = [figures.word(settings[name]) if name in settings else "–" for name in study.space]
    return [str(trial.number), trial.state, number(trial.value), *cells, time]
