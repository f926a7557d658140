"""The published splits, against JAX's older random bits written out by hand."""

import jax
import numpy as np
import pytest

from paper.data import published_split
from paper.numbers import SEEDS

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def threefry(key, first, second):
    """Threefry-2x32 with twenty rounds, as Salmon et al. define it."""
    words = [int(key[0]), int(key[1]), int(key[0]) ^ int(key[1]) ^ 0x1BD11BDA]
    x = np.asarray(first, np.uint64) + words[0] & 0xFFFFFFFF
    y = np.asarray(second, np.uint64) + words[1] & 0xFFFFFFFF
    for group in range(5):
        for turn in ROTATIONS[group % 2]:
            x = x + y & 0xFFFFFFFF
            y = ((y << np.uint64(turn)) | (y >> np.uint64(32 - turn))) & 0xFFFFFFFF ^ x
        x = x + words[(group + 1) % 3] & 0xFFFFFFFF
        y = y + words[(group + 2) % 3] + group + 1 & 0xFFFFFFFF
    return x.astype(np.uint32), y.astype(np.uint32)


def bits(key, count):
    """The older way: counts in two halves (an odd number of them with a zero), then their words."""
    counts = np.concatenate([np.arange(count), np.zeros(count % 2, int)])
    return np.concatenate(threefry(key, *np.split(counts, 2)))[:count]


def split(key, number=2):
    return bits(key, 2 * number).reshape(number, 2)


def permutation(key, count):
    """Sorted by random bits, as often as makes ties unlikely."""
    order = np.arange(count)
    for _ in range(int(np.ceil(3 * np.log(max(1, count)) / np.log(2**32 - 1)))):
        key, subkey = split(key)
        order = order[np.argsort(bits(subkey, count), kind="stable")]
    return order


def by_hand(cases, seed):
    data_key = split(np.array([0, seed]), 4)[0]
    order = permutation(split(data_key)[0], cases)
    return np.split(order, [int(0.7 * cases), int(0.85 * cases)])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("cases", [1, 10, 11, 236, 378, 380, 409, 524, 561, 3000])
def test_the_split_is_that_of_the_older_random_bits(cases, seed):
    for part, expected in zip(published_split(cases, seed), by_hand(cases, seed), strict=True):
        assert part.tolist() == expected.tolist()


def test_the_split_does_not_depend_on_precision_or_on_jax_as_it_is_set():
    with jax.enable_x64(False), jax.threefry_partitionable(True):
        plain = published_split(561, 3456)
    with jax.enable_x64(True):
        double = published_split(561, 3456)
    assert all(np.array_equal(a, b) for a, b in zip(plain, double, strict=True))


@pytest.mark.parametrize(
    ("cases", "sizes"),
    [(561, (392, 84, 85)), (380, (266, 57, 57)), (524, (366, 79, 79)), (409, (286, 61, 62)),
     (378, (264, 57, 57)), (236, (165, 35, 36))],
)  # fmt: skip
def test_test_parts_have_the_sizes_that_published_accuracies_are_fractions_of(cases, sizes):
    assert tuple(len(part) for part in published_split(cases, 2345)) == sizes
