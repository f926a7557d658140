"""Models and their parts as arrays, and what the kernels cover of them.

A model describes itself by the `native()` of its parts; `refusal` says whether kernels cover a
block.
"""

from enum import IntFlag
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, UInt8

from linoss._settings import PrecisionName
from linoss.dynamics import Transition, VaryingTransition
from linoss.kernels._library import padded

# ---- Descriptions ----


class Affine(NamedTuple):
    """W x + b."""

    weight: Float[Array, "out in"]
    bias: Float[Array, " out"]


class Normalization(NamedTuple):
    """(x - mean) scale; with an epsilon, (x - m) / sqrt(v + epsilon) scale + mean, where m and v
    are mean and variance over the channels of each sample."""

    mean: Float[Array, " hidden"] | float
    scale: Float[Array, " hidden"] | float
    epsilon: float = 0.0


class LinearRecurrence(NamedTuple):
    """A mixer whose state is m pairs of numbers x = [z, y], `(..., m, 2)`.

        b = B u_n + bias,    x_n = M x_{n-1} + F b,    y_n = C x_n + D u_n

    with a 2 x 2 matrix M for each pair. Either B has m rows, b forces z and y by F, and C reads y;
    or B has 2 m rows, of which the first m force z and the others y, F is 1, and C has 2 m columns
    and reads [z, y].
    """

    step: Transition | VaryingTransition
    """M and F: the same for all samples, or by interval (`intervals` is not used)."""
    input_weight: Float[Array, "forces hidden"]
    bias: Float[Array, " forces"]
    output_weight: Float[Array, "hidden forces"]
    feedthrough: Float[Array, " hidden"] | Float[Array, "hidden hidden"]

    @property
    def is_paired(self) -> bool:
        """Whether z and y have forces of their own."""
        return self.input_weight.shape[0] == 2 * self.step.state_size

    @property
    def regular_step(self) -> Transition:
        """The step between regular samples."""
        step = self.step
        if isinstance(step, Transition):
            return step
        A, timestep, damping, _ = step.parameters
        rows = stack_leaves(step.scheme.step(A, timestep, damping))
        return Transition(rows[:4].T.reshape(-1, 2, 2), rows[4:].T, step.weigh)


class BlockArrays(NamedTuple):
    """A block: norm, mixer, GELU, dropout, GLU, dropout and a skip connection."""

    norm: Normalization
    mixers: tuple[LinearRecurrence, ...]
    """The mixer, and the one that reads backwards; empty if one of them has no description."""
    glu: Affine
    """Gate, then value."""
    approximate: bool = False
    """Whether GELU has its tanh form."""
    dropout: float = 0.0


class HeadArrays(NamedTuple):
    """Pooling over time, a decoder, and a tanh."""

    decoder: Affine
    pooling: str
    """Empty if the decoder reads the last features."""
    squash: bool


class ModelArrays(NamedTuple):
    """A whole model."""

    encoder: Affine
    blocks: tuple[BlockArrays, ...]
    head: HeadArrays
    precision: PrecisionName
    moves: bool
    """Whether states advance without forcing at missing samples."""


class Timing(NamedTuple):
    """The samples of a batch of sequences, in the order of time."""

    mask: Bool[Array, "*batch time"] | None = None
    """False where a sample is missing; None if all are present."""
    silent: Bool[Array, "*batch time"] | None = None
    """True where a sample is missing, but states advance without forcing."""
    intervals: Float[Array, "*batch time"] | None = None
    """None for regular sampling."""
    weights: Float[Array, "*batch time"] | None = None
    """Weights of forces, in the order in which states visit samples; None if all are 1."""

    @property
    def bytes(self) -> UInt8[Array, "_ _"]:
        """The mask of sequences: 1 for present and 2 for silent samples; empty if all are
        present."""
        if self.mask is None:
            return jnp.zeros((0, 0), jnp.uint8)
        mask = self.mask.astype(jnp.uint8)
        mask = mask if self.silent is None else jnp.where(self.silent, jnp.uint8(2), mask)
        return mask.reshape(-1, mask.shape[-1])


