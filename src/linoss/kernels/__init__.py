"""Native code: the library of kernels, the layouts of their arguments, fused passes and streams.

A model describes itself as arrays, by the `native()` of its parts: mixers, norms, blocks, heads.
This room says whether the kernels cover such a model (`can_run`, `can_stream`), and runs it.
"""

from linoss.kernels._arrays import (
    OUTSIDE_KERNELS,
    Affine,
    BlockArrays,
    HeadArrays,
    Kept,
    LinearRecurrence,
    ModelArrays,
    Normalization,
    Timing,
    can_run,
    includes_mixers,
    kept_products,
    refusal,
)
from linoss.kernels._block import encode, run_backwards, run_block
from linoss.kernels._library import (
    TILE,
    call,
    fast_precisions,
    instruction_set,
    native,
    oscillators,
    oscillators_back,
    padded,
    tiles,
    usable,
)
from linoss.kernels._stream import NativeStream, can_stream

__all__ = [
    "OUTSIDE_KERNELS",
    "TILE",
    "Affine",
    "BlockArrays",
    "HeadArrays",
    "Kept",
    "LinearRecurrence",
    "ModelArrays",
    "NativeStream",
    "Normalization",
    "Timing",
    "call",
    "can_run",
    "can_stream",
    "encode",
    "fast_precisions",
    "includes_mixers",
    "instruction_set",
    "kept_products",
    "native",
    "oscillators",
    "oscillators_back",
    "padded",
    "refusal",
    "run_backwards",
    "run_block",
    "tiles",
    "usable",
]
