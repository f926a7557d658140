"""The hyperparameter search: the paper's whole grid, selected by the validation metric.

The search for each data set, model and seed is a study whose trials are shared by any number of
processes.
"""

import functools
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from linoss._files import make_directory
from linoss._stderr import say
from linoss.experiments import _paper
from linoss.experiments._execute import (
    ExperimentRun,
    execute_one,
    is_finished,
    make_run,
    no_more,
)
from linoss.experiments._figures import Figures
from linoss.experiments._markdown import ABSENT, table
from linoss.experiments._protocol import NAMES, Options, Scope
from linoss.experiments._results import ExperimentResult, read_result, unique
from linoss.experiments._worker_pool import together
from linoss.experiments.uea import available, make_problem
from linoss.search import search_grid
from linoss.training import TrainingError

NAME, TITLE = "uea-search", "The search for hyperparameters"
SCOPE = Scope(data_sets=tuple(_paper.UEA), models=("im", "imex"), seeds=_paper.SEEDS[:1])
_SHOWN = 5


@dataclass(frozen=True)
class Search:
    """A run for each point of the grid."""

    runs: tuple[ExperimentRun, ...]

    @property
    def name(self) -> str:
        """The name of the study."""
        run = self.runs[0]
        return f"{run.protocol}, {run.data_set}, {NAMES[run.model]}, seed {run.seed}"

    def storage(self, out: Path) -> str:
        """A file in the directory of the runs."""
        first = self.runs[0]
        return f"sqlite:///{first.folder(out).parent.parent / f'study-{first.seed}.db'}"


def run(options: Options) -> None:
    """Train with every point of the grid. By default on the split of the first seed."""
    data_dir, data_sets = available(options, NAME, SCOPE)
    searches = [
        Search(
            tuple(
                make_run(NAME, options, data_set, model, seed, chosen=point, variant=title(point))
                for point in _paper.GRID
            )
        )
        for data_set in data_sets
        for model in options.models or SCOPE.models
        for seed in options.seeds or SCOPE.seeds
    ]
    runs = [run for search in searches for run in search.runs]
    finished = sum(is_finished(run, options) for run in runs)
    if finished:
        say(f"{finished} of {len(runs)} runs already have results")
    again = replace(options, resume=True)  # to take over the runs of a process that died
    worker = functools.partial(_work, searches=searches, data_dir=data_dir, options=again)
    try:
        if options.processes > 1 and finished < len(runs):
            together(worker, range(options.processes), options.processes, _no_word)
        else:
            worker(0)
    except KeyboardInterrupt:
        say("Interrupted. The same command with --resume continues.")
        raise


def _work(number: int, searches: Sequence[Search], data_dir: Path, options: Options) -> None:
    """The work of each process: first the free trials of all searches, then abandoned ones."""
    for wait in (False, True):
        for search in searches:
            _work_on(search, data_dir, options, wait=wait)


def _work_on(search: Search, data_dir: Path, options: Options, *, wait: bool) -> None:
    url = options.storage or search.storage(options.out)
    if options.storage is None:
        make_directory(search.runs[0].folder(options.out).parent.parent)
    problem = functools.partial(make_problem, data_dir)

    def trial(number: int, report: Callable[[int, float], None]) -> float:
        run = search.runs[number]
        if is_finished(run, options):
            result = read_result(run.folder(options.out))
            assert result is not None
        else:
            result = execute_one(run, problem, options, no_more, live=options.processes == 1)
        for record in result.history:
            if record["metric"] is not None:
                report(record["step"], record["metric"])
        if result.outcome["validation"] is None:
            raise TrainingError(result.outcome["error"])
        return result.outcome["validation"]

    search_grid(
        trial,
        [asdict(run.hyperparameters) for run in search.runs],
        storage=url,
        study=search.name,
        metric="accuracy",
        higher_is_better=True,
        settings={"runs": [run.settings for run in search.runs[:1]]},
        on_end=lambda line: say(f"{search.name}, {line}"),
        wait=wait,
    )


def _no_word(item: Any, result: Any, place: str, left: float) -> None:
    """Ignore the end of a process, because each reports its own trials."""


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


def ranked(results: list[ExperimentResult]) -> list[tuple[_paper.Hyperparameters, float, float]]:
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


def report(results: list[ExperimentResult], figures: Figures) -> str:
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
