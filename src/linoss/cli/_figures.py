"""Figures of runs and searches, drawn by Matplotlib.

In a report their colours are those of the page, in light and dark mode.
"""

import io
import math
import re
import warnings
from collections.abc import Callable, Sequence
from functools import wraps
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import rc_context
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import to_rgb
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from linoss._files import write_file

if TYPE_CHECKING:
    from linoss.cli._attribution import ExplainedCase
    from linoss.cli._inspect import Spectrum
    from linoss.cli._scores import ClassScore, NumberScore
    from linoss.data import Table
    from linoss.forecasting import Backtest
    from linoss.search import Study, Trial

LIGHT = ("#1f77d0", "#d9622b", "#2a9d5c", "#8a5bd6", "#b8860b", "#c2477f", "#1797a6", "#7a7f87")
DARK = ("#5aa9f5", "#f58a55", "#52c78a", "#b08df0", "#dcae3c", "#ec7aad", "#4cc4d3", "#a9afb8")
_BLUE, _ORANGE, _GREY = LIGHT[0], LIGHT[1], LIGHT[7]
_INK, _FAINT = "#1c1f26", "#c9ced6"
_DOT: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 5, "markeredgewidth": 0}
_MOST_POINTS, _MOST_CHANNELS = 2000, 4
_CYCLES = 4  # horizons of past
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


def _styled(draw: Callable[..., Figure]) -> Callable[..., Figure]:
    @wraps(draw)
    def styled(*args: Any, **options: Any) -> Figure:
        with rc_context(_RC):
            return draw(*args, **options)

    return styled


