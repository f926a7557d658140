"""Figures of runs and searches, drawn by Matplotlib.

A panel is one of the functions here, of values and axes, and an SVG in the colours of the page.
"""

import io
import re
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup
from matplotlib import rc_context
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import to_rgb
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from linoss.cli._runs import time_unit

if TYPE_CHECKING:
    from linoss.cli._inspect import Explained, Spectrum
    from linoss.cli._scores import Score
    from linoss.data import Table
    from linoss.forecasting import Backtest

LIGHT = ("#1f77d0", "#d9622b", "#2a9d5c", "#8a5bd6", "#b8860b", "#c2477f", "#1797a6", "#7a7f87")
DARK = ("#5aa9f5", "#f58a55", "#52c78a", "#b08df0", "#dcae3c", "#ec7aad", "#4cc4d3", "#a9afb8")
_BLUE, _ORANGE = LIGHT[0], LIGHT[1]
_INK, _FAINT = "#1c1f26", "#c9ced6"
_DOT: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 4, "markeredgewidth": 0}
MOST_CHANNELS, _MOST_POINTS = 4, 2000
_CYCLES = 4  # horizons of past
_WIDTH, _HEIGHT = 4.6, 2.8  # inches, of a panel
_RC: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "linoss",
    "font.size": 9,
    "font.family": "sans-serif",
    "text.color": _INK,
    "text.parse_math": False,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _FAINT,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9,
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
    "legend.handlelength": 1.2,
    "figure.facecolor": "none",
}


Panel = Callable[[Any], None]


# ---- Training and predictions ----


def training_loss(history: Sequence[dict[str, Any]], axes: Any) -> None:
    """The loss over updates, of training and, if there are any, of held-out cases."""
    losses = [r["loss"] for r in history]
    for name, color in (("loss", _BLUE), ("validation_loss", _ORANGE)):
        known = [(r["step"], r[name]) for r in history if r[name] is not None]
        marker = "o" if len(known) <= 40 else ""
        if known:
            label = "validation" if name != "loss" else "training"
            axes.plot(
                *zip(*known, strict=True), color=color, marker=marker, markersize=3, label=label
            )
    if len(axes.lines) > 1:
        axes.legend(frameon=False, fontsize=8)
    axes.set(title="Training loss", xlabel="updates")
    if min(losses) > 0 and max(losses) > 20 * min(losses):
        axes.set_yscale("log")
        _plain_logarithm(axes.yaxis)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))


def validation(scored: Sequence[dict[str, Any]], metric: str, axes: Any) -> None:
    """The metric over updates."""
    best = next(r for r in reversed(scored) if r["metric"] == scored[-1]["best"])
    x, y = [r["step"] for r in scored], [r["metric"] for r in scored]
    axes.plot(x, y, color=_ORANGE, marker="o" if len(x) <= 40 else "", markersize=3)
    circle: Any = {"marker": "o", "markersize": 8, "fillstyle": "none"}
    axes.plot(best["step"], best["metric"], color=_ORANGE, **circle)
    axes.set(title=f"Validation {metric_name(metric)}, best circled", xlabel="updates")
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))


def predicted_against_true(score: "Score", axes: Any) -> None:
    """Predictions over labels, with the diagonal."""
    known = np.isfinite(score.truth)
    chosen = _thinned(np.sum(known))
    truth, predicted = score.truth[known][chosen], score.predicted[known][chosen]
    ends = [min(truth.min(), predicted.min()), max(truth.max(), predicted.max())]
    axes.plot(ends, ends, color=_INK, linewidth=0.8, linestyle="--")
    axes.plot(truth, predicted, color=_BLUE, alpha=0.6, **_DOT)
    axes.set(title="Predicted and true values", xlabel="true", ylabel="predicted")


