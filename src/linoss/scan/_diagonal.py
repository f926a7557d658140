"""A diagonal recurrence of complex numbers over a whole sequence: x_n = a_n x_{n-1} + f_n.

It is the recurrence of the oscillators with the rotation and scaling M = [[Re a, -Im a], [Im a, Re
a]], where both components have a force and an output. Arrays are real: rows hold the real parts of
all m modes, then their imaginary parts. The gradient of x_n over all paths, l_n = conj(a_{n+1})
l_{n+1} + dL/dx_n, is that of f_n, and conj(x_{n-1}) l_n is that of a_n: the backward pass needs
only the states that the scan returns.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Complex, Float

from linoss import kernels


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
    [`linoss.oscillator_scan`][]; engines other than `"native"` are a loop or the parallel scan.
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

    def solve(x: Array) -> Array:
        if engine == "native":
            byte = jnp.zeros((0, 0), jnp.uint8) if present is None else present.astype(jnp.uint8)
            return _native(a, f, byte, x)
        return _plain(a, f, present, x, engine)

    last = None
    if time_axis is not None:
        end = solve(jnp.zeros_like(x))[:, -1]
        product = jnp.prod(_factors(a, present, f.shape), axis=1)
        x, last = _join_shards(time_axis, product, end, x, reverse=reverse)
    states = solve(x)
    last = states[:, -1] if last is None else last
    states = jnp.flip(states, axis=1) if reverse else states
    return states.reshape(force.shape), last.reshape(*leading, row)


# ---- Native ----


@jax.custom_vjp
def _native(a: Array, f: Array, mask: Array, start: Array) -> Array:
    return _native_forward(a, f, mask, start)[0]


def _native_forward(a: Array, f: Array, mask: Array, start: Array) -> tuple[Array, Any]:
    shape = jax.ShapeDtypeStruct(f.shape, f.dtype)
    states = kernels.call(f"linoss_diagonal_forward_{f.dtype}", shape, f, a, mask, start)
    return states, (states, a, mask, start)


def _native_backward(residuals: Any, d_states: Array) -> tuple[Any, ...]:
    states, a, _, start = residuals
    shapes = tuple(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in (states, a, start))
    d_force, d_factor, d_start = kernels.call(
        f"linoss_diagonal_backward_{states.dtype}", shapes, *residuals, d_states
    )
    return d_factor, d_force, None, d_start


_native.defvjp(_native_forward, _native_backward)


# ---- Plain JAX ----


def _plain(a: Array, f: Array, present: Array | None, start: Array, engine: str) -> Array:
    factor, forces, x = _factors(a, present, f.shape), as_complex(f), as_complex(start)
    if engine in ("associative", "toeplitz") or (
        engine == "auto" and jax.default_backend() != "cpu"
    ):
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


# ---- Time split over devices ----


def _join_shards(
    axis: str, product: Array, end: Array, start: Array, *, reverse: bool
) -> tuple[Array, Array]:
    """The state before this device's shard, and the state after the last shard."""
    products, ends = jax.lax.all_gather((product, as_complex(end)), axis)

    def join(x: Array, shard: tuple[Array, Array]) -> tuple[Array, Array]:
        return shard[0] * x + shard[1], x

    last, starts = jax.lax.scan(join, as_complex(start), (products, ends), reverse=reverse)
    return as_pairs(starts[jax.lax.axis_index(axis)]), as_pairs(last)
