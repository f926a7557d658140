"""Integrated gradients: the contribution of each value of a sequence to a model's output.

With f the model, u its inputs and u' the same inputs with every channel at its mean,

    A_i = (u_i - u'_i) ∫ ∂f/∂u_i (u' + a (u - u')) da    over a from 0 to 1,

for which sum_i A_i = f(u) - f(u'). The integral is a Gauss-Legendre sum, whose nodes are doubled
until this holds. Missing values stay missing.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from linoss.nn import LinOSS
from linoss.scan import resolve_engine
from linoss.training._inputs import Cases, Inputs

_AT_ONCE = 8  # nodes
_MOST = 512


@dataclass(frozen=True, eq=False)
class IntegratedGradients:
    """The contribution of each value of one sequence to each output."""

    attributions: np.ndarray
    """(outputs, time, channels): they sum to `output - baseline`, up to `error`."""
    output: np.ndarray
    """(outputs,), the model's output: logits, or on the scale of the targets."""
    baseline: np.ndarray
    """(outputs,), the output for channels at their mean."""
    error: float
    """The largest error of the sums, relative to the largest change of an output."""
    nodes: int
    """Number of quadrature nodes."""


def integrated_gradients(
    model: LinOSS, inputs: Inputs, cases: Cases, *, tolerance: float = 1e-3
) -> IntegratedGradients:
    """The contribution of each value of a case to the outputs, relative to channels at their mean.

    **Arguments:**

    - `model`, `inputs`: a trained model with one output for each sequence, and its inputs.
    - `cases`: one case.
    - `tolerance`: the largest error of the sums, relative to the largest change of an output; nodes
      are added until it is reached, 512 at most.

    ```python
    >>> import jax, linoss, numpy as np
    >>> import linoss.data
    >>> from linoss.training import Inputs, integrated_gradients
    >>> cases = linoss.data.sequences(np.random.default_rng(0).normal(size=(5, 2, 50)))
    >>> inputs = Inputs.from_sequences(cases)
    >>> config = linoss.LinOSSConfig(in_size=2, out_size=3, hidden_size=8, state_size=8)
    >>> model = linoss.LinOSS(config, key=jax.random.key(0))
    >>> result = integrated_gradients(model, inputs, cases.select([0]))
    >>> result.attributions.shape, bool(result.error < 1e-3)
    ((3, 50, 2), True)

    ```
    """
    if len(cases) != 1:
        raise ValueError(f"cases has {len(cases)} cases, expected one")
    config = model.config
    if config.every is not None or config.horizon is not None:
        raise ValueError("the model has several outputs for each sequence, expected one")
    length, dtype = int(cases.lengths[0]), model.encoder.weight.dtype
    given = inputs(cases.batch([0], inputs.padded_length(length)), dtype=dtype)
    given = {name: x for name, x in given.items() if x is not None}
    u = given.pop("u")
    each = u.reshape(1, -1, inputs.in_size // inputs.patch)  # samples
    direction = np.zeros_like(each)
    direction[..., inputs.of_values] = each[..., inputs.of_values]
    direction = direction.reshape(u.shape)
    ends = np.repeat(u, _AT_ONCE, axis=0)
    ends[1:] -= direction
    many = {name: np.repeat(x, _AT_ONCE, axis=0) for name, x in given.items()}
    first = np.zeros(_AT_ONCE, dtype)
    engine = resolve_engine("auto")
    outputs = np.asarray(_slopes(model, ends, many, first, engine=engine)[1], np.float64)
    change, nodes = outputs[0] - outputs[1], _AT_ONCE
    while True:
        total = 0.0
        places, weights = np.polynomial.legendre.leggauss(nodes)
        for i in range(0, nodes, _AT_ONCE):
            some = slice(i, i + _AT_ONCE)
            back = (1 - places[some, None, None]) / 2
            path = (u - back * direction).astype(dtype)
            share = (weights[some] / 2).astype(dtype)
            total += np.asarray(_slopes(model, path, many, share, engine=engine)[0], np.float64)
        each_input = total * direction
        gap = np.abs(each_input.sum(axis=(1, 2)) - change).max()
        error = float(gap / max(np.abs(change).max(), np.finfo(np.float32).tiny))
        if error <= tolerance or nodes >= _MOST or not np.isfinite(error):
            break
        nodes *= 2
    attributions = each_input.reshape(len(each_input), *each.shape[1:])[
        :, :length, inputs.of_values
    ]
    return IntegratedGradients(attributions, outputs[0], outputs[1], error, nodes)


@partial(jax.jit, static_argnames=("engine",))
def _slopes(
    model: LinOSS, u: Array, given: dict[str, Any], weights: Array, *, engine: str
) -> tuple[Array, Array]:
    """The weighted sum of the gradients of each output at several inputs, and the outputs."""
    outputs, pull = jax.vjp(lambda u: model(u, **given, engine=engine), u)
    columns = jnp.eye(outputs.shape[-1], dtype=outputs.dtype)
    gradients = jax.lax.map(lambda one: jnp.sum(pull(weights[:, None] * one)[0], axis=0), columns)
    return gradients, outputs
