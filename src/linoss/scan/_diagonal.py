"""Diagonal recurrences over a whole sequence, and loops over time of any other layer.

The recurrence of complex numbers, x_n = a_n x_{n-1} + f_n, is that of the oscillators with the
rotation and scaling M = [[Re a, -Im a], [Im a, Re a]], where both components have a force and an
output. Arrays are real: rows hold the real parts of all m modes, then their imaginary parts.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Complex, Float

_SEGMENT = 64


def as_complex(pairs: Float[Array, "... pairs"]) -> Complex[Array, "... m"]:
    """Complex numbers, from rows of real and then of imaginary parts."""
    return jax.lax.complex(*jnp.split(pairs, 2, axis=-1))


def as_pairs(x: Complex[Array, "... m"]) -> Float[Array, "... pairs"]:
    """Rows of real and then of imaginary parts."""
    return jnp.concatenate([x.real, x.imag], axis=-1)


@partial(jax.jit, static_argnames=("reverse", "engine", "time_axis"))
def diagonal_scan(
    factor: Float[Array, "*batch time pairs"] | Float[Array, " pairs"],
    force: Float[Array, "*batch time pairs"],
    start: Float[Array, "*batch pairs"],
    *,
    mask: Bool[Array, "*batch time"] | None,
    reverse: bool = False,
    engine: str,
    time_axis: str | None = None,
) -> tuple[Float[Array, "*batch time pairs"], Float[Array, "*batch pairs"]]:
    """All states, and the last one.

    `factor` is a, for all samples or for each; `force` is f, and `start` the state before the first
    sample. A masked sample leaves the state unchanged. Engines and `time_axis` are those of
    [`linoss.oscillator_scan`][]; there are a loop and the parallel scan.
    """
    *leading, time, row = force.shape
    f = force.reshape(-1, time, row)
    a = factor if factor.ndim == 1 else jnp.broadcast_to(factor, force.shape).reshape(f.shape)
    present = None if mask is None else jnp.broadcast_to(mask, (*leading, time)).reshape(-1, time)
    x = start.reshape(-1, row)
    if reverse:
        f = jnp.flip(f, axis=1)
        a = a if a.ndim == 1 else jnp.flip(a, axis=1)
        present = None if present is None else jnp.flip(present, axis=1)
    if present is not None:  # a missing force may be NaN
        f = jnp.where(present[..., None], f, 0)

    factors, last = _factors(a, present, f.shape), None
    if time_axis is not None:
        end = _solve(factors, f, jnp.zeros_like(x), engine)[:, -1]
        x, last = _join_shards(time_axis, jnp.prod(factors, axis=1), end, x, reverse=reverse)
    states = _solve(factors, f, x, engine)
    last = states[:, -1] if last is None else last
    states = jnp.flip(states, axis=1) if reverse else states
    return states.reshape(force.shape), last.reshape(*leading, row)


def _solve(factor: Array, f: Array, start: Array, engine: str) -> Array:
    forces, x = as_complex(f), as_complex(start)
    if engine == "associative" or (engine == "auto" and jax.default_backend() != "cpu"):
        forces = forces.at[:, 0].add(factor[:, 0] * x)
        _, states = jax.lax.associative_scan(_compose, (factor, forces), axis=1)
        return as_pairs(states)

    def advance(x: Array, sample: tuple[Array, Array]) -> tuple[Array, Array]:
        x = sample[0] * x + sample[1]
        return x, x

    along_time = (jnp.moveaxis(factor, 1, 0), jnp.moveaxis(forces, 1, 0))
    _, states = jax.lax.scan(advance, x, along_time)
    return as_pairs(jnp.moveaxis(states, 0, 1))


def _compose(first: tuple[Array, Array], second: tuple[Array, Array]) -> tuple[Array, Array]:
    return second[0] * first[0], second[0] * first[1] + second[1]


def _factors(a: Array, present: Array | None, shape: tuple[int, ...]) -> Array:
    """a of every sample, `(batch, time, m)`; 1 where a sample is missing."""
    batch, time, row = shape
    factor = jax.lax.broadcast_to_rank(as_complex(a), 3)
    factor = factor if present is None else jnp.where(present[..., None], factor, 1)
    return jnp.broadcast_to(factor, (batch, time, row // 2))


def _join_shards(
    axis: str, product: Array, end: Array, start: Array, *, reverse: bool
) -> tuple[Array, Array]:
    """The state before this device's shard, and the state after the last shard."""
    products, ends = jax.lax.all_gather((product, as_complex(end)), axis)

    def join(x: Array, shard: tuple[Array, Array]) -> tuple[Array, Array]:
        return shard[0] * x + shard[1], x

    last, starts = jax.lax.scan(join, as_complex(start), (products, ends), reverse=reverse)
    return as_pairs(starts[jax.lax.axis_index(axis)]), as_pairs(last)


# ---- Other recurrences ----


def loop_over_time(
    advance: Callable[[Any, Any], tuple[Any, Array]],
    start: Any,
    inputs: Any,
    mask: Bool[Array, "*batch time"] | None,
    *,
    reverse: bool = False,
) -> tuple[Float[Array, "*batch time out"], Any]:
    """The outputs of a loop over time, and the state after the last sample.

    `advance` returns the state after a sample and its output, from the state before and the
    sample's `inputs`, arrays `(*batch, time, ...)` with one axis after that of time. A masked
    sample leaves the state unchanged. The backward pass recomputes segments of 64 steps.
    """
    time = jax.tree.leaves(inputs)[0].shape[-2]

    def cut(x: Array, first: int, last: int) -> Array:
        """Some samples, with their segments as the first axis and steps as the second."""
        x = jnp.moveaxis(x[..., first:last, :], -2, 0)
        return x.reshape(-1, min(_SEGMENT, last - first), *x.shape[1:])

    def step(state: Any, sample: Any) -> tuple[Any, Array]:
        inputs, present = sample
        after, output = advance(state, inputs)

        def chosen(new: Array, old: Array) -> Array:
            axes = range(present.ndim - 1, new.ndim)
            return jnp.where(jnp.expand_dims(present[..., 0], tuple(axes)), new, old)

        return (after if mask is None else jax.tree.map(chosen, after, state)), output

    @jax.checkpoint
    def segment(state: Any, samples: Any) -> tuple[Any, Array]:
        return jax.lax.scan(step, state, samples, reverse=reverse)

    samples = (inputs, None if mask is None else mask[..., None])
    whole, state, outputs = time // _SEGMENT * _SEGMENT, start, []
    for first, last in ((0, whole), (whole, time))[:: -1 if reverse else 1]:
        if first < last:
            part = jax.tree.map(partial(cut, first=first, last=last), samples)
            state, y = jax.lax.scan(segment, state, part, reverse=reverse)
            outputs.append(y.reshape(-1, *y.shape[2:]))
    y = jnp.concatenate(outputs[:: -1 if reverse else 1])
    return jnp.moveaxis(y, 0, -2), state
