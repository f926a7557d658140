"""Sensitivity to the timestep: fixed values from 0.001 to 1."""

import statistics

from linoss.experiments import _paper
from linoss.experiments._figures import Figures, learning_curves
from linoss.experiments._markdown import over_seeds, printed, span, table
from linoss.experiments._protocol import NAMES, Options, Scope
from linoss.experiments._results import ExperimentResult, unique
from linoss.experiments.uea import run_variants

NAME, TITLE = "timestep", "Sensitivity to the timestep"
VARIANTS = {f"timestep-{timestep:g}": {"timestep": timestep} for timestep in (1e-3, 1e-2, 0.1, 1.0)}
SCOPE = Scope(
    data_sets=("SelfRegulationSCP1", "Heartbeat", "MotorImagery"),  # the sets of the figure
    models=("im",),
    variants=tuple(VARIANTS),
    seeds=_paper.SEEDS,
)


def run(options: Options) -> None:
    """Train with each timestep and every seed, on the available sets of the figure."""
    run_variants(options, NAME, SCOPE, VARIANTS)


def report(results: list[ExperimentResult], figures: Figures) -> str:
    """A table and the figure: mean and standard deviation over the timestep."""
    lines = [
        "Test accuracy in percent by timestep: mean ± deviation over the seeds. The paper shows "
        "these as a figure without numbers; its text has Δt = 1, its published runs learned Δt.",
        "",
    ]
    rows = []
    timesteps = sorted({timestep_of(result) for result in results})
    for key in unique((r.data_set, r.model, r.protocol) for r in results):
        data_set, model, protocol = key
        chosen = [r for r in results if (r.data_set, r.model, r.protocol) == key]
        cells = [
            over_seeds((r for r in chosen if timestep_of(r) == timestep), scale=100)
            for timestep in timesteps
        ]
        short, paper = _paper.UEA[data_set].short, _paper.ACCURACY.get(model, {}).get(data_set)
        steps = span(r.outcome["steps"] for r in chosen)
        rows.append([short, NAMES[model], protocol or "", *cells, printed(paper), steps])
    head = ["set", "model", "protocol", *(f"Δt = {timestep:g}" for timestep in timesteps)]
    lines += [table([*head, "paper, learned Δt", "steps"], rows), ""]
    for protocol in unique(result.protocol for result in results):
        chosen = [result for result in results if result.protocol == protocol]
        lines += _figure(chosen, figures, f"{NAME}-{protocol}")
        for data_set in unique(result.data_set for result in chosen):
            there = [result for result in chosen if result.data_set == data_set]
            name = f"{NAME}-{data_set}-{protocol}"
            lines += learning_curves(there, figures, name, f"{data_set}, {protocol}")
    return "\n".join(lines)


def timestep_of(result: ExperimentResult) -> float:
    """The fixed timestep of a run."""
    return float(result.settings["model"]["timestep"])


def _figure(results: list[ExperimentResult], figures: Figures, name: str) -> list[str]:
    lines: list[str] = []
    alt = "Test accuracy over the timestep, mean and deviation over the seeds."
    with figures.draw(name, alt, lines) as axes:
        for data_set, model in unique((r.data_set, r.model) for r in results):
            points = []
            for timestep in sorted({timestep_of(result) for result in results}):
                found = [
                    100 * r.outcome["test"]
                    for r in results
                    if (r.data_set, r.model, timestep_of(r)) == (data_set, model, timestep)
                    and r.outcome["test"] is not None
                ]
                if found:
                    points.append((timestep, statistics.fmean(found), statistics.pstdev(found)))
            if points:
                x, mean, deviation = zip(*points, strict=True)
                label = f"{_paper.UEA[data_set].short}, {NAMES[model]}"
                axes.errorbar(x, mean, yerr=deviation, marker="o", capsize=3, label=label)
        axes.set(xscale="log", xlabel="timestep Δt", ylabel="test accuracy in percent")
        axes.legend(frameon=False, fontsize="small")
    return lines
