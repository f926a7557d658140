"""Textbook implementations for benchmarks, as the papers describe the models.

Complex B and C, the step's matrix (LRU and S5: factor) repeated for every sample,
`jax.lax.associative_scan` over pairs of (matrix, force), one sequence at a time under `jax.vmap`,
gradients by automatic differentiation. Other mixers are those of `linoss`, in plain JAX. Each takes
the weights of a `linoss` model and computes the same function.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from linoss.nn import (
    AbstractDiagonal,
    AbstractMixer,
    Block,
    Features,
    LinOSS,
    LinOSSLayer,
    LRULayer,
    S5Layer,
    Samples,
)


def combine(first: tuple[Array, Array], second: tuple[Array, Array]) -> tuple[Array, Array]:
    """(M_1, f_1) . (M_2, f_2) = (M_2 M_1, M_2 f_1 + f_2), with matrices as four concatenated
    diagonals."""
    a, b, c, d = jnp.split(first[0], 4, axis=-1)
    zz, zy, yz, yy = jnp.split(second[0], 4, axis=-1)
    z, y = jnp.split(first[1], 2, axis=-1)
    matrix = [zz * a + zy * c, zz * b + zy * d, yz * a + yy * c, yz * b + yy * d]
    force = jnp.concatenate([zz * z + zy * y, yz * z + yy * y], axis=-1)
    return jnp.concatenate(matrix, axis=-1), force + second[1]


def layer(weights: LinOSSLayer, u: Array) -> Array:
    """x = Re(C y) + D u for one sequence `(time, hidden)`."""
    step = weights.oscillators.transition()
    m, time = weights.oscillators.state_size, u.shape[0]
    B = jax.lax.complex(weights.input_weight[:m], weights.input_weight[m:])
    C = jax.lax.complex(weights.output_weight[:, :m], -weights.output_weight[:, m:])
    row = jnp.concatenate([step.matrix[:, i, j] for i in (0, 1) for j in (0, 1)])
    forced = u.astype(B.dtype) @ B.T
    forces = jnp.concatenate([step.forcing[:, 0] * forced, step.forcing[:, 1] * forced], axis=-1)
    matrices = jnp.broadcast_to(row, (time, 4 * m))
    _, states = jax.lax.associative_scan(combine, (matrices, forces))
    assert weights.feedthrough is not None
    return (states[:, m:] @ C.T).real + weights.feedthrough * u


def diagonal_layer(weights: AbstractDiagonal, u: Array) -> Array:
    """The layer x_n = a x_{n-1} + g B u_n, y_n = s Re(C x_n) + D u_n with a diagonal a."""
    factor, gain = weights.step(Samples(u), reverse=False)
    m = gain.shape[0]
    B = jax.lax.complex(weights.input_weight[:m], weights.input_weight[m:])
    C = jax.lax.complex(weights.output_weight[:, :m], -weights.output_weight[:, m:])
    forces = u.astype(B.dtype) @ (gain[:, None] * B).T
    factors = jnp.broadcast_to(factor, forces.shape)

    def combine(first: tuple[Array, Array], second: tuple[Array, Array]) -> tuple[Array, Array]:
        return second[0] * first[0], second[0] * first[1] + second[1]

    _, states = jax.lax.associative_scan(combine, (factors, forces))
    return weights.output_scale * (states @ C.T).real + weights.feedthrough * u


def mix(weights: AbstractMixer, u: Array) -> Array:
    """The mixer, on a batch."""
    one_by_one = {LinOSSLayer: layer, LRULayer: diagonal_layer, S5Layer: diagonal_layer}
    function: Any = one_by_one.get(type(weights))
    if function is not None:
        return jax.vmap(lambda one: function(weights, one))(u)
    return weights.mix(u, Samples(u, engine="sequential"), None, reverse=False)[0]


def block(weights: Block, u: Array, key: Array) -> Array:
    """One block in training mode, on a batch `(batch, time, hidden)`."""
    moments = jnp.stack([u.mean((0, 1)), u.var((0, 1))])
    norm, _ = weights.norm.update(moments, Samples(u))
    x = mix(weights.mixer, (u - norm.mean) * norm.scale)
    first, second = jax.random.split(key)
    drop = eqx.nn.Dropout(weights.dropout)
    x = drop(jax.nn.gelu(x, approximate=True), key=first)
    return u + drop(weights.glu(x), key=second)


def model(weights: LinOSS, u: Array, key: Array) -> Array:
    """A classifier, or a regressor at every k-th step, in training mode, on a batch."""
    x = jax.vmap(jax.vmap(weights.encoder))(u)
    for one, block_key in zip(
        weights.blocks, jax.random.split(key, len(weights.blocks)), strict=True
    ):
        x = block(one, x, block_key)
    return weights.head(Features(x), Samples(x))
