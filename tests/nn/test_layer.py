"""A layer against a loop over time in complex arithmetic."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from linoss import LinOSSLayer

SCHEMES = ["im", "imex", "verlet", "exact"]
T, HIDDEN, STATE = 12, 4, 3


def make_layer(seed=0, **options):
    return LinOSSLayer(HIDDEN, STATE, key=jax.random.key(seed), **options)


@eqx.filter_jit
def run(layer, u, **options):
    return layer(u, **options)


def assert_close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(
    ("scheme", "complex_projections"), [*((s, True) for s in SCHEMES), ("verlet", False)]
)
def test_layer_is_the_loop(layer_loop, draw, scheme, complex_projections):
    layer = make_layer(scheme=scheme, complex_projections=complex_projections)
    u = draw(T, HIDDEN)
    assert_close(run(layer, u)[0], layer_loop(layer, u))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_irregular_sampling(layer_loop, draw, draw_intervals, scheme):
    layer = make_layer(scheme=scheme, timestep="learned")
    u, intervals = draw(T, HIDDEN), draw_intervals(T)
    assert_close(run(layer, u, intervals=intervals)[0], layer_loop(layer, u, intervals))


@pytest.mark.parametrize("scheme", ["verlet", "exact"])
def test_intervals_of_one_are_regular_sampling(draw, scheme):
    layer, u = make_layer(scheme=scheme), draw(T, HIDDEN)
    assert_close(run(layer, u, intervals=np.ones(T))[0], run(layer, u)[0])


@pytest.mark.parametrize(
    ("feedthrough", "complex_projections"),
    [("vector", False), ("dense", True), ("dense", False), ("none", True)],
)
def test_feedthrough_and_bias(layer_loop, draw, feedthrough, complex_projections):
    layer = make_layer(
        feedthrough=feedthrough, bias=True, complex_projections=complex_projections, timestep=0.7
    )
    u = draw(T, HIDDEN)
    assert_close(run(layer, u)[0], layer_loop(layer, u))


@pytest.mark.parametrize("scheme", ["im", "imex", "exact"])
def test_damping(layer_loop, draw, scheme):
    layer = make_layer(scheme=scheme, damped=True, min_radius=0.5, timestep="learned")
    assert np.all(layer.oscillators.damping > 0)
    u = draw(T, HIDDEN)
    assert_close(run(layer, u)[0], layer_loop(layer, u))


def test_squared_stiffnesses_are_the_squares(layer_loop, draw):
    layer = make_layer(parameterization="squared", init="normal", timestep=0.5)
    assert np.any(layer.oscillators.raw_stiffness < 0)
    u = draw(T, HIDDEN)
    assert_close(run(layer, u)[0], layer_loop(layer, u))


@pytest.mark.parametrize("scheme", ["im", "verlet"])
def test_reverse_reads_from_the_end(layer_loop, draw, scheme):
    layer, u = make_layer(scheme=scheme), draw(T, HIDDEN)
    assert_close(run(layer, u, reverse=True)[0], layer_loop(layer, u[::-1])[::-1])


@pytest.mark.parametrize("scheme", ["imex", "verlet"])
def test_reverse_steps_over_the_interval_to_the_next_sample(
    layer_loop, draw, draw_intervals, scheme
):
    layer, u, intervals = make_layer(scheme=scheme), draw(T, HIDDEN), draw_intervals(T)
    between = np.concatenate([intervals[:1], intervals[:0:-1]])
    found = run(layer, u, reverse=True, intervals=intervals)[0]
    assert_close(found, layer_loop(layer, u[::-1], between)[::-1])


@pytest.mark.several
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("scheme", "irregular"), [("im", True), ("verlet", False), ("verlet", True)]
)
def test_masked_samples_are_no_samples(
    layer_loop, draw, draw_intervals, scheme, irregular, reverse
):
    layer, u = make_layer(scheme=scheme), draw(T, HIDDEN)
    mask = np.array([0, 1, 1, 0, 1, 0, 0, 1, 1, 1, 1, 0], bool)
    intervals = draw_intervals(T) if irregular else None
    found = run(
        layer, np.where(mask[:, None], u, np.nan), mask=mask, intervals=intervals, reverse=reverse
    )[0]
    kept, steps = u[mask], None if intervals is None else intervals[mask]
    if reverse:
        steps = None if steps is None else np.roll(steps[::-1], 1)
        expected = layer_loop(layer, kept[::-1], steps)[::-1]
    else:
        expected = layer_loop(layer, kept, steps)
    assert_close(found[mask], expected)


def test_each_series_of_a_batch_on_its_own(layer_loop, draw, draw_intervals):
    layer = make_layer(scheme="verlet")
    u, intervals = draw(2, 3, T, HIDDEN), draw_intervals(2, 3, T)
    found = run(layer, u, intervals=intervals)[0]
    for i in np.ndindex(2, 3):
        assert_close(found[i], layer_loop(layer, u[i], intervals[i]))


@pytest.mark.several
@pytest.mark.parametrize(("scheme", "irregular"), [("im", False), ("verlet", True)])
def test_two_pieces_are_the_whole(draw, draw_intervals, scheme, irregular):
    layer, u = make_layer(scheme=scheme), draw(2, T, HIDDEN)
    cut, intervals = 6, draw_intervals(2, T) if irregular else None
    parts = [slice(None, cut), slice(cut, None)]
    steps = [None if intervals is None else intervals[:, part] for part in parts]
    first, state = run(layer, u[:, parts[0]], intervals=steps[0])
    second, state = run(layer, u[:, parts[1]], intervals=steps[1], state=state)
    whole, end = run(layer, u, intervals=intervals)
    assert_close(np.concatenate([first, second], axis=1), whole)
    assert_close(state.oscillators, end.oscillators)
    if end.interval is not None:
        assert_close(state.interval, end.interval)


def test_complex_state_counts_once_in_the_weights():
    layer = make_layer(complex_projections=True)
    assert layer.oscillators.state_size == STATE
    assert layer.input_weight.shape == (2 * STATE, HIDDEN)
    assert layer.output_weight.shape == (HIDDEN, 2 * STATE)


@pytest.mark.several
@pytest.mark.parametrize("complex_projections", [True, False])
def test_weights_start_uniform_within_their_bounds(complex_projections):
    layer = LinOSSLayer(
        40, 25, key=jax.random.key(0), complex_projections=complex_projections, timestep="learned"
    )
    for weight, bound in ((layer.input_weight, 40**-0.5), (layer.output_weight, 0.2)):
        assert 0.99 * bound < np.abs(weight).max() <= bound
        assert abs(np.std(weight) / bound - 3**-0.5) < 0.02
    raw = layer.oscillators.raw_timestep
    assert 0 <= np.min(raw) < 0.2
    assert 0.8 < np.max(raw) <= 1


def test_vector_feedthrough_starts_standard_normal():
    D = LinOSSLayer(4000, 1, key=jax.random.key(0)).feedthrough
    assert abs(np.mean(D)) < 0.05
    assert abs(np.std(D) - 1) < 0.05


def test_gradients_are_those_of_finite_differences(draw, draw_intervals):
    layer, u, intervals = make_layer(scheme="verlet", bias=True), draw(T, HIDDEN), draw_intervals(T)
    readout = draw(T, HIDDEN, seed=5)

    def loss(u, intervals):
        return jnp.sum(readout * run(layer, u, intervals=intervals)[0])

    gradients = jax.jit(jax.grad(loss, (0, 1)))(jnp.asarray(u), jnp.asarray(intervals))
    for argument, gradient in enumerate(gradients):
        direction, eps = draw(*gradient.shape, seed=7), 1e-6
        ends = []
        for sign in (1, -1):
            values = [u, intervals]
            values[argument] = values[argument] + sign * eps * direction
            ends.append(float(loss(*map(jnp.asarray, values))))
        numeric = (ends[0] - ends[1]) / (2 * eps)
        np.testing.assert_allclose(np.sum(gradient * direction), numeric, rtol=1e-6)
