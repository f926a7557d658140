"""Matplotlib figures, as PNG and SVG."""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from linoss._files import make_directory, write_file
from linoss.experiments._protocol import NAMES
from linoss.experiments._published import PublishedRun, runs_of
from linoss.experiments._results import ExperimentResult, unique

_REPRODUCIBLE: dict[Any, Any] = {"svg.hashsalt": "linoss", "svg.fonttype": "none"}

_FORMATS: dict[str, dict[str, Any]] = {
    "png": {"dpi": 150, "metadata": {"Software": None}},
    "svg": {"metadata": {"Date": None}},
}


class Figures:
    """A directory for figures, its path relative to the page that shows them, and the published
    curves to compare with."""

    def __init__(self, folder: Path, prefix: str = "", published: Sequence[PublishedRun] = ()):
        self.folder, self.prefix, self.published = folder, prefix, published

    @contextmanager
    def draw(self, name: str, alt: str, lines: list[str], **options: Any) -> Iterator[Any]:
        """Context manager: axes to draw on. The Markdown of the figure is appended to `lines`."""
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=options.pop("size", (7, 3.2)), layout="constrained")
        FigureCanvasAgg(figure)
        yield figure.subplots(**options)
        make_directory(self.folder)
        for kind, options in _FORMATS.items():
            content = io.BytesIO()
            with matplotlib.rc_context(_REPRODUCIBLE):
                figure.savefig(content, format=kind, **options)
            write_file(self.folder / f"{name}.{kind}", content.getvalue())
        lines += [f"![{alt}]({self.prefix}{name}.png)", ""]


def learning_curves(
    results: Sequence[ExperimentResult], figures: Figures, name: str, title: str
) -> list[str]:
    """The validation metric over the steps of each run, with a colour for each model and variant.

    Published runs of the same models are dashed, and drawn about as far as ours.
    """
    lines: list[str] = []
    shown = [result for result in results if any(r["metric"] is not None for r in result.history)]
    if not shown:
        return lines
    metric = shown[0].outcome["metric"]
    alt = f"Learning curves, {title}: {metric} on the validation part over training steps."
    kinds = unique((result.model, result.variant) for result in shown)
    with figures.draw(name, alt, lines) as axes:
        for result in shown:
            records = [r for r in result.history if r["metric"] is not None]
            place = kinds.index((result.model, result.variant))
            first = next(r for r in shown if (r.model, r.variant) == kinds[place])
            label = ", ".join(filter(None, (NAMES[result.model], result.variant)))
            axes.plot(
                [r["step"] for r in records],
                [r["metric"] for r in records],
                color=f"C{place}",
                linewidth=0.9,
                alpha=0.7,
                marker="." if len(records) == 1 else None,
                label=label if result is first else None,
            )
        for data_set, model in unique((result.data_set, result.model) for result in shown):
            ours = [r for r in shown if (r.data_set, r.model) == (data_set, model)]
            place = kinds.index((model, ours[0].variant))
            _draw_published(axes, runs_of(figures.published, data_set, model), ours, f"C{place}")
        axes.set(xlabel="training step", ylabel=f"validation {metric}", title=title)
        beside = {"loc": "center left", "bbox_to_anchor": (1, 0.5)}
        axes.legend(frameon=False, fontsize="small", **beside)
    return lines


def _draw_published(
    axes: Any, theirs: Sequence[PublishedRun], ours: Sequence[ExperimentResult], color: str
) -> None:
    """Draw published curves about as far as ours, if ours reached a published evaluation."""
    last = max(record["step"] for result in ours for record in result.history)
    for run in theirs if theirs and last >= theirs[0].every else ():
        curve = {step: y for step, y in run.curve.items() if step <= max(last, 2 * run.every)}
        label = f"{NAMES[run.model]}, published" if run is theirs[0] else None
        style = {"linestyle": "--", "marker": "o", "markersize": 3, "markerfacecolor": "none"}
        axes.plot(curve.keys(), curve.values(), color=color, linewidth=0.7, label=label, **style)
