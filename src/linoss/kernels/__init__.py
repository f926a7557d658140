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
from linoss.kernels._scan import diagonal, oscillators, oscillators_back, selective

__all__ = [
    "build_failure",
    "call",
    "diagonal",
    "instruction_set",
    "native",
    "oscillators",
    "oscillators_back",
    "padded",
    "selective",
    "tiles",
    "usable",
]
