"""Both eigenvalue propositions, stability regions, the moments and the Hamiltonian."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate

import linoss

DAMPED = ["im", "imex", "exact"]
CASES = [(scheme, G) for scheme in DAMPED for G in (0.0, 0.3, 1.5)] + [("verlet", 0.0)]


def sorted_eigenvalues(matrix):
    values = np.linalg.eigvals(matrix)
    order = np.lexsort((-values.real, -values.imag), axis=-1)
    return np.take_along_axis(values, order, axis=-1)


@pytest.mark.parametrize("h", [0.05, 0.5, 1.0, 4.0])
def test_proposition_on_the_implicit_spectrum(h):
    """lambda = 1/(1 + h^2 A) +- i h sqrt(A)/(1 + h^2 A), |lambda|^2 = 1/(1 + h^2 A) <= 1."""
    A = np.array([0.0, 1e-8, 0.01, 1.0, 30.0, 1e4])
    step = linoss.discretize("im", A, h)
    S = 1 / (1 + h**2 * A)
    pair = np.stack([S + 1j * h * np.sqrt(A) * S, S - 1j * h * np.sqrt(A) * S], -1)
    found = linoss.eigenvalues(step)
    np.testing.assert_allclose(found, pair, rtol=1e-12)
    np.testing.assert_allclose(np.abs(found) ** 2, np.stack([S, S], -1), rtol=1e-12)
    np.testing.assert_allclose(linoss.spectral_radius(step), np.sqrt(S), rtol=1e-12)


@pytest.mark.parametrize("h", [0.05, 0.5, 1.0])
def test_proposition_on_the_implicit_explicit_spectrum(h):
    """lambda = (2 - h^2 A)/2 +- i/2 sqrt(h^2 A (4 - h^2 A)), |lambda| = 1 up to h^2 A = 4."""
    x = np.array([1e-6, 0.01, 1.0, 2.0, 3.5, 3.999, 4.0])  # h^2 A
    step = linoss.discretize("imex", x / h**2, h)
    root = np.sqrt(x * (4 - x))
    pair = np.stack([(2 - x + 1j * root) / 2, (2 - x - 1j * root) / 2], -1)
    found = linoss.eigenvalues(step)
    np.testing.assert_allclose(found[:-1], pair[:-1], rtol=1e-10)
    np.testing.assert_allclose(np.abs(found[:-1]), 1, rtol=1e-12)
    np.testing.assert_allclose(found[-1], -1, atol=1e-7)  # a double eigenvalue: sqrt(eps)


@pytest.mark.parametrize(("scheme", "G"), CASES)
def test_eigenvalues_of_independent_matrices(scheme, G, steps_from_equations):
    A = np.array([0.05, 0.4, 1.3, 3.0, 3.7])
    step = linoss.discretize(scheme, A, 0.9, G)
    expected = sorted_eigenvalues(steps_from_equations(scheme, A, 0.9, G)[0])
    np.testing.assert_allclose(linoss.eigenvalues(step), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        linoss.spectral_radius(step), np.abs(expected).max(-1), rtol=1e-9, atol=1e-12
    )


def test_low_stiffnesses_keep_their_angle_in_single_precision():
    """The angle is h sqrt(A): trace and determinant alone would lose it below sqrt(eps)."""
    A = np.geomspace(1e-12, 1e-2, 11).astype(np.float32)
    found = linoss.eigenvalues(linoss.discretize("imex", A, 1.0))[:, 0]
    angle = 2 * np.arcsin(np.sqrt(A.astype(np.float64)) / 2)  # 2 - 2 cos(theta) = h^2 A
    np.testing.assert_allclose(np.angle(found), angle, rtol=1e-6)


@pytest.mark.parametrize("h", [0.1, 1.0])
@pytest.mark.parametrize(("scheme", "G"), [case for case in CASES if case[0] in ("imex", "verlet")])
def test_bounded_stability_region_ends_where_it_says(scheme, h, G, steps_from_equations):
    low, high = (float(x) for x in linoss.stable_stiffness(scheme, h, G))
    assert low == 0
    inside, outside = (
        np.abs(np.linalg.eigvals(steps_from_equations(scheme, A, h, G)[0])).max()
        for A in (high * (1 - 1e-6), high * (1 + 1e-6))
    )
    assert inside <= 1 + 1e-12
    assert outside > 1 + 1e-7


@pytest.mark.parametrize("G", [0.0, 0.3, 4.0])
@pytest.mark.parametrize("scheme", ["im", "exact"])
def test_unbounded_stability_region(scheme, G, steps_from_equations):
    low, high = linoss.stable_stiffness(scheme, 0.7, G)
    assert (low, high) == (0, np.inf)
    matrices, _ = steps_from_equations(scheme, np.geomspace(1e-6, 1e3, 10), 0.7, G)
    assert np.abs(np.linalg.eigvals(matrices)).max() <= 1 + 1e-12


@pytest.mark.parametrize("h", [0.1, 1.0])
@pytest.mark.parametrize(("scheme", "G"), CASES)
def test_oscillating_region_ends_where_it_says(scheme, h, G, steps_from_equations):
    """Inside, the eigenvalues are a complex pair; outside, real."""
    low, high = (float(x) for x in linoss.oscillating_stiffness(scheme, h, G))

    def imaginary_part(A):
        return np.abs(np.imag(np.linalg.eigvals(steps_from_equations(scheme, A, h, G)[0]))).max()

    if low > 0:
        assert imaginary_part(low * (1 - 1e-6)) == 0
        assert imaginary_part(low * (1 + 1e-4)) > 1e-5
    else:
        assert imaginary_part(1e-4) > 1e-4
    if np.isfinite(high):
        assert imaginary_part(high * (1 - 1e-6)) > 1e-5
        assert imaginary_part(high * (1 + 1e-6)) == 0
    else:
        assert scheme in ("im", "exact")
        assert imaginary_part(low + 0.5 / h**2) > 1e-2


@pytest.mark.parametrize("power", [1, 2, 3, 10, 1000])
@pytest.mark.parametrize(("h", "highest"), [(1.0, 1.0), (0.1, 5.0), (0.01, 0.3)])
def test_moments_against_quadrature(power, h, highest):
    """E |lambda|^N = 1/A_max int_0^A_max (1 + h^2 x)^{-N/2} dx, N = 2 included."""
    integral, _ = scipy.integrate.quad(
        lambda x: (1 + h**2 * x) ** (-power / 2), 0, highest, epsabs=0, epsrel=1e-12
    )
    found = linoss.expected_eigenvalue_power(power, h, highest)
    assert found == pytest.approx(integral / highest, rel=1e-10)


def test_moment_of_the_papers_example():
    """h = A_max = 1, N = 100 000: 1/49999."""
    assert linoss.expected_eigenvalue_power(100_000) == pytest.approx(1 / 49999, rel=1e-12)


def test_hamiltonian_of_the_paper():
    """H = 1/2 sum_k (A_k y_k^2 + z_k^2 - 2 (sum_l B_kl u_l) y_k)."""
    rng = np.random.default_rng(0)
    A, B = rng.uniform(size=4), rng.normal(size=(4, 3))
    state, u = rng.normal(size=(5, 4, 2)), rng.normal(size=(5, 3))
    expected = []
    for x, v in zip(state, u, strict=True):
        total = 0.0
        for k in range(4):
            z, y = x[k]
            total += A[k] * y**2 + z**2 - 2 * sum(B[k, j] * v[j] for j in range(3)) * y
        expected.append(total / 2)
    np.testing.assert_allclose(linoss.hamiltonian(state, A, u @ B.T), expected, rtol=1e-12)


def test_hamiltonian_generates_the_equations_of_motion():
    """y' = dH/dz, z' = -dH/dy = -A y + b."""
    rng = np.random.default_rng(1)
    A, b, state = rng.uniform(size=3), rng.normal(size=3), jnp.asarray(rng.normal(size=(3, 2)))
    gradient = jax.grad(linoss.hamiltonian)(state, A, b)
    np.testing.assert_allclose(gradient[:, 0], state[:, 0], rtol=1e-14)
    np.testing.assert_allclose(-gradient[:, 1], -A * state[:, 1] + b, rtol=1e-13)
