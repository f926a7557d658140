"""Selection of the products that a native forward pass stores for the backward pass.

Products that are not stored are recomputed, with identical bits. Storing a number costs an
estimated 50 multiplications: it is written to memory that is new in each update, and read once.
"""

from enum import IntFlag

from linoss._settings import PrecisionName
from linoss.kernels import padded

_LEAST = {"float32": 64, "bfloat16": 128}  # multiplications that a number saves


class Kept(IntFlag):
    """Products of a block; `native/block.h` has the same values."""

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
