"""Every step of the paper, entry by entry and from the equations that define it."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import linoss
from linoss.dynamics import SCHEMES, Scheme

STIFFNESS = np.array([0.0, 1e-6, 0.02, 0.5, 1.0, 3.7])
TIMESTEPS = [0.01, 0.3, 1.0]
DAMPINGS = [0.0, 0.2, 1.0, 7.0]


assert_close = partial(np.testing.assert_allclose, rtol=1e-13, atol=1e-15)


def assert_step(step, k, matrix, forcing):
    assert_close(step.matrix[k], matrix)
    assert_close(step.forcing[k], forcing)


def paper_verlet(A, h):
    """H^VV on [y, z]."""
    return np.array([[1 - h**2 * A / 2, h], [-h * A * (1 - h**2 * A / 4), 1 - h**2 * A / 2]])


@pytest.mark.parametrize("h", TIMESTEPS)
def test_matrices_of_the_paper(h):
    """H^IM = [[1 - h^2 A S, -h A S], [h S, S]] and F = H^IM [h b, 0] with S = (1 + h^2 A)^-1;
    H^IMEX = [[1, -h A], [h, 1 - h^2 A]] and F = [h b, h^2 b]; Verlet's is for [y, z]."""
    im, imex, verlet = (linoss.discretize(s, STIFFNESS, h) for s in ("im", "imex", "verlet"))
    for k, A in enumerate(STIFFNESS):
        S = 1 / (1 + h**2 * A)
        H = np.array([[1 - h**2 * A * S, -h * A * S], [h * S, S]])
        assert_step(im, k, H, H @ [h, 0])
        assert_step(imex, k, [[1, -h * A], [h, 1 - h**2 * A]], [h, h**2])
        assert_close(verlet.matrix[k], paper_verlet(A, h)[::-1, ::-1])