def mistake(score: "Score", names: Sequence[str], i: int, axes: Any) -> None:
    """A wrongly classified case; the first of many channels, a subset of many samples."""
    series, ids, times = np.asarray(score.cases.values[i]), score.cases.ids, score.cases.times
    samples = _thinned(len(series))
    x = samples if times is None else np.asarray(times[i])[samples]
    for channel, name in enumerate(names[:MOST_CHANNELS]):
        look: Any = {
            "color": LIGHT[channel],
            "linewidth": 1,
            "label": _short(name, 20) if names[1:] else None,
        }
        axes.plot(x, series[samples, channel], **look)
    truth, predicted = (
        _short(score.classes[each[i]], 14) for each in (score.truth, score.predicted)
    )
    case = _short(f"case {i if ids is None else ids[i]}", 14)
    title = f"{case}: {truth}, predicted {predicted} ({score.confidence[i]:.0%})"
    axes.set_title(title, fontsize=8)
    axes.set_xlabel(time_unit(score.cases))


# ---- Attribution ----


def attribution(shown: "Explained", most: int = 6) -> list[Panel]:
    """One case: by period and time, or the values of the channels that contribute most."""
    if shown.attribution.periods is not None:
        return [partial(_periods, shown)]
    sizes = np.abs(shown.attribution.values).sum(axis=1)
    channels = np.sort(np.argsort(-sizes, kind="stable")[:most])
    return [partial(_channel, shown, channel) for channel in channels.tolist()]


def _periods(shown: "Explained", axes: Any) -> None:
    own = shown.attribution
    axes.grid(visible=False)
    axes.pcolormesh(own.times, own.periods, _signed(own.values), rasterized=True)
    axes.set_yscale("log")
    _plain_logarithm(axes.yaxis)
    axes.set(title=_short(shown.title, 60), xlabel=shown.unit, ylabel=f"period in {shown.unit}")


def _channel(shown: "Explained", channel: int, axes: Any) -> None:
    """The values of a channel, on the colours of the attribution to them."""
    series, times = shown.samples[channel], shown.attribution.times
    half = np.diff(times) / 2 if len(times) > 1 else np.array([0.5])
    edges = np.r_[times[0] - half[0], times[:-1] + half[: len(times) - 1], times[-1] + half[-1]]
    known = series[np.isfinite(series)]
    low, high = (known.min(), known.max()) if len(known) else (0.0, 1.0)
    margin = 0.08 * (high - low) or 1.0
    axes.grid(visible=False)
    colors = _signed(shown.attribution.values)[channel][None]
    axes.pcolormesh(edges, (low - margin, high + margin), colors, rasterized=True)
    axes.plot(times, series, color=_INK, linewidth=0.9)
    name = f"{_short(shown.names[channel], 24)} {shown.attribution.channels[channel]:+.3g}"
    axes.set(title=f"{_short(shown.title, 40)}; {name}", xlabel=shown.unit)


def _signed(values: np.ndarray) -> np.ndarray:
    """Colours: blue for positive values, orange for negative ones, stronger for larger ones."""
    strength = values / max(np.abs(values).max(), 1e-30)
    colors = np.where(strength[..., None] > 0, to_rgb(_BLUE), to_rgb(_ORANGE))
    return np.concatenate([colors, np.abs(strength)[..., None]], axis=-1)


# ---- Oscillators ----


def spectrum(spectra: "Sequence[Spectrum]") -> list[Panel]:
    """Eigenvalues in the complex plane, and decay time over period, a colour for each layer."""
    return [partial(_plane, spectra), partial(_times, spectra)]


def _plane(spectra: "Sequence[Spectrum]", axes: Any) -> None:
    axes.add_patch(Circle((0, 0), 1, fill=False, edgecolor=_INK, linewidth=0.8))
    for i, each in enumerate(spectra):
        look = {**_DOT, "color": LIGHT[i % len(LIGHT)], "alpha": 0.65}
        values = each.eigenvalues.ravel()
        axes.plot(np.real(values), np.imag(values), label=_short(each.name, 24), **look)
    axes.set(title="Eigenvalues of one step", xlabel="real part", ylabel="imaginary part")
    axes.set(xlim=(-1.08, 1.08), ylim=(-1.08, 1.08), aspect="equal")
    axes.set(xticks=[-1, -0.5, 0, 0.5, 1], yticks=[-1, -0.5, 0, 0.5, 1])


