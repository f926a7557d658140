"""What a physicist would check: order of convergence, volume, reversal, energy."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.linalg

import linoss

SYMPLECTIC = ["imex", "verlet"]


def force_at(t):
    return np.sin(1.3 * t + 0.7)


def forced_motion(A, G, t):
    """y(t) of y'' = -A y - G y' + sin(w t + phi) from rest: a steady oscillation and a free one."""
    w, phi = 1.3, 0.7
    steady = np.exp(1j * phi) / (A - w**2 + 1j * G * w)
    start = -np.array([np.imag(1j * w * steady), np.imag(steady)])
    free = [scipy.linalg.expm(s * np.array([[-G, -A], [1, 0]])) @ start for s in t]
    return np.imag(steady * np.exp(1j * w * t)) + np.array(free)[:, 1]


def test_forced_motion_solves_its_equation():
    """The reference against a general solver."""
    solution = scipy.integrate.solve_ivp(
        lambda t, x: [-0.5 * x[0] - 2 * x[1] + force_at(t), x[0]],
        (0, 3), [0, 0], rtol=1e-11, atol=1e-12, t_eval=[1.0, 3.0],
    )  # fmt: skip
    np.testing.assert_allclose(solution.y[1], forced_motion(2.0, 0.5, solution.t), rtol=1e-8)


run = eqx.filter_jit(linoss.oscillator_scan)


