"""Parameterisation and initialisation of A >= 0: ReLU, squared, squared with normal
initialisation."""

from typing import Any

from linoss.experiments import _paper
from linoss.experiments._figures import Figures, learning_curves
from linoss.experiments._markdown import over_seeds, printed, span, table
from linoss.experiments._protocol import NAMES, Options, Scope
from linoss.experiments._results import ExperimentResult, unique
from linoss.experiments.uea import run_variants

NAME, TITLE = "parameterization", "Parameterisation and initialisation of A"
VARIANTS: dict[str, dict[str, Any]] = {
    "relu": {"parameterization": "relu", "stiffness_init": "uniform"},
    "squared": {"parameterization": "squared", "stiffness_init": "uniform"},
    "squared-normal": {"parameterization": "squared", "stiffness_init": "normal"},
}
SCOPE = Scope(
    data_sets=tuple(_paper.UEA), models=("im",), variants=tuple(VARIANTS), seeds=_paper.SEEDS
)


def run(options: Options) -> None:
    """Train each variant with every seed, on every available data set."""
    run_variants(options, NAME, SCOPE, VARIANTS)


def report(results: list[ExperimentResult], figures: Figures) -> str:
    """Our rows and the paper's."""
    lines = ["Test accuracy in percent: mean ± deviation over the seeds.", ""]
    data_sets = [name for name in _paper.UEA if any(r.data_set == name for r in results)]
    rows = []
    for model in unique(result.model for result in results):
        for variant in VARIANTS:
            if model == "im":
                paper = _paper.PARAMETERIZATION[variant]
                cells = [printed(paper[data_set]) for data_set in data_sets]
                rows.append([NAMES[model], variant, "paper", *cells, ""])
            ours = [r for r in results if (r.model, r.variant) == (model, variant)]
            for protocol in unique(result.protocol for result in ours):
                chosen = [r for r in ours if r.protocol == protocol]
                cells = [
                    over_seeds((r for r in chosen if r.data_set == data_set), scale=100)
                    for data_set in data_sets
                ]
                steps = span(r.outcome["steps"] for r in chosen)
                rows.append([NAMES[model], variant, f"here, {protocol}", *cells, steps])
    short = [_paper.UEA[data_set].short for data_set in data_sets]
    lines += [table(["model", "A", "", *short, "steps"], rows), ""]
    for data_set, protocol in unique((r.data_set, r.protocol) for r in results):
        chosen = [r for r in results if (r.data_set, r.protocol) == (data_set, protocol)]
        name = f"{NAME}-{data_set}-{protocol}"
        lines += learning_curves(chosen, figures, name, f"{data_set}, {protocol}")
    return "\n".join(lines)
