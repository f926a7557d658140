"""The exact scheme where its formula is singular: A = 0, G = 0, G^2 = 4 A, and in float32."""

import functools
import itertools

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

import linoss

EPS = np.finfo(np.float32).eps


def response(A, G, h):
    """F_z = E s and F_y = (1 - E (c + a s)) / A in 40 digits, for any sign of A and omega^2."""
    a = G / 2
    omega = mpmath.sqrt(mpmath.mpc(A - a**2))
    s = mpmath.sin(omega * h) / omega if omega else h
    E = mpmath.exp(-a * h)
    F_z = mpmath.re(E * s)
    if A:
        return F_z, (1 - mpmath.re(E * (mpmath.cos(omega * h) + a * s))) / A
    return F_z, (h - F_z) / G if G else h**2 / 2


# Where one formula takes over from another: the argument that crosses, and its centre (A, G, h).
CROSSINGS = [
    (0, (0.0, 0.0, 1.0)),  # a free particle
    (0, (0.0, 3.0, 1.0)),  # a sliding one
    (1, (0.7, 0.0, 1.0)),  # no damping
    (1, (9.0, 0.0, 1.0)),
    (0, (0.25, 1.0, 0.1)),  # critical damping
    (0, (2.25, 3.0, 1.0)),
    (1, (4.0, 4.0, 1.5)),
    (0, (1.0, 0.5, 1.0)),  # from the series to the formula
    (1, (0.1, 2.0, 1.0)),  # from the series to exponentials
    (0, (2.0, 3.0, 1.0)),  # from the formula to exponentials
    (0, (0.003, 3.0, 1.0)),  # slow decay
]


@pytest.fixture(scope="module")
def points():
    """(A, G, h) with A and G over many decades, G^2 -> 4 A from both sides, and what lies around
    each crossing, as float32."""
    stiffness = [0.0, *np.geomspace(1e-8, 1e4, 13)]
    damping = [0.0, *np.geomspace(1e-6, 1e3, 10)]
    timesteps = [0.01, 0.1, 0.5, 1.0, 3.0]
    points = list(itertools.product(stiffness, damping, timesteps))
    for A, distance, h in itertools.product(
        stiffness[1:], [0.0, *np.geomspace(1e-12, 1, 13)], timesteps
    ):
        points += [(A, 2 * np.sqrt(A * (1 + sign * distance)), h) for sign in (1, -1)]
    for argument, centre in CROSSINGS:
        for shift in np.geomspace(1e-7, 0.05, 20):
            for x in (centre[argument] + shift, centre[argument] - shift):
                points.append((*centre[:argument], max(x, 0.0), *centre[argument + 1 :]))
    return np.array(points).T.astype(np.float32)


@pytest.fixture(scope="module")
def single(points):
    """The steps at `points`, computed one operation at a time."""
    A, G, h = points
    return linoss.discretize("exact", A, h, G)


def entries(A, G, h):
    """M and F as six rows."""
    step = linoss.discretize("exact", A, h, G)
    return jnp.concatenate([step.matrix.reshape(-1, 4), step.forcing], axis=1).T


@pytest.fixture(scope="module")
def table(points):
    """The six entries and their derivatives for A, G and h, at `points`."""

    @functools.cache
    def at(precision):
        A, G, h = points.astype(precision)
        directions = np.broadcast_to(np.eye(3, dtype=precision)[:, :, None], (3, 3, len(A)))
        entries_and_slopes = jax.vmap(
            lambda d: jax.jvp(entries, (A, G, h), tuple(d)), out_axes=(None, 0)
        )
        return jax.jit(entries_and_slopes)(directions)

    return at


def test_forcing_in_single_precision(points, single):
    found = np.asarray(single.forcing.T, np.float64)
    assert single.forcing.dtype == np.float32
    with mpmath.workdps(40):
        expected = [response(*(mpmath.mpf(float(x)) for x in point)) for point in points.T]
    expected = np.array([[float(x) for x in pair] for pair in expected]).T
    h = points[2].astype(np.float64)
    error = np.abs(found - expected) / np.stack([h, h**2])
    assert error.max() < 1e-6


