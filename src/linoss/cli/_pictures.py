"""Figures of a run: learning curves, predicted and true values, forecasts, the spectrum.

Drawn by Matplotlib. In a report the colours are those of the page, in light and dark mode.
"""

import io
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from linoss._files import write_file
from linoss.cli._attribution import ExplainedCase
from linoss.cli._inspect import BlockSpectrum
from linoss.cli._scores import NumberScore

_INK, _FAINT = "#1c1f26", "#c9ced6"
_LINES = ("#1f77d0", "#d9622b", "#2a9d5c", "#8a5bd6", "#b8860b", "#c2477f", "#1797a6", "#7a7f87")
_DARK = ("#5aa9f5", "#f58a55", "#52c78a", "#b08df0", "#dcae3c", "#ec7aad", "#4cc4d3", "#a9afb8")
_MOST_POINTS = 2000
_MOST_CHANNELS = 4  # most samples of a misclassified series
_RC: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "linoss",
    "font.size": 10,
    "font.family": "sans-serif",
    "text.color": _INK,
    "text.parse_math": False,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _FAINT,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": _FAINT,
    "grid.linewidth": 0.5,
    "xtick.color": _FAINT,
    "ytick.color": _FAINT,
    "xtick.labelcolor": _INK,
    "ytick.labelcolor": _INK,
    "legend.frameon": False,
    "figure.facecolor": "none",
}


def learning_curves(history: Sequence[dict[str, Any]], metric: str) -> Figure:
    """Loss and, if there was a validation part, the metric over steps."""
    steps = [record["step"] for record in history]
    scored = [r for r in history if r["metric"] is not None]
    with rc_context(_RC):
        figure = Figure(figsize=(8, 2.9), layout="constrained")
        panels = figure.subplots(1, 2 if scored else 1, squeeze=False)[0]
        mark = "o" if len(steps) <= 40 else ""
        losses = [record["loss"] for record in history]
        panels[0].plot(steps, losses, color=_LINES[0], marker=mark, markersize=3)
        panels[0].set(title="Training loss", xlabel="step")
        if min(losses) > 0 and max(losses) > 20 * min(losses):
            panels[0].set_yscale("log")
            _plain_logarithm(panels[0].yaxis)
        if scored:
            x, y = [r["step"] for r in scored], [r["metric"] for r in scored]
            panels[1].plot(x, y, color=_LINES[1], marker=mark, markersize=3)
            best = next(r for r in reversed(scored) if r["metric"] == scored[-1]["best"])
            at = (best["step"], best["metric"])
            panels[1].plot(*at, "o", color=_LINES[1], markersize=8, fillstyle="none")
            panels[1].set(title=f"Validation {metric_name(metric)}, best circled", xlabel="step")
        for axes in panels:
            axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    return figure


def predicted_against_true(score: NumberScore) -> Figure:
    """Predictions over labels, with the diagonal."""
    known = np.isfinite(score.truth)
    truth, found = score.truth[known], score.predicted[known]
    if len(truth) > _MOST_POINTS:
        chosen = np.linspace(0, len(truth) - 1, _MOST_POINTS).astype(int)
        truth, found = truth[chosen], found[chosen]
    with rc_context(_RC):
        figure = Figure(figsize=(4.6, 4.2), layout="constrained")
        axes = figure.subplots()
        ends = [min(truth.min(), found.min()), max(truth.max(), found.max())]
        axes.plot(ends, ends, color=_INK, linewidth=0.8, linestyle="--")
        axes.plot(truth, found, "o", color=_LINES[0], markersize=4, alpha=0.6, markeredgewidth=0)
        axes.set(title="Predicted and true values", xlabel="true", ylabel="predicted")
    return figure


@dataclass(frozen=True, eq=False)
class Mistake:
    """A wrong prediction, and its series `(time, channels)`."""

    name: str
    truth: str
    answer: str
    share: float
    values: np.ndarray


