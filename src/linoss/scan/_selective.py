"""The selective scan: a diagonal recurrence whose step, input and output depend on the sample.

For each channel and each of its states, with A < 0 and steps d_n > 0:

    x_n = exp(d_n A) x_{n-1} + d_n u_n B_n,    y_n = sum over states of C_n x_n.

The factors of all samples would be an array (time, channels, states). They are computed where they
are used instead, and the backward pass recomputes states from those stored at the start of each
tile or segment.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from linoss import kernels

_SEGMENT = 64


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
    single = all(x.dtype == jnp.float32 for x in (u, delta, A, B, C, start))
    if engine == "native" and single:
        return _native(u, delta, A, B, C, start)
    return _plain(u, delta, A, B, C, start)


# ---- Native ----


@jax.custom_vjp
def _native(*arguments: Array) -> Any:
    return _native_forward(*arguments)[0]


def _native_forward(*arguments: Array) -> tuple[Any, Any]:
    u, *_, start = arguments
    batch, states, channels = start.shape
    shapes = (u.shape, start.shape, (batch, kernels.tiles(u.shape[1]), states, channels))
    results = tuple(jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes)
    y, final, kept = kernels.call("linoss_selective_forward", results, *arguments)
    return (y, final), (arguments, kept)


def _native_backward(residuals: Any, cotangents: Any) -> tuple[Array, ...]:
    arguments, kept = residuals
    results = tuple(jax.ShapeDtypeStruct(x.shape, jnp.float32) for x in arguments)
    return kernels.call("linoss_selective_backward", results, *arguments, kept, *cotangents)


_native.defvjp(_native_forward, _native_backward)


# ---- Plain JAX ----


def _plain(u: Array, delta: Array, A: Array, B: Array, C: Array, start: Array) -> Any:
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
