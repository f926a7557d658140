"""Operations and memory traffic of a training step on one device."""

from typing import NamedTuple

from linoss.kernels import Kept
from linoss.planning._sizes import NUMBER, SEGMENT, TILE, Sizes


class Flops(NamedTuple):
    """Operations on each device in a step; a multiplication and an addition count as two."""

    products: int
    """Matrix products of encoder, blocks and head."""
    oscillators: int
    """The recurrence and its adjoint."""
    others: int
    """Approximately: norms, GELU, GLU, dropout, residuals and the update of the weights."""

    @property
    def total(self) -> int:
        """The sum of all parts."""
        return sum(self)


class Traffic(NamedTuple):
    """Bytes that each device reads from and writes to main memory in a step."""

    blocks: int
    """Encoder, blocks and head."""
    shards: int
    """If time is split: computing the state before each shard."""
    weights: int
    """Gradients and the update."""

    @property
    def total(self) -> int:
        """The sum of all parts."""
        return sum(self)


_ADAM = 14  # operations of clipping, Adam and weight decay for each weight


def flops(s: Sizes) -> Flops:
    """A block's products B x, C y and W g take 2 n (2 H P + 2 H^2): once in the forward pass, once
    recomputed, and twice for gradients, 16 n H (P + H) in total. The recurrence takes 10 n P
    forward, 10 n P recomputed, and 23 n P for its adjoint. If time is split, the recurrence and its
    adjoint run once more, 43 n P, and for native blocks also B x, 6 n H P; if a shard has several
    segments, the forward part of both is also recomputed, 10 n P and 2 n H P. Stored products are
    not recomputed."""
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
    """The kernels read a block's input and write its output, then read the input and the output's
    gradient and write the input's gradient: 5 n H, plus states; stored products are written and
    read once. Plain blocks move 126 n H + 30 n P, counted in compiled programs. Splitting time adds
    8 n H, where segments fit in the cache, or 26 n P for plain blocks. The update moves 12 numbers
    for each weight."""
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
