"""The native kernels, if they were built, registered with XLA."""

import importlib
from typing import Any

import jax

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