@pytest.mark.parametrize("h", [*TIMESTEPS, np.linspace(0.1, 1.0, len(STIFFNESS))], ids=str)
@pytest.mark.parametrize(
    ("scheme", "G"),
    [("verlet", 0.0), *((scheme, G) for scheme in ("im", "imex", "exact") for G in DAMPINGS)],
)
def test_step_solves_its_equations(scheme, h, G, steps_from_equations):
    step = linoss.discretize(scheme, STIFFNESS, h, G)
    matrix, forcing = steps_from_equations(scheme, STIFFNESS, h, G)
    np.testing.assert_allclose(step.matrix, matrix, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(step.forcing, forcing, rtol=1e-12, atol=1e-14)


def verlet_positions(A, h, force):
    """The paper's two lines from rest, with h_n in both, for one oscillator.

    y_n = y_{n-1} + h z_{n-1} + h^2/2 (-A y_{n-1} + b_n)
    z_n = z_{n-1} + h/2 (-A y_n + b_{n+1} - A y_{n-1} + b_n)
    """
    y, z, positions = 0.0, 0.0, []
    for n, b in enumerate(force):
        following = force[n + 1] if n + 1 < len(force) else np.nan  # reaches no position
        before, y = y, y + h[n] * z + h[n] ** 2 / 2 * (-A * y + b)
        z = z + h[n] / 2 * (-A * y + following - A * before + b)
        positions.append(y)
    return np.array(positions)


@pytest.fixture
def verlet_case():
    rng = np.random.default_rng(2)
    return np.array([0.0, 0.4, 2.0, 3.9]), rng.normal(size=(40, 4))


@pytest.mark.parametrize("h", TIMESTEPS)
def test_verlet_gives_the_positions_of_the_papers_matrices(h, verlet_case):
    """x_n = H^VV x_{n-1} + F^VV_n with F^VV = [h^2/2 b_n, -h^3/4 A b_n + h/2 (b_{n+1} + b_n)]."""
    stiffness, force = verlet_case
    y, _ = linoss.oscillator_scan(linoss.discretize("verlet", stiffness, h), force)
    for k, A in enumerate(stiffness):
        x = np.zeros(2)
        for n in range(len(force) - 1):
            b, following = force[n, k], force[n + 1, k]
            F = [h**2 / 2 * b, -(h**3) / 4 * A * b + h / 2 * (following + b)]
            x = paper_verlet(A, h) @ x + F
            np.testing.assert_allclose(y[n, k], x[0], rtol=1e-10, atol=1e-13)


@pytest.fixture
def irregular():
    return np.random.default_rng(3).uniform(0.1, 1.0, 40)


def test_verlet_with_a_timestep_per_sample_and_oscillator(irregular, verlet_case):
    A, force = verlet_case
    h = irregular[:, None] * np.array([1.0, 0.5, 0.3, 0.8])
    y, _ = linoss.oscillator_scan(linoss.discretize("verlet", A, h), force)
    for k in range(4):
        expected = verlet_positions(A[k], h[:, k], force[:, k])
        np.testing.assert_allclose(y[:, k], expected, rtol=1e-10, atol=1e-12)


def test_layer_runs_irregular_verlet_in_two_pieces(irregular, verlet_case):
    """Of steps that it does not cut: at most 1 / sqrt(A)."""
    (A, force), irregular = verlet_case, irregular / 2
    layer = linoss.LinOSSLayer(
        4, 4, scheme="verlet", complex_projections=False, feedthrough="none", key=jax.random.key(0)
    )
    weights = (jnp.asarray(A), jnp.eye(4), jnp.eye(4))
    places = lambda x: (x.oscillators.raw_stiffness, x.input_weight, x.output_weight)  # noqa: E731
    layer = eqx.tree_at(places, layer, weights)
    first, state = layer(force[:17], intervals=jnp.asarray(irregular[:17]))
    second, _ = layer(force[17:], intervals=jnp.asarray(irregular[17:]), state=state)
    expected = np.stack([verlet_positions(A[k], irregular, force[:, k]) for k in range(4)], 1)
    np.testing.assert_allclose(np.concatenate([first, second]), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("scheme", ["im", "imex", "verlet", "exact"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_lone_numbers_take_the_precision_of_the_array(scheme, dtype):
    step = linoss.discretize(scheme, jnp.ones(3, dtype), 1)
    assert step.matrix.dtype == step.forcing.dtype == dtype
    matrix = linoss.discretize(scheme, [1, 1.0, 1], [1.0] * 3).matrix
    np.testing.assert_allclose(matrix, step.matrix, rtol=1e-6)
    varying = linoss.discretize(scheme, jnp.ones(3, dtype), jnp.ones((5, 1), dtype))
    assert varying.intervals.dtype == varying.stiffness.dtype == dtype


def test_a_scheme_of_ones_own_is_an_object():
    """The step of the implicit-explicit scheme without all else: regions, damping, native code."""
    own = Scheme("own", SCHEMES["imex"].step)
    A, h = np.array([0.5, 1.0]), np.random.default_rng(0).uniform(0.1, 1, (30, 1))
    force = np.random.default_rng(1).normal(size=(30, 2))
    for timestep in (0.5, h):
        positions, expected = (
            linoss.oscillator_scan(linoss.discretize(scheme, A, timestep), force)[0]
            for scheme in (own, "imex")
        )
        np.testing.assert_allclose(positions, expected, rtol=1e-12)
    assert linoss.oscillating_stiffness(own, 0.5) == (0, np.inf)
    with pytest.raises(ValueError, match="scheme 'own' is undamped; use one of 'im', 'imex'"):
        linoss.discretize(own, A, 0.5, 0.1)
    layer = linoss.LinOSSLayer(2, 4, scheme=own, key=jax.random.key(0))
    assert jnp.all(jnp.isfinite(layer(jnp.asarray(force), intervals=jnp.asarray(h[:, 0]))[0]))
    with pytest.raises(ValueError, match="damped is True, but scheme 'own' has no damping"):
        linoss.Oscillators(2, scheme=own, damped=True, key=jax.random.key(0))
