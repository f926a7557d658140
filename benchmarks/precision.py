"""Training in float32 and in bfloat16, side by side: `python benchmarks/precision.py --help`.

The same model, splits and order of cases in both precisions. For each tenth of the training: the
mean training loss since the last line, and the metric on the validation part; means over seeds.
"""

import argparse
import dataclasses
import os
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np

import linoss
from linoss.training import evaluate, train

sys.path.insert(0, str(Path(__file__).parents[1]))

from paper import harmonic_motion, uea
from paper.numbers import SEEDS
from paper.runs import Options, make_run

PRECISIONS = ("float32", "bfloat16")
SIZES = ("hidden_size", "state_size", "num_blocks")


def problem_of(what: str, seed: int, steps: int) -> tuple[Any, Any]:
    """A run of one of the paper's experiments, and its data."""
    options = Options(
        experiment=what,
        out=Path(),
        protocol="quick",
        max_steps=steps,
        models=("im",),
        seeds=(seed,),
    )
    if what == "harmonic-motion":
        (run,) = harmonic_motion.runs_of(options)
        return run, harmonic_motion.make_problem(run)
    run = make_run(options, "SelfRegulationSCP1", "im", seed)
    return run, uea.make_problem(Path(os.environ["LINOSS_DATA"]), run)


def curve(
    what: str, seed: int, steps: int, precision: str, sizes: dict[str, int]
) -> tuple[np.ndarray, float]:
    """Loss and validation metric at each tenth, and the metric on the test part of the
    weights that do best on validation."""
    run, problem = problem_of(what, seed, steps)
    config = linoss.LinOSSConfig.published(
        in_size=problem.inputs.in_size,
        out_size=problem.objective.out_size,
        precision=precision,
        **{**problem.settings, **run.model_settings, **sizes},
    )
    model = linoss.LinOSS(config, key=jax.random.split(jax.random.key(seed), 4)[1])
    training = dataclasses.replace(run.training, evaluate_every=max(steps // 10, 1), patience=None)
    parts = (problem.inputs, problem.objective, problem.training, problem.validation)
    result = train(model, *parts, training)
    found = np.array([(record["loss"], record["metric"]) for record in result.history])
    return found, evaluate(result.model, problem.inputs, problem.objective, problem.test)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["scp1", "harmonic-motion"])
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS[:3]))
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument(
        "--sizes",
        type=int,
        nargs=3,
        metavar=SIZES,
        help="sizes of the model, by default the published ones",
    )
    options = parser.parse_args()
    sizes: dict[str, int] = dict(zip(SIZES, options.sizes or (), strict=False))
    curves: dict[str, list[np.ndarray]] = {precision: [] for precision in PRECISIONS}
    for seed in options.seeds:
        for precision in PRECISIONS:
            found, test = curve(options.what, seed, options.steps, precision, sizes)
            curves[precision].append(found)
            print(f"seed {seed}, {precision}: test {test:.4g}", flush=True)
    print("\n| step | " + " | ".join(f"loss, {p} | validation, {p}" for p in PRECISIONS) + " |")
    print("|---|" + "---|" * 2 * len(PRECISIONS))
    means = [np.mean(curves[precision], axis=0) for precision in PRECISIONS]
    for place, row in enumerate(np.concatenate(means, axis=1), start=1):
        cells = " | ".join(f"{value:.4g}" for value in row)
        print(f"| {place * max(options.steps // 10, 1)} | {cells} |")


if __name__ == "__main__":
    main()
