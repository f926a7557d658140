"""Which numbers of a model are weights, and how many there are."""

from typing import Any

import equinox as eqx
import jax

from linoss.nn._norm import BatchNorm


def trainable(model: Any) -> Any:
    """Which leaves of a model are trained: True for weights, False for the norms' statistics.

    ```python
    >>> import equinox as eqx, jax, linoss
    >>> config = linoss.LinOSSConfig(in_size=3, out_size=5, hidden_size=16, state_size=8)
    >>> model = linoss.LinOSS(config, key=jax.random.key(0))
    >>> weights, rest = eqx.partition(model, linoss.trainable(model))

    ```
    """

    def mark(node: Any) -> Any:
        if isinstance(node, BatchNorm):
            return jax.tree.map(lambda _: False, node)
        return eqx.is_inexact_array(node)

    return jax.tree.map(mark, model, is_leaf=lambda x: isinstance(x, BatchNorm))


def count_parameters(model: Any, *, buffers: bool = False) -> int:
    """How many numbers a model learns; with `buffers`, and the norms' statistics.

    The paper's table counts with them.

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
    counted = eqx.filter(model, eqx.is_array if buffers else trainable(model))
    return sum(x.size for x in jax.tree.leaves(counted))
