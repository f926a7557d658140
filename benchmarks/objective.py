"""What the constant in the published loss does to the first update of the published models:

    python benchmarks/objective.py --data-dir DIRECTORY

The loss is -log(p + 1e-8), p the softmax of the model's answers. Its gradient is that of -log p
times p / (p + 1e-8): nothing is left of it where p is far below 1e-8. For the first 32 training
cases of each published seed: the smallest stiffness and the largest output of the initial model,
how many percent of the cases get its commonest prediction, and the norm of the gradient, with the
published loss and with log-softmax.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from linoss import LinOSS, Oscillators
from linoss.nn import trainable

sys.path.insert(0, str(Path(__file__).parents[1]))

from paper import uea
from paper.models import title
from paper.numbers import SEEDS, UEA
from paper.runs import Options, make_run
from paper.tables import table

RUNS = (
    ("EthanolConcentration", "im", None),
    ("EthanolConcentration", "imex", None),
    ("EthanolConcentration", "damped", None),
    ("EthanolConcentration", "im", uea.SCALED),
    ("SelfRegulationSCP1", "im", None),
    ("SelfRegulationSCP2", "imex", None),
)


@eqx.filter_jit
def first_gradient(model: LinOSS, arguments: Any, targets: Any, loss: Any) -> tuple[Any, Any]:
    """The answers of a training step, and the norm of its gradient."""
    weights, rest = eqx.partition(model, trainable(model))

    def value(weights: Any) -> tuple[Any, Any]:
        whole = eqx.combine(weights, rest)
        answers, _ = whole.training_pass(**arguments, key=jax.random.key(0))
        return loss(answers, *targets), answers

    gradient, answers = jax.grad(value, has_aux=True)(weights)
    return answers, optax.global_norm(gradient)


def measured(
    data_dir: Path, data_set: str, model: str, variant: str | None, seed: int
) -> list[str]:
    """Cells of the table."""
    options = Options(experiment="uea", out=Path())
    run = make_run(options, data_set, model, seed, variant=variant)
    problem = uea.make_problem(data_dir, run)
    network = problem.model(run)
    batch = problem.training.batch(range(32))
    arguments = problem.inputs(batch, masked=False)
    targets = [jnp.asarray(array) for array in problem.objective.targets(batch)]
    norms, answers = [], np.zeros(0)
    for floor in (1e-8, 0.0):
        loss = replace(problem.objective, floor=floor).loss
        answers, norm = first_gradient(network, arguments, targets, loss)
        norms.append(f"{float(norm):.3g}")
    counts = np.bincount(np.argmax(answers, axis=-1))
    share = 100 * counts.max() / counts.sum()
    parts = jax.tree.leaves(network, is_leaf=lambda part: isinstance(part, Oscillators))
    smallest = min(float(p.stiffness.min()) for p in parts if isinstance(p, Oscillators))
    return [f"{smallest:.1e}", f"{np.abs(answers).max():.3g}", f"{share:.0f}", *norms]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="The first gradient of published models, by loss.")
    parser.add_argument("--data-dir", type=Path, required=True, help="directory of data sets")
    data_dir = parser.parse_args().data_dir
    rows = []
    for data_set, model, variant in RUNS:
        seeds = [measured(data_dir, data_set, model, variant, seed) for seed in SEEDS]
        cells = [", ".join(column) for column in zip(*seeds, strict=True)]
        rows.append([UEA[data_set].short, title(model), variant or "as they are", *cells])
    head = ["set", "model", "values", "smallest A", "largest output", "commonest prediction"]
    print(table([*head, "gradient, published loss", "gradient, log-softmax"], rows))


if __name__ == "__main__":
    main()
