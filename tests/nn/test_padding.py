"""A padded batch gives what its series give one by one."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import linoss
from linoss import trainable

T, LENGTHS = 12, np.array([12, 7, 1])
THERE = np.arange(T) < LENGTHS[:, None]
MEAN, FORECAST = {"pooling": "mean"}, {"task": "forecasting", "horizon": 3}


def padded(x):
    """`x` with NaN beyond the lengths."""
    return np.where(THERE[..., None], x, np.nan)


def assert_one_by_one(model, model_loop, u, found, *, mask=None, intervals=None, future=None):
    """Each row of answers is that of its series alone, without padding and missing samples."""
    every = model.config.every
    for i, length in enumerate(LENGTHS):
        kept = np.flatnonzero(THERE[i] if mask is None else THERE[i] & mask[i])
        expected = model_loop(
            model,
            u[i, kept],
            None if intervals is None else intervals[i, kept],
            None if future is None else future[i],
        )
        row = found[i]
        if every is not None:
            row = row[: length // every] if mask is None else row[kept]
        np.testing.assert_allclose(
            row, expected.reshape(row.shape), rtol=1e-10, atol=1e-12, strict=True
        )


def test_every_head(make_model, model_loop, draw, reader):
    model, u = make_model(**reader), draw(3, T, 2)
    assert_one_by_one(model, model_loop, u, model(padded(u), lengths=LENGTHS))


@pytest.mark.parametrize("settings", [MEAN, FORECAST], ids=["mean", "forecast"])
def test_bidirectional_and_irregular(make_model, model_loop, draw, draw_intervals, settings):
    model, u = make_model(bidirectional=True, scheme="verlet", **settings), draw(3, T, 2)
    intervals = draw_intervals(3, T)
    found = model(padded(u), lengths=LENGTHS, intervals=intervals)
    assert_one_by_one(model, model_loop, u, found, intervals=intervals)


def missing(seed=2):
    """Which samples are there, but for padding."""
    mask = np.random.default_rng(seed).random((3, T)) < 0.7
    mask[:, 0] = True
    return mask


@pytest.mark.several
def test_missing_samples_in_addition(make_model, model_loop, draw, draw_intervals, reader):
    settings = {**reader, "every": 1} if "every" in reader else reader
    model = make_model(bidirectional="task" in reader, scheme="verlet", **settings)
    u, intervals, mask = draw(3, T, 2), draw_intervals(3, T), missing()
    data = padded(np.where(mask[..., None], u, np.nan))
    given = np.where(mask & THERE, intervals, np.nan)  # what is missing may be anything
    found = model(data, lengths=LENGTHS, mask=mask, intervals=given)
    assert_one_by_one(model, model_loop, u, found, mask=mask, intervals=intervals)


GAPS = {"scheme": "verlet", "bidirectional": True, "bias": True}


@pytest.mark.several
def test_oscillators_move_on_without_force_where_samples_are_missing(
    make_model, model_loop, draw, reader
):
    model, u, mask = make_model(**GAPS, **reader), draw(3, T, 2), missing()
    mask[0, :2] = False
    data = padded(np.where(mask[..., None], u, np.nan))
    found = model(data, lengths=LENGTHS, mask=mask)
    for i, length in enumerate(LENGTHS):
        expected = model_loop(model, u[i, :length], there=mask[i, :length])
        row = found[i][: len(expected)] if model.config.every else found[i]
        np.testing.assert_allclose(row, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("scheme", ["im", "exact"])
def test_or_stand_still(make_model, model_loop, draw, scheme):
    model, u, mask = make_model(scheme=scheme, gaps="stand"), draw(3, T, 2), missing()
    found = model(padded(u), lengths=LENGTHS, mask=mask)
    assert_one_by_one(model, model_loop, u, found, mask=mask)


@pytest.mark.integration
def test_gradients_where_samples_are_missing_are_those_of_the_loop(make_model, model_loop, draw):
    """Along a drawn direction, by differences of the loop; by every engine."""
    model, mask = make_model(**GAPS, **MEAN), missing()
    u = np.where((mask & THERE)[..., None], draw(3, T, 2), 0)
    weights, rest = eqx.partition(model, trainable(model))
    leaves, structure = jax.tree.flatten(weights)
    generator = np.random.default_rng(0)
    direction = [generator.normal(size=x.shape) for x in leaves]

    def moved(by):
        there = [x + by * d for x, d in zip(leaves, direction, strict=True)]
        model = eqx.combine(jax.tree.unflatten(structure, there), rest)
        answers = [model_loop(model, u[i, :n], there=mask[i, :n]) for i, n in enumerate(LENGTHS)]
        return np.sin(answers).sum()

    @eqx.filter_jit
    def gradient(weights, engine):
        def loss(weights):
            answers = eqx.combine(weights, rest)(u, lengths=LENGTHS, mask=mask, engine=engine)
            return jnp.sum(jnp.sin(answers))

        return jax.grad(loss)(weights)

    expected = (moved(1e-5) - moved(-1e-5)) / 2e-5
    for engine in linoss.engines():
        found = jax.tree.leaves(gradient(weights, engine))
        along = sum(np.sum(x * d) for x, d in zip(found, direction, strict=True))
        np.testing.assert_allclose(along, expected, rtol=1e-7, err_msg=engine)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_future_follows_the_last_sample_of_each_series(make_model, model_loop, draw, bidirectional):
    model = make_model(task="forecasting", horizon=3, bidirectional=bidirectional)
    u, future = draw(3, T, 2), draw(3, 3, 2, seed=1)
    found = model(padded(u), lengths=LENGTHS, future=future)
    assert_one_by_one(model, model_loop, u, found, future=future)
