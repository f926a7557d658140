"""The learnable bank: how it starts, what keeps it stable, and its gradients."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import linoss

SCHEMES = ["im", "imex", "verlet", "exact"]
SAMPLE = 1000


def bank(state_size=SAMPLE, seed=0, **options):
    return linoss.Oscillators(state_size, key=jax.random.key(seed), **options)


def assert_uniform(sample, low, high):
    """Kolmogorov-Smirnov, with the seed fixed: a right sample of 1000 passes, a wrong one never."""
    assert scipy.stats.kstest(sample, "uniform", args=(low, high - low)).pvalue > 0.01


def spectrum(bank, steps_from_equations):
    """Radius and angle of each oscillator from independent matrices."""
    matrices, _ = steps_from_equations(
        bank.scheme, *(np.asarray(x) for x in (bank.stiffness, bank.timestep, bank.damping))
    )
    eigenvalues = np.linalg.eigvals(matrices)
    largest = np.take_along_axis(eigenvalues, eigenvalues.imag.argmax(-1)[:, None], -1)[:, 0]
    return np.abs(largest), np.angle(largest)


@pytest.mark.parametrize("scheme", ["im", "exact"])
@pytest.mark.parametrize("highest", [1.0, 7.0])
@pytest.mark.parametrize("parameterization", ["relu", "squared"])
def test_stiffness_is_uniform(parameterization, highest, scheme):
    oscillators = bank(parameterization=parameterization, max_stiffness=highest, scheme=scheme)
    assert_uniform(oscillators.stiffness, 0, highest)


@pytest.mark.parametrize(
    ("parameterization", "expected"), [("relu", [0, 0, 0.3, 1e6]), ("squared", [4, 0, 0.09, 1e12])]
)
def test_parameterization(parameterization, expected):
    """A = max(raw, 0), where a negative weight makes a free particle, or raw^2; without bound."""
    raw = jnp.array([-2.0, 0.0, 0.3, 1e6])
    oscillators = bank(4, parameterization=parameterization)
    oscillators = eqx.tree_at(lambda x: x.raw_stiffness, oscillators, raw)
    np.testing.assert_allclose(oscillators.stiffness, expected)
    one, two = oscillators.transition().matrix, oscillators.transition(copies=2).matrix
    np.testing.assert_array_equal(two, np.concatenate([one, one]))


def test_uniform_root_init():
    assert_uniform(np.sqrt(bank(init="uniform-root", max_stiffness=4.0).stiffness), 0, 2)


def test_learned_timestep():
    """sigmoid of a uniform draw from [0, 1]."""
    timestep = np.asarray(bank(timestep="learned").timestep)
    assert_uniform(np.log(timestep / (1 - timestep)), 0, 1)
    assert bank(timestep="learned").fixed_timestep is None


@pytest.mark.parametrize("timestep", ["learned", 0.3])
@pytest.mark.parametrize("lowest", [0.5, 0.9])
@pytest.mark.parametrize("scheme", ["im", "imex", "exact"])
def test_ring_init(scheme, lowest, timestep, steps_from_equations):
    """Eigenvalues uniform in area between radius r_min and 1, on all angles up to pi; the implicit
    scheme damps by itself: up to arccos(r)."""
    oscillators = bank(scheme=scheme, damped=True, min_radius=lowest, timestep=timestep)
    radius, angle = spectrum(oscillators, steps_from_equations)
    assert_uniform(radius**2, lowest**2, 1)
    assert_uniform(angle / (np.arccos(radius) if scheme == "im" else np.pi), 0, 1)
    assert (oscillators.raw_damping >= 0).all()


@pytest.mark.usefixtures("single_precision")
@pytest.mark.parametrize("parameterization", ["relu", "squared"])
@pytest.mark.parametrize("scheme", ["im", "imex", "exact"])
def test_ring_init_close_to_the_unit_circle_in_single_precision(scheme, parameterization):
    """Rounding must not make a stiffness negative, of which "squared" takes the root."""
    oscillators = bank(
        100_000, scheme=scheme, parameterization=parameterization, damped=True, min_radius=0.999
    )
    assert np.isfinite(oscillators.raw_stiffness).all()
    assert (oscillators.raw_stiffness >= 0).all()
    assert (oscillators.raw_damping >= 0).all()


def pushed(oscillators, value=1e6):
    raw = jnp.full_like(oscillators.raw_stiffness, value)
    return eqx.tree_at(lambda x: x.raw_stiffness, oscillators, raw)


@pytest.mark.parametrize("parameterization", ["relu", "squared"])
@pytest.mark.parametrize("timestep", ["learned", 1.0, 0.1])
@pytest.mark.parametrize(("scheme", "damped"), [("imex", False), ("imex", True), ("verlet", False)])
def test_stiffnesses_past_the_bound_act_as_the_bound(scheme, damped, timestep, parameterization):
    oscillators = pushed(
        bank(50, scheme=scheme, damped=damped, timestep=timestep, parameterization=parameterization)
    )
    high = linoss.oscillating_stiffness(scheme, oscillators.timestep, oscillators.damping).high
    assert (oscillators.stiffness < high).all()
    np.testing.assert_allclose(oscillators.stiffness, high, rtol=1.001e-5)
    # Next to the bound the eigenvalue -1 is all but double: sqrt(eps) is what numbers allow.
    assert linoss.spectral_radius(oscillators.transition()).max() <= 1 + 1e-7


@pytest.mark.parametrize("parameterization", ["relu", "squared"])
@pytest.mark.parametrize("scheme", ["im", "imex", "exact"])
@pytest.mark.parametrize("raw", [-3.0, 0.0, 1e-3, 5.0, 1e6])
def test_damped_oscillators_stay_in_the_oscillating_range(scheme, parameterization, raw):
    """The discriminant (tr M)^2 - 4 det M is at most 0, whatever training does to A and G."""
    oscillators = pushed(
        bank(50, scheme=scheme, damped=True, parameterization=parameterization), raw
    )
    for scale in (0.0, 1.0, 30.0):
        damping = scale * oscillators.raw_damping
        drawn = eqx.tree_at(lambda x: x.raw_damping, oscillators, damping)
        matrix = np.asarray(drawn.transition().matrix)
        trace, determinant = np.trace(matrix, axis1=1, axis2=2), np.linalg.det(matrix)
        assert (trace**2 - 4 * determinant <= 1e-9).all()
        assert (linoss.spectral_radius(drawn.transition()) <= 1 + 1e-7).all()


@pytest.mark.usefixtures("single_precision")
@pytest.mark.parametrize("timestep", ["learned", 0.1])
@pytest.mark.parametrize(("scheme", "damped"), [("imex", False), ("imex", True), ("verlet", False)])
def test_clamped_stiffnesses_are_stable_in_single_precision(scheme, damped, timestep):
    """|tr M| <= 1 + det M for the rounded entries themselves, in double precision.

    An excess e in h^2 A means a growth of 1 + sqrt(e) a step: e^35 over a sequence of 50 000.
    """
    oscillators = pushed(bank(2000, scheme=scheme, damped=damped, timestep=timestep))
    matrix = np.asarray(oscillators.transition().matrix, np.float64)
    radius = np.abs(np.linalg.eigvals(matrix)).max(-1)
    assert radius.max() <= 1 + 1e-6


@pytest.mark.several
@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_gradients_are_finite(scheme, precision):
    """Inside, at and past both ends: free particles, the bound, no damping."""
    oscillators = bank(6, scheme=scheme, timestep="learned", damped=scheme != "verlet")
    raw = jnp.array([-1.0, 0.0, 1e-8, 0.5, 4.0, 1e6])
    oscillators = eqx.tree_at(lambda x: x.raw_stiffness, oscillators, raw)
    if scheme != "verlet":
        damping = jnp.array([0.0, -1.0, 0.0, 1.0, 4.0, 0.0])
        oscillators = eqx.tree_at(lambda x: x.raw_damping, oscillators, damping)
    oscillators = jax.tree.map(lambda x: x.astype(precision), oscillators)

    def loss(oscillators):
        step = oscillators.transition()
        return jnp.sum(jnp.tanh(step.matrix)) + jnp.sum(jnp.tanh(step.forcing))

    gradient = jax.jit(jax.grad(loss))(oscillators)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))
    assert np.abs(gradient.raw_timestep).max() > 0
    assert gradient.raw_stiffness[3] != 0


@pytest.mark.several
@pytest.mark.parametrize("scheme", SCHEMES)
def test_transition_is_the_step_of_its_parameters(scheme, steps_from_equations):
    """Intervals are in units of the timestep."""
    oscillators = bank(8, scheme=scheme, timestep="learned", damped=scheme != "verlet")
    parameters = (oscillators.stiffness, oscillators.timestep, oscillators.damping)
    expected = steps_from_equations(scheme, *(np.asarray(x) for x in parameters))
    step = oscillators.transition()
    np.testing.assert_allclose(step.matrix, expected[0], rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(step.forcing, expected[1], rtol=1e-11, atol=1e-13)
    oscillators = bank(3, scheme=scheme, timestep=0.4)
    rng = np.random.default_rng(0)
    intervals, force = rng.uniform(0.5, 1.5, 20), rng.normal(size=(20, 3))
    found, _ = linoss.oscillator_scan(oscillators.transition(jnp.asarray(intervals)), force)
    step = linoss.discretize(scheme, oscillators.stiffness, 0.4 * intervals[:, None])
    np.testing.assert_allclose(found, linoss.oscillator_scan(step, force)[0], rtol=1e-12)


@pytest.mark.several
@pytest.mark.parametrize("scheme", ["imex", "verlet"])
def test_long_steps_of_schemes_with_a_bound_are_cut(scheme, steps_from_equations):
    """At half of the bound, where steps of changing length excite each other little."""
    oscillators = bank(8, scheme=scheme, timestep="learned", max_stiffness=9.0)
    A, dt = np.asarray(oscillators.stiffness), np.asarray(oscillators.timestep)
    intervals = np.random.default_rng(0).exponential(2.0, size=10_000) + 1e-3
    step = oscillators.transition(jnp.asarray(intervals))
    h = np.minimum(dt * intervals[:, None], 1 / np.sqrt(A))
    assert (h < dt * intervals[:, None]).any()
    assert (h == dt * intervals[:, None]).any()
    matrix, forcing = steps_from_equations(scheme, np.broadcast_to(A, h.shape), h, 0 * h)
    np.testing.assert_allclose(step.matrix, matrix, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(step.forcing, forcing, rtol=1e-11, atol=1e-13)
    start = jnp.ones((8, 2))
    _, end = linoss.oscillator_scan(step, jnp.zeros((10_000, 8)), initial_state=start)
    assert np.abs(end).max() < 1e30  # steps as they come would end beyond 1e300
