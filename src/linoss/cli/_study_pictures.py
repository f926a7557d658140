"""Figures of a search: its progress, learning curves, and the effect of each parameter."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from linoss.cli._pictures import _FAINT, _INK, _LINES, _RC, _plain_logarithm, metric_name
from linoss.search import Study, Trial

_DOT: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 5, "markeredgewidth": 0}
_MOST_CURVES = 200


def course(study: Study) -> Figure:
    """The value of each trial, and the best so far."""
    with rc_context(_RC):
        figure = Figure(figsize=(8, 3.1), layout="constrained")
        axes = figure.subplots()
        shown = [t for t in study.trials if t.value is not None]
        for state, color in (("complete", _LINES[0]), ("pruned", _LINES[7])):
            chosen = [t for t in shown if t.state == state]
            if chosen:
                x, y = [t.number for t in chosen], [float(t.value or 0) for t in chosen]
                axes.plot(x, y, color=color, label=state, alpha=0.8, **_DOT)
        complete = [t for t in shown if t.state == "complete"]
        if complete:
            better = np.maximum if study.higher_is_better else np.minimum
            best = better.accumulate([float(t.value or 0) for t in complete])
            numbers = [t.number for t in complete]
            axes.step(numbers, best, color=_LINES[1], where="post", label="best so far")
        name = metric_name(study.metric)
        axes.set(title=f"Validation {name} of each trial", xlabel="trial")
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        if shown:
            figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def curves(study: Study) -> Figure:
    """The learning curve of each trial, with the best one on top."""
    with rc_context(_RC):
        figure = Figure(figsize=(8, 2.9), layout="constrained")
        axes = figure.subplots()
        best = study.best
        for trial in study.trials[-_MOST_CURVES:]:
            if trial.curve and trial != best:
                axes.plot(*np.transpose(trial.curve), color=_FAINT, linewidth=1)
        if best is not None and best.curve:
            mark = "o" if len(best.curve) == 1 else ""
            axes.plot(*np.transpose(best.curve), color=_LINES[1], linewidth=2, marker=mark)
        name = metric_name(study.metric)
        axes.set(title=f"Validation {name}, best trial in colour", xlabel="step")
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    return figure


def slices(study: Study) -> Figure:
    """Values over each parameter; the best trial is circled."""
    names = list(study.space)
    columns = min(len(names), 3)
    rows = math.ceil(len(names) / columns)
    with rc_context(_RC):
        figure = Figure(figsize=(8, 0.4 + 2.3 * rows), layout="constrained")
        panels = figure.subplots(rows, columns, squeeze=False, sharey=True).ravel()
        for axes, name in zip(panels, names, strict=False):
            _slice(axes, study, name)
        for axes in panels[len(names) :]:
            axes.set_visible(False)
        figure.supylabel(metric_name(study.metric), fontsize=10, color=_INK)
    return figure


def _slice(axes: Any, study: Study, name: str) -> None:
    place = _places(study, name)
    for state, color in (("pruned", _LINES[7]), ("complete", _LINES[0])):
        chosen = [
            t
            for t in study.trials
            if t.state == state and t.value is not None and name in t.parameters
        ]
        x, y = [place(t) for t in chosen], [t.value for t in chosen]
        axes.plot(x, y, color=color, alpha=0.7, **_DOT)
    best = study.best
    if best is not None:
        look = {**_DOT, "markersize": 10, "markeredgewidth": 1.2, "fillstyle": "none"}
        axes.plot([place(best)], [best.value], color=_LINES[1], **look)
    share = study.importance.get(name)
    axes.set_title(name if share is None else f"{name}, {100 * share:.0f} %")
    values = study.space[name]
    if isinstance(values, list):
        axes.set_xticks(range(len(values)), [_word(value) for value in values])
        axes.set_xlim(-0.5, len(values) - 0.5)
    elif values["log"]:
        axes.set_xscale("log")
        _plain_logarithm(axes.xaxis)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=isinstance(values["low"], int)))


def _places(study: Study, name: str) -> Any:
    """The positions of trials on the axis of a parameter."""
    values = study.space[name]
    if not isinstance(values, list):
        return lambda trial: trial.parameters[name]
    places = {_word(value): i for i, value in enumerate(values)}
    return lambda trial: places[_word(trial.parameters[name])]


def _word(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else f"{value:.4g}"


def parameter_cells(trial: Trial, names: Sequence[str]) -> list[str]:
    """The parameters of a trial as cells of a table."""
    found = trial.parameters
    return [_word(found[name]) if name in found else "–" for name in names]
