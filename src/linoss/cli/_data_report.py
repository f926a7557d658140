"""The first part of a report: a summary, the data, predictions and errors."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from linoss._stderr import duration
from linoss.cli import _pictures as pictures
from linoss.cli._forecast_report import forecast_summary
from linoss.cli._html import section, table, text
from linoss.cli._output import number
from linoss.cli._scores import CLASS_COLUMNS, ClassScore, Evaluation, NumberScore

_MOST_CLASSES = 20
_MOST_MISTAKES = 6
_CASES = {
    "test": "the test part",
    "held-out": "held-out training cases",
    "validation": "the validation cases",
    "training": "the training cases",
}


@dataclass(frozen=True, eq=False)
class About:
    """The data of a report."""

    data: Path | None = None
    cases: Any = None
    """The training or evaluation data: sequences, or a table."""
    seconds: float | None = None
    """The duration of the fit."""
    when: datetime = field(default_factory=lambda: datetime.now().astimezone())


# ---- Summary ----


def summary(evaluation: Evaluation) -> str:
    """A paragraph with the score, a baseline, and the most frequent error."""
    score, of = evaluation.score, _CASES[evaluation.kind]
    if isinstance(score, ClassScore):
        right, total = int(np.trace(score.confusion)), int(score.cases.sum())
        often = int(np.argmax(score.cases))
        words = (
            f"{right} of {total} predictions for {of} are correct ({right / max(total, 1):.1%}). "
            f"Always predicting {score.classes[often]}, the most frequent class, would be correct "
            f"for {score.cases[often] / max(total, 1):.1%}."
        )
        wrong = score.confusion - np.diag(np.diag(score.confusion))
        if wrong.any():
            i, j = np.unravel_index(np.argmax(wrong), wrong.shape)
            words += (
                f" The most frequent error: {score.classes[i]} is predicted as "
                f"{score.classes[j]}: {wrong[i, j]} of {score.cases[i]} cases."
            )
    elif isinstance(score, NumberScore):
        words = (
            f"The mean absolute error of predictions for {of} is {number(score.headline[1])}; "
            f"they explain {score.r2:.1%} of the variance (predicting the mean explains 0%)."
        )
    else:
        words = forecast_summary(evaluation)
    if evaluation.kind == "training":
        words += " The model was trained on these cases: expect lower scores for new ones."
    return f"<p>{text(words)}</p>" if words else ""


# ---- Data ----


def data_section(about: About, evaluation: Evaluation) -> list[str]:
    """A table that describes the data; none if they are not known."""
    if about.cases is None:
        return []
    rows = [("date", f"{about.when:%Y-%m-%d %H:%M %Z}")]
    if about.seconds is not None:
        rows.append(("duration", duration(about.seconds)))
    if about.data is not None:
        rows.append(("file", about.data.name))
    is_table = hasattr(about.cases, "series")
    rows += _table_facts(about.cases) if is_table else _case_facts(about.cases)
    parts = [table((), rows, "why")]
    counts = None if is_table else _class_counts(about, evaluation)
    if counts:
        shown = counts.most_common(_MOST_CLASSES)
        parts.append(table(("class", "cases"), shown))
        if len(counts) > len(shown):
            parts.append(f'<p class="soft">and {len(counts) - len(shown)} more classes</p>')
    if len(parts) == 1:
        return [section("Data", parts[0])]
    return [
        section(
            "Data",
            f'<div class="columns"><div>{parts[0]}</div><div>{"".join(parts[1:])}</div></div>',
        )
    ]


def _class_counts(about: About, evaluation: Evaluation) -> Counter[str]:
    if not isinstance(evaluation.score, ClassScore):
        return Counter()
    return Counter(str(label) for label in np.asarray(about.cases.labels).tolist())


def _case_facts(cases: Any) -> list[tuple[str, str]]:
    shortest, longest = int(cases.lengths.min()), int(cases.lengths.max())
    channels = str(cases.num_channels)
    if cases.names is not None and cases.num_channels <= 8:
        channels += f" ({', '.join(cases.names)})"
    missing = sum(int(np.isnan(case).sum()) for case in cases.values)
    samples = int(cases.lengths.sum())
    return [
        ("cases", f"{len(cases):,}"),
        ("channels", channels),
        ("length", f"{longest:,}" if shortest == longest else f"{shortest:,} to {longest:,}"),
        ("missing values", _missing(missing, samples * cases.num_channels)),
        ("sampling", _sampling(cases.times)),
    ]


def _table_facts(data: Any) -> list[tuple[str, str]]:
    lengths = [len(series) for series in data.series]
    missing = sum(int(np.isnan(series).sum()) for series in data.series)
    values = sum(series.size for series in data.series)
    steps = (
        f"{min(lengths):,}"
        if min(lengths) == max(lengths)
        else f"{min(lengths):,} to {max(lengths):,}"
    )
    return [
        ("series", f"{len(data.series):,}"),
        (
            "variables",
            ", ".join(map(str, data.names[:8])) + (", ..." if len(data.names) > 8 else ""),
        ),
        ("steps", steps),
        ("from", str(data.index[0][0])[:19].replace("T", " ")),
        ("to", str(data.index[0][-1])[:19].replace("T", " ")),
        ("missing values", _missing(missing, values)),
        ("times", "irregular" if data.irregular else "in regular steps"),
    ]


def _missing(missing: int, values: int) -> str:
    return f"{missing:,} of {values:,} ({missing / values:.1%})" if missing else "none"


def _sampling(times: Any) -> str:
    steps = [] if times is None else [np.diff(t) for t in times if len(t) > 1]
    if not steps:
        return "no times: samples are numbered"
    usual = float(np.median([np.median(step) for step in steps]))
    even = all(np.allclose(step, usual, rtol=0.01) for step in steps)
    return f"every {usual:.6g}" if even else f"irregular, median interval {usual:.6g}"


# ---- Predictions ----


def prediction_sections(evaluation: Evaluation) -> list[str]:
    """Confusion matrix, precision, recall and the worst errors; for regression, predicted and
    true."""
    score, of = evaluation.score, _CASES[evaluation.kind]
    note = f'<p class="soft">Predictions for {of}.</p>'
    if isinstance(score, NumberScore):
        picture = pictures.svg(pictures.predicted_against_true(score), "Predicted and true values")
        return [section("Predictions", note + picture.replace("<svg", '<svg class="small"', 1))]
    if not isinstance(score, ClassScore):
        return []
    confusion = section("Confusion", note + _confusion(score))
    classes = section("Classes", note + table(CLASS_COLUMNS, score.rows()))
    few = len(score.classes) < 8
    parts = ['<div class="columns">', confusion, classes, "</div>"] if few else [confusion, classes]
    return [*parts, *_mistakes(score, evaluation.cases)]


def _mistakes(score: ClassScore, cases: Any) -> list[str]:
    """The wrongly classified series with the highest confidence."""
    worst = score.mistakes(_MOST_MISTAKES)
    if not len(worst):
        return []
    wrong = int(score.cases.sum() - np.trace(score.confusion))
    shown = [
        pictures.Mistake(
            f"case {i if cases.ids is None else cases.ids[i]}",
            score.classes[score.truth[i]],
            score.classes[score.predicted[i]],
            float(score.probabilities[i, score.predicted[i]]),
            np.asarray(cases.values[i]),
        )
        for i in worst
    ]
    note = (
        f'<p class="soft">The most confident of {wrong} wrong predictions: check whether the '
        "labels are correct.</p>"
    )
    picture = pictures.svg(pictures.mistakes_plot(shown), "Mistakes")
    return [section("Worst mistakes", note + picture)]


def _confusion(score: ClassScore) -> str:
    """The confusion matrix; for many classes, the most frequent confusions."""
    if len(score.classes) > _MOST_CLASSES:
        wrong = score.confusion - np.diag(np.diag(score.confusion))
        places = np.argsort(-wrong, axis=None, kind="stable")[:_MOST_CLASSES]
        pairs = [np.unravel_index(place, wrong.shape) for place in places if wrong.flat[place]]
        rows = [(score.classes[i], score.classes[j], wrong[i, j]) for i, j in pairs]
        return table(("true", "predicted", "cases"), rows)
    total = np.maximum(score.confusion.sum(axis=1, keepdims=True), 1)
    head = "".join(f'<th class="name">{text(name)}</th>' for name in score.classes)
    rows = []
    for name, counts, shares in zip(
        score.classes, score.confusion, score.confusion / total, strict=True
    ):
        cells = "".join(
            f'<td style="background: rgba(var(--mark), {0.55 * share:.3f})">{count}</td>'
            for count, share in zip(counts, shares, strict=True)
        )
        rows.append(f'<tr><th class="name">{text(name)}</th>{cells}</tr>')
    return (
        '<p class="soft">Rows are true classes, columns predicted ones.</p>'
        f'<table class="confusion"><tr><th></th>{head}</tr>{"".join(rows)}</table>'
    )
