"""Memory of a training step on one device."""

from typing import NamedTuple

from linoss._kernels import padded
from linoss.nn import Kept
from linoss.planning._sizes import NUMBER, SEGMENT, TILE, Sizes


class Memory(NamedTuple):
    """Bytes on each device at the moment when there are most."""

    weights: int
    """Weights, Adam's two averages and the norms' statistics, before and after the update."""
    batch: int
    """The sequences and their targets."""
    features: int
    """What goes from block to block, kept for the backward pass, and gradients of that size."""
    states: int
    """The oscillators' states that are kept."""
    shards: int
    """Where time is split: what finding the state before each shard keeps."""
    workspace: int
    """What blocks work in."""
    kept: int
    """Products of the kernels' blocks that the backward pass does not compute again."""

    @property
    def total(self) -> int:
        """All of it."""
        return sum(self)


def memory(sizes: Sizes) -> Memory:
    """Each part by its formula; all in numbers of 4 bytes."""
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
    """2 (3 p + statistics): gradients take the place of what comes after the update."""
    return 2 * (3 * s.parameters + s.statistics)


def _batch(s: Sizes) -> int:
    """n in, and targets with weights, 2 out for each answer, or a class and a weight for each
    sequence; targets are not split in time. A forecast's steps ahead are put behind a copy of the
    whole sequences."""
    config = s.config
    shards = 1 if config.every is None else s.along_time
    targets = s.answers * shards * (1 if config.task == "classification" else config.out_size)
    copies = 1 if config.horizon is None else 1 + s.along_time
    return copies * s.samples * config.in_size + 2 * targets


def _features(s: Sizes) -> int:
    """(L + 1) n H, and n H more unless the head reads means alone: the input of each block, and the
    gradients before and after the one that is worked on. In both directions, the kernels keep what
    the second layer puts out, L n H, and have two gradients more. Answers and their gradients."""
    arrays = s.blocks + 1 + (s.fused and not s.pools_means)
    if s.fused and s.layers == 2:
        arrays += s.blocks + 2
    return arrays * s.samples * s.hidden + 2 * s.answers * s.config.out_size


def _states(s: Sizes) -> int:
    """L b (t / 64) 2 P for the kernels' blocks; only those of one block at a time where XLA runs
    them, from segment to segment."""
    if not s.fused:
        return s.sequences * -(-s.steps // (4 * TILE)) * 2 * s.pairs
    return s.blocks * s.sequences * -(-s.steps // TILE) * 2 * s.pairs


def _shards(s: Sizes) -> int:
    """2 n H, a gradient of a block's input and its sum with the other one, and what a segment of
    1024 steps works in, 2 H + 3 P for each; the rest of n P for XLA's blocks, which keep forces of
    one block."""
    if s.along_time == 1:
        return 0
    H, P = s.hidden, s.pairs
    if not s.fused:
        return s.samples * P
    segment = s.sequences * min(s.steps, SEGMENT)
    return 2 * s.samples * H + segment * (2 * H + 3 * P)


def _workspace(s: Sizes) -> int:
    """XLA's blocks: n (14 H + 3 P), counted in compiled programs, and 3 n H for a norm over
    channels. The kernels' blocks: weights in both orders, 4 H P + 4 H^2, and for each of up to 16
    sequences at a time gradients, 2 H P + 2 H^2, and a tile of time, 64 (6 H + 4 P)."""
    if not s.fused:
        own = 17 if s.config.norm == "layer" else 14
        return s.samples * (own * s.hidden + 3 * s.pairs)
    H, P = padded(s.hidden), padded(s.pairs)
    at_a_time = min(s.sequences, 16)
    return 4 * H * (P + H) + at_a_time * (2 * H * (P + H) + TILE * (6 * H + 4 * P))
