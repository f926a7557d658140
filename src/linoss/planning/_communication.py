"""What devices tell each other in a training step."""

from typing import NamedTuple

from linoss.planning._sizes import NUMBER, Sizes


class Communication(NamedTuple):
    """Bytes that each device sends in a step. None of it grows with the length of sequences."""

    gradients: int
    """Of the weights, summed over all devices."""
    norms: int
    """Means and variances over the whole batch, and their gradients."""
    states: int
    """Where time is split: the ends and products of the shards, and their gradients."""
    answers: int
    """Where time is split: what the head asks of whole sequences."""

    @property
    def total(self) -> int:
        """All of it."""
        return sum(self)


def sum_over(devices: int, numbers: int) -> int:
    """Bytes that each device sends to sum numbers over a ring of devices: 2 s (N - 1) / N."""
    return 2 * NUMBER * numbers * (devices - 1) // devices


def gather_from(devices: int, numbers: int) -> int:
    """To gather each device's numbers on all, or to sum such and scatter them: s (N - 1)."""
    return NUMBER * numbers * (devices - 1)


def communication(s: Sizes) -> Communication:
    """Gradients: p. Norms: 4 L H, a mean and a variance there and back. States: L times the end of
    each sequence's shard, 2 b P, and the product of M, 4 P, there and back. XLA's blocks go there
    once more, when they are computed again. Answers: b H there and back, for each answer of a
    sequence.
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