def _panels(
    count: int, columns: int, height: float, extra: float = 0.4, **shared: Any
) -> tuple[Figure, list[Any]]:
    """A figure of some panels, each of a height in inches."""
    columns = min(count, columns)
    rows = math.ceil(count / columns)
    figure = Figure(figsize=(8, extra + height * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False, **shared).ravel().tolist()
    for axes in panels[count:]:
        axes.set_visible(False)
    return figure, panels[:count]


# ---- Training and predictions ----


@_styled
def learning_curves(history: Sequence[dict[str, Any]], metric: str) -> Figure:
    """Loss and, if there was a validation part, the metric over steps."""
    steps, losses = [r["step"] for r in history], [r["loss"] for r in history]
    scored = [r for r in history if r["metric"] is not None]
    figure, panels = _panels(2 if scored else 1, 2, 2.5)
    look: Any = {"marker": "o" if len(steps) <= 40 else "", "markersize": 3}
    panels[0].plot(steps, losses, color=_BLUE, **look)
    panels[0].set(title="Training loss", xlabel="step")
    if min(losses) > 0 and max(losses) > 20 * min(losses):
        panels[0].set_yscale("log")
        _plain_logarithm(panels[0].yaxis)
    if scored:
        x, y = [r["step"] for r in scored], [r["metric"] for r in scored]
        panels[1].plot(x, y, color=_ORANGE, **look)
        best = next(r for r in reversed(scored) if r["metric"] == scored[-1]["best"])
        circle: Any = {"marker": "o", "markersize": 8, "fillstyle": "none"}
        panels[1].plot(best["step"], best["metric"], color=_ORANGE, **circle)
        panels[1].set(title=f"Validation {metric_name(metric)}, best circled", xlabel="step")
    for axes in panels:
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    return figure


@_styled
def predicted_against_true(score: "NumberScore") -> Figure:
    """Predictions over labels, with the diagonal."""
    known = np.isfinite(score.truth)
    truth, predicted = score.truth[known], score.predicted[known]
    chosen = _thinned(len(truth))
    truth, predicted = truth[chosen], predicted[chosen]
    figure = Figure(figsize=(4.6, 4.2), layout="constrained")
    axes = figure.subplots()
    ends = [min(truth.min(), predicted.min()), max(truth.max(), predicted.max())]
    axes.plot(ends, ends, color=_INK, linewidth=0.8, linestyle="--")
    axes.plot(truth, predicted, color=_BLUE, alpha=0.6, **{**_DOT, "markersize": 4})
    axes.set(title="Predicted and true values", xlabel="true", ylabel="predicted")
    return figure


@_styled
def mistakes(score: "ClassScore", cases: Any, chosen: np.ndarray) -> Figure:
    """Wrongly classified series; the first of many channels, a subset of many samples."""
    figure, panels = _panels(len(chosen), 2, 1.9, 0.3)
    for axes, i in zip(panels, chosen.tolist(), strict=True):
        series = np.asarray(cases.values[i])
        samples = _thinned(len(series))
        for channel in range(min(series.shape[1], _MOST_CHANNELS)):
            axes.plot(samples, series[samples, channel], color=LIGHT[channel], linewidth=1)
        name = f"case {i if cases.ids is None else cases.ids[i]}"
        truth, predicted = score.classes[score.truth[i]], score.classes[score.predicted[i]]
        share = f"{score.probabilities[i, score.predicted[i]]:.0%}"
        title = f"{_short(name, 14)}: {_short(truth, 16)}, predicted {_short(predicted, 16)}"
        axes.set_title(f"{title} ({share})", fontsize=9)
    return figure


# ---- Attribution ----


@_styled
def attribution(shown: "ExplainedCase", names: Sequence[str], most: int = 6) -> Figure:
    """One case: by period and time, or the values of the channels that contribute most."""
    if shown.periods is not None:
        figure, (axes,) = _panels(1, 1, 2.8)
        _draw_periods(axes, shown)
        axes.set(xlabel="time", ylabel="period")
        return figure
    channels = np.argsort(-np.abs(shown.values).sum(axis=1), kind="stable")[:most]
    figure, panels = _panels(len(channels), 1, 1.5, 0.9, sharex=True)
    for axes, channel in zip(panels, np.sort(channels).tolist(), strict=True):
        _draw_channel(axes, shown, channel)
        axes.set_title(f"{_short(names[channel], 40)}: {shown.channels[channel]:+.3g}")
    panels[-1].set_xlabel("time")
    figure.suptitle(_short(shown.name, 60), fontweight="bold", x=0.01, ha="left")
    return figure


def _draw_periods(axes: Any, shown: "ExplainedCase") -> None:
    axes.grid(visible=False)
    axes.pcolormesh(shown.times, shown.periods, _signed(shown.values), rasterized=True)
    axes.set_yscale("log")
    _plain_logarithm(axes.yaxis)
    axes.set_title(_short(shown.name, 60))


def _draw_channel(axes: Any, shown: "ExplainedCase", channel: int) -> None:
    """The values of a channel, on the colours of the attribution to them."""
    assert shown.samples is not None
    series, times = shown.samples[channel], shown.times
    half = np.diff(times) / 2 if len(times) > 1 else np.array([0.5])
    edges = np.r_[times[0] - half[0], times[:-1] + half[: len(times) - 1], times[-1] + half[-1]]
    known = series[np.isfinite(series)]
    low, high = (known.min(), known.max()) if len(known) else (0.0, 1.0)
    margin = 0.08 * (high - low) or 1.0
    axes.grid(visible=False)
    colors = _signed(shown.values)[channel][None]
    axes.pcolormesh(edges, (low - margin, high + margin), colors, rasterized=True)
    axes.plot(times, series, color=_INK, linewidth=0.9)


def _signed(values: np.ndarray) -> np.ndarray:
    """Colours: blue for positive values, orange for negative ones, stronger for larger ones."""
    strength = values / max(np.abs(values).max(), 1e-30)
    colors = np.where(strength[..., None] > 0, to_rgb(_BLUE), to_rgb(_ORANGE))
    return np.concatenate([colors, np.abs(strength)[..., None]], axis=-1)


# ---- Oscillators ----


@_styled
def spectrum(spectra: "Sequence[Spectrum]") -> Figure:
    """Eigenvalues in the complex plane, and decay time over period, with a colour for each
    layer."""
    figure = Figure(figsize=(8.6, 4.3), layout="constrained")
    plane, times = figure.subplots(1, 2)
    plane.add_patch(Circle((0, 0), 1, fill=False, edgecolor=_INK, linewidth=0.8))
    periods = np.concatenate([each.periods for each in spectra])
    decays = np.concatenate([each.decay_times for each in spectra])
    right, top = _beyond(periods), _beyond(decays)
    for i, each in enumerate(spectra):
        look = {**_DOT, "markersize": 4, "color": LIGHT[i % len(LIGHT)], "alpha": 0.65}
        values = each.eigenvalues.ravel()
        plane.plot(np.real(values), np.imag(values), label=_short(each.name, 24), **look)
        times.plot(np.minimum(each.periods, right), np.minimum(each.decay_times, top), **look)
    plane.set(title="Eigenvalues of one step", xlabel="real part", ylabel="imaginary part")
    plane.set(xlim=(-1.08, 1.08), ylim=(-1.08, 1.08), aspect="equal")
    plane.set(xticks=[-1, -0.5, 0, 0.5, 1], yticks=[-1, -0.5, 0, 0.5, 1])
    times.set(xscale="log", yscale="log", title="Period and decay time", box_aspect=1)
    times.set(xlabel="period in samples", ylabel="decay time in samples")
    _plain_logarithm(times.xaxis)
    _plain_logarithm(times.yaxis)
    line: dict[str, Any] = {"color": _FAINT, "linestyle": ":", "linewidth": 1}
    if np.isinf(periods).any():
        times.axvline(right, **line)
        place = {"ha": "right", "va": "bottom", "transform": times.get_xaxis_transform()}
        times.text(right, 0.02, "no oscillation", rotation=90, **place)
    if np.isinf(decays).any():
        times.axhline(top, **line)
        place = {"ha": "left", "va": "bottom", "transform": times.get_yaxis_transform()}
        times.text(0.02, top, "no decay", **place)
        times.margins(y=0.1)
    _legend_below(figure, plane)
    return figure


def _beyond(times: np.ndarray) -> float:
    """The position of infinite times."""
    finite = times[np.isfinite(times)]
    return 4 * float(finite.max()) if len(finite) else 1.0


# ---- Forecasts ----


@_styled
def forecast(table: "Table", backtest: "Backtest") -> Figure:
    """The end of the past of the first series, the observed values, the last forecast and its
    intervals, for each variable."""
    names = backtest.names[:_MOST_CHANNELS]
    figure, panels = _panels(len(names), 1, 1.9, 0.6, sharex=True)
    horizon = backtest.horizon
    series, index = table.series[0], table.index[0]
    shown = slice(-(_CYCLES + 1) * horizon, None)
    is_dated = index.dtype.kind == "M"
    times = index[shown] if is_dated else np.arange(len(index))[shown] - len(index) + horizon + 1
    for i, (axes, name) in enumerate(zip(panels, names, strict=True)):
        values = series[shown, table.names.index(name)]
        levels = sorted(backtest.intervals.items(), reverse=True)
        for k, (level, ends) in enumerate(levels):
            look: Any = {"color": _ORANGE, "alpha": 0.15 + 0.15 * k, "linewidth": 0}
            axes.fill_between(times[-horizon:], *ends[-1, :, i].T, label=f"{level:g} %", **look)
        predicted = backtest.forecasts["forecast"][-1, :, i]
        axes.plot(times[:-horizon], values[:-horizon], color=_INK, linewidth=1, label="past")
        axes.plot(times[-horizon:], values[-horizon:], color=_BLUE, label="observed")
        axes.plot(times[-horizon:], predicted, color=_ORANGE, linewidth=1.6, label="forecast")
        axes.set_title(_short(name, 60))
    if is_dated:
        locator = AutoDateLocator(maxticks=8)
        panels[-1].xaxis.set_major_locator(locator)
        panels[-1].xaxis.set_major_formatter(ConciseDateFormatter(locator))
    else:
        panels[-1].set_xlabel("steps from the last one of the past")
    _legend_below(figure, panels[0])
    return figure


# ---- Searches ----


@_styled
def parameters(study: "Study") -> Figure:
    """Values over each parameter; the best trial is circled."""
    figure, panels = _panels(len(study.space), 3, 2.3, sharey=True)
    for axes, name in zip(panels, study.space, strict=True):
        _draw_parameter(axes, study, name)
    figure.supylabel(metric_name(study.metric), fontsize=10, color=_INK)
    return figure


def _draw_parameter(axes: Any, study: "Study", name: str) -> None:
    choices = study.space[name]
    share = study.importance.get(name)
    words = [word(value) for value in choices] if isinstance(choices, list) else []
    limits: Any = choices

    def position(trial: "Trial") -> Any:
        return words.index(word(trial.parameters[name])) if words else trial.parameters[name]

    for state, color in (("pruned", _GREY), ("complete", _BLUE)):
        chosen = [t for t in study.trials if t.state == state and name in t.parameters]
        chosen = [t for t in chosen if t.value is not None]
        x, y = [position(t) for t in chosen], [t.value for t in chosen]
        axes.plot(x, y, color=color, alpha=0.7, **_DOT)
    if study.best is not None:
        circle = {**_DOT, "markersize": 10, "markeredgewidth": 1.2, "fillstyle": "none"}
        axes.plot([position(study.best)], [study.best.value], color=_ORANGE, **circle)
    axes.set_title(name if share is None else f"{name}, {100 * share:.0f} %")
    if words:
        axes.set_xticks(range(len(words)), words)
        axes.set_xlim(-0.5, len(words) - 0.5)
    elif limits["log"]:
        axes.set_xscale("log")
        _plain_logarithm(axes.xaxis)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=isinstance(limits["low"], int)))


