"""Diagonal recurrences over a whole sequence: that of complex numbers, and the selective scan.

The recurrence of complex numbers, x_n = a_n x_{n-1} + f_n, is that of the oscillators with the
rotation and scaling M = [[Re a, -Im a], [Im a, Re a]], where both components have a force and an
output. Arrays are real: rows hold the real parts of all m modes, then their imaginary parts. The
gradient of x_n over all paths, l_n = conj(a_{n+1}) l_{n+1} + dL/dx_n, is that of f_n, and
conj(x_{n-1}) l_n is that of a_n: the backward pass needs only the states that the scan returns.

The selective scan has a step, input and output that depend on the sample. For each channel and each
of its states, with A < 0 and steps d_n > 0:

    x_n = exp(d_n A) x_{n-1} + d_n u_n B_n,    y_n = sum over states of C_n x_n.

The factors of all samples would be an array (time, channels, states). They are computed where they
are used instead, and the backward pass recomputes states from those stored at the start of each
tile or segment.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Complex, Float

from linoss import kernels

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
            return kernels.diagonal(a[None], f, present, x)
        return _in_jax(a, f, present, x, engine)

    last = None
    if time_axis is not None:
        end = solve(jnp.zeros_like(x))[:, -1]
        product = jnp.prod(_factors(a, present, f.shape), axis=1)
        x, last = _join_shards(time_axis, product, end, x, reverse=reverse)
    states = solve(x)
    last = states[:, -1] if last is None else last
    states = jnp.flip(states, axis=1) if reverse else states
    return states.reshape(force.shape), last.reshape(*leading, row)


def _in_jax(a: Array, f: Array, present: Array | None, start: Array, engine: str) -> Array:
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


def _join_shards(
    axis: str, product: Array, end: Array, start: Array, *, reverse: bool
) -> tuple[Array, Array]:
    """The state before this device's shard, and the state after the last shard."""
    products, ends = jax.lax.all_gather((product, as_complex(end)), axis)

    def join(x: Array, shard: tuple[Array, Array]) -> tuple[Array, Array]:
        return shard[0] * x + shard[1], x

    last, starts = jax.lax.scan(join, as_complex(start), (products, ends), reverse=reverse)
    return as_pairs(starts[jax.lax.axis_index(axis)]), as_pairs(last)


def selective_scan(
    u: Float[Array, "batch time channels"],
    delta: Float[Array, "batch time channels"],
    A: Float[Array, "states channels"],
    B: Float[Array, "batch time states"],
    C: Float[Array, "batch time states"],
    start: Float[Array, "batch states channels"],
    *,
    engine: str,
) -> tuple[Float[Array, "batch time channels"], Float[Array, "batch states channels"]]:
    """y, and the state after the last sample. A step of 0 leaves the state unchanged."""
    is_single = all(x.dtype == jnp.float32 for x in (u, delta, A, B, C, start))
    if engine == "native" and is_single:
        return kernels.selective(u, delta, A, B, C, start)
    return _selective_in_segments(u, delta, A, B, C, start)


def _selective_in_segments(
    u: Array, delta: Array, A: Array, B: Array, C: Array, start: Array
) -> Any:
    time = u.shape[1]
    number = -(-time // _SEGMENT)

    def cut(x: Array) -> Array:
        """Divide time into segments, padded with zeros, with the segments as the first axis."""
        x = jnp.pad(x, ((0, 0), (0, number * _SEGMENT - time), (0, 0)))
        return jnp.moveaxis(x, 1, 0).reshape(number, _SEGMENT, x.shape[0], x.shape[2])

    def advance(x: Array, sample: tuple[Array, ...]) -> tuple[Array, Array]:
        u, delta, B, C = sample
        x = jnp.exp(delta[:, None] * A[None]) * x + (delta * u)[:, None] * B[..., None]
        return x, jnp.einsum("bk,bkc->bc", C, x)

    @jax.checkpoint
    def segment(x: Array, samples: tuple[Array, ...]) -> tuple[Array, Array]:
        return jax.lax.scan(advance, x, samples)

    final, y = jax.lax.scan(segment, start, tuple(map(cut, (u, delta, B, C))))
    return jnp.moveaxis(y.reshape(-1, *y.shape[2:])[:time], 0, 1), final
