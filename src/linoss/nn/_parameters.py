"""Which arrays of a model are trained, and their number of parameters."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from linoss.nn._norm import AbstractNorm


def trainable(model: Any) -> Any:
    """The model's tree with True for each leaf that is trained, and False for norms' statistics.

    ```python
    >>> import equinox as eqx, jax, linoss
    >>> config = linoss.LinOSSConfig(in_size=3, out_size=5, hidden_size=16, state_size=8)
    >>> model = linoss.LinOSS(config, key=jax.random.key(0))
    >>> weights, rest = eqx.partition(model, linoss.trainable(model))

    ```
    """

    def mark(node: Any) -> Any:
        return node.trainable() if isinstance(node, AbstractNorm) else _is_inexact(node)

    return jax.tree.map(mark, model, is_leaf=lambda x: isinstance(x, AbstractNorm))


def _is_inexact(leaf: Any) -> bool:
    """Whether a leaf is a floating-point array, or the shape of one."""
    return hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.inexact)


def count_parameters(model: Any, *, buffers: bool = False) -> int:
    """The number of trained numbers of a model; with `buffers`, norms' statistics are included.

    The paper's table includes them. A model of shapes, from `eqx.filter_eval_shape`, is counted
    without making it.

    ```python
    >>> import jax, linoss
    >>> config = linoss.LinOSSConfig.published(
    ...     in_size=7, out_size=5, hidden_size=128, state_size=64, num_blocks=2
    ... )
    >>> model = linoss.LinOSS(config, key=jax.random.key(0))
    >>> linoss.count_parameters(model, buffers=True)
    134279

    ```
    """
    leaves = jax.tree.leaves(model if buffers else eqx.filter(model, trainable(model)))
    return sum(x.size for x in leaves if hasattr(x, "size"))
