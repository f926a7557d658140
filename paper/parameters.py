"""The number of parameters of the paper's models, counted exactly."""

import functools
from collections.abc import Sequence
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from linoss.nn import LinOSS, LinOSSConfig, count_parameters
from paper import numbers
from paper.models import BASELINES, MODELS, buffers, counted, title
from paper.numbers import PublishedRun
from paper.runs import Experiment, Options, Result, measure_once
from paper.tables import table


def run(options: Options) -> None:
    """Count the parameters of all models."""
    for data_set in options.data_sets or numbers.UEA:
        for model in options.models:
            sizes, (chosen, own) = numbers.UEA[data_set], counted(data_set, model)
            settings = {"in_size": sizes.channels + chosen.include_time, **chosen.sizes}
            config = LinOSSConfig.published(
                **settings, out_size=sizes.classes, **{**MODELS[model].settings, **own}
            )
            measure_once(
                options,
                functools.partial(count, config, buffers(data_set, model)),
                data_set=data_set,
                model=model,
                settings={"model": settings},
            )


def count(config: LinOSSConfig, further: int = 0) -> dict[str, int]:
    """Trained parameters, and the paper's count, with statistics of norms and `further` values."""
    shapes = eqx.filter_eval_shape(LinOSS, config, key=jax.random.key(0))
    model = jax.tree.map(lambda x: jnp.asarray(np.zeros(x.shape, x.dtype)), shapes)
    return {
        "learned": count_parameters(model),
        "parameters": count_parameters(model, buffers=True) + further,
    }


def report(results: Sequence[Result], folder: Path, published: Sequence[PublishedRun]) -> str:
    """Each count and the paper's."""
    rows = []
    for result in sorted(results, key=lambda r: list(numbers.UEA).index(r.data_set)):
        paper = numbers.PARAMETERS.get(result.model, {}).get(result.data_set)
        ours = result.outcome["parameters"]
        equal = "" if paper is None else "yes" if ours == paper else "no"
        name = [numbers.UEA[result.data_set].short, title(result.model)]
        counts = [f"{n:,}" if n else "" for n in (ours, paper, result.outcome["learned"])]
        rows.append([*name, *counts[:2], equal, counts[2]])
    words = (
        "Counted as the paper does, with numbers that are not learned: statistics of the norms, "
        "of NRDE and Log-NCDE the ends of windows, and of Log-NCDE the pairs of channels."
    )
    head = ["set", "model", "here", "paper", "equal", "of these learned"]
    return "\n".join([words, "", table(head, rows)])


EXPERIMENT = Experiment(
    title="Numbers of parameters",
    run=run,
    report=report,
    data_sets=tuple(numbers.UEA),
    models=("im", "imex"),
    others=("damped", *BASELINES),
)
