"""Dropout: a mask is a function of key and position, and its bits are fair."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from linoss.nn._operations import dropout, key_words, random_bits

N = 1 << 16
POSITIONS = np.arange(N, dtype=np.uint32)
SEEDS = [0, 1, 2]
SECOND_PLACE = np.uint32(0x9E3779B9)


def words_of(seed):
    return key_words(jax.random.key(seed))


def bits_by_hand(words, position):
    """The same in 64-bit integers, cut to 32 bits after each operation."""
    first, second = (int(word) for word in words)
    x = position.astype(np.uint64) ^ np.uint64(first)

    def round_(x, shift, factor):
        return ((x ^ (x >> np.uint64(shift))) * np.uint64(factor)) & np.uint64(0xFFFFFFFF)

    x = round_(x, 16, 0x7FEB352D)
    x = (x + np.uint64(second)) & np.uint64(0xFFFFFFFF)
    return round_(round_(x, 15, 0x846CA68B), 16, 1).astype(np.uint32)


def kept(words, rate, shape):
    return np.asarray(dropout(jnp.ones(shape), rate, words)) != 0


def assert_uncorrelated(first, second):
    """Within five deviations of no correlation."""
    correlation = np.corrcoef(np.ravel(first), np.ravel(second))[0, 1]
    assert abs(correlation) < 5 / np.sqrt(np.size(first))


def fair(counts):
    """Whether a chi-square test finds nothing, neither too uneven nor too even."""
    return 1e-4 < scipy.stats.chisquare(counts).pvalue < 1 - 1e-4


@pytest.mark.parametrize("seed", SEEDS)
def test_bits_are_those_of_an_independent_computation(seed):
    words = words_of(seed)
    positions = np.concatenate([POSITIONS, np.uint32(2**32 - 1) - POSITIONS])
    found = random_bits(words, jnp.asarray(positions))
    assert found.dtype == jnp.uint32
    assert np.array_equal(found, bits_by_hand(words, positions))


@pytest.mark.parametrize("seed", SEEDS)
def test_bytes_and_pairs_of_neighbouring_bytes_are_uniform(seed):
    bits = np.asarray(random_bits(words_of(seed), jnp.asarray(POSITIONS)))
    for shift in (0, 8, 16, 24):
        byte = (bits >> np.uint32(shift)) & np.uint32(255)
        assert fair(np.bincount(byte, minlength=256))
        pairs = (byte[::2] >> 4) * 16 + (byte[1::2] >> 4)
        assert fair(np.bincount(pairs, minlength=256))


def test_every_bit_of_the_position_changes_half_of_the_bits():
    words = words_of(0)
    bits = np.asarray(random_bits(words, jnp.asarray(POSITIONS)))
    for flipped in range(16):
        other = random_bits(words, jnp.asarray(POSITIONS ^ np.uint32(1 << flipped)))
        changed = np.unpackbits((bits ^ np.asarray(other)).view(np.uint8)).mean()
        assert abs(changed - 0.5) < 0.01


@pytest.mark.parametrize("rate", [0.05, 0.3, 0.9])
def test_rate_and_mean(rate):
    x = np.asarray(dropout(jnp.ones((64, 32, 32)), rate, words_of(0)))
    deviation = np.sqrt(rate * (1 - rate) / x.size)
    assert abs(np.mean(x == 0) - rate) < 4 * deviation
    assert np.allclose(x[x != 0], 1 / (1 - rate))
    assert abs(np.mean(x) - 1) < 4 * deviation / (1 - rate)


def test_mask_is_the_bits_against_the_rate():
    x = np.asarray(dropout(jnp.ones((3, 5, 7)), 0.3, words_of(4)))
    bits = bits_by_hand(words_of(4), np.arange(105, dtype=np.uint32))
    assert np.array_equal(x != 0, (bits / 2**32 >= 0.3).reshape(3, 5, 7))


def test_places_in_a_block_and_blocks_are_independent():
    keys = jax.random.split(jax.random.key(0), 3)
    words = [key_words(key) for key in keys]
    words += [word ^ SECOND_PLACE for word in words]
    masks = [kept(word, 0.3, (256, 256)) for word in words]
    for i in range(len(masks)):
        for j in range(i):
            assert_uncorrelated(masks[i], masks[j])


def test_without_words_or_rate_nothing_is_dropped(draw):
    x = jnp.asarray(draw(24, 10))
    assert np.array_equal(dropout(x, 0.3, None), x)
    assert np.array_equal(dropout(x, 0.0, words_of(0)), x)


def drop_by_hand(words, rate, like):
    keep = bits_by_hand(words, np.arange(like.size, dtype=np.uint32)) / 2**32 >= rate
    return np.where(keep.reshape(like.shape), like / (1 - rate), 0)


@pytest.mark.several
@pytest.mark.parametrize("norm", ["running", "batch"])
def test_training_is_the_loop_with_masks_and_statistics_by_hand(make_model, block_loop, draw, norm):
    """One series, so that the batch's statistics are its own."""
    model, u, key = make_model(dropout=0.3, norm=norm, num_blocks=2), draw(12, 2), jax.random.key(5)
    found, norms = model.training_pass(u, key=key)
    hidden = u @ np.asarray(model.encoder.weight).T + np.asarray(model.encoder.bias)
    keys = jax.random.split(key, len(model.blocks))
    for block, block_key, new in zip(model.blocks, keys, norms, strict=True):
        batch = np.stack([hidden.mean(0), hidden.var(0)])
        keep = 0.99 if norm == "running" else 0.9
        running = keep * np.stack([block.norm.mean, block.norm.variance]) + (1 - keep) * batch
        np.testing.assert_allclose(np.stack([new.mean, new.variance]), running, rtol=1e-10)
        used = running if norm == "running" else batch
        words = np.asarray(key_words(block_key))
        places = (words, words ^ SECOND_PLACE)
        hidden = block_loop(
            block,
            hidden,
            norm=lambda x, used=used: (x - used[0]) / np.sqrt(used[1] + 1e-5),
            drop=[lambda x, w=w: drop_by_hand(w, 0.3, x) for w in places],
        )
    decoder = model.head.decoder
    expected = hidden.mean(0) @ np.asarray(decoder.weight).T + np.asarray(decoder.bias)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_sequences_may_share_a_mask():
    """As in the published runs: that of the first sequence."""
    words, x = words_of(0), jnp.ones((3, 24, 10))
    each, shared = (np.asarray(dropout(x, 0.3, words, shared=s)) for s in (False, True))
    assert not np.array_equal(each[0], each[1])
    np.testing.assert_array_equal(shared, np.broadcast_to(each[0], shared.shape))


def test_training_is_decided_by_its_key(make_model, draw):
    model, u = make_model(dropout=0.3), draw(3, 12, 2)
    first, again, other = (model.training_pass(u, key=jax.random.key(k))[0] for k in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.allclose(first, other)
