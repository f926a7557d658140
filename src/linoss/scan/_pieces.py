"""A sequence in pieces, each on a device of its own: the state at the start of each piece.

A piece that starts in x ends in P x + e, where P is the product of its M and e its end from rest.
Only P and e travel, so what devices tell each other does not grow with the length of the sequence.
The derivative goes the same way back.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from linoss.scan._engines import double_precision
from linoss.scan._recurrence import (
    Matrix,
    Recurrence,
    Samples,
    State,
    add,
    apply,
    multiply,
)

Run = Callable[[Array, State], State]
"""(force, start) to the end state of this device's piece."""


def join_pieces(
    axis: str, product: Matrix, end: State, start: State, *, reverse: bool = False
) -> tuple[State, State]:
    """The state before this device's piece, and the one after the last piece.

    `product` and `end` are P and e of this piece, `start` is the state before the first; `axis`
    names the mesh's axis of the pieces, which `reverse` takes from its end.
    """
    products, ends = jax.lax.all_gather((product, end), axis)

    def join(state: State, piece: tuple[Matrix, State]) -> tuple[State, State]:
        matrix, end = piece
        return add(apply(matrix, state), end), state

    last, (zs, ys) = jax.lax.scan(join, start, (products, ends), reverse=reverse)
    here = jax.lax.axis_index(axis)
    return (zs[here], ys[here]), last


def nearest_before(axis: str, value: Array, *, reverse: bool = False) -> Array:
    """What the nearest of the earlier devices offers that is not 0; 0 if none does."""
    offers, here = jax.lax.all_gather(value, axis), jax.lax.axis_index(axis)
    index = jnp.arange(offers.shape[0])
    if reverse:
        offers, here = jnp.flip(offers, 0), index[-1] - here
    index = index.reshape(-1, *[1] * value.ndim)
    nearest = jnp.max(jnp.where((index < here) & (offers != 0), index, -1), axis=0)
    return jnp.sum(jnp.where(index == nearest, offers, 0), axis=0)


def end_from_rest(force: Array, start: State, run: Run) -> State:
    """e: where a piece with these forces ends that starts at rest."""
    return run(force, (jnp.zeros_like(start[0]), jnp.zeros_like(start[1])))


def product_of_steps(recurrence: Recurrence, samples: Samples, force: Array, run: Run) -> Matrix:
    """P: the product of all M of a piece."""
    if recurrence.scheme is None:
        return power_of_step(recurrence.parameters.matrix, samples.mask, force.shape[1])
    silence, one = jnp.zeros_like(force), jnp.ones_like(force[:, 0])
    zero = jnp.zeros_like(one)
    (zz, yz), (zy, yy) = run(silence, (one, zero)), run(silence, (zero, one))
    return (zz, zy), (yz, yy)


def power_of_step(matrix: Matrix, mask: Array | None, time: int) -> Matrix:
    """M to the number of the steps that are there, of `time`; the mask is (batch, time, 1)."""
    count = jnp.full((1, 1), time) if mask is None else jnp.sum(mask, axis=1)
    return _power(time, matrix, count)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _power(highest: int, matrix: Matrix, exponent: Array) -> Matrix:
    """M^n for each of the exponents n <= highest, (batch, 1).

    In double precision, because each squaring doubles the error of the one before.
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
        (found,) = pull_back(double_precision(cotangent))
        return _like(matrix, found), None


_power.defvjp(_forward, _backward)


def _squarings(highest: int, matrix: Matrix, exponent: Array) -> Matrix:
    one = jnp.ones(jnp.broadcast_shapes(exponent.shape, matrix[0][0].shape), jnp.float64)
    product = ((one, 0 * one), (0 * one, one))
    for bit in range(highest.bit_length()):
        taken = (exponent >> bit) % 2 == 1
        longer = multiply(matrix, product)
        product = jax.tree.map(lambda a, b, t=taken: jnp.where(t, a, b), longer, product)
        matrix = multiply(matrix, matrix)
    return product


def _like(given: Matrix, result: Matrix) -> Matrix:
    """In the precision of what was given."""
    return jax.tree.map(lambda x: x.astype(given[0][0].dtype), result)
