"""Batches of cases padded to the same length, in an order drawn from (seed, epoch)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from linoss.training._inputs import Cases

_STEPS_AT_ONCE = 65_536  # of an evaluation batch
_CASES_AT_ONCE = 32


@dataclass(frozen=True, eq=False)
class Bucket:
    """Cases that are padded to the same length."""

    length: int
    cases: np.ndarray


Pad = Callable[[int], int]
"""The padded length of a case, from its length."""


def make_buckets(lengths: np.ndarray, pad: Pad) -> list[Bucket]:
    """Group cases by padded length, shortest first."""
    unique, inverse = np.unique(lengths, return_inverse=True)
    padded = np.array([pad(int(n)) for n in unique])[inverse]
    return [Bucket(int(n), np.flatnonzero(padded == n)) for n in np.unique(padded)]


def merge_small(buckets: list[Bucket], least: int) -> list[Bucket]:
    """Merge buckets with fewer than `least` cases into the next longer one, and the last into the
    previous one, because a batch of two cases would have the weight of one of thirty-two."""
    merged: list[Bucket] = []
    for bucket in buckets:
        if merged and len(merged[-1].cases) < least:
            bucket = _join(merged.pop(), bucket)
        merged.append(bucket)
    if len(merged) > 1 and len(merged[-1].cases) < least:
        last = merged.pop()
        merged.append(_join(merged.pop(), last))
    return merged


def _join(shorter: Bucket, longer: Bucket) -> Bucket:
    return Bucket(longer.length, np.sort(np.concatenate([shorter.cases, longer.cases])))


@dataclass(frozen=True, eq=False)
class Order:
    """The order of training batches: a function of the seed, the step and the lengths only."""

    buckets: list[Bucket]
    batch_size: int
    seed: int

    @classmethod
    def of(cls, cases: Cases, pad: Pad, batch_size: int, seed: int) -> "Order":
        """The order for some cases."""
        buckets = merge_small(make_buckets(np.asarray(cases.lengths), pad), batch_size)
        return cls(buckets, batch_size, seed)

    @property
    def sizes(self) -> set[int]:
        """The sizes of the batches."""
        return {self._size(bucket) for bucket in self.buckets}

    @property
    def batches_per_epoch(self) -> int:
        """Number of batches in an epoch, in which every case is drawn at most once."""
        return sum(len(b.cases) // self._size(b) for b in self.buckets)

    def _size(self, bucket: Bucket) -> int:
        return min(self.batch_size, len(bucket.cases))

    def epoch(self, number: int) -> list[tuple[np.ndarray, int]]:
        """(cases, padded length) of each batch of an epoch. Incomplete batches are dropped."""
        random = np.random.default_rng([self.seed, number])
        batches = []
        for bucket in self.buckets:
            size = self._size(bucket)
            drawn = random.permutation(bucket.cases)[: len(bucket.cases) // size * size]
            batches += [(chosen, bucket.length) for chosen in drawn.reshape(-1, size)]
        return [batches[i] for i in random.permutation(len(batches))]

    def from_step(self, step: int) -> Iterator[tuple[np.ndarray, int]]:
        """Yield the batches from update `step` on, indefinitely."""
        epoch, first = divmod(step, self.batches_per_epoch)
        while True:
            yield from self.epoch(epoch)[first:]
            epoch, first = epoch + 1, 0


def evaluation_batches(
    cases: Cases, pad: Pad, batch_size: int | None, multiple: int = 1
) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
    """Batches that cover all cases once: (cases, filled cases, padded length).

    Copies of the first case fill a batch up to its size, a multiple of `multiple`.
    """
    for bucket in make_buckets(np.asarray(cases.lengths), pad):
        size = batch_size
        if size is None:
            size = min(max(_STEPS_AT_ONCE // bucket.length, 2), _CASES_AT_ONCE)
        size = -(-size // multiple) * multiple
        for start in range(0, len(bucket.cases), size):
            chosen = bucket.cases[start : start + size]
            copies = np.full(size - len(chosen), chosen[0])
            yield chosen, np.concatenate([chosen, copies]), bucket.length
