"""`Stream` is `run` for single samples."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import linoss


def make_model(**changes):
    config = linoss.LinOSSConfig(
        in_size=2, out_size=3, hidden_size=4, state_size=3, num_blocks=2, **changes
    )
    return linoss.LinOSS(config, key=jax.random.key(0))


@pytest.mark.several
@pytest.mark.parametrize("scheme", ["im", "verlet"])
def test_gives_what_run_gives(scheme):
    model = make_model(scheme=scheme)
    samples = jax.random.normal(jax.random.key(1), (12, 5, 2))
    listen, state = linoss.Stream(model, (5,)), model.init_state((5,))
    for sample in samples:
        expected, state = model.run(state, sample[..., None, :])
        expected = expected[..., 0, :]
        np.testing.assert_allclose(listen(np.asarray(sample)), expected, rtol=1e-10, atol=1e-12)
    for found, wanted in zip(jax.tree.leaves(listen.state), jax.tree.leaves(state), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)


needs_kernels = pytest.mark.skipif(
    "native" not in linoss.engines(), reason="the kernels were not built"
)


@pytest.mark.several
@needs_kernels
@pytest.mark.parametrize(
    ("changes", "batch"),
    [
        ({}, ()),
        ({"scheme": "exact", "damped": True, "norm": "layer", "feedthrough": "dense"}, (2, 3)),
        ({"scheme": "imex", "pooling": "last", "bias": True, "gelu": "tanh"}, ()),
        ({"gaps": "stand", "precision": "bfloat16"}, ()),
        ({"task": "regression", "every": 3, "squash": True, "norm": None}, (2, 3)),
        ({"task": "forecasting", "horizon": 4, "complex_projections": False}, ()),
    ],
    ids=str,
)
def test_the_native_stream_gives_what_run_gives(single_precision, changes, batch):
    """The state to the bit, given the same step; the answers are the product of XLA. With samples
    that are missing, and samples at irregular times."""
    model, random = make_model(**changes), np.random.default_rng(0)
    listen, state = linoss.Stream(model, batch), model.init_state(batch)
    for n, sample in enumerate(random.normal(size=(9, *batch, 2)).astype(np.float32)):
        present, interval = n != 4, None if n < 6 else float(random.uniform(0.3, 3))
        expected, state = model.run(
            state,
            sample[..., None, :],
            mask=None if present else np.zeros((*batch, 1), bool),
            intervals=None if interval is None else np.full((*batch, 1), interval, np.float32),
            engine="native",
        )
        there = np.bool_(present)  # as an entry of a mask
        found = listen(sample if present else np.nan * sample, interval=interval, present=there)
        assert isinstance(found, np.ndarray)
        np.testing.assert_allclose(found, expected[..., 0, :], rtol=1e-5, atol=1e-6)
        found, expected = listen.state.blocks.oscillators, state.blocks.oscillators
        np.testing.assert_array_equal(found, expected, strict=True)


@needs_kernels
def test_what_left_the_numbers_stays_in_its_stream(single_precision):
    """Also with a norm over channels, and it recovers."""
    model = make_model(norm="layer")
    samples = np.random.default_rng(0).normal(size=(6, 3, 2)).astype(np.float32)
    whole, spoilt = linoss.Stream(model, (3,)), linoss.Stream(model, (3,))
    for n, sample in enumerate(samples):
        expected = whole(sample)
        if n == 2:
            sample[0] = np.nan
        found = spoilt(sample)
        np.testing.assert_array_equal(found[1:], expected[1:])
        assert np.isfinite(found[0]).all() == (n != 2)
        assert (spoilt.recover() > 0) == (n == 2)


@pytest.mark.parametrize("native", [pytest.param(True, marks=needs_kernels), False])
def test_a_mean_loses_nothing_after_a_billion_samples(single_precision, native):
    """Where single precision counts by 64."""
    model, u = make_model(), np.random.default_rng(0).normal(size=(300, 2)).astype(np.float32)
    begin, sums = model.init_state(), []
    for before in (0.0, 1e9):
        ((total, errors),) = begin.head
        head = ((jnp.full_like(total, before), errors),)
        state = linoss.nn.ModelState(begin.blocks, head)
        if native:
            stream = linoss.Stream(model)
            stream.state = state
            for sample in u:
                stream(sample)
            state = stream.state
        else:
            _, state = model.run(state, u)
        sums.append(sum(np.asarray(x, np.float64) for x in state.head[0]) - before)
    assert sums[1][-1] == len(u)
    np.testing.assert_allclose(sums[1], sums[0], rtol=0, atol=1e-3)


@pytest.mark.integration
def test_missing_samples_and_intervals_without_kernels():
    sample = jnp.ones(2)
    for gaps in ("move", "stand"):
        model = make_model(scheme="verlet", gaps=gaps)
        listen, state = linoss.Stream(model), model.init_state()
        _, state = model.run(state, sample[None], intervals=np.full(1, 0.5, np.float32))
        listen(sample, interval=0.5)
        listen(sample, present=False)
        if gaps == "move":
            _, state = model.run(state, sample[None], mask=np.zeros(1, bool))
        expected = model.run(state, sample[None])[0][0]
        np.testing.assert_allclose(listen(sample), expected, rtol=1e-10)


@pytest.mark.usefixtures("unchecked")
def test_wrong_samples_and_states_are_refused():
    listen = linoss.Stream(make_model())
    with pytest.raises(ValueError, match=r"sample has shape \(3,\), expected \(2,\)"):
        listen(jnp.zeros(3))
    with pytest.raises(ValueError, match="sample has dtype int"):
        listen(np.zeros(2, int))
    with pytest.raises(ValueError, match=r"interval is 0\.0, expected a finite number > 0"):
        listen(jnp.zeros(2), interval=0.0)
    with pytest.raises(ValueError, match="state is that of another model or batch"):
        listen.state = make_model().init_state((4,))
