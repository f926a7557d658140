"""Arithmetic and traffic to main memory of a training step on one device."""

from typing import NamedTuple

from linoss.nn import Kept
from linoss.planning._sizes import NUMBER, SEGMENT, TILE, Sizes


class Flops(NamedTuple):
    """Operations on each device in a step; a multiplication and an addition are two."""

    products: int
    """Of matrices: the encoder's, the blocks' and the head's."""
    oscillators: int
    """The recurrence and its adjoint."""
    others: int
    """Norms, GELU, GLU, dropout, residuals and the update of the weights, about."""

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self)


class Traffic(NamedTuple):
    """Bytes that each device reads from and writes to main memory in a step."""

    blocks: int
    """Encoder, blocks and head."""
    shards: int
    """Where time is split: finding the state before each shard."""
    weights: int
    """Gradients and the update."""

    @property
    def total(self) -> int:
        """All of it."""
        return sum(self)


_ADAM = 14  # operations of clipping, Adam and decay for each weight


def flops(s: Sizes) -> Flops:
    """A block's products B x, C y and W g take 2 n (2 H P + 2 H^2); forward, again in the backward
    pass, and twice in it for gradients: 16 n H (P + H). The recurrence takes 10 n P forward, 10
    again, and 23 for its adjoint. Where time is split, the recurrence runs once more, there and
    back, 43 n P, and for the kernels' blocks B x, too, 6 n H P; of both, what comes first is
    computed again for the way back, 10 n P and 2 n H P, if a shard has several segments. A product
    that is kept is not computed again."""
    n, H, P, L = s.samples, s.hidden, s.pairs, s.blocks
    split, config = s.along_time > 1, s.config
    several = s.steps > SEGMENT
    again = (8 if several else 6) * n * H * P if split and s.fused else 0
    dense = 8 * n * H * H if config.feedthrough == "dense" else 0
    blocks = L * (16 * n * H * (P + H) + dense + again)
    depths = {Kept.FORCES: H, Kept.OUTPUTS: P // s.layers, Kept.GATES: H}
    saved = sum(2 * depth * s.numbers_kept(product) for product, depth in depths.items())
    encoder = (6 if s.fused else 4) * n * H * config.in_size
    head = 6 * s.answers * H * config.out_size
    elementwise = L * n * H * ((200 if s.fused else 300) + (9 if again else 0))
    return Flops(
        products=blocks - saved + encoder + head,
        oscillators=L * n * P * (43 + (43 + 10 * (s.fused and several) if split else 0)),
        others=elementwise + _ADAM * s.parameters,
    )


def traffic(s: Sizes) -> Traffic:
    """The kernels read a block's input and write its output, and read input and the output's
    gradient and write the input's: 5 n H, with states on the way; what is kept is written and read.
    XLA's blocks move 126 n H + 30 n P, counted in compiled programs. Splitting time adds 8 n H,
    where segments stay in cache, or 26 n P for XLA's blocks. The update moves 12 numbers a
    weight."""
    n, H, P, L = s.samples, s.hidden, s.pairs, s.blocks
    ends = n * (2 * s.config.in_size + 2 * H) + 4 * s.answers * (H + s.config.out_size)
    if s.fused:
        saved = n * H if s.pools_means else 0
        kept = 2 * sum(map(s.numbers_kept, Kept))
        blocks = L * (5 * n * H + 4 * n * P // TILE) - saved + kept
        shards = L * n * 8 * H
    else:
        blocks, shards = L * n * (126 * H + 30 * P), L * n * 26 * P
    parts = (blocks + ends, shards if s.along_time > 1 else 0, 12 * s.parameters)
    return Traffic(*(NUMBER * part for part in parts))
