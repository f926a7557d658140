"""Markdown tables, and formatting of numbers."""

import math
import statistics
from collections.abc import Iterable, Sequence

from linoss.experiments._paper import SINCE, TITLES, Spread
from linoss.experiments._protocol import NAMES
from linoss.experiments._results import ExperimentResult, unique

ABSENT = "–"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table.

    ```python
    >>> from linoss.experiments._markdown import table
    >>> print(table(["model", "accuracy"], [["LinOSS-IM", "87.8 ± 2.6"]]))
    | model | accuracy |
    |---|---|
    | LinOSS-IM | 87.8 ± 2.6 |

    ```
    """
    lines = [head, ["---"] * len(head)]
    text = ["| " + " | ".join(cells) + " |" for cells in [*lines, *rows]]
    text[1] = text[1].replace(" ", "")
    return "\n".join(text)


def printed(spread: Spread | None, digits: int = 1) -> str:
    """Format a number of the paper."""
    if spread is None:
        return ABSENT
    if spread.deviation is None:
        return f"{spread.mean:.{digits}f}"
    return f"{spread.mean:.{digits}f} ± {spread.deviation:.{digits}f}"


def over_seeds(results: Iterable[ExperimentResult], scale: float = 1.0, digits: int = 1) -> str:
    """Mean and standard deviation of the test metric, and the number of seeds.

    The deviation is the population standard deviation (divided by n), as in the paper.
    """
    found = [scale * r.outcome["test"] for r in results if r.outcome["test"] is not None]
    if not found:
        return ABSENT
    mean = f"{statistics.fmean(found):.{digits}f}"
    if len(found) == 1:
        return f"{mean} (1 seed)"
    return f"{mean} ± {statistics.pstdev(found):.{digits}f} ({len(found)} seeds)"


def judged(results: Sequence[ExperimentResult], spread: Spread | None, scale: float = 1.0) -> str:
    """The difference of the mean test metric from the paper's mean, in the paper's deviations."""
    found = [scale * r.outcome["test"] for r in results if r.outcome["test"] is not None]
    if spread is None or spread.deviation is None or not found:
        return ABSENT
    distance = (statistics.fmean(found) - spread.mean) / spread.deviation
    return f"{distance:+.2f} deviations"


def span(values: Iterable[float]) -> str:
    """The minimum and maximum of integers, as text."""
    found = sorted({round(value) for value in values if math.isfinite(value)})
    if not found:
        return ABSENT
    return f"{found[0]:,}" if len(found) == 1 else f"{found[0]:,} to {found[-1]:,}"


def source_here(protocol: str | None, variant: str | None) -> str:
    """The source of our numbers."""
    return ", ".join(filter(None, ("here", protocol, variant)))


def name_of(model: str) -> str:
    """The name of a model in tables."""
    return NAMES.get(model) or TITLES.get(model, model)


def source_of(model: str) -> str:
    """The source of the numbers that are not ours."""
    if model in SINCE:
        return SINCE[model][0]
    return "D-LinOSS, its authors" if model == "damped" else "paper"


def model_table(
    results: Sequence[ExperimentResult],
    paper: dict[str, Spread],
    *,
    scale: float = 1.0,
    digits: int = 1,
) -> str:
    """The table of an experiment on one data set: the paper's and our number for each model."""
    rows = []
    for model in unique([*paper, *(result.model for result in results)]):
        if model in paper:
            rows.append(
                [name_of(model), source_of(model), printed(paper[model], digits), *[""] * 3]
            )
        ours = [result for result in results if result.model == model]
        for kind in unique((result.protocol, result.variant) for result in ours):
            chosen = [r for r in ours if (r.protocol, r.variant) == kind]
            rows.append(
                [
                    name_of(model),
                    source_here(*kind),
                    over_seeds(chosen, scale, digits),
                    span(r.outcome["steps"] for r in chosen),
                    span(r.outcome["best_step"] or math.nan for r in chosen),
                    judged(chosen, paper.get(model), scale),
                ]
            )
    return table(["model", "", "error", "steps", "best at", "mean, from the paper's"], rows)
