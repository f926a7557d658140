"""The hyperparameter search: points selected by the validation metric.

The six UEA sets and PPG have the paper's grid of 162 points; Weather has points drawn at random
within its bounds. Each point is a run with its own directory: the same command with --resume goes
on, and in several processes shares the work.
"""

import functools
import statistics
from collections.abc import Sequence
from pathlib import Path

from paper import numbers, ppg, uea, weather
from paper.data import data_directory, find
from paper.models import GRID, LINOSS, Hyperparameters, best, random_points, title
from paper.numbers import PublishedRun
from paper.runs import Experiment, Options, Problem, Result, Run, execute, make_run
from paper.tables import groups, table

SETS = tuple(name for name in numbers.DATA_SETS if name != "TROIKA")
DRAWN = 100
"""Number of points of Weather."""
_SHOWN = 5


def run(options: Options) -> None:
    """Train with every point, by default on the split of the first seed."""
    runs = [
        make_run(options, data_set, model, seed, chosen=point, variant=point.name)
        for data_set in uea.available(options, SETS)
        for model in options.models
        for seed in options.seeds
        for point in points(data_set, seed)
    ]
    problem = functools.partial(make_problem, data_directory(options.data_dir))
    execute(runs, problem, options)


def points(data_set: str, seed: int) -> tuple[Hyperparameters, ...]:
    """All points of a search."""
    return random_points(DRAWN, seed) if data_set == "Weather" else GRID


def make_problem(data_dir: Path, run: Run) -> Problem:
    """The problem of the data set's own experiment."""
    if run.data_set == "PPG":
        return ppg.make_problem(find("PPG", data_dir), run)
    if run.data_set == "Weather":
        return weather.make_problem(find("Weather", data_dir), run)
    return uea.make_problem(data_dir, run)


def ranked(results: Sequence[Result]) -> list[tuple[Hyperparameters, float, float]]:
    """Points with their mean validation and test metric, the best first."""
    order, sign = [], 1 if results[0].outcome["metric"] == "accuracy" else -1
    for chosen in groups(results, "variant").values():
        if any(result.outcome["test"] is None for result in chosen):
            continue
        validation = statistics.fmean(result.outcome["validation"] for result in chosen)
        test = statistics.fmean(result.outcome["test"] for result in chosen)
        point = Hyperparameters(**chosen[0].settings["hyperparameters"])
        order.append((point, validation, test))
    return sorted(order, key=lambda entry: -sign * entry[1])


def report(results: Sequence[Result], folder: Path, published: Sequence[PublishedRun]) -> str:
    """The best few points of each search, and the paper's."""
    rows = []
    for (data_set, model, protocol), chosen in groups(
        results, "data_set", "model", "protocol"
    ).items():
        order, name = ranked(chosen), [numbers.DATA_SETS[data_set].short, title(model)]
        tried = f"{len(order)} of {len(points(data_set, 0))} tried"
        for place, (point, validation, test) in enumerate(order[:_SHOWN], start=1):
            source = f"here, {protocol}, {place} ({tried})"
            rows.append([*name, source, *_cells(point), f"{validation:.4g}", f"{test:.4g}"])
        rows.append([*name, "paper", *_cells(best(data_set, model)), "", ""])
    head = ["set", "model", "", "rate", "hidden", "state", "blocks", "time", "validation", "test"]
    return "The best points by the validation part; the test part had no say.\n\n" + table(
        head, rows
    )


def _cells(point: Hyperparameters) -> list[str]:
    time = "yes" if point.include_time else "no"
    return [f"{point.learning_rate:g}", *map(str, point.sizes.values()), time]


EXPERIMENT = Experiment(
    title="The search for hyperparameters",
    run=run,
    report=report,
    data_sets=SETS,
    models=("im", "imex"),
    others=tuple(model for model in LINOSS if model not in ("im", "imex")),
    seeds=numbers.SEEDS[:1],
)
