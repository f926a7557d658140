"""Communication between devices in a training step."""

from typing import NamedTuple

from linoss.planning._sizes import NUMBER, Sizes


class Communication(NamedTuple):
    """Bytes that each device sends in a step, independent of the length of sequences."""

    gradients: int
    """Gradients of the weights, summed over all devices."""
    norms: int
    """Means and variances over the whole batch, and their gradients."""
    states: int
    """If time is split: the final states and products of M of the shards, and their gradients."""
    answers: int
    """If time is split: features of whole sequences for the head."""

    @property
    def total(self) -> int:
        """The sum of all parts."""
        return sum(self)


def sum_over(devices: int, numbers: int) -> int:
    """Bytes that each device sends to sum numbers over a ring of devices: 2 s (N - 1) / N."""
    return 2 * NUMBER * numbers * (devices - 1) // devices


def gather_from(devices: int, numbers: int) -> int:
    """Bytes that each device sends for an all-gather or a reduce-scatter: s (N - 1)."""
    return NUMBER * numbers * (devices - 1)


def communication(s: Sizes) -> Communication:
    """Communication of a step, by formulas.

    Gradients: p. Norms: 4 L H, mean and variance in the forward and backward pass. States: L times
    the final state of each sequence's shard, 2 b P, and the product of M, 4 P, in both passes;
    plain blocks repeat the forward part when they are recomputed. Answers: b H in both passes, for
    each output of a sequence.
    """
    everyone, shards = s.along_batch * s.along_time, s.along_time
    ways = 2 if s.fused else 3
    norms = 2 * ways * s.blocks * s.hidden if s.reads_statistics else 0
    states = ways * s.blocks * (2 * s.sequences * s.pairs + 4 * s.pairs)
    pooled = 0 if s.config.every is not None else s.answers * s.hidden
    return Communication(
        gradients=sum_over(everyone, s.parameters),
        norms=sum_over(everyone, norms),
        states=gather_from(shards, states),
        answers=2 * sum_over(shards, pooled),
    )