def word(value: Any) -> str:
    """A parameter as text."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


# ---- Output ----


def svg(figure: Figure, title: str, style: str = "") -> str:
    """A figure as SVG, in the colours of the page."""
    content = io.StringIO()
    with rc_context(_RC), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about glyphs that only the reader's fonts have
        FigureCanvasSVG(figure).print_svg(content, metadata={"Date": None})  # savefig draws twice
    text = content.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    names = {_INK: "ink", _FAINT: "faint", **{c: f"line-{i}" for i, c in enumerate(LIGHT)}}
    for color, name in names.items():
        text = text.replace(color, f"var(--{name})")
    head, content = text.split(">", 1)
    head = re.sub(r' (width|height)="[^"]*pt"', "", head)
    return f'{head} class="{style}" role="img" aria-label="{escape(title)}">{content}'


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


def metric_name(metric: str) -> str:
    """The display name of a metric."""
    return metric.upper() if len(metric) <= 4 else metric


def _legend_below(figure: Figure, panel: Any) -> None:
    """Name the lines of a panel below the figure, where they cover nothing."""
    handles, names = panel.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=min(len(names), 5))


def _plain_logarithm(axis: Any) -> None:
    """Label ticks with numbers instead of formulas, which SVG text cannot show."""
    low, high = axis.get_view_interval()
    subs = (1, 2, 3, 5, 7) if high < 10 * low else (1, 2, 5) if high < 200 * low else (1,)
    axis.set_major_locator(LogLocator(10, subs=subs, numticks=8))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())


def _thinned(count: int) -> np.ndarray:
    """Indices of at most some thousand points."""
    return np.unique(np.linspace(0, count - 1, min(count, _MOST_POINTS)).astype(int))


def _short(text: Any, length: int) -> str:
    text = str(text)
    return text if len(text) <= length else text[: length - 1] + "…"