def _times(spectra: "Sequence[Spectrum]", axes: Any) -> None:
    periods = np.concatenate([each.periods for each in spectra])
    decays = np.concatenate([each.decay_times for each in spectra])
    right, top = _beyond(periods), _beyond(decays)
    for i, each in enumerate(spectra):
        look = {**_DOT, "color": LIGHT[i % len(LIGHT)], "alpha": 0.65}
        x, y = np.minimum(each.periods, right), np.minimum(each.decay_times, top)
        axes.plot(x, y, label=_short(each.name, 24), **look)
    axes.set(xscale="log", yscale="log", title="Period and decay time")
    axes.set(xlabel="period in samples", ylabel="decay time in samples")
    _plain_logarithm(axes.xaxis)
    _plain_logarithm(axes.yaxis)
    line: dict[str, Any] = {"color": _FAINT, "linestyle": ":", "linewidth": 1}
    if np.isinf(periods).any():
        axes.axvline(right, **line)
        place = {"ha": "right", "va": "bottom", "transform": axes.get_xaxis_transform()}
        axes.text(right, 0.02, "no oscillation", rotation=90, **place)
    if np.isinf(decays).any():
        axes.axhline(top, **line)
        place = {"ha": "left", "va": "bottom", "transform": axes.get_yaxis_transform()}
        axes.text(0.02, top, "no decay", **place)
        axes.margins(y=0.1)


def _beyond(times: np.ndarray) -> float:
    """The position of infinite times."""
    finite = times[np.isfinite(times)]
    return 4 * float(finite.max()) if len(finite) else 1.0


# ---- Forecasts ----


def forecast(table: "Table", backtest: "Backtest", i: int, axes: Any) -> None:
    """The end of the past of the only series, the observed values, the last forecast and its
    intervals, for one of the variables."""
    shown = slice(-(_CYCLES + 1) * backtest.horizon, None)
    index, horizon = table.index[0], backtest.horizon
    is_dated = index.dtype.kind == "M"
    times = index[shown] if is_dated else np.arange(len(index))[shown] - len(index) + horizon + 1
    values = table.series[0][shown, table.names.index(backtest.names[i])]
    axes.plot(times[:-horizon], values[:-horizon], color=_INK, linewidth=1, label="past")
    axes.plot(times[-horizon:], values[-horizon:], color=_BLUE, label="observed")
    predicted = backtest.forecasts["forecast"][-1, :, i]
    axes.plot(times[-horizon:], predicted, color=_ORANGE, linewidth=1.6, label="forecast")
    for k, (level, ends) in enumerate(sorted(backtest.intervals.items(), reverse=True)):
        look: Any = {"color": _ORANGE, "alpha": 0.15 + 0.15 * k, "linewidth": 0}
        axes.fill_between(times[-horizon:], *ends[-1, :, i].T, label=f"{level:g} %", **look)
    series = "" if table.ids is None else f"{table.ids[0]}: "
    axes.set_title(_short(f"{series}{backtest.names[i]}", 50))
    if is_dated:
        locator = AutoDateLocator(maxticks=6)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    else:
        axes.set_xlabel("steps from the last one of the past")


# ---- Output ----


def svg(draw: Panel) -> Markup:
    """A panel as SVG, in the colours of the page, with the names of its lines below it."""
    content = io.StringIO()
    with rc_context(_RC), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about glyphs that only the reader's fonts have
        figure = Figure(figsize=(_WIDTH, _HEIGHT), layout="constrained")
        axes = figure.subplots()
        draw(axes)
        handles, names = axes.get_legend_handles_labels()
        if names:
            figure.legend(handles, names, loc="outside lower center", ncols=min(len(names), 3))
        FigureCanvasSVG(figure).print_svg(content, metadata={"Date": None})  # savefig draws twice
    text = content.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    names = {_INK: "ink", _FAINT: "faint", **{c: f"line-{i}" for i, c in enumerate(LIGHT)}}
    for color, name in names.items():
        text = text.replace(color, f"var(--{name})")
    head, content = text.split(">", 1)
    head = re.sub(r' (width|height)="[^"]*pt"', "", head)
    title = escape(axes.get_title("left"))
    return Markup(f'{head} role="img" aria-label="{title}">{content}')


def metric_name(metric: str) -> str:
    """The display name of a metric."""
    return metric.upper() if len(metric) <= 4 else metric


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
    text = str(text).encode("utf-8", "replace").decode()
    return text if len(text) <= length else text[: length - 1] + "…"