def mistakes_plot(found: Sequence[Mistake]) -> Figure:
    """Misclassified series; the first of many channels, a subset of many samples."""
    rows = -(-len(found) // 2)
    with rc_context(_RC):
        figure = Figure(figsize=(8, 0.3 + 1.9 * rows), layout="constrained")
        panels = figure.subplots(rows, min(len(found), 2), squeeze=False)
        for axes, one in zip(panels.flat, found, strict=False):
            places = np.unique(np.linspace(0, len(one.values) - 1, _MOST_POINTS).astype(int))
            for channel in range(min(one.values.shape[1], _MOST_CHANNELS)):
                color = _LINES[channel % len(_LINES)]
                axes.plot(places, one.values[places, channel], color=color, linewidth=1)
            answer = f"predicted {_short(one.answer, 16)} ({one.share:.0%})"
            axes.set_title(f"{_short(one.name, 14)}: {_short(one.truth, 16)}, {answer}", fontsize=9)
        for axes in panels.flat[len(found) :]:
            axes.set_visible(False)
    return figure


def mean_attribution_plot(means: Sequence[ExplainedCase]) -> Figure:
    """Mean attributions of several outputs to periods and times, as percents of the sequence."""
    rows = -(-len(means) // 2)
    with rc_context({**_RC, "axes.grid": False}):
        figure = Figure(figsize=(8, 0.4 + 2.4 * rows), layout="constrained")
        panels = figure.subplots(rows, min(len(means), 2), squeeze=False, sharey=True)
        for axes, one in zip(panels.flat, means, strict=False):
            _draw_periods(axes, one)
        for axes in panels.flat[len(means) :]:
            axes.set_visible(False)
        for axes in panels[-1]:
            axes.set_xlabel("part of the sequence, in percent")
        for axes in panels[:, 0]:
            axes.set_ylabel("period")
    return figure


def attribution_plot(shown: ExplainedCase, names: list[str], most: int = 6) -> Figure:
    """One case: by period and time, or the values of the channels that contribute most."""
    with rc_context({**_RC, "axes.grid": False}):
        if shown.periods is not None:
            figure = Figure(figsize=(8, 3.2), layout="constrained")
            axes = figure.subplots()
            _draw_periods(axes, shown)
            axes.set(xlabel="time", ylabel="period")
            return figure
        channels = np.argsort(-np.abs(shown.values).sum(axis=1), kind="stable")[:most]
        figure = Figure(figsize=(8, 0.9 + 1.5 * len(channels)), layout="constrained")
        panels = figure.subplots(len(channels), 1, squeeze=False, sharex=True)[:, 0]
        for axes, channel in zip(panels, np.sort(channels).tolist(), strict=True):
            _draw_channel(axes, shown, channel)
            axes.set_title(f"{_short(names[channel], 40)}: {shown.channels[channel]:+.3g}")
        panels[-1].set_xlabel("time")
        figure.suptitle(_short(shown.name, 60), fontweight="bold", x=0.01, ha="left")
    return figure


def _draw_periods(axes: Any, shown: ExplainedCase) -> None:
    colors = _for_and_against(shown.values)
    axes.pcolormesh(shown.times, shown.periods, colors, rasterized=True)
    axes.set_yscale("log")
    _plain_logarithm(axes.yaxis)
    axes.set_title(_short(shown.name, 60))


def _draw_channel(axes: Any, shown: ExplainedCase, channel: int) -> None:
    """The values of a channel over the attribution to them."""
    assert shown.samples is not None
    series, times = shown.samples[channel], shown.times
    half = np.diff(times) / 2 if len(times) > 1 else np.array([0.5])
    edges = np.r_[times[0] - half[0], times[:-1] + half[: len(times) - 1], times[-1] + half[-1]]
    known = series[np.isfinite(series)]
    low, high = (known.min(), known.max()) if len(known) else (0.0, 1.0)
    margin = 0.08 * (high - low) or 1.0
    colors = _for_and_against(shown.values)[channel][None]
    axes.pcolormesh(edges, (low - margin, high + margin), colors, rasterized=True)
    axes.plot(times, series, color=_INK, linewidth=0.9)


def _for_and_against(values: np.ndarray) -> np.ndarray:
    """Colours: blue for an output, orange against it, stronger for larger values."""
    strength = values / max(np.abs(values).max(), 1e-30)
    colors = np.where(strength[..., None] > 0, to_rgb(_LINES[0]), to_rgb(_LINES[1]))
    return np.concatenate([colors, np.abs(strength)[..., None]], axis=-1)


def spectrum(banks: Sequence[BlockSpectrum]) -> Figure:
    """Eigenvalues in the complex plane, and decay time over period, with a colour for each
    layer."""
    with rc_context(_RC):
        figure = Figure(figsize=(8.6, 4.3), layout="constrained")
        plane, times = figure.subplots(1, 2)
        plane.add_patch(Circle((0, 0), 1, fill=False, edgecolor=_INK, linewidth=0.8))
        dots: dict[str, Any] = {"linestyle": "", "markersize": 4, "markeredgewidth": 0}
        for i, bank in enumerate(banks):
            color = _LINES[i % len(_LINES)]
            values = bank.eigenvalues.ravel()
            look = {**dots, "marker": "o", "color": color, "alpha": 0.65}
            plane.plot(np.real(values), np.imag(values), label=_short(bank.name, 24), **look)
        plane.set(title="Eigenvalues of one step", xlabel="real part", ylabel="imaginary part")
        plane.set(xlim=(-1.08, 1.08), ylim=(-1.08, 1.08), aspect="equal")
        plane.set_xticks([-1, -0.5, 0, 0.5, 1])
        plane.set_yticks([-1, -0.5, 0, 0.5, 1])
        _draw_times(times, banks, dots)
        legend_below(figure, plane)
    return figure


def legend_below(figure: Figure, panel: Any) -> None:
    """Name the lines of a panel below the figure, where they cover nothing."""
    handles, names = panel.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=min(len(names), 5))


def _draw_times(axes: Any, banks: Sequence[BlockSpectrum], dots: dict[str, Any]) -> None:
    """Oscillators by period and decay time; infinite values on a line beyond the others."""
    periods = np.concatenate([bank.periods for bank in banks])
    decays = np.concatenate([bank.decay_times for bank in banks])
    right, top = _beyond(periods), _beyond(decays)
    for i, bank in enumerate(banks):
        x, y = np.minimum(bank.periods, right), np.minimum(bank.decay_times, top)
        look = {**dots, "marker": "o", "color": _LINES[i % len(_LINES)], "alpha": 0.65}
        axes.plot(x, y, **look)
    axes.set(xscale="log", yscale="log", title="Period and decay time")
    axes.set(xlabel="period in samples", ylabel="decay time in samples", box_aspect=1)
    _plain_logarithm(axes.xaxis)
    _plain_logarithm(axes.yaxis)
    line: dict[str, Any] = {"color": _FAINT, "linestyle": ":", "linewidth": 1}
    if np.isinf(periods).any():
        axes.axvline(right, **line)
        place = {"ha": "right", "va": "bottom", "transform": axes.get_xaxis_transform()}
        axes.text(right, 0.02, "no oscillation", rotation=90, **place)
    if np.isinf(decays).any():
        axes.axhline(top, **line)
        place = {"ha": "left", "va": "bottom", "xycoords": axes.get_yaxis_transform()}
        offset = {"xytext": (0, 4), "textcoords": "offset points"}
        axes.annotate("no decay", (0.02, top), **offset, **place)
        axes.margins(y=0.1)


def _plain_logarithm(axis: Any) -> None:
    """Label ticks with numbers instead of formulas, which SVG text cannot show."""
    low, high = axis.get_view_interval()
    subs = (1, 2, 3, 5, 7) if high < 10 * low else (1, 2, 5) if high < 200 * low else (1,)
    axis.set_major_locator(LogLocator(10, subs=subs, numticks=8))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())


