"""Norms, products of bfloat16 numbers and dropout against their definitions."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import scipy.stats

from linoss.nn import Samples
from linoss.nn._operations import (
    channel_moments,
    dropout,
    key_words,
    make_norm,
    normalize,
    product,
    random_bits,
)

# ---- Norms, batch after batch ----

HIDDEN, SHAPE = 3, (4, 5, 3)
MASK = jnp.asarray(np.random.default_rng(0).random(SHAPE[:-1]) < 0.6)


def apply(norm, x, mask=None, *, training=True):
    """The normalised features, and the norm after them."""
    x = jnp.asarray(x)
    samples = Samples(x, mask)
    if not training:
        return normalize(norm.native(), x), norm
    used, updated = norm.update(channel_moments(x, samples), samples)
    return normalize(used, x), updated


def statistics(x):
    rows = x.reshape(-1, HIDDEN)
    return np.stack([rows.mean(0), ((rows - rows.mean(0)) ** 2).mean(0)])


def normalised(x, statistics):
    return (x - statistics[0]) / np.sqrt(statistics[1] + 1e-5)


def blended(running, batch, kind):
    keep = {"running": 0.99, "batch": 0.9}[kind]
    return batch if running is None else keep * running + (1 - keep) * batch


def held_by(norm):
    return np.stack([norm.mean, norm.variance])


def assert_close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("kind", ["running", "batch"])
@pytest.mark.parametrize("mask", [None, MASK], ids=["whole", "masked"])
def test_training_over_several_batches(draw, kind, mask):
    norm, running = make_norm(kind, HIDDEN), None
    for seed in range(4):
        x = 2 * draw(*SHAPE, seed=seed) + seed
        there = x if mask is None else x[mask]
        batch = statistics(there)
        running = blended(running, batch, kind)
        output, norm = apply(norm, x, mask)
        expected = normalised(there, running if kind == "running" else batch)
        assert_close(output if mask is None else output[mask], expected)
        assert_close(held_by(norm), running)
        assert not norm.fresh


@pytest.mark.parametrize("kind", ["running", "batch"])
@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("mask", [None, MASK], ids=["whole", "masked"])
def test_gradient_flows_through_the_share_of_the_batch(stirred, draw, kind, fresh, mask):
    norm = make_norm(kind, HIDDEN) if fresh else stirred(make_norm(kind, HIDDEN), seed=0)
    x, readout = draw(*SHAPE), draw(*SHAPE, seed=9)
    there = np.ones(SHAPE[:-1], bool) if mask is None else mask
    running = None if fresh else held_by(norm)

    def independent(x):
        batch = statistics(x[there])
        used = blended(running, batch, kind) if kind == "running" else batch
        return np.sum(readout * normalised(x, used))

    def loss(x):
        return jnp.sum(readout * apply(norm, x, mask)[0])

    numeric = np.zeros(SHAPE)
    for index in np.ndindex(*SHAPE):
        nudge = np.zeros(SHAPE)
        nudge[index] = 1e-5
        numeric[index] = (independent(x + nudge) - independent(x - nudge)) / 2e-5
    np.testing.assert_allclose(jax.grad(loss)(jnp.asarray(x)), numeric, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("training", [True, False])
def test_layer_norm_scales_and_shifts_each_sample(stirred, draw, training):
    norm, x = stirred(make_norm("layer", HIDDEN), seed=0), draw(*SHAPE)
    output, after = apply(norm, x, training=training)
    for index in np.ndindex(*SHAPE[:-1]):
        sample = x[index]
        unit = (sample - sample.mean()) / np.sqrt(sample.var() + 1e-5)
        assert_close(output[index], unit * np.asarray(norm.scale) + np.asarray(norm.shift))
    assert after is norm


# ---- Products ----


def halfway(x):
    """In single precision, many halfway between two numbers of bfloat16, where ties show."""
    x = np.asarray(x, np.float32)
    middle = (x.view(np.uint32) & 0xFFFF0000 | 0x8000).view(np.float32)
    return np.where(np.random.default_rng(0).random(x.shape) < 0.3, middle, x)


def rounded(x):
    return np.asarray(x, np.float32).astype(ml_dtypes.bfloat16).astype(np.float64)


@pytest.mark.usefixtures("single_precision")
def test_a_product_and_its_gradients_round_their_factors(draw):
    x, weight, d = (
        halfway(draw(*shape, seed=i)) for i, shape in enumerate(((3, 50, 19), (7, 19), (3, 50, 7)))
    )
    factors = (jnp.asarray(x), jnp.asarray(weight))
    out, pull_back = jax.vjp(lambda x, w: product(x, w, "bfloat16"), *factors)
    d_x, d_weight = pull_back(jnp.asarray(d))
    np.testing.assert_allclose(out, rounded(x) @ rounded(weight).T, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(d_x, rounded(d) @ rounded(weight), rtol=1e-5, atol=1e-5)
    expected = np.einsum("bni,bnj->ij", rounded(d), rounded(x))
    np.testing.assert_allclose(d_weight, expected, rtol=1e-5, atol=1e-5)
    assert out.dtype == d_x.dtype == d_weight.dtype == jnp.float32


# ---- Dropout: a mask is a function of key and position, and its bits are fair ----

N = 1 << 16
POSITIONS = np.arange(N, dtype=np.uint32)
SECOND_PLACE = np.uint32(0x9E3779B9)


def bits_by_hand(words, position):
    """The same in 64-bit integers, cut to 32 bits after each operation."""
    first, second = (int(word) for word in words)
    x = position.astype(np.uint64) ^ np.uint64(first)

    def round_(x, shift, factor):
        return ((x ^ (x >> np.uint64(shift))) * np.uint64(factor)) & np.uint64(0xFFFFFFFF)

    x = round_(x, 16, 0x7FEB352D)
    x = (x + np.uint64(second)) & np.uint64(0xFFFFFFFF)
    return round_(round_(x, 15, 0x846CA68B), 16, 1).astype(np.uint32)


def assert_uncorrelated(first, second):
    """Within five deviations of no correlation."""
    correlation = np.corrcoef(np.ravel(first), np.ravel(second))[0, 1]
    assert abs(correlation) < 5 / np.sqrt(np.size(first))


def fair(counts):
    """Whether a chi-square test finds nothing, neither too uneven nor too even."""
    return 1e-4 < scipy.stats.chisquare(counts).pvalue < 1 - 1e-4


@pytest.mark.parametrize("seed", range(3))
def test_bits_are_those_of_an_independent_computation_and_uniform(seed):
    words = key_words(jax.random.key(seed))
    positions = np.concatenate([POSITIONS, np.uint32(2**32 - 1) - POSITIONS])
    found = random_bits(words, jnp.asarray(positions))
    assert found.dtype == jnp.uint32
    assert np.array_equal(found, bits_by_hand(words, positions))
    for shift in (0, 8, 16, 24):
        byte = (np.asarray(found)[:N] >> np.uint32(shift)) & np.uint32(255)
        assert fair(np.bincount(byte, minlength=256))
        pairs = (byte[::2] >> 4) * 16 + (byte[1::2] >> 4)
        assert fair(np.bincount(pairs, minlength=256))


def test_places_in_a_block_and_blocks_are_independent():
    keys = jax.random.split(jax.random.key(0), 3)
    words = [key_words(key) for key in keys]
    words += [word ^ SECOND_PLACE for word in words]
    masks = [np.asarray(dropout(jnp.ones((256, 256)), 0.3, word)) != 0 for word in words]
    for i in range(len(masks)):
        for j in range(i):
            assert_uncorrelated(masks[i], masks[j])


def drop_by_hand(words, rate, like):
    keep = bits_by_hand(words, np.arange(like.size, dtype=np.uint32)) / 2**32 >= rate
    return np.where(keep.reshape(like.shape), like / (1 - rate), 0)


@pytest.mark.several
@pytest.mark.parametrize("norm", ["running", "batch"])
def test_training_is_the_loop_with_masks_and_statistics_by_hand(make_model, block_loop, draw, norm):
    """One series, so that the batch's statistics are its own."""
    model, u, key = make_model(dropout=0.3, norm=norm, num_blocks=2), draw(12, 2), jax.random.key(5)
    found, norms = model.training_pass(u, key=key)
    assert np.array_equal(found, model.training_pass(u, key=key)[0])
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
    words, x = key_words(jax.random.key(0)), jnp.ones((3, 24, 10))
    each, shared = (np.asarray(dropout(x, 0.3, words, shared=s)) for s in (False, True))
    assert not np.array_equal(each[0], each[1])
    np.testing.assert_array_equal(shared, np.broadcast_to(each[0], shared.shape))