def largest_error(scheme, A, G, edges, until=4.0):
    """On the times `edges`, with the force sampled where the scheme reads it."""
    h = np.diff(edges)
    samples = force_at(edges[:-1] if scheme == "verlet" else edges[1:])
    regular = np.allclose(h, h[0])
    timestep = h[0] if regular else h[:, None]
    step = linoss.discretize(scheme, [A], timestep, G if G else None)
    y, _ = run(step, samples[:, None], engine="sequential")
    last = np.searchsorted(edges[1:], until * (1 + 1e-9))
    seen = np.arange(last)[-1 :: -max(last // 40, 1)]
    return np.abs(y[seen, 0] - forced_motion(A, G, edges[1:][seen])).max()


def regular_grids(count):
    """0 to 4 in 200, 400, ... steps, and on to 800 steps, so that all runs compile as one."""
    return [4 / n * np.arange(801) for n in (200, 400, 800)[:count]]


@pytest.mark.parametrize(
    ("scheme", "G", "order"),
    [("im", 0, 1), ("im", 0.5, 1), ("imex", 0.5, 1), ("verlet", 0, 2), ("exact", 0.5, 1)],
)
def test_order_of_convergence(scheme, G, order):
    errors = [largest_error(scheme, 2.0, G, grid) for grid in regular_grids(3)]
    observed = np.log2(np.divide(errors[:-1], errors[1:]))
    np.testing.assert_allclose(observed, order, atol=0.05)


def test_verlet_keeps_its_order_on_an_irregular_grid():
    """Every interval halved: cut at its middle in time."""
    grid = np.concatenate([[0], np.cumsum(np.random.default_rng(0).uniform(0.01, 0.05, 100))])
    errors = []
    for _ in range(3):
        errors.append(largest_error("verlet", 2.0, 0.0, grid))
        grid = np.sort(np.concatenate([grid, (grid[1:] + grid[:-1]) / 2]))
    np.testing.assert_allclose(np.log2(np.divide(errors[:-1], errors[1:])), 2, atol=0.1)


@pytest.mark.parametrize("irregular", [False, True])
@pytest.mark.parametrize(("A", "G"), [(0, 0), (2.0, 0), (2.0, 0.5), (2.0, 9.0), (1.0, 2.0), (0, 1)])
def test_exact_has_no_error_for_piecewise_constant_forces(A, G, irregular):
    """Each piece in ten shorter ones under the same force, by the matrix exponential of each."""
    rng = np.random.default_rng(0)
    b, h = rng.normal(size=50), rng.uniform(0.1, 2, 50) if irregular else np.full(50, 0.7)
    generator = np.array([[-G, -A, 1.0], [1, 0, 0], [0, 0, 0]])
    x, expected = np.zeros(3), []
    for force, length in zip(b, h, strict=True):
        x[2] = force
        x = np.linalg.matrix_power(scipy.linalg.expm(length / 10 * generator), 10) @ x
        expected.append(x[1])
    step = linoss.discretize("exact", [float(A)], h[:, None] if irregular else 0.7, float(G))
    y, _ = run(step, b[:, None])
    np.testing.assert_allclose(y[:, 0], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("scheme", SYMPLECTIC)
def test_step_preserves_phase_space_volume(scheme):
    A = np.array([0.0, 1e-3, 1.0, 15.0])
    np.testing.assert_allclose(
        np.linalg.det(linoss.discretize(scheme, A, 0.5).matrix), 1, rtol=1e-13
    )


@pytest.mark.parametrize("scheme", SYMPLECTIC)
def test_motion_returns_when_it_is_turned_around(scheme):
    """Verlet under z -> -z; IMEX under z -> -z + dt A y, which is -z at the end of the step."""
    A, h = np.array([0.1, 1.0, 3.0]), 0.9
    pull = h * A if scheme == "imex" else 0 * A

    def turn(state):
        z, y = np.asarray(state).T
        return np.stack([-z + pull * y, y], axis=-1)

    start = np.random.default_rng(0).normal(size=(3, 2))
    step, still = linoss.discretize(scheme, A, h), np.zeros((500, 3))
    _, away = linoss.oscillator_scan(step, still, initial_state=start)
    assert np.abs(away - start).max() > 0.1
    _, back = linoss.oscillator_scan(step, still, initial_state=turn(away))
    np.testing.assert_allclose(turn(back), start, atol=1e-10)
    np.testing.assert_allclose(turn(turn(start)), start)
    if scheme == "imex":
        mirror = np.array([-1.0, 1.0])
        _, other = linoss.oscillator_scan(step, still, initial_state=np.asarray(away) * mirror)
        assert np.abs(np.asarray(other) * mirror - start).max() > 0.1


@pytest.fixture(scope="module")
def long_run():
    """Positions and the final state of free oscillators over 10^6 steps."""
    A, start = np.array([1e-4, 0.5, 3.0]), np.array([[0.3, -1.0], [1.0, 0.5], [-0.2, 2.0]])

    def oscillate(scheme):
        step = linoss.discretize(scheme, A, 1.0)
        scan = jax.jit(lambda s: linoss.oscillator_scan(step, s, initial_state=start))
        return A, start, *(np.asarray(x) for x in scan(jnp.zeros((1_000_000, 3))))

    return oscillate


@pytest.mark.integration
@pytest.mark.parametrize("scheme", SYMPLECTIC)
def test_energy_stays_bounded_over_a_million_steps(scheme, long_run):
    """With h = 1, a modified energy stands still, and the true one stays within its bounds.

    IMEX: z_n = y_n - y_{n-1} and z^2 - A y z + A y^2. Verlet: z_n = (y_{n+1} - y_{n-1}) / 2 and
    z^2 + A (1 - A/4) y^2. Both are at least (1 - sqrt(A)/2) (z^2 + A y^2).
    """
    A, start, positions, final = long_run(scheme)

    def modified(z, y):
        return z**2 - A * y * z + A * y**2 if scheme == "imex" else z**2 + A * (1 - A / 4) * y**2

    y = np.concatenate([start[None, :, 1], positions])
    velocity, y = (np.diff(y, axis=0), y[1:]) if scheme == "imex" else (
        (y[2:] - y[:-2]) / 2, y[1:-1],
    )  # fmt: skip
    initial = modified(*start.T)
    np.testing.assert_allclose(modified(*final.T), initial, rtol=1e-8)
    np.testing.assert_allclose(modified(velocity, y), np.broadcast_to(initial, y.shape), rtol=1e-6)
    energy = velocity**2 + A * y**2
    assert (energy <= 1.000001 * initial / (1 - np.sqrt(A) / 2)).all()
    assert (energy >= 0.999999 * initial / (1 + np.sqrt(A) / 2)).all()


def test_energy_decays_under_the_implicit_scheme():
    """In [z, sqrt(A) y] the step is a rotation times sqrt(S), so H_n = S H_{n-1} exactly."""
    A, start = np.array([1e-4, 0.5, 3.0]), np.array([[0.3, -1.0], [1.0, 0.5], [-0.2, 2.0]])
    step = linoss.discretize("im", A, 1.0)
    for steps in (1, 10, 300):
        _, final = linoss.oscillator_scan(step, np.zeros((steps, 3)), initial_state=start)
        for k in range(3):
            before, after = (
                linoss.hamiltonian(x[k : k + 1], A[k : k + 1]) for x in (start, np.asarray(final))
            )
            np.testing.assert_allclose(after, before / (1 + A[k]) ** steps, rtol=1e-11)
