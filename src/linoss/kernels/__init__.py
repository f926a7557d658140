"""Native code: the library of kernels, the layouts of their arguments, fused passes and streams."""

from linoss.kernels._library import (
    build_failure,
    call,
    instruction_set,
    native,
    padded,
    tiles,
    usable,
)

__all__ = ["build_failure", "call", "instruction_set", "native", "padded", "tiles", "usable"]
