"""Classification of six long data sets of the UEA archive, on the splits of the published runs."""

import functools
import json
import math
import time
from pathlib import Path

import numpy as np

from linoss._files import make_directory, write_text
from linoss._stderr import duration, say
from linoss.data import DataError, Sequences, read, read_parts
from linoss.estimators import OscillatorClassifier
from linoss.experiments import _paper
from linoss.experiments._data_sets import PARTS, MissingData, data_directory, find
from linoss.experiments._execute import ExperimentRun, Problem, execute, make_run, refuse_used
from linoss.experiments._figures import Figures, learning_curves
from linoss.experiments._markdown import ABSENT, judged, over_seeds, printed, source_of, span, table
from linoss.experiments._protocol import NAMES, UNTRAINED, Options, Scope
from linoss.experiments._results import (
    MISSING,
    ExperimentResult,
    made_by,
    read_result,
    unique,
    write_result,
)
from linoss.experiments._splits import published_split
from linoss.training import Classification, Inputs

NAME, TITLE = "uea", "Six data sets of the UEA archive"
SCOPE = Scope(
    data_sets=tuple(_paper.UEA),
    models=("im", "imex"),
    beside=("damped", UNTRAINED),
    seeds=_paper.SEEDS,
)


def run(options: Options) -> None:
    """Train every model on every data set that is there, with every seed."""
    data_dir, data_sets = available(options, NAME, SCOPE)
    models, seeds = options.models or SCOPE.models, options.seeds or SCOPE.seeds
    runs = [
        make_run(NAME, options, data_set, model, seed)
        for data_set in data_sets
        for model in models
        if model != UNTRAINED
        for seed in seeds
    ]
    if UNTRAINED in models:
        for data_set in data_sets:
            for seed in seeds:
                fit_untrained(options, data_dir, data_set, seed)
    if runs:
        execute(runs, functools.partial(make_problem, data_dir), options)


def fit_untrained(options: Options, data_dir: Path, data_set: str, seed: int) -> None:
    """Fit oscillators that are not trained; the validation part is not used to decide anything."""
    folder = options.out / NAME / UNTRAINED / data_set / UNTRAINED / str(seed)
    refuse_used(folder, options)
    if read_result(folder) is not None:
        return
    start = time.monotonic()
    training, validation, test = read_split(data_set, data_dir, seed)
    classifier = OscillatorClassifier(random_state=seed).fit(training)
    outcome = {
        "metric": "accuracy",
        "test": classifier.score(test),
        "validation": classifier.score(validation),
        "left_out": classifier.left_out_score_,
        "steps": 0,
        "parameters": classifier.ridge_.coefficients.size,
        "cases": [len(part) for part in (training, validation, test)],
    }
    result = ExperimentResult(
        experiment=NAME,
        data_set=data_set,
        model=UNTRAINED,
        seed=seed,
        protocol=UNTRAINED,
        settings={"model": {**classifier.get_params(), "random_state": seed}},
        outcome=outcome,
        made=made_by(options.command(NAME), time.monotonic() - start),
    )
    write_result(folder, result)
    left_out, seconds = outcome["left_out"], duration(result.made["seconds"])
    say(
        f"{data_set}, {NAMES[UNTRAINED]}, seed {seed}: test accuracy {outcome['test']:.4g} "
        f"(left-out {left_out:.4g}, validation {outcome['validation']:.4g}), {seconds}"
    )


def available(options: Options, experiment: str, scope: Scope) -> tuple[Path, list[str]]:
    """The data sets to take: all of those asked for, or, if nothing was, those that are there."""
    data_dir = data_directory(options.data_dir)
    if options.data_sets is not None:
        for data_set in options.data_sets:
            find(data_set, data_dir)
        return data_dir, list(options.data_sets)
    there, missing = [], []
    for data_set in scope.data_sets:
        try:
            find(data_set, data_dir)
            there.append(data_set)
        except MissingData as error:
            missing.append(error)
    if not there:
        raise missing[0]
    for error in missing:
        say(f"Left out: {error}")
    note_missing(options.out / experiment, missing)
    return data_dir, there


def note_missing(folder: Path, missing: list[MissingData]) -> None:
    """Write down which data sets were not there, for the page of results."""
    make_directory(folder)
    content = {error.data_set: error.source for error in missing}
    write_text(folder / MISSING, json.dumps(content, indent=1) + "\n")


