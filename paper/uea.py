"""Classification of six long data sets of the UEA archive, on the splits of the published runs, and
two ablations: the parameterisation of A >= 0, and a fixed timestep."""

import functools
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from linoss.estimators import OscillatorClassifier
from linoss.nn import LinOSS
from linoss.training import Classification, Inputs, predict
from paper import numbers, runs
from paper.data import MissingData, data_directory, find, read_split
from paper.models import BASELINES, SMALLEST, UNTRAINED, title
from paper.numbers import PublishedRun
from paper.runs import Experiment, Options, Problem, Result, Run
from paper.tables import cell, groups, learning_curves, printed, source_here, table, unique

FORMS: dict[str, dict[str, Any]] = {
    "relu": {"parameterization": "relu", "stiffness_init": "uniform"},
    "squared": {"parameterization": "squared", "stiffness_init": "uniform"},
    "squared-root": {"parameterization": "squared", "stiffness_init": "uniform-root"},
    "squared-normal": {"parameterization": "squared", "stiffness_init": "normal"},
}
"""Forms of A and their initialisation. The text draws A uniformly, whatever its form: `squared`.
With `squared-root`, the root is uniform instead."""
TIMESTEPS = {
    f"timestep-{timestep:g}": {"timestep": timestep} for timestep in (1e-3, 1e-2, 0.1, 1.0)
}
SCALED, LOG_SOFTMAX, SMALL = "scaled", "log-softmax", "small"
"""Channels standardised by the training part; the loss without a floor; the grid's smallest
model."""
_SMALL_FORMS = {
    f"{SMALL}-own-masks": {"shared_dropout": False},
    f"{SMALL}-erf": {"gelu": "erf"},
}
"""Dropout drawn for each case, and the exact GELU, to compare."""
_CHANGES = {**FORMS, **TIMESTEPS, **_SMALL_FORMS}


def run(options: Options, known: tuple[str, ...] = tuple(numbers.UEA)) -> None:
    """Train every model and variant on every available data set, with every seed."""
    data_sets = available(options, known)
    if UNTRAINED in options.models:
        for data_set in data_sets:
            for seed in options.seeds:
                fit_untrained(options, data_set, seed)
    todo = [
        runs.make_run(
            options,
            data_set,
            model,
            seed,
            chosen=SMALLEST if SMALL in (name or "") else None,
            variant=name,
            changes=_CHANGES.get(name or ""),
        )
        for data_set in data_sets
        for model in options.models
        if model != UNTRAINED
        for name in options.variants
        for seed in options.seeds
    ]
    problem = functools.partial(make_problem, data_directory(options.data_dir))
    runs.execute(todo, problem, options, count_answers)


def available(options: Options, known: Iterable[str]) -> list[str]:
    """The requested data sets; without a request, those that are available."""
    data_dir = data_directory(options.data_dir)
    present, missing = [], []
    for data_set in options.data_sets or known:
        try:
            find(data_set, data_dir)
            present.append(data_set)
        except MissingData as error:
            missing.append(error)
    if missing and (options.data_sets or not present):
        raise missing[0]
    for error in missing:
        runs.say(f"Skipped: {error}")
    return present


def fit_untrained(options: Options, data_set: str, seed: int) -> None:
    """Fit untrained oscillators; the validation part is not used for any selection."""
    classifier = OscillatorClassifier(random_state=seed)

    def outcome() -> dict[str, Any]:
        training, validation, test = read_split(data_set, data_directory(options.data_dir), seed)
        classifier.fit(training)
        return {
            "metric": "accuracy",
            "test": classifier.score(test),
            "validation": classifier.score(validation),
            "steps": 0,
            "cases": [len(part) for part in (training, validation, test)],
        }

    runs.measure_once(
        options,
        outcome,
        data_set=data_set,
        model=UNTRAINED,
        seed=seed,
        protocol=UNTRAINED,
        settings={"model": classifier.get_params()},
    )


def make_problem(data_dir: Path, run: Run) -> Problem:
    """The split of a seed, with values and loss as published or as in the variant."""
    training, validation, test = read_split(run.data_set, data_dir, run.seed)
    inputs = Inputs.from_sequences(
        training,
        scale=run.variant == SCALED,
        time_channel=run.hyperparameters.include_time,
    )
    labels = [np.asarray(part.labels) for part in (training, validation, test)]
    floor = 0.0 if run.variant == LOG_SOFTMAX else numbers.LOSS_FLOOR
    objective = Classification.from_labels(np.concatenate(labels), floor=floor)
    return Problem(inputs, objective, training, validation, test)


