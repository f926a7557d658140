"""What the constant in the published loss does to the first update of the published models:

    python benchmarks/objective.py --data-dir DIRECTORY

The loss is -log(p + 1e-8), p the softmax of the model's answers. Its gradient is that of -log p
times p / (p + 1e-8): nothing is left of it where p is far below 1e-8. For the first 32 training
cases of each published seed: the smallest stiffness and the largest output of the initial model,
how many percent of the cases get its commonest prediction, and the norm of the gradient, with the
published loss and with log-softmax.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from linoss import LinOSS, LinOSSConfig, Oscillators
from linoss.experiments import uea
from linoss.experiments._execute import make_run
from linoss.experiments._markdown import table
from linoss.experiments._paper import SEEDS, UEA
from linoss.experiments._protocol import NAMES, Options
from linoss.nn import trainable

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
    run = make_run(uea.NAME, Options(out=Path()), data_set, model, seed, variant=variant)
    problem = uea.make_problem(data_dir, run)
    sizes = {"in_size": problem.inputs.in_size, "out_size": problem.objective.out_size}
    config = LinOSSConfig.published(**sizes, **run.model_settings)
    network = LinOSS(config, key=jax.random.split(jax.random.key(seed), 4)[1])
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
        rows.append([UEA[data_set].short, NAMES[model], variant or "as they are", *cells])
    head = ["set", "model", "values", "smallest A", "largest output", "commonest prediction"]
    print(table([*head, "gradient, published loss", "gradient, log-softmax"], rows))


if __name__ == "__main__":
    main()