def make_problem(data_dir: Path, run: ExperimentRun) -> Problem:
    """The split of a seed, values as they are."""
    training, validation, test = read_split(run.data_set, data_dir, run.seed)
    inputs = Inputs.from_sequences(
        training, scale=False, time_channel=run.hyperparameters.include_time
    )
    labels = [np.asarray(part.labels) for part in (training, validation, test)]
    objective = Classification.from_labels(np.concatenate(labels))
    return Problem(inputs, objective, training, validation, test)


def read_split(data_set: str, data_dir: Path, seed: int) -> tuple[Sequences, Sequences, Sequences]:
    """Training, validation and test part of a seed: as published, or as the set comes divided."""
    folder = find(data_set, data_dir)
    if folder.name == data_set:
        cases = read_joined(folder)
        first, second, third = published_split(len(cases), seed)
        return cases.select(first), cases.select(second), cases.select(third)
    if not (folder / str(seed)).is_dir():
        raise DataError(f"{folder}: has no parts of seed {seed}, expected {folder / str(seed)}")
    training, validation, test = (read(folder / str(seed) / f"{part}.npz") for part in PARTS)
    return training, validation, test


@functools.lru_cache(maxsize=1)
def read_joined(folder: Path) -> Sequences:
    """Both parts of an archive's data set as one: each series once, sorted."""
    training, test = read_parts(folder)
    if test is None:
        raise DataError(f"{folder}: has no test part, expected {folder.name}_TEST")
    values = [np.asarray(case) for part in (training, test) for case in part.values]
    if len({case.shape for case in values}) > 1 or any(np.isnan(case).any() for case in values):
        raise DataError(f"{folder}: has series of unequal length or missing values, expected none")
    labels = np.concatenate([np.asarray(training.labels), np.asarray(test.labels)])
    order = sorted_unique(values)
    return Sequences([values[i] for i in order], labels[order])


def sorted_unique(rows: list[np.ndarray]) -> np.ndarray:
    """Indices of arrays in lexicographic order, of equal ones the first: as `numpy.unique(axis=0)`.

    That makes a field of each value, which takes long where an array has 200,000.

    ```python
    >>> import numpy as np
    >>> from linoss.experiments.uea import sorted_unique
    >>> sorted_unique([np.array([2.0, 1.0]), np.array([1.0, 3.0]), np.array([2.0, 1.0])])
    array([1, 0])

    ```
    """
    flat = [row.reshape(-1) for row in rows]

    def compare(i: int, j: int) -> int:
        different = flat[i] != flat[j]
        first = int(np.argmax(different))
        if not different[first]:
            return 0
        return -1 if flat[i][first] < flat[j][first] else 1

    order = sorted(range(len(rows)), key=functools.cmp_to_key(compare))
    kept = [i for place, i in enumerate(order) if not place or compare(order[place - 1], i)]
    return np.array(kept)


def report(results: list[ExperimentResult], figures: Figures) -> str:
    """The paper's table with ours beside it, seed by seed, and learning curves."""
    lines = [
        "Test accuracy in percent: mean ± deviation over the seeds.",
        "",
        *accuracy_table(results),
        "",
        "Seed by seed, with what was published with the paper's code. Test parts are small: the "
        "standard error, in points, is what chance does to the mean over that many answers. Beside "
        "it: the difference to the published results of the same seeds and its standard error; the "
        "accuracy on the validation part, as large as the test part and drawn likewise, the mean "
        "over all evaluations, so that nothing was chosen by it; and how far the mean of the tests "
        "is from the paper's, in deviations as the paper prints them.",
        "",
        *seed_table(results),
        "",
    ]
    for data_set in unique(result.data_set for result in results):
        there = [result for result in results if result.data_set == data_set]
        for protocol in unique(result.protocol for result in there):
            chosen = [result for result in there if result.protocol == protocol]
            name = f"{NAME}-{data_set}-{protocol}"
            lines += learning_curves(chosen, figures, name, f"{data_set}, {protocol}")
    return "\n".join(lines)


