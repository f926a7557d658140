"""Norms against their definitions, batch after batch."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from linoss.nn import Samples
from linoss.nn._operations import channel_moments, make_norm, normalize

HIDDEN, SHAPE = 3, (4, 5, 3)
MASK = jnp.asarray(np.random.default_rng(0).random(SHAPE[:-1]) < 0.6)


def samples(x, mask=None):
    return Samples(jnp.asarray(x), mask)


def apply(norm, x, samples, *, training):
    """The normalised features, and the norm after them."""
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
        output, norm = apply(norm, jnp.asarray(x), samples(jnp.asarray(x), mask), training=True)
        expected = normalised(there, running if kind == "running" else batch)
        assert_close(output if mask is None else output[mask], expected)
        assert_close(held_by(norm), running)
        assert not norm.fresh


@pytest.mark.parametrize("kind", ["running", "batch"])
def test_evaluation_uses_running_statistics_and_changes_nothing(stirred, draw, kind):
    norm, x = stirred(make_norm(kind, HIDDEN), seed=0), draw(*SHAPE)
    output, after = apply(norm, jnp.asarray(x), samples(jnp.asarray(x)), training=False)
    assert_close(output, normalised(x, held_by(norm)))
    assert np.array_equal(held_by(after), held_by(norm))


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
        return jnp.sum(readout * apply(norm, x, samples(x, mask), training=True)[0])

    numeric = np.zeros(SHAPE)
    for index in np.ndindex(*SHAPE):
        nudge = np.zeros(SHAPE)
        nudge[index] = 1e-5
        numeric[index] = (independent(x + nudge) - independent(x - nudge)) / 2e-5
    np.testing.assert_allclose(jax.grad(loss)(jnp.asarray(x)), numeric, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("training", [True, False])
def test_layer_norm_scales_and_shifts_each_sample(stirred, draw, training):
    norm, x = stirred(make_norm("layer", HIDDEN), seed=0), draw(*SHAPE)
    output, after = apply(norm, jnp.asarray(x), samples(jnp.asarray(x)), training=training)
    for index in np.ndindex(*SHAPE[:-1]):
        sample = x[index]
        unit = (sample - sample.mean()) / np.sqrt(sample.var() + 1e-5)
        assert_close(output[index], unit * np.asarray(norm.scale) + np.asarray(norm.shift))
    assert after is norm


@pytest.mark.parametrize("kind", ["running", "batch"])
def test_lengths_and_masks_restrict_the_statistics_of_a_model(make_model, draw, kind):
    model = make_model(norm=kind, num_blocks=2)
    u, lengths = draw(3, 12, 2), np.array([12, 5, 1])
    mask = np.random.default_rng(4).random((3, 12)) < 0.7
    there = mask & (np.arange(12) < lengths[:, None])
    data = np.where(there[..., None], u, np.nan)
    _, norms = model.training_pass(data, key=jax.random.key(0), lengths=lengths, mask=mask)
    encoded = u[there] @ np.asarray(model.encoder.weight).T + np.asarray(model.encoder.bias)
    batch = np.stack([encoded.mean(0), encoded.var(0)])
    assert_close(held_by(norms[0]), blended(held_by(model.blocks[0].norm), batch, kind))
    assert np.all(np.isfinite(held_by(norms[1])))


def test_with_norms_puts_the_statistics_in_and_leaves_the_rest(make_model, draw):
    model, u = make_model(num_blocks=2), draw(3, 12, 2)
    before = [held_by(block.norm) for block in model.blocks]
    _, norms = model.training_pass(u, key=jax.random.key(0))
    updated = model.with_norms(norms)
    for old, block, new, norm in zip(before, model.blocks, updated.blocks, norms, strict=True):
        assert np.array_equal(held_by(block.norm), old)
        assert np.array_equal(held_by(new.norm), held_by(norm))
        assert not np.allclose(held_by(new.norm), old)
        assert eqx.tree_equal(new.mixer, block.mixer)
        assert eqx.tree_equal(new.glu, block.glu)
