"""Two ablations on the UEA sets: the parameterisation of A >= 0, and a fixed timestep."""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from paper import numbers, uea
from paper.data import data_directory
from paper.models import title
from paper.numbers import PublishedRun
from paper.runs import Experiment, Options, Result, execute, make_run
from paper.tables import cell, groups, learning_curves, printed, table

FORMS: dict[str, dict[str, Any]] = {
    "relu": {"parameterization": "relu", "stiffness_init": "uniform"},
    "squared": {"parameterization": "squared", "stiffness_init": "uniform"},
    "squared-normal": {"parameterization": "squared", "stiffness_init": "normal"},
}
TIMESTEPS = {
    f"timestep-{timestep:g}": {"timestep": timestep} for timestep in (1e-3, 1e-2, 0.1, 1.0)
}
CHANGES = {**FORMS, **TIMESTEPS}


def run(known: tuple[str, ...], options: Options) -> None:
    """Train each variant with every seed, on every available data set."""
    runs = [
        make_run(options, data_set, model, seed, variant=name, changes=CHANGES[name or ""])
        for data_set in uea.available(options, known)
        for model in options.models
        for name in options.variants
        for seed in options.seeds
    ]
    problem = functools.partial(uea.make_problem, data_directory(options.data_dir))
    execute(runs, problem, options)


def _rows(results: Sequence[Result], variants: Sequence[str], paper: bool) -> list[list[str]]:
    """For each variant the paper's row, if there is one, and ours."""
    rows = []
    for variant in variants:
        if paper:
            row = numbers.PARAMETERIZATION[variant]
            rows.append([title("im"), variant, "paper", *map(printed, row.values())])
        ours = [result for result in results if result.variant == variant]
        for (model, protocol), chosen in groups(ours, "model", "protocol").items():
            cells = [
                cell((r for r in chosen if r.data_set == data_set), scale=100)
                for data_set in numbers.UEA
            ]
            rows.append([title(model), variant, f"here, {protocol}", *cells])
    return rows


_HEAD = ["model", "variant", "", *(data_set.short for data_set in numbers.UEA.values())]


def report(
    variants: tuple[str, ...],
    results: Sequence[Result],
    folder: Path,
    published: Sequence[PublishedRun],
) -> str:
    """Our rows and the paper's; of the timestep it shows a figure without numbers."""
    rows = _rows(results, variants, paper=variants == tuple(FORMS))
    return "\n".join([table(_HEAD, rows), *learning_curves(results, folder, "curves")])


PARAMETERIZATION = Experiment(
    title="Parameterisation and initialisation of A",
    run=functools.partial(run, tuple(numbers.UEA)),
    report=functools.partial(report, tuple(FORMS)),
    data_sets=tuple(numbers.UEA),
    models=("im",),
    others=("imex",),
    variants=tuple(FORMS),
    seeds=numbers.SEEDS,
)
_SETS = ("SelfRegulationSCP1", "Heartbeat", "MotorImagery")  # of the figure
TIMESTEP = Experiment(
    title="Sensitivity to the timestep",
    run=functools.partial(run, _SETS),
    report=functools.partial(report, tuple(TIMESTEPS)),
    data_sets=_SETS,
    models=("im",),
    others=("imex",),
    variants=tuple(TIMESTEPS),
    seeds=numbers.SEEDS,
)