def accuracy_table(results: list[ExperimentResult]) -> list[str]:
    """A row of the paper and one of ours for each model."""
    rows = []
    for model in unique([*_paper.ACCURACY, *(result.model for result in results)]):
        paper = _paper.ACCURACY.get(model)
        if paper is not None:
            average = sum(spread.mean for spread in paper.values()) / len(paper)
            cells = [printed(paper[data_set]) for data_set in _paper.UEA]
            rows.append([NAMES[model], source_of(model), *cells, f"{average:.1f}"])
        ours = [result for result in results if result.model == model]
        for protocol in unique(result.protocol for result in ours):
            chosen = [result for result in ours if result.protocol == protocol]
            cells = [
                over_seeds((r for r in chosen if r.data_set == data_set), scale=100)
                for data_set in _paper.UEA
            ]
            rows.append([NAMES[model], f"here, {protocol}", *cells, _average(chosen)])
    head = ["model", "", *(d.short for d in _paper.UEA.values()), "average"]
    return [table(head, rows)]


def _average(results: list[ExperimentResult]) -> str:
    means = []
    for data_set in _paper.UEA:
        found = [r.outcome["test"] for r in results if r.data_set == data_set]
        if not found or None in found:
            return ABSENT
        means.append(sum(found) / len(found))
    return f"{100 * sum(means) / len(means):.1f}"


def seed_table(results: list[ExperimentResult]) -> list[str]:
    """Each seed's test accuracy, ours and the published one."""
    rows = []
    seeds = unique([*_paper.SEEDS, *(result.seed for result in results)])
    for key in unique((r.data_set, r.model, r.protocol) for r in results):
        data_set, model, protocol = key
        chosen = [r for r in results if (r.data_set, r.model, r.protocol) == key]
        tests = {r.seed: r.outcome["test"] for r in chosen}
        answers, published = _answers(chosen), _published(data_set, model)
        rows.append(
            [
                _paper.UEA[data_set].short,
                NAMES[model],
                f"here, {protocol}",
                *(ABSENT if tests.get(s) is None else f"{tests[s]:.3f}" for s in seeds),
                span(r.outcome["steps"] for r in chosen),
                f"{100 * _share(answers)[1]:.1f}" if answers else ABSENT,
                _difference(chosen, published),
                _validation(chosen),
                judged(chosen, _paper.ACCURACY.get(model, {}).get(data_set), scale=100),
            ]
        )
        if published:
            cells = [f"{published[s]:.3f}" if s in published else ABSENT for s in seeds]
            rows.append([_paper.UEA[data_set].short, NAMES[model], "published", *cells, *[""] * 5])
    head = ["set", "model", "", *map(str, seeds), "steps", "standard error"]
    head += ["from the same seeds", "validation", "tests, from the paper's"]
    return [table(head, rows)]


def _validation(results: list[ExperimentResult]) -> str:
    """Accuracy on the validation part, in percent: the mean over all evaluations, not the best."""
    curves = [[h["metric"] for h in r.history if h["metric"] is not None] for r in results]
    means = [sum(curve) / len(curve) for curve in curves if curve]
    return f"{100 * sum(means) / len(means):.1f}" if means else ABSENT


def _published(data_set: str, model: str) -> dict[int, float]:
    """The published test accuracy of each seed, where it is known."""
    return dict(zip(_paper.SEEDS, _paper.PER_SEED.get((data_set, model), ()), strict=False))


def _difference(results: list[ExperimentResult], published: dict[int, float]) -> str:
    """To the published answers on the same splits, in points, with its standard error."""
    both = [r for r in results if r.seed in published and r.outcome["test"] is not None]
    if not both:
        return ABSENT
    theirs = [(r.outcome["cases"][2], published[r.seed or 0]) for r in both]
    (ours, our_error), (them, their_error) = (_share(a) for a in (_answers(both), theirs))
    return f"{100 * (ours - them):+.1f} ± {100 * math.hypot(our_error, their_error):.1f}"


def _answers(results: list[ExperimentResult]) -> list[tuple[int, float]]:
    """How many there are in each test part, and the share of right ones."""
    tests = [(r.outcome["cases"][2], r.outcome["test"]) for r in results]
    return [(cases, test) for cases, test in tests if test is not None]


def _share(answers: list[tuple[int, float]]) -> tuple[float, float]:
    """Of right answers in all of them, and its standard error: as if each were drawn by itself."""
    total = sum(cases for cases, _ in answers)
    share = sum(cases * test for cases, test in answers) / total
    return share, math.sqrt(share * (1 - share) / total)
