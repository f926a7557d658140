"""The native kernels, if they were built, registered with XLA, and the recurrence of `scan`.

Its arrays have one batch axis. A mask `(batch, time)` is False where a sample is
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


def fast_precisions() -> list[str]:
    """The precisions of products that this machine computes with instructions of its own."""
    emulated = jax.default_backend() == "cpu" and "BF16" not in (instruction_set() or "")
    return ["float32"] if emulated else ["float32", "bfloat16"]


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


# ---- The recurrence and its adjoint ----

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


def _bytes(mask: Mask) -> Array:
    return jnp.zeros((0, 0), jnp.uint8) if mask is None else mask.astype(jnp.uint8)


def _like(*arrays: Array) -> tuple[jax.ShapeDtypeStruct, ...]:
    return tuple(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in arrays)
