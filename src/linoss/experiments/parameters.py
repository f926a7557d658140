"""The number of parameters of the paper's models, counted exactly."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from linoss.experiments import _paper
from linoss.experiments._figures import Figures
from linoss.experiments._markdown import ABSENT, table
from linoss.experiments._models import buffers
from linoss.experiments._protocol import MODELS as SETTINGS
from linoss.experiments._protocol import NAMES, Options, Scope, counted
from linoss.experiments._results import ExperimentResult, made_by, write_result
from linoss.nn import LinOSS, LinOSSConfig, count_parameters

NAME, TITLE = "parameters", "Numbers of parameters"
SCOPE = Scope(data_sets=tuple(_paper.UEA), models=("im", "imex"), beside=("damped",))


def run(options: Options) -> None:
    """Count the parameters of all models."""
    for data_set in options.data_sets or SCOPE.data_sets:
        for model in options.models or SCOPE.models:
            sizes, (chosen, own) = _paper.UEA[data_set], counted(data_set, model)
            config = LinOSSConfig.published(
                in_size=sizes.channels + chosen.include_time,
                out_size=sizes.classes,
                hidden_size=chosen.hidden_size,
                state_size=chosen.state_size,
                num_blocks=chosen.num_blocks,
                **{**SETTINGS[model], **own},
            )
            result = ExperimentResult(
                experiment=NAME,
                data_set=data_set,
                model=model,
                settings={"model": {"in_size": config.in_size, **_sizes(chosen)}},
                outcome=count(config, buffers(data_set, model)),
                made=made_by(options.command(NAME), 0.0),
            )
            write_result(options.out / NAME / data_set / model, result)


def _sizes(chosen: _paper.Hyperparameters) -> dict[str, int]:
    return {n: getattr(chosen, n) for n in ("hidden_size", "state_size", "num_blocks")}


def count(config: LinOSSConfig, further: int = 0) -> dict[str, int]:
    """Trained parameters, and the paper's count, with statistics of norms and `further` values."""
    shapes = eqx.filter_eval_shape(LinOSS, config, key=jax.random.key(0))
    model = jax.tree.map(lambda x: jnp.asarray(np.zeros(x.shape, x.dtype)), shapes)
    return {
        "learned": count_parameters(model),
        "parameters": count_parameters(model, buffers=True) + further,
    }


def report(results: list[ExperimentResult], figures: Figures) -> str:
    """Each count and the paper's."""
    rows = []
    for result in sorted(results, key=lambda r: list(_paper.UEA).index(r.data_set)):
        paper = _paper.PARAMETERS.get(result.model, {}).get(result.data_set)
        ours = result.outcome["parameters"]
        rows.append(
            [
                _paper.UEA[result.data_set].short,
                NAMES[result.model],
                f"{ours:,}",
                ABSENT if paper is None else f"{paper:,}",
                ABSENT if paper is None else "yes" if ours == paper else "no",
                f"{result.outcome['learned']:,}",
            ]
        )
    head = ["set", "model", "here", "paper", "equal", "of these learned"]
    words = (
        "Counted as the paper does, with numbers that are not learned: statistics of the norms, "
        "of NRDE and Log-NCDE the ends of windows, and of Log-NCDE the pairs of channels."
    )
    return "\n".join([words, "", table(head, rows)])
