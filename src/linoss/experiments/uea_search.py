"""The search for hyperparameters: the paper's whole grid, picked by validation."""

import functools
import statistics

from linoss.experiments import _paper
from linoss.experiments._figures import Figures
from linoss.experiments._protocol import NAMES, Options
from linoss.experiments._results import Result, unique
from linoss.experiments._runs import execute, make_run
from linoss.experiments._tables import ABSENT, table
from linoss.experiments.uea import MODELS, available, make_problem

NAME, TITLE = "uea-search", "The search for hyperparameters"
_SHOWN = 5


def run(options: Options) -> None:
    """Train with every point of the grid. By default on the split of the first seed."""
    data_dir, data_sets = available(options, NAME)
    runs = [
        make_run(NAME, options, data_set, model, seed, chosen=point, variant=title(point))
        for data_set in data_sets
        for model in options.models or MODELS
        for point in _paper.GRID
        for seed in options.seeds or _paper.SEEDS[:1]
    ]
    execute(runs, functools.partial(make_problem, data_dir), options)


def expected() -> list[tuple[str, str]]:
    """The data sets and models that a full record has."""
    return [(data_set, model) for data_set in _paper.UEA for model in MODELS]


def title(point: _paper.Hyperparameters) -> str:
    """A point of the grid as the name of a directory.

    ```python
    >>> from linoss.experiments import uea_search
    >>> from linoss.experiments._paper import BEST
    >>> uea_search.title(BEST["EigenWorms", "im"])
    'rate0.001-hidden128-state64-blocks2-time'

    ```
    """
    return (
        f"rate{point.learning_rate:g}-hidden{point.hidden_size}-state{point.state_size}"
        f"-blocks{point.num_blocks}{'-time' if point.include_time else ''}"
    )


def ranked(results: list[Result]) -> list[tuple[_paper.Hyperparameters, float, float]]:
    """Points of the grid with their mean validation and test metric, the best first."""
    found = []
    for variant in unique(result.variant for result in results):
        chosen = [result for result in results if result.variant == variant]
        validation = [result.outcome["validation"] for result in chosen]
        if None in validation:
            continue
        point = _paper.Hyperparameters(**chosen[0].settings["hyperparameters"])
        test = statistics.fmean(result.outcome["test"] for result in chosen)
        found.append((point, statistics.fmean(validation), test))
    return sorted(found, key=lambda entry: -entry[1])


def report(results: list[Result], figures: Figures) -> str:
    """The best few points of each search, and the paper's."""
    lines = [
        f"The best {_SHOWN} points of the grid of {len(_paper.GRID)}, by accuracy on the "
        "validation part; the test part had no say.",
        "",
    ]
    rows = []
    for key in unique((r.data_set, r.model, r.protocol) for r in results):
        data_set, model, protocol = key
        chosen = [r for r in results if (r.data_set, r.model, r.protocol) == key]
        order = ranked(chosen)
        tried = f"{len(order)} of {len(_paper.GRID)} tried"
        short = _paper.UEA[data_set].short
        for place, (point, validation, test) in enumerate(order[:_SHOWN], start=1):
            source = f"here, {protocol}, {place} ({tried})"
            cells = [*_cells(point), f"{100 * validation:.1f}", f"{100 * test:.1f}"]
            rows.append([short, NAMES[model], source, *cells])
        best = _paper.BEST.get((data_set, model))
        if best is not None:
            accuracy = f"{_paper.ACCURACY[model][data_set].mean:.1f}"
            rows.append([short, NAMES[model], "paper", *_cells(best), ABSENT, accuracy])
    head = ["set", "model", "", "rate", "hidden", "state", "blocks", "time", "validation", "test"]
    return "\n".join([*lines, table(head, rows)])


def _cells(point: _paper.Hyperparameters) -> list[str]:
    sizes = (point.hidden_size, point.state_size, point.num_blocks)
    time = "yes" if point.include_time else "no"
    return [f"{point.learning_rate:g}", *map(str, sizes), time]
