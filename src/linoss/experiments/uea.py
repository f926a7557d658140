"""Classification of six long data sets of the UEA archive, on the splits of the published runs."""

import functools
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from linoss._files import make_directory, write_text
from linoss._stderr import duration, say
from linoss.estimators import OscillatorClassifier
from linoss.experiments import _paper
from linoss.experiments._accuracy import accuracy_table, seed_table
from linoss.experiments._data_sets import MissingData, data_directory, find
from linoss.experiments._execute import ExperimentRun, Problem, execute, make_run, refuse_used
from linoss.experiments._figures import Figures, learning_curves
from linoss.experiments._models import MODELS as COMPARED
from linoss.experiments._protocol import NAMES, UNTRAINED, Options, Scope
from linoss.experiments._published import WITHOUT, curve_table
from linoss.experiments._results import (
    MISSING,
    ExperimentResult,
    made_by,
    read_result,
    unique,
    write_result,
)
from linoss.experiments._splits import read_split
from linoss.nn import LinOSS
from linoss.training import Classification, Inputs, predict

NAME, TITLE = "uea", "Six data sets of the UEA archive"
SCALED, LOG_SOFTMAX = "scaled", "log-softmax"
"""Variants: channels standardised by the training part, and the loss without a floor."""
SCOPE = Scope(
    data_sets=tuple(_paper.UEA),
    models=("im", "imex"),
    beside=("damped", *COMPARED, UNTRAINED),
    on_demand=(SCALED, LOG_SOFTMAX),
    seeds=_paper.SEEDS,
)


def run(options: Options) -> None:
    """Train every model on every available data set, with every seed."""
    data_dir, data_sets = available(options, NAME, SCOPE)
    models, seeds = options.models or SCOPE.models, options.seeds or SCOPE.seeds
    runs = [
        make_run(NAME, options, data_set, model, seed, variant=variant)
        for data_set in data_sets
        for model in models
        if model != UNTRAINED
        for variant in options.variants or SCOPE.variants
        for seed in seeds
    ]
    if UNTRAINED in models:
        for data_set in data_sets:
            for seed in seeds:
                fit_untrained(options, data_dir, data_set, seed)
    if runs:
        execute(runs, functools.partial(make_problem, data_dir), options, count_answers)


def fit_untrained(options: Options, data_dir: Path, data_set: str, seed: int) -> None:
    """Fit untrained oscillators; the validation part is not used for any selection."""
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
    """The requested data sets; without a request, those that are available."""
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
        say(f"Skipped: {error}")
    note_missing(options.out / experiment, missing)
    return data_dir, there


def run_variants(
    options: Options, experiment: str, scope: Scope, variants: dict[str, dict[str, Any]]
) -> None:
    """Train each variant, changes of settings, with every seed, on every available data set."""
    data_dir, data_sets = available(options, experiment, scope)
    runs = [
        make_run(experiment, options, data_set, model, seed, variant=v, changes=variants[v])
        for data_set in data_sets
        for model in options.models or scope.models
        for v in options.variants or variants
        for seed in options.seeds or scope.seeds
    ]
    execute(runs, functools.partial(make_problem, data_dir), options)


def note_missing(folder: Path, missing: list[MissingData]) -> None:
    """Record the missing data sets, for the page of results."""
    make_directory(folder)
    content = {error.data_set: error.source for error in missing}
    write_text(folder / MISSING, json.dumps(content, indent=1) + "\n")


def make_problem(data_dir: Path, run: ExperimentRun) -> Problem:
    """The split of a seed, with values and loss as published or as in the variant."""
    training, validation, test = read_split(run.data_set, data_dir, run.seed)
    inputs = Inputs.from_sequences(
        training,
        scale=run.variant == SCALED,
        time_channel=run.hyperparameters.include_time,
    )
    labels = [np.asarray(part.labels) for part in (training, validation, test)]
    floor = 0.0 if run.variant == LOG_SOFTMAX else _paper.LOSS_FLOOR
    objective = Classification.from_labels(np.concatenate(labels), floor=floor)
    return Problem(inputs, objective, training, validation, test)


def count_answers(model: LinOSS, problem: Problem) -> dict[str, Any]:
    """The number of predictions of each class on the test part."""
    answers = np.argmax(predict(model, problem.inputs, problem.test), axis=-1)
    return {"answers": np.bincount(answers, minlength=problem.objective.out_size).tolist()}


def report(results: list[ExperimentResult], figures: Figures) -> str:
    """The paper's table with our rows, results of each seed, and learning curves."""
    lines = [
        "Test accuracy in percent: mean ± deviation over the seeds.",
        "",
        *accuracy_table(results),
        "",
        "Seed by seed, with what was published with the paper's code. Test parts are small: the "
        "standard error, in points, is what chance does to the mean over that many answers. Beside "
        "it: the difference to the published results of the same seeds and its standard error; the "
        "accuracy on the validation part, as large as the test part and drawn likewise, the mean "
        "over all evaluations, so that nothing was chosen by it; how far the mean of the tests is "
        "from the paper's, in deviations as the paper prints them; and the share of the test part "
        "that gets the answer given most often, 100 where the model answers everything alike.",
        "",
        *seed_table(results),
        "",
        *_curves(results, figures),
    ]
    for data_set in unique(result.data_set for result in results):
        there = [result for result in results if result.data_set == data_set]
        for protocol in unique(result.protocol for result in there):
            chosen = [result for result in there if result.protocol == protocol]
            name = f"{NAME}-{data_set}-{protocol}"
            lines += learning_curves(chosen, figures, name, f"{data_set}, {protocol}")
    return "\n".join(lines)


def _curves(results: list[ExperimentResult], figures: Figures) -> list[str]:
    """Our learning curves and, if available, the published ones."""
    if not figures.published:
        return [WITHOUT, ""]
    compared = curve_table(results, figures.published)
    if not compared:
        return []
    return [
        "Along the way: accuracy on the validation part in percent after as many steps as a "
        "published evaluation had, with the mean ± deviation and the range of the published seeds; "
        "the difference to the same seeds; how many of our seeds are within the published range; "
        "and how far our mean is from theirs. In the figures, published runs have dashes.",
        "",
        *compared,
        "",
    ]
