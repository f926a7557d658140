"""Tables of accuracy on the UEA sets: the paper's, ours and later models, and for each seed."""

import math

from linoss.experiments import _paper
from linoss.experiments._markdown import (
    ABSENT,
    judged,
    name_of,
    over_seeds,
    printed,
    source_here,
    source_of,
    span,
    table,
)
from linoss.experiments._results import ExperimentResult, unique


def accuracy_table(results: list[ExperimentResult]) -> list[str]:
    """Rows of the paper and of ours for each model, then those of later models."""
    rows = []
    for model in unique([*_paper.ACCURACY, *(result.model for result in results)]):
        if model in _paper.ACCURACY:
            rows.append(_printed_row(name_of(model), source_of(model), _paper.ACCURACY[model]))
        if model in _paper.RERUN:
            again = "the paper's code, run by others"
            rows.append(_printed_row(name_of(model), again, _paper.RERUN[model]))
        ours = [result for result in results if result.model == model]
        for kind in unique((result.protocol, result.variant) for result in ours):
            chosen = [result for result in ours if (result.protocol, result.variant) == kind]
            cells = [
                over_seeds((r for r in chosen if r.data_set == data_set), scale=100)
                for data_set in _paper.UEA
            ]
            rows.append([name_of(model), source_here(*kind), *cells, _average(chosen)])
    rows += [_printed_row(name, source_of(name), row) for name, (_, row) in _paper.SINCE.items()]
    head = ["model", "", *(d.short for d in _paper.UEA.values()), "average"]
    return [table(head, rows)]


def _printed_row(name: str, source: str, row: dict[str, _paper.Spread]) -> list[str]:
    cells = [printed(row.get(data_set)) for data_set in _paper.UEA]
    average = sum(spread.mean for spread in row.values()) / len(row)
    return [name, source, *cells, f"{average:.1f}" if len(row) == len(_paper.UEA) else ABSENT]


def _average(results: list[ExperimentResult]) -> str:
    means = []
    for data_set in _paper.UEA:
        found = [r.outcome["test"] for r in results if r.data_set == data_set]
        if not found or None in found:
            return ABSENT
        means.append(sum(found) / len(found))
    return f"{100 * sum(means) / len(means):.1f}"


def seed_table(results: list[ExperimentResult]) -> list[str]:
    """The test accuracy of each seed, ours and the published one."""
    rows, shown = [], set[tuple[str, str]]()
    seeds = unique([*_paper.SEEDS, *(result.seed for result in results)])
    for key in unique((r.data_set, r.model, r.protocol, r.variant) for r in results):
        data_set, model, *kind = key
        chosen = [r for r in results if (r.data_set, r.model, r.protocol, r.variant) == key]
        tests = {r.seed: r.outcome["test"] for r in chosen}
        answers, published = _answers(chosen), _published(data_set, model)
        rows.append(
            [
                _paper.UEA[data_set].short,
                name_of(model),
                source_here(*kind),
                *(ABSENT if tests.get(s) is None else f"{tests[s]:.3f}" for s in seeds),
                span(r.outcome["steps"] for r in chosen),
                f"{100 * _share(answers)[1]:.1f}" if answers else ABSENT,
                _difference(chosen, published),
                _validation(chosen),
                judged(chosen, _paper.ACCURACY.get(model, {}).get(data_set), scale=100),
                _commonest(chosen),
            ]
        )
        if published and (data_set, model) not in shown:
            shown.add((data_set, model))
            cells = [f"{published[s]:.3f}" if s in published else ABSENT for s in seeds]
            rows.append(
                [_paper.UEA[data_set].short, name_of(model), "published", *cells, *[""] * 6]
            )
    head = ["set", "model", "", *map(str, seeds), "steps", "standard error"]
    head += ["from the same seeds", "validation", "tests, from the paper's", "commonest answer"]
    return [table(head, rows)]


def _validation(results: list[ExperimentResult]) -> str:
    """Validation accuracy in percent: the mean over all evaluations, not the best."""
    curves = [[h["metric"] for h in r.history if h["metric"] is not None] for r in results]
    means = [sum(curve) / len(curve) for curve in curves if curve]
    return f"{100 * sum(means) / len(means):.1f}" if means else ABSENT


def _commonest(results: list[ExperimentResult]) -> str:
    """The fraction of the test part with the most frequent prediction: minimum and maximum."""
    counts = [r.outcome["answers"] for r in results if "answers" in r.outcome]
    return span(100 * max(count) / sum(count) for count in counts)


def _published(data_set: str, model: str) -> dict[int, float]:
    """The published test accuracy of each seed, if it is known."""
    return dict(zip(_paper.SEEDS, _paper.PER_SEED.get((data_set, model), ()), strict=False))


def _difference(results: list[ExperimentResult], published: dict[int, float]) -> str:
    """The difference to the published results on the same splits, in points, with its standard
    error."""
    both = [r for r in results if r.seed in published and r.outcome["test"] is not None]
    if not both:
        return ABSENT
    theirs = [(r.outcome["cases"][2], published[r.seed or 0]) for r in both]
    (ours, our_error), (them, their_error) = (_share(a) for a in (_answers(both), theirs))
    error = 100 * math.hypot(our_error, their_error)
    return f"{round(100 * (ours - them), 1) + 0.0:+.1f} ± {error:.1f}"  # avoid -0.0


def _answers(results: list[ExperimentResult]) -> list[tuple[int, float]]:
    """The number of cases in each test part, and the fraction of correct predictions."""
    tests = [(r.outcome["cases"][2], r.outcome["test"]) for r in results]
    return [(cases, test) for cases, test in tests if test is not None]


def _share(answers: list[tuple[int, float]]) -> tuple[float, float]:
    """The fraction of correct predictions, and its standard error for independent cases."""
    total = sum(cases for cases, _ in answers)
    share = sum(cases * test for cases, test in answers) / total
    return share, math.sqrt(share * (1 - share) / total)
