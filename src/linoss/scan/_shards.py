"""Sequences split over devices: the state at the start of each device's shard.

A shard with initial state x has the final state P x + e, where P is the product of its M and e its
final state from rest. Devices exchange only P and e, so communication does not grow with the length
of the sequence.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from linoss.scan._recurrence import (
    Matrix,
    Recurrence,
    Sampling,
    State,
    add,
    apply,
    double_precision,
    multiply,
)

Run = Callable[[Array, State], State]
"""(force, start) -> the state after this device's shard."""


def join_shards(
    axis: str, product: Matrix, end: State, start: State, *, reverse: bool = False
) -> tuple[State, State]:
    """The state before this device's shard, and the state after the last shard.

    `product` and `end` are P and e of this shard, `start` is the state before the first, and `axis`
    the mesh axis of the shards, traversed backwards with `reverse`.
    """
    products, ends = jax.lax.all_gather((product, end), axis)

    def join(state: State, shard: tuple[Matrix, State]) -> tuple[State, State]:
        matrix, end = shard
        return add(apply(matrix, state), end), state

    last, (zs, ys) = jax.lax.scan(join, start, (products, ends), reverse=reverse)
    here = jax.lax.axis_index(axis)
    return (zs[here], ys[here]), last


def nearest_before(axis: str, value: Array, *, reverse: bool = False) -> Array:
    """The nonzero value of the nearest earlier device; 0 if there is none."""
    here, count = jax.lax.axis_index(axis), jax.lax.axis_size(axis)
    return _latest(axis, value, count - 1 - here if reverse else here, reverse=reverse)


def last_nonzero(axis: str, value: Array, *, reverse: bool = False) -> Array:
    """The nonzero value of the last device that has one; 0 if there is none."""
    return _latest(axis, value, jax.lax.axis_size(axis), reverse=reverse)


def _latest(axis: str, value: Array, before: Any, *, reverse: bool) -> Array:
    """The last nonzero value among the first `before` devices."""
    offers = jax.lax.all_gather(value, axis)
    order = jnp.arange(offers.shape[0], dtype=jnp.int32)[:: -1 if reverse else 1]
    order = order.reshape(-1, *[1] * value.ndim)
    latest = jnp.max(jnp.where((order < before) & (offers != 0), order, -1), axis=0, keepdims=True)
    return jnp.sum(jnp.where(order == latest, offers, 0), axis=0)


def product_of_steps(recurrence: Recurrence, sampling: Sampling, force: Array, run: Run) -> Matrix:
    """P: the product of all M of a shard."""
    if recurrence.scheme is None:
        return power_of_step(recurrence.parameters.matrix, sampling.mask, force.shape[1])
    silence, one = jnp.zeros_like(force), jnp.ones_like(force[:, 0])
    zero = jnp.zeros_like(one)
    (zz, yz), (zy, yy) = run(silence, (one, zero)), run(silence, (zero, one))
    return (zz, zy), (yz, yy)


def power_of_step(matrix: Matrix, mask: Array | None, time: int) -> Matrix:
    """M to the power of the number of present samples; the mask has shape (batch, time, 1)."""
    count = jnp.full((1, 1), time) if mask is None else jnp.sum(mask, axis=1)
    return _power(time, matrix, count)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _power(highest: int, matrix: Matrix, exponent: Array) -> Matrix:
    """M^n for each of the exponents n <= highest, (batch, 1).

    Computed in double precision, because each squaring doubles the relative error. The derivative
    is custom because JAX transposes outside of `enable_x64`, where it would lose that precision.
    """
    with jax.enable_x64(True):
        return _like(matrix, _squarings(highest, double_precision(matrix), exponent))


def _forward(highest: int, matrix: Matrix, exponent: Array) -> tuple[Matrix, Any]:
    return _power(highest, matrix, exponent), (matrix, exponent)


def _backward(highest: int, residuals: Any, cotangent: Matrix) -> tuple[Matrix, None]:
    matrix, exponent = residuals
    with jax.enable_x64(True):
        power = partial(_squarings, highest, exponent=exponent)
        _, pull_back = jax.vjp(power, double_precision(matrix))
        (d_matrix,) = pull_back(double_precision(cotangent))
        return _like(matrix, d_matrix), None


_power.defvjp(_forward, _backward)


def _squarings(highest: int, matrix: Matrix, exponent: Array) -> Matrix:
    one = jnp.ones(jnp.broadcast_shapes(exponent.shape, matrix[0][0].shape), jnp.float64)
    product = ((one, 0 * one), (0 * one, one))
    for bit in range(highest.bit_length()):
        is_set = (exponent >> bit) % 2 == 1
        longer = multiply(matrix, product)
        product = jax.tree.map(lambda a, b, s=is_set: jnp.where(s, a, b), longer, product)
        matrix = multiply(matrix, matrix)
    return product


def _like(given: Matrix, result: Matrix) -> Matrix:
    """Convert to the precision of `given`."""
    return jax.tree.map(lambda x: x.astype(given[0][0].dtype), result)
