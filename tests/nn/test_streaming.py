"""Step by step, piece by piece, and all at once: the same function."""

import jax
import numpy as np
import pytest

T = 12

# Every scheme, norm, head, kind of weight and kind of sampling occurs at least once.
CASES = {
    "published": {"num_blocks": 2},
    "imex, last": {"scheme": "imex", "pooling": "last", "norm": "layer", "damped": True},
    "verlet, masked": {"scheme": "verlet", "pooling": "last", "norm": "batch", "masked": True},
    "verlet, both": {"scheme": "verlet", "norm": None, "irregular": True, "masked": True},
    "exact, damped": {"scheme": "exact", "damped": True, "irregular": True, "bias": True},
    "every": {
        "task": "regression",
        "every": 3,
        "squash": True,
        "complex_projections": False,
        "feedthrough": "dense",
        "masked": True,
    },
    "one number": {
        "task": "regression",
        "scheme": "imex",
        "timestep": 1.0,
        "feedthrough": "none",
        "irregular": True,
    },
}


def prepare(make_model, draw, draw_intervals, irregular=False, masked=False, **config):
    """A model, a batch of series, and the options that go with it."""
    model, u, options = make_model(**config), draw(2, T, 2), {}
    if irregular:
        options["intervals"] = draw_intervals(2, T)
    if masked:
        options["mask"] = np.random.default_rng(3).random((2, T)) < 0.6
        options["mask"][:, 0] = True
        u = np.where(options["mask"][..., None], u, np.nan)
    return model, u, options


def in_pieces(model, u, options, sizes):
    """All answers, and the state at the end."""
    state, answers, at = model.init_state((len(u),)), [], 0
    for size in sizes:
        cut = {name: value[:, at : at + size] for name, value in options.items()}
        answer, state = model.run(state, u[:, at : at + size], **cut)
        answers.append(answer)
        at += size
    return np.concatenate(answers, axis=1), state


def assert_close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


DAILY = ("published", "verlet, both", "exact, damped", "every")


@pytest.mark.several
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=name, marks=[] if name in DAILY else [pytest.mark.integration])
        for name, case in CASES.items()
    ],
)
def test_pieces_of_any_size_end_with_the_answer_of_the_whole(
    make_model, draw, draw_intervals, case
):
    model, u, options = prepare(make_model, draw, draw_intervals, **case)
    whole, state = in_pieces(model, u, options, [T])
    steps, step_state = in_pieces(model, u, options, [1] * T)
    assert_close(steps, whole)
    for leaf, other in zip(*map(jax.tree.leaves, (state, step_state)), strict=True):
        assert_close(leaf, other)
    called = model(u, **options)
    every = model.config.every
    assert_close(whole[:, -1] if every is None else whole[:, every - 1 :: every], called)


@pytest.mark.several
@pytest.mark.parametrize(("scheme", "known"), [("im", False), ("verlet", True)])
def test_forecast_from_a_state_is_that_of_the_whole(
    make_model, draw, draw_intervals, scheme, known
):
    settings = {"task": "forecasting", "horizon": 3, "scheme": scheme, "irregular": True}
    model, u, options = prepare(make_model, draw, draw_intervals, **settings)
    future = draw(2, 3, 2, seed=1) if known else None
    state = model.init_state((2,))
    for part in (slice(6), slice(6, None)):
        _, state = model.run(state, u[:, part], intervals=options["intervals"][:, part])
        known_ahead = np.zeros((2, 3, 2)) if future is None else future
        forecast, _ = model.run(state, known_ahead)  # leaves the stream as it was
    whole = model(u, future=future, **options)
    assert_close(forecast, whole)


def test_bidirectional_models_cannot_stream(make_model):
    with pytest.raises(ValueError, match="bidirectional is True, expected False"):
        make_model(bidirectional=True).init_state()


def live_bytes():
    return sum(x.nbytes for x in jax.live_arrays())


@pytest.mark.integration
def test_a_million_steps_in_constant_memory(single_precision, make_model):
    model = make_model(hidden_size=3, state_size=2)
    generator, piece = np.random.default_rng(0), 50_000
    state, begun, held, answers = model.init_state(), [], [], None
    for n in range(20):
        u = generator.normal(size=(piece, 2)).astype(np.float32)
        answers, state = model.run(state, u)
        assert np.all(np.isfinite(answers))
        if n < 2:
            begun.append(u)
        if n == 1:
            at_100_000 = np.asarray(answers[-1])
        held.append(live_bytes())
    assert len(set(held[1:])) == 1
    assert state.head[0][0][-1] == 1_000_000
    whole = model(np.concatenate(begun))
    np.testing.assert_allclose(at_100_000, whole, rtol=1e-3, atol=1e-4)
    assert not np.array_equal(answers[-1], at_100_000)