def count_answers(model: LinOSS, problem: Problem) -> dict[str, Any]:
    """The number of predictions of each class on the test part."""
    answers = np.argmax(predict(model, problem.inputs, problem.test), axis=-1)
    return {"answers": np.bincount(answers, minlength=problem.objective.out_size).tolist()}


def report(results: Sequence[Result], folder: Path, published: Sequence[PublishedRun]) -> str:
    """The paper's table with our rows, results of each seed, and learning curves."""
    curves = learning_curves(results, folder, "uea", published)
    return "\n".join([accuracy_table(results), "", seed_table(results), *curves])


def accuracy_table(results: Sequence[Result], variants: Sequence[str] | None = None) -> str:
    """Rows of the paper and of ours for each model, then those of later models; or of ablations."""
    theirs = {"im": [v for v in variants or () if v in numbers.PARAMETERIZATION]}
    if variants is None:
        theirs = {model: [None] for model in numbers.ACCURACY}
    rows = []
    for model in unique([*theirs, *(result.model for result in results)]):
        for variant in theirs.get(model, ()):
            row = numbers.PARAMETERIZATION[variant] if variant else numbers.ACCURACY[model]
            average = f"{numbers.AVERAGE[variant or model]:.1f}"
            source = ", ".join(filter(None, (numbers.SOURCES.get(model, "paper"), variant)))
            rows.append([title(model), source, *map(printed, row.values()), average])
        ours = [result for result in results if result.model == model]
        for kind, chosen in groups(ours, "protocol", "variant").items():
            by_set = [[r for r in chosen if r.data_set == name] for name in numbers.UEA]
            cells = [cell(of_set, scale=100) for of_set in by_set]
            average = _average(by_set) if all(cells) else ""
            rows.append([title(model), source_here(*kind), *cells, average])
    head = ["model", "", *(data_set.short for data_set in numbers.UEA.values()), "average"]
    return table(head, rows)


def _average(by_set: list[list[Result]]) -> str:
    tests = [[r.outcome["test"] for r in s if r.outcome["test"] is not None] for s in by_set]
    return f"{100 * statistics.fmean(map(statistics.fmean, tests)):.1f}"


def seed_table(results: Sequence[Result]) -> str:
    """The test accuracy of each seed, ours and the published one."""
    rows = []
    seeds = unique([*numbers.SEEDS, *(result.seed for result in results)])
    for key, chosen in groups(results, "data_set", "model", "protocol", "variant").items():
        data_set, model, *kind = key
        tests = {r.seed: r.outcome["test"] for r in chosen}
        name = [numbers.UEA[data_set].short, title(model)]
        theirs = dict(zip(numbers.SEEDS, numbers.PER_SEED.get((data_set, model), ()), strict=False))
        for source, of_seed in ((source_here(*kind), tests), ("published", theirs)):
            cells = [f"{of_seed[s]:.3f}" if of_seed.get(s) is not None else "" for s in seeds]
            rows.append([*name, source, *cells])
    shown = [row for row in unique(map(tuple, rows)) if any(row[3:])]
    return table(["set", "model", "", *map(str, seeds)], shown)


def _ablation(text: str, variants: Iterable[str], known: Iterable[str]) -> Experiment:
    def report(results: Sequence[Result], folder: Path, published: Sequence[PublishedRun]) -> str:
        """Our rows and the paper's; of the timestep it shows a figure without numbers."""
        curves = learning_curves(results, folder, "curves")
        return "\n".join([accuracy_table(results, tuple(variants)), *curves])

    return Experiment(
        title=text,
        run=functools.partial(run, known=tuple(known)),
        report=report,
        data_sets=tuple(known),
        models=("im",),
        others=("imex",),
        variants=tuple(variants),
        seeds=numbers.SEEDS,
    )


_OF_FIGURE = ("SelfRegulationSCP1", "Heartbeat", "MotorImagery")
PARAMETERIZATION = _ablation("Parameterisation and initialisation of A", FORMS, numbers.UEA)
TIMESTEP = _ablation("Sensitivity to the timestep", TIMESTEPS, _OF_FIGURE)
EXPERIMENT = Experiment(
    title="Six data sets of the UEA archive",
    run=run,
    report=report,
    data_sets=tuple(numbers.UEA),
    models=("im", "imex"),
    others=(*("damped", "verlet", "exact", "damped-im", "damped-exact"), *BASELINES, UNTRAINED),
    on_request=(SCALED, LOG_SOFTMAX, SMALL, *_SMALL_FORMS),
    seeds=numbers.SEEDS,
)
