"""Batches against the loop over time in NumPy, one sequence at a time."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import linoss
from linoss import trainable

T, LENGTHS = 12, np.array([12, 7, 1])
THERE = np.arange(T) < LENGTHS[:, None]
GAPS = {"scheme": "verlet", "bidirectional": True, "bias": True}
LAST, EVERY = {"pooling": "last"}, {"task": "regression", "every": 3}
FORECAST = {"task": "forecasting", "horizon": 3}
# Of each: the configuration, whether samples are missing, and whether times are irregular.
CASES = {
    "mean": ({"gelu": "tanh"}, False, False),
    "several poolings": ({"pooling": "mean+last+max", "norm": "layer"}, True, False),
    "one number, squashed": ({**EVERY, "squash": True, "norm": None}, False, False),
    "last, both directions": ({**GAPS, **LAST}, True, False),
    "last, irregular": ({**GAPS, **LAST, "norm": "batch"}, False, True),
    "every, missing": ({**GAPS, **EVERY, "every": 1}, True, False),
    "every, irregular": ({"scheme": "imex", **EVERY, "every": 1}, True, True),
    "forecast": (FORECAST, False, False),
    "forecast, missing": ({**GAPS, **FORECAST}, True, False),
    "forecast, irregular": ({**GAPS, **FORECAST}, True, True),
    "standing still": ({"scheme": "exact", "gaps": "stand", "glu_bias": False}, True, False),
    "standing still, im": ({"gaps": "stand", "feedthrough": "dense"}, True, False),
}


def missing(seed=2):
    """Which samples are there, but for padding."""
    mask = np.random.default_rng(seed).random((3, T)) < 0.7
    mask[:, 0] = True
    return mask


@pytest.mark.several
@pytest.mark.parametrize("case", CASES)
def test_a_batch_is_its_sequences_one_by_one(make_model, model_loop, draw, draw_intervals, case):
    """With NaN beyond the lengths, and where samples are missing; by two engines."""
    config, has_gaps, irregular = CASES[case]
    model, u, mask = make_model(**config), draw(3, T, 2), missing() if has_gaps else THERE
    intervals = draw_intervals(3, T) if irregular else None
    future = draw(3, 3, 2, seed=1) if model.config.horizon else None
    ahead = draw_intervals(3, 3, seed=4) if irregular and future is not None else None
    options = {"lengths": LENGTHS, "mask": mask if has_gaps else None, "future": future}
    if ahead is not None:
        options["future_intervals"] = ahead
    if irregular:
        options["intervals"] = np.where(mask & THERE, intervals, np.nan)
    data = np.where((mask & THERE)[..., None], u, np.nan)
    moves = model.config.gaps == "move" and not irregular
    for engine in ("sequential", "associative"):
        found = model(data, engine=engine, **options)
        for i, length in enumerate(LENGTHS):
            kept = np.arange(length) if moves else np.flatnonzero((mask & THERE)[i])
            expected = model_loop(
                *(model, u[i, kept], None if intervals is None else intervals[i, kept]),
                *(None if future is None else future[i], mask[i, kept]),
                ahead=None if ahead is None else ahead[i],
            )
            row = found[i]
            if model.config.every is not None:
                row = row[kept] if model.config.every == 1 else row[: len(expected)]
            np.testing.assert_allclose(row, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.integration
def test_gradients_where_samples_are_missing_are_those_of_the_loop(make_model, model_loop, draw):
    """Along a drawn direction, by differences of the loop; by every engine."""
    model, mask = make_model(**GAPS), missing()
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