def stack_leaves(step: Any) -> Float[Array, "6 m"]:
    """The rows zz, zy, yz, yy, fz, fy of M and F."""
    return jnp.stack(jnp.broadcast_arrays(*jax.tree.leaves(step)))


# ---- What the kernels cover ----

_FORMLESS = "irregular times with a scheme that has no native form"
_SPLIT = "time split over devices"
OUTSIDE_KERNELS = {"double precision": 4.2, _FORMLESS: 5.2, _SPLIT: 2.1}
"""Cases that the native kernels do not cover, in words, and the slowdown of an update by the plain
block, measured by `benchmarks/corners.py outside`."""


def includes_mixers(block: BlockArrays, *, irregular: bool) -> bool:
    """Whether a native pass includes the mixers; otherwise it begins after them, with GELU."""
    return bool(block.mixers) and not (irregular and any(x.is_paired for x in block.mixers))


def refusal(block: BlockArrays, *, irregular: bool, time_split: bool) -> str | None:
    """The reason why native passes do not cover a block; None if they do.

    `irregular` is whether samples have intervals, `time_split` whether time is split over devices.
    """
    included = includes_mixers(block, irregular=irregular)
    if time_split:
        reason = _SPLIT
    elif included and irregular and not all(native_scheme(x.step) for x in block.mixers):
        reason = _FORMLESS
    else:
        return None
    return f"{reason}: {OUTSIDE_KERNELS[reason]:g} times slower"


def can_run(block: BlockArrays, u: Array, *, irregular: bool, time_split: bool) -> bool:
    """Whether native passes run blocks like this one on `u`: in single precision, with at least one
    sample, if the kernels cover it."""
    arrays = [x for x in jax.tree.leaves((block, u)) if hasattr(x, "dtype")]
    return (
        u.size > 0
        and all(x.dtype == jnp.float32 for x in arrays)
        and refusal(block, irregular=irregular, time_split=time_split) is None
    )


def native_scheme(step: Transition | VaryingTransition) -> str | None:
    """The name of its formulas in the kernels, if it has any."""
    return step.scheme.native if isinstance(step, VaryingTransition) else None


# ---- Stored products ----

_LEAST = {"float32": 64, "bfloat16": 128}  # multiplications that a number saves


class Kept(IntFlag):
    """Products of a block that a forward pass stores; `native/block.h` has the same values.

    Products that are not stored are recomputed, with identical bits. Storing a number costs an
    estimated 50 multiplications: it is written to memory that is new in each update, and read once.
    """

    NONE = 0
    FORCES = 1
    """B x."""
    OUTPUTS = 2
    """C y, with D x if D is a matrix."""
    GATES = 4
    """The products of the GLU."""

    def width(self, hidden: int, pairs: int) -> int:
        """Stored numbers for each sample."""
        H, P = padded(hidden), padded(pairs)
        widths = {Kept.FORCES: P, Kept.OUTPUTS: H, Kept.GATES: 2 * H}
        return sum(width for product, width in widths.items() if product in self)


def kept_products(
    memory: int, *, samples: int, hidden: int, pairs: int, blocks: int, precision: PrecisionName
) -> list[Kept]:
    """The products that each block stores, at most `memory` bytes in total: first those that save
    the most multiplications for each stored number."""
    depths = {Kept.OUTPUTS: pairs, Kept.FORCES: hidden, Kept.GATES: hidden}
    chosen = [Kept.NONE] * blocks
    for product, depth in sorted(depths.items(), key=lambda item: -item[1]):
        size = 4 * samples * product.width(hidden, pairs)
        for i in range(blocks):
            if depth >= _LEAST[precision] and 0 < size <= memory:
                chosen[i] |= product
                memory -= size
    return chosen