def _beyond(times: np.ndarray) -> float:
    """The position of infinite times."""
    finite = times[np.isfinite(times)]
    return 4 * float(finite.max()) if len(finite) else 1.0


def svg(figure: Figure, title: str) -> str:
    """A figure as SVG, in the colours of the page."""
    content = io.StringIO()
    with rc_context(_RC), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about glyphs that only the reader's fonts have
        FigureCanvasSVG(figure).print_svg(content, metadata={"Date": None})  # savefig draws twice
    text = content.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    names = {_INK: "ink", _FAINT: "faint", **{c: f"line-{i}" for i, c in enumerate(_LINES)}}
    for color, name in names.items():
        text = text.replace(color, f"var(--{name})")
    head, rest = text.split(">", 1)
    head = re.sub(r' (width|height)="[^"]*pt"', "", head)
    return f'{head} role="img" aria-label="{title}">{rest}'


def palette(*, dark: bool) -> str:
    """The line colours as CSS."""
    return " ".join(f"--line-{i}: {color};" for i, color in enumerate(_DARK if dark else _LINES))


def metric_name(metric: str) -> str:
    """The display name of a metric."""
    return metric.upper() if len(metric) <= 4 else metric


def save(figure: Figure, path: Path) -> None:
    """Save a figure to a file, by its suffix, on white."""
    formats = sorted(figure.canvas.get_supported_filetypes())
    kind = path.suffix.lower().removeprefix(".")
    if kind not in formats:
        raise ValueError(f"{path}: expected a suffix among {', '.join(formats)}")
    content = io.BytesIO()
    with rc_context(_RC):
        figure.savefig(content, format=kind, dpi=150, facecolor="white")
    write_file(path, content.getvalue())


def _short(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