def test_matrix_in_single_precision(points, single, steps_from_equations):
    """Rounding of the angle omega h moves the phase; nothing else may be lost."""
    A, G, h = points[:, ::7].astype(np.float64)
    found = np.asarray(single.matrix[::7], np.float64)
    expected, _ = steps_from_equations("exact", A, h, G)
    velocity = np.maximum(np.sqrt(A), 1 / h)  # makes [z, y] of one size
    scale = np.stack([np.ones_like(A), velocity, 1 / velocity, np.ones_like(A)], -1)
    error = np.abs(found - expected).reshape(-1, 4) / scale
    assert (error.max(-1) / (1 + h * np.sqrt(A))).max() < 20 * EPS


def test_derivatives_are_finite_in_reverse(points):
    """As training asks for them, in one bank, where a NaN would spread."""
    gradient = jax.jit(jax.grad(lambda *x: jnp.sum(jnp.tanh(entries(*x))), argnums=(0, 1, 2)))
    gradients = gradient(*points)
    assert all(gradient.dtype == np.float32 for gradient in gradients)
    assert all(np.isfinite(gradient).all() for gradient in gradients)


@pytest.mark.parametrize(("precision", "tolerance"), [("float64", 1e-12), ("float32", 32 * EPS)])
def test_derivatives_match_forty_digits(points, table, slopes, precision, tolerance):
    """Of F for A, G and h, in units of h or h^2 over A + 1/h^2, G + 1/h or h."""
    points, expected = points[:, ::3], slopes
    everywhere = np.asarray(table(precision)[1])
    assert everywhere.dtype == precision
    assert np.isfinite(everywhere).all()
    found = everywhere[:, 4:, ::3]
    A, G, h = points.astype(np.float64)
    unit = np.stack([h, h**2]) / np.stack([A + h**-2, G + 1 / h, h])[:, None]
    error = np.abs(found - expected.transpose(0, 2, 1)) / unit
    worst = np.unravel_index(error.argmax(), error.shape)
    assert error.max() < tolerance, f"(A, G, h) = {points[:, worst[2]]}"


@pytest.fixture(scope="module")
def slopes(points):
    """Of F for A, G and h at every third point, in 60 digits."""
    with mpmath.workdps(60):
        return np.array([[_slope(point, k) for point in points[:, ::3].T] for k in range(3)])


def _slope(point, argument):
    """Central differences; the response is an entire function of A, G and h."""
    point = [mpmath.mpf(float(x)) for x in point]
    step = mpmath.mpf(10) ** -15 * max(point[argument], mpmath.mpf(10) ** -3)
    above, below = list(point), list(point)
    above[argument] += step
    below[argument] -= step
    pairs = zip(response(*above), response(*below), strict=True)
    return [float((up - down) / (2 * step)) for up, down in pairs]


@jax.jit
def step_and_slopes(A, G):
    def forcing(A, G):
        return linoss.discretize("exact", stiffness=A, timestep=0.5, damping=G).forcing[0]

    step = linoss.discretize("exact", stiffness=A, timestep=0.5, damping=G)
    return step.matrix[0], step.forcing[0], jax.jacobian(forcing, (0, 1))(A, G)


@pytest.mark.parametrize("A", [0.0, 1.0, 1e20])
@pytest.mark.parametrize("G", [1e12, 1e20, 1e30, 1e37])
def test_dampings_whose_square_overflows(A, G):
    A, G = jnp.array([A], jnp.float32), jnp.array([G], jnp.float32)
    matrix, forcing, all_slopes = step_and_slopes(A, G)
    with mpmath.workdps(200):
        expected = response(mpmath.mpf(float(A[0])), mpmath.mpf(float(G[0])), mpmath.mpf(0.5))
    np.testing.assert_allclose(forcing, [float(x) for x in expected], rtol=1e-5)
    assert np.isfinite(matrix).all()
    assert np.abs(np.linalg.eigvals(matrix)).max() < 1 + 4 * EPS
    for slopes in all_slopes:
        assert np.isfinite(slopes).all()
