"""report.html of a search: a self-contained page about all trials."""

from pathlib import Path

from linoss._files import write_text
from linoss._stderr import duration
from linoss.cli import _study_pictures as pictures
from linoss.cli._output import number
from linoss.cli._pictures import metric_name, svg
from linoss.cli._report import _section, _table, _text, environment, page
from linoss.cli._scores import Score
from linoss.search import Study, Trial

_STATES = ("complete", "pruned", "failed", "running", "waiting")


def write_study_report(path: Path, study: Study, score: Score | None) -> None:
    """Write the page; `score` is that of the best trial on the test part."""
    write_text(path, study_report(study, score))


def study_report(study: Study, score: Score | None) -> str:
    """The page."""
    sections = [_section("Best", _best(study, score))]
    if study.trials:
        sections.append(_section("Course", svg(pictures.course(study), "Value of each trial")))
        sections.append(_section("Learning curves", svg(pictures.curves(study), "Learning curves")))
    if study.best is not None:
        note = '<p class="soft">The best trial is circled.'
        if study.importance:
            note += " Percentages are the importance of each parameter."
        picture = svg(pictures.slices(study), "Values over parameters")
        sections.append(_section("Parameters", f"{note}</p>{picture}"))
    trials = _table(trial_header(study), trial_rows(study), style="trials")
    sections.append(_section("Trials", trials))
    errors = [(t.number, f"{t.error[:300]}") for t in study.trials if t.error is not None]
    if errors:
        sections.append(_section("Failures", _table(("trial", "why"), errors, style="why")))
    sections.append(_section("Environment", _table((), environment())))
    return page("linoss: search", _text(f"study {study.name}, {counts(study)}"), sections)


def counts(study: Study) -> str:
    """The number of trials in each state, as text."""
    parts = [f"{study.count(state)} {state}" for state in _STATES if study.count(state)]
    return ", ".join(parts) or "no trials"


def _best(study: Study, score: Score | None) -> str:
    best = study.best
    if best is None:
        return "<p>No trial is complete.</p>"
    facts = [(f"validation {metric_name(study.metric)}", number(best.value))]
    if score is not None:
        name, value = score.headline
        facts.append((f"test {name}", number(value)))
    facts.append(("trial", str(best.number)))
    first, *others = [f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>" for name, value in facts]
    shown = f'<div class="main">{first}</div>' + "".join(f"<div>{e}</div>" for e in others)
    names = list(best.parameters)
    rows = zip(names, pictures.parameter_cells(best, names), strict=True)
    use = (
        "<p></p><p>Its run is in <code>best</code>, in the directory of this page. It was "
        "selected by the validation part only.</p>"
    )
    return f'<dl class="facts">{shown}</dl>{use}{_table((), rows)}'


def trial_header(study: Study) -> list[str]:
    """The header of a table of trials."""
    return ["trial", "state", study.metric, *study.space, "time"]


def trial_rows(study: Study, most: int | None = None) -> list[list[str]]:
    """Complete trials, the best first, then the others."""
    ranked = study.ranked
    chosen = {trial.number for trial in ranked}
    order = [*ranked, *(trial for trial in study.trials if trial.number not in chosen)]
    return [_row(study, trial) for trial in order[:most]]


def _row(study: Study, trial: Trial) -> list[str]:
    taken = "–" if trial.seconds is None else duration(trial.seconds)
    cells = pictures.parameter_cells(trial, list(study.space))
    return [str(trial.number), trial.state, number(trial.value), *cells, taken]
