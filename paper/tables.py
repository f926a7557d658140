"""Markdown tables, and Matplotlib figures as PNG."""

import statistics
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from paper.models import title
from paper.numbers import SOURCES, PublishedRun, Spread, runs_of
from paper.runs import Result


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table.

    ```python
    >>> from paper.tables import table
    >>> print(table(["model", "accuracy"], [["LinOSS-IM", "87.8±2.6"]]))
    | model | accuracy |
    |---|---|
    | LinOSS-IM | 87.8±2.6 |

    ```
    """
    lines = [list(head), *rows]
    text = ["| " + " | ".join(cells) + " |" for cells in lines]
    return "\n".join([text[0], "|" + "---|" * len(head), *text[1:]])


def unique(values: Iterable[Any]) -> list[Any]:
    """The unique values, in the order of their first appearance."""
    return list(dict.fromkeys(values))


def groups(results: Iterable[Result], *names: str) -> dict[tuple[Any, ...], list[Result]]:
    """The results by the values of some of their fields."""
    grouped: dict[tuple[Any, ...], list[Result]] = {}
    for result in results:
        grouped.setdefault(tuple(getattr(result, name) for name in names), []).append(result)
    return grouped


def printed(spread: Spread | None, digits: int = 1) -> str:
    """A published number; empty if there is none."""
    if spread is None:
        return ""
    deviation = "" if spread.deviation is None else f"±{spread.deviation:.{digits}f}"
    return f"{spread.mean:.{digits}f}{deviation}"


def cell(results: Iterable[Result], scale: float = 1.0, digits: int = 1) -> str:
    """Mean ± deviation of the test metric (seeds × steps, stopped by); empty without results.

    The deviation is the population standard deviation (divided by n), as in the paper.
    """
    results = [result for result in results if result.outcome["test"] is not None]
    if not results:
        return ""
    tests = [scale * result.outcome["test"] for result in results]
    spread = Spread(statistics.fmean(tests), statistics.pstdev(tests) if len(tests) > 1 else None)
    steps = sorted({result.outcome["steps"] for result in results})
    span = "–".join(f"{step:,}" for step in unique((steps[0], steps[-1])))
    early = sum(bool(result.outcome.get("stopped_early")) for result in results)
    by = {0: "limit", len(results): "patience"}.get(early, f"patience {early}")
    by = "no training" if steps == [0] else by
    return f"{printed(spread, digits)} ({len(results)}×{span}, {by})"


def source_here(protocol: str | None, variant: str | None) -> str:
    """The source of our numbers."""
    return ", ".join(filter(None, ("here", protocol, variant)))


def model_table(
    results: Sequence[Result], paper: dict[str, Spread], *, scale: float = 1.0, digits: int = 1
) -> str:
    """The table of an experiment on one data set: the paper's and our number for each model."""
    rows = []
    for model in unique([*paper, *(result.model for result in results)]):
        source = SOURCES.get(model, "paper")
        if model in paper:
            rows.append([title(model), source, printed(paper[model], digits)])
        ours = [result for result in results if result.model == model]
        for kind, chosen in groups(ours, "protocol", "variant").items():
            rows.append([title(model), source_here(*kind), cell(chosen, scale, digits)])
    return table(["model", "", "error"], rows)


@contextmanager
def figure(folder: Path, name: str, alt: str, lines: list[str]) -> Iterator[Any]:
    """Context manager: axes to draw on. The Markdown of the figure is appended to `lines`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(7, 3.2), layout="constrained")
    FigureCanvasAgg(drawn)
    yield drawn.subplots()
    folder.mkdir(parents=True, exist_ok=True)
    drawn.savefig(folder / f"{name}.png", dpi=150, metadata={"Software": None})
    lines += ["", f"![{alt}]({name}.png)"]


def learning_curves(
    results: Sequence[Result], folder: Path, name: str, published: Sequence[PublishedRun] = ()
) -> list[str]:
    """Figures of the validation metric over the steps, one for each data set and protocol.

    Published runs of the same models are dashed, and drawn about as far as ours.
    """
    lines: list[str] = []
    shown = [result for result in results if result.curve]
    for (data_set, protocol), chosen in groups(shown, "data_set", "protocol").items():
        metric = chosen[0].outcome["metric"]
        about = f"{data_set}, {protocol}"
        alt = f"Learning curves, {about}: {metric} on the validation part over training steps."
        with figure(folder, f"{name}-{data_set}-{protocol}", alt, lines) as axes:
            for place, (kind, runs) in enumerate(groups(chosen, "model", "variant").items()):
                model, variant = kind
                label = ", ".join(filter(None, (title(model), variant)))
                for run in runs:
                    _draw(axes, run.curve, f"C{place}", label if run is runs[0] else None)
                last = max(max(run.curve) for run in runs)
                theirs = [r for r in runs_of(published, data_set, model) if r.every <= last]
                for run in theirs:
                    curve = {run.every * (i + 1): y for i, y in enumerate(run.validation)}
                    curve = {x: y for x, y in curve.items() if x <= max(last, 2 * run.every)}
                    label = f"{title(model)}, published" if run is theirs[0] else None
                    _draw(axes, curve, f"C{place}", label, linestyle="--", markersize=3)
            axes.set(xlabel="training step", ylabel=f"validation {metric}", title=about)
            beside = {"loc": "center left", "bbox_to_anchor": (1, 0.5)}
            axes.legend(frameon=False, fontsize="small", **beside)
    return lines


def _draw(axes: Any, curve: dict[int, float], color: str, label: str | None, **style: Any) -> None:
    marker = "o" if style or len(curve) == 1 else None
    style = {"linewidth": 0.8, "alpha": 0.7, "marker": marker, **style}
    axes.plot(list(curve), list(curve.values()), color=color, label=label, **style)
