"""Memory of a training step on one device."""

from typing import NamedTuple

from linoss.kernels import Kept, padded
from linoss.planning._sizes import NUMBER, SEGMENT, TILE, Sizes


class Memory(NamedTuple):
    """Peak bytes on each device."""

    weights: int
    """Weights, Adam's two averages and statistics of norms, before and after the update."""
    batch: int
    """The sequences and their targets."""
    features: int
    """Features between blocks, stored for the backward pass, and gradients of that size."""
    states: int
    """Stored states of the oscillators."""
    shards: int
    """If time is split: memory for computing the state before each shard."""
    workspace: int
    """Working memory of blocks."""
    kept: int
    """Products of native blocks that are stored for the backward pass."""

    @property
    def total(self) -> int:
        """The sum of all parts."""
        return sum(self)


def memory(sizes: Sizes) -> Memory:
    """Each part by its formula; numbers have 4 bytes."""
    parts = (
        _weights(sizes),
        _batch(sizes),
        _features(sizes),
        _states(sizes),
        _shards(sizes),
        _workspace(sizes),
        sum(map(sizes.numbers_kept, Kept)),
    )
    return Memory(*(NUMBER * part for part in parts))


def _weights(s: Sizes) -> int:
    """2 (3 p + statistics): gradients share the memory of the values after the update."""
    return 2 * (3 * s.parameters + s.statistics)


def _batch(s: Sizes) -> int:
    """n in_size, and targets with weights: 2 out_size for each output, or a class and a weight for
    each sequence; targets are not split in time. For forecasting, the horizon is appended to a copy
    of the whole sequences."""
    config = s.config
    shards = 1 if config.every is None else s.along_time
    targets = s.answers * shards * (1 if config.task == "classification" else config.out_size)
    copies = 1 if config.horizon is None else 1 + s.along_time
    return copies * s.samples * config.in_size + 2 * targets


def _features(s: Sizes) -> int:
    """(L + 1) n H, and n H more unless the head uses only means: the input of each block, and the
    gradients before and after the current one. In bidirectional models, the kernels also store the
    output of the second layer, L n H, and two more gradients. Outputs and their gradients."""
    arrays = s.blocks + 1 + (s.fused and not s.pools_means)
    if s.fused and s.layers == 2:
        arrays += s.blocks + 2
    return arrays * s.samples * s.hidden + 2 * s.answers * s.config.out_size


def _states(s: Sizes) -> int:
    """L b (t / 64) 2 P for native blocks; for plain blocks only the states of one block at a time,
    one for each segment."""
    if not s.fused:
        return s.sequences * -(-s.steps // (4 * TILE)) * 2 * s.pairs
    return s.blocks * s.sequences * -(-s.steps // TILE) * 2 * s.pairs


def _shards(s: Sizes) -> int:
    """2 n H, a gradient of a block's input and its sum with the other one, and the working memory
    of a segment of 1024 steps, 2 H + 3 P for each; for plain blocks, which store the forces of one
    block, the rest of n P."""
    if s.along_time == 1:
        return 0
    H, P = s.hidden, s.pairs
    if not s.fused:
        return s.samples * P
    segment = s.sequences * min(s.steps, SEGMENT)
    return 2 * s.samples * H + segment * (2 * H + 3 * P)


def _workspace(s: Sizes) -> int:
    """Plain blocks: n (14 H + 3 P), counted in compiled programs, and 3 n H for a norm over
    channels. Native blocks: weights in both orders, 4 H P + 4 H^2, and for each of up to 16
    concurrent sequences gradients, 2 H P + 2 H^2, and a tile, 64 (6 H + 4 P)."""
    if not s.fused:
        own = 17 if s.config.norm == "layer" else 14
        return s.samples * (own * s.hidden + 3 * s.pairs)
    H, P = padded(s.hidden), padded(s.pairs)
    at_a_time = min(s.sequences, 16)
    return 4 * H * (P + H) + at_a_time * (2 * H * (P + H) + TILE * (6 * H + 4 * P))
