"""Parameters of a model: drawn, marked as trained, copied and counted."""

from functools import cache, partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from linoss import _checks, _programs
from linoss.nn._block import Block
from linoss.nn._config import LinOSSConfig
from linoss.nn._heads import Head
from linoss.nn._operations import AbstractNorm
from linoss.nn.mixers import MixerKind


def draw_parts(config: LinOSSConfig, key: PRNGKeyArray) -> tuple[Any, Any, Head]:
    """Encoder, blocks and head with initial weights."""
    return (_make_at_once() if _checks.is_concrete(key) else _make_parts)(config, key)


def _make_parts(config: LinOSSConfig, key: PRNGKeyArray) -> tuple[Any, Any, Head]:
    """Encoder, blocks and head."""
    encoder_key, blocks_key, head_key = jax.random.split(key, 3)
    encoder = eqx.nn.Linear(config.in_size, config.hidden_size, key=encoder_key)
    if MixerKind.of(config.mixer).follows:
        blocks = (MixerKind.of(config.mixer).make(config, key=blocks_key),)
    else:
        keys = jax.random.split(blocks_key, config.num_blocks)
        alike = eqx.filter_vmap(partial(_make_block, config))(keys)  # compiled once for all
        blocks = tuple(
            jax.tree.map(lambda x, i=i: x[i] if eqx.is_array(x) else x, alike)
            for i in range(config.num_blocks)
        )
    return encoder, blocks, Head(config, key=head_key)


@cache
def _make_at_once() -> Any:
    """`_make_parts` as one program, compiled with little optimisation because it runs once."""
    given: Any = {"compiler_options": {**_programs.quickly(), **_programs.ROUGHLY}}
    return eqx.filter_jit(_make_parts, **given)


def _make_block(config: LinOSSConfig, key: PRNGKeyArray) -> Block:
    layer_key, glu_key, backward_key = jax.random.split(key, 3)
    kind, backward = MixerKind.of(config.mixer), None
    if config.bidirectional:
        backward = kind.make(config, key=backward_key, backward=True)
    return Block(
        kind.make(config, key=layer_key),
        backward_mixer=backward,
        norm=config.norm,
        dropout=config.dropout,
        shared_dropout=config.shared_dropout,
        gelu=config.gelu,
        glu_bias=config.glu_bias,
        key=glu_key,
    )


def trainable(model: Any) -> Any:
    """The model's tree with True for each trained leaf, and False for statistics of norms.

    ```python
    >>> import equinox as eqx, jax, linoss
    >>> config = linoss.LinOSSConfig(in_size=3, out_size=5, hidden_size=16, state_size=8)
    >>> model = linoss.LinOSS(config, key=jax.random.key(0))
    >>> weights, rest = eqx.partition(model, linoss.trainable(model))

    ```
    """

    def mark(node: Any) -> Any:
        if isinstance(node, AbstractNorm):
            return jax.tree.map(lambda _: node.trained, node)
        return _is_inexact(node)

    return jax.tree.map(mark, model, is_leaf=lambda x: isinstance(x, AbstractNorm))


def _is_inexact(leaf: Any) -> bool:
    """Whether a leaf is a floating-point array or the shape and dtype of one."""
    return hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.inexact)


def adopt(model: Any, other: Any, *, head: bool = True) -> tuple[Any, list[str], list[str]]:
    """Copy the encoder, the blocks and optionally the head of another model, where they fit.

    A part fits if all of its arrays have the same names and shapes. Also returns the names of the
    copied parts and of the new ones.

    ```python
    >>> import jax, linoss
    >>> from linoss.nn import adopt
    >>> sizes = {"in_size": 3, "hidden_size": 16, "state_size": 8, "num_blocks": 1}
    >>> config = linoss.LinOSSConfig(**sizes, out_size=5)
    >>> trained = linoss.LinOSS(config, key=jax.random.key(0))
    >>> config = linoss.LinOSSConfig(**sizes, out_size=2)
    >>> new = linoss.LinOSS(config, key=jax.random.key(1))
    >>> adopt(new, trained)[1:]
    (['encoder', 'block 1'], ['head'])

    ```
    """
    parts = [("encoder", lambda m: m.encoder), ("head", lambda m: m.head)]
    count = min(len(model.blocks), len(other.blocks))
    blocks = [(f"block {i + 1}", lambda m, i=i: m.blocks[i]) for i in range(count)]
    kept, new = [], [f"block {i + 1}" for i in range(count, len(model.blocks))]
    for name, part in (parts[0], *blocks, parts[1]):
        mine, theirs = part(model), part(other)
        same = _shapes(mine) == _shapes(theirs) and (head or name != "head")
        (kept if same else new).append(name)
        if same:
            model = eqx.tree_at(part, model, theirs)
    return model, kept, new


def _shapes(part: Any) -> Any:
    leaves, structure = jax.tree.flatten(part)
    return structure, [(leaf.shape, leaf.dtype) for leaf in leaves]


def count_parameters(model: Any, *, buffers: bool = False) -> int:
    """The number of trained parameters of a model; with `buffers`, including statistics of norms.

    The paper's table includes them. The model may consist of shapes, from `eqx.filter_eval_shape`.

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
