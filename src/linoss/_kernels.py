"""The native kernels, where they were built, made known to XLA."""

import importlib
from importlib import metadata
from typing import Any

import jax

try:
    native: Any = importlib.import_module("linoss._native")
except ImportError:  # a pure Python install: the kernels could not be built
    native = None
else:
    for name, handler in native.handlers().items():
        jax.ffi.register_ffi_target(name, handler, platform="cpu")


def usable() -> bool:
    """Whether the kernels are there and JAX runs where they do, on a CPU."""
    return native is not None and jax.default_backend() == "cpu"


def instruction_set() -> str | None:
    """The instruction set of the chosen kernels, such as "x86-64-v3"; None without kernels."""
    return None if native is None else native.instruction_set()


def build_failure() -> str | None:
    """The last lines of the native build, where it failed when this package was installed.

    None where the kernels are there, and where nobody tried to build them.
    """
    if native is not None:
        return None
    try:
        return metadata.distribution("linoss").read_text("native_build.txt")
    except metadata.PackageNotFoundError:
        return None


def call(name: str, results: Any, *arguments: Any, **attributes: Any) -> Any:
    """Run a kernel inside a JAX computation."""
    kernel = jax.ffi.ffi_call(name, results, vmap_method="sequential")
    return kernel(*arguments, **attributes)


def padded(size: int) -> int:
    """A row of so many numbers in the kernels' memory."""
    return -(-size // 16) * 16


def tiles(time: int) -> int:
    """How many states a kernel keeps for a sequence of so many steps."""
    return -(-time // native.tile)
