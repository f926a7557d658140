"""Figures by Matplotlib, as PNG and SVG."""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from linoss._files import make_directory, write_file
from linoss.experiments._protocol import NAMES
from linoss.experiments._results import ExperimentResult, unique

_REPRODUCIBLE: dict[Any, Any] = {"svg.hashsalt": "linoss", "svg.fonttype": "none"}

_FORMATS: dict[str, dict[str, Any]] = {
    "png": {"dpi": 150, "metadata": {"Software": None}},
    "svg": {"metadata": {"Date": None}},
}


class Figures:
    """A directory for figures, and its path relative to the page that shows them."""

    def __init__(self, folder: Path, prefix: str = ""):
        self.folder, self.prefix = folder, prefix

    @contextmanager
    def draw(self, name: str, alt: str, lines: list[str], **options: Any) -> Iterator[Any]:
        """Axes to draw on. The Markdown that shows the figure is added to `lines`."""
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
    """The validation metric over the steps of each run, a colour for each model and variant."""
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
        axes.set(xlabel="training step", ylabel=f"validation {metric}", title=title)
        axes.legend(frameon=False, fontsize="small")
    return lines
