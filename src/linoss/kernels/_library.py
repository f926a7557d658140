"""The native kernels, if they were built, registered with XLA, and the recurrences of `scan`.

Of a recurrence, arrays have one batch axis. A mask `(batch, time)` is False where a sample is
missing, None if there are none. The kernels store the state at the start of each tile and recompute
the others.
"""

import importlib
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float

try:
    native: Any = importlib.import_module("linoss._native")
except ImportError:  # pure Python install: the kernels were not built
    native = None
else:
    for name, handler in native.handlers().items():
        jax.ffi.register_ffi_target(name, handler, platform="cpu")

TILE: int = 64 if native is None else native.tile
"""Steps between two states that the kernels store."""


def usable() -> bool:
    """Whether the kernels were built and JAX runs on a CPU."""
    return native is not None and jax.default_backend() == "cpu"


def instruction_set() -> str | None:
    """The instruction set of the selected kernels, such as "x86-64-v3"; None without kernels."""
    return None if native is None else native.instruction_set()


def call(name: str, results: Any, *arguments: Any, **attributes: Any) -> Any:
    """Run a kernel inside a JAX computation."""
    kernel = jax.ffi.ffi_call(name, results, vmap_method="sequential")
    return kernel(*arguments, **attributes)


def padded(size: int) -> int:
    """The length of a row of that many numbers in the kernels' memory, with padding."""
    return -(-size // 16) * 16


def tiles(time: int) -> int:
    """The number of tiles, and thus of stored states, of a sequence with that many steps."""
    return -(-time // TILE)


# ---- Recurrences, each with its adjoint ----

Mask = Bool[Array, "batch time"] | None


def oscillators(
    force: Float[Array, "batch time m"],
    steps: Float[Array, "6 m"] | Float[Array, "6 batch time m"],
    mask: Mask,
    start: Float[Array, "batch m 2"],
) -> tuple[Array, Array, Array]:
    """Positions, the final state, and the states that `oscillators_back` needs.

    The rows of `steps` are the entries zz, zy, yz, yy, fz, fy of M and F.
    """
    batch, time, m = force.shape
    shapes = (force.shape, start.shape, (batch, tiles(time), 2, m))
    results = tuple(jax.ShapeDtypeStruct(shape, force.dtype) for shape in shapes)
    return call(f"linoss_scan_forward_{force.dtype}", results, force, steps, _bytes(mask), start)


def oscillators_back(
    force: Array, steps: Array, mask: Mask, kept: Array, d_positions: Array, d_final: Array
) -> tuple[Array, Array, Array]:
    """Gradients of force, steps and start."""
    arguments = (force, steps, _bytes(mask), kept, d_positions, d_final)
    name = f"linoss_scan_backward_{force.dtype}"
    return call(name, _like(force, steps, d_final), *arguments)


@jax.custom_vjp
def diagonal(
    factor: Float[Array, "1 pairs"] | Float[Array, "1 batch time pairs"],
    force: Float[Array, "batch time pairs"],
    mask: Mask,
    start: Float[Array, "batch pairs"],
) -> Float[Array, "batch time pairs"]:
    """All states of x_n = a_n x_{n-1} + f_n; rows hold real parts, then imaginary parts."""
    return _diagonal_forward(factor, force, mask, start)[0]


def _diagonal_forward(factor: Array, force: Array, mask: Mask, start: Array) -> tuple[Array, Any]:
    arguments, (shape,) = (force, factor, _bytes(mask), start), _like(force)
    states = call(f"linoss_diagonal_forward_{force.dtype}", shape, *arguments)
    return states, (states, *arguments[1:])


def _diagonal_back(residuals: Any, d_states: Array) -> tuple[Any, ...]:
    states, factor, _, start = residuals
    name, results = f"linoss_diagonal_backward_{states.dtype}", _like(states, factor, start)
    d_force, d_factor, d_start = call(name, results, *residuals, d_states)
    return d_factor, d_force, None, d_start


diagonal.defvjp(_diagonal_forward, _diagonal_back)


@jax.custom_vjp
def selective(
    u: Float[Array, "batch time channels"],
    delta: Float[Array, "batch time channels"],
    A: Float[Array, "states channels"],
    B: Float[Array, "batch time states"],
    C: Float[Array, "batch time states"],
    start: Float[Array, "batch states channels"],
) -> tuple[Array, Array]:
    """The selective scan in single precision: outputs, and the final state."""
    return _selective_forward(u, delta, A, B, C, start)[0]


def _selective_forward(*arguments: Array) -> tuple[Any, Any]:
    u, *_, start = arguments
    batch, states, channels = start.shape
    kept_shape = (batch, tiles(u.shape[1]), states, channels)
    results = (*_like(u, start), jax.ShapeDtypeStruct(kept_shape, u.dtype))
    y, final, kept = call("linoss_selective_forward", results, *arguments)
    return (y, final), (arguments, kept)


def _selective_back(residuals: Any, cotangents: Any) -> tuple[Array, ...]:
    arguments, kept = residuals
    name = "linoss_selective_backward"
    return call(name, _like(*arguments), *arguments, kept, *cotangents)


selective.defvjp(_selective_forward, _selective_back)


def _bytes(mask: Mask) -> Array:
    return jnp.zeros((0, 0), jnp.uint8) if mask is None else mask.astype(jnp.uint8)


def _like(*arrays: Array) -> tuple[jax.ShapeDtypeStruct, ...]:
    return tuple(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in arrays)
