"""A timestep per sample, against steps that NumPy makes from the equations of each scheme."""

import jax.numpy as jnp
import numpy as np
import pytest

import linoss

# Several segments each; the associative scan is slow to compile.
NATIVE = ["native"] if "native" in linoss.engines() else []
ENGINES = ["sequential", *NATIVE]
by_every_engine = pytest.mark.parametrize(
    ("engine", "time"), [("associative", 13), *((engine, 1100) for engine in ENGINES)]
)
# A scheme makes the steps, an engine runs them; only Verlet's weights depend on the samples before.
by_schemes_and_engines = pytest.mark.parametrize(
    ("scheme", "engine", "time"),
    [
        ("im", "sequential", 600),
        *(("imex", engine, 1100) for engine in NATIVE),
        ("verlet", "sequential", 600),
        pytest.param("verlet", "associative", 13, marks=pytest.mark.integration),
        pytest.param("exact", "sequential", 60, marks=pytest.mark.integration),
    ],
)
STIFFNESS = np.array([0.0, 0.6, 2.7])
DAMPING = np.array([0.05, 0.0, 0.1])


def kick_weights(scheme, timestep, *, at_rest, mask=None):
    """Verlet's kicks of (h_{n-1} + h_n) / 2 next to h_n, n-1 being the last sample there is."""
    weight = np.ones(np.shape(timestep))
    if scheme != "verlet":
        return weight
    last = None
    for n in range(len(weight)):
        if mask is None or mask[n]:
            if last is None:
                weight[n] = 0.5 if at_rest else 1.0
            else:
                weight[n] = (timestep[last] + timestep[n]) / (2 * timestep[n])
            last = n
    return weight


def damping_of(scheme):
    return 0 * DAMPING if scheme == "verlet" else DAMPING


def discretize(scheme, timestep):
    damping = None if scheme == "verlet" else DAMPING
    return linoss.discretize(scheme, jnp.asarray(STIFFNESS), timestep, damping)


def uneven(*shape, seed=0):
    return np.random.default_rng(seed).uniform(0.1, 0.8, shape)


@pytest.mark.several
@by_schemes_and_engines
def test_every_sample_takes_its_own_step(
    scheme, engine, time, draw, scan, reference, assert_same, steps_from_equations
):
    timestep, (force, start, cotangents) = uneven(time, 3), draw((), time, 3)
    found, _ = scan(discretize(scheme, timestep), force, cotangents, start=start, engine=engine)
    steps = steps_from_equations(scheme, STIFFNESS, timestep, damping_of(scheme))
    weight = kick_weights(scheme, timestep, at_rest=False)
    assert_same(found, reference(*steps, force, start, cotangents, weight), 1e-11)


@pytest.mark.several
@by_schemes_and_engines
def test_gradients_of_parameters_and_timesteps_are_finite_differences(
    scheme, engine, time, draw, scan, states_by_loop, difference, steps_from_equations
):
    timestep, (force, start, cotangents) = uneven(time, 3), draw((), time, 3)
    _, gradient = scan(discretize(scheme, timestep), force, cotangents, start=start, engine=engine)

    def loss(A, h, G):
        matrix, forcing = steps_from_equations(scheme, A, h, G)
        weight = kick_weights(scheme, h, at_rest=False)
        zs, ys = states_by_loop(matrix, forcing, weight * np.asarray(force), np.asarray(start))
        d_positions, d_final = map(np.asarray, cotangents)
        return (ys[1:] * d_positions).sum() + (
            zs[-1] * d_final[:, 0] + ys[-1] * d_final[:, 1]
        ).sum()

    point = (STIFFNESS, timestep, damping_of(scheme))
    slopes = (gradient.stiffness, gradient.intervals, gradient.damping)
    for i, slope in enumerate(slopes[:2] if scheme == "verlet" else slopes):
        direction = np.random.default_rng(i).normal(size=slope.shape)
        expected = difference(loss, point, i, direction)
        scale = np.abs(np.asarray(slope) * direction).sum()
        np.testing.assert_allclose(np.sum(slope * direction), expected, atol=1e-6 * scale)


@pytest.mark.several
@pytest.mark.parametrize("shape", [(3,), (2, 1)], ids=str)
def test_timesteps_are_shared_along_leading_axes(shape, draw):
    time = 300
    timestep, (force, _, _) = uneven(*shape, time, 1), draw((2, 3), time, 3)
    positions, final = linoss.oscillator_scan(discretize("imex", timestep), force)
    for i, j in np.ndindex(2, 3):
        own = np.broadcast_to(timestep, (2, 3, time, 1))[i, j]
        expected = linoss.oscillator_scan(discretize("imex", own), force[i, j], engine="sequential")
        np.testing.assert_allclose(positions[i, j], expected[0], rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(final[i, j], expected[1], rtol=1e-10, atol=1e-10)


@pytest.mark.several
@by_every_engine
def test_verlet_weighs_a_force_after_a_gap_by_the_last_sample_that_is_there(
    engine, time, draw, scan, reference, assert_same, steps_from_equations
):
    """A masked sample is none, nor is its timestep: the mask says that no time passed."""
    timestep, (force, _, cotangents) = uneven(time, 1), draw((), time, 3)
    mask = np.random.default_rng(3).random(time) < 0.5
    mask[:2] = False
    found, _ = scan(
        discretize("verlet", timestep), force, cotangents, mask=jnp.asarray(mask), engine=engine
    )
    matrix, forcing = steps_from_equations("verlet", STIFFNESS, timestep)
    matrix[~mask], forcing[~mask] = np.eye(2), 0.0
    weight = kick_weights("verlet", timestep, at_rest=True, mask=mask)
    expected = reference(matrix, forcing, force, np.zeros((3, 2)), cotangents, weight)
    assert_same(found, expected, 1e-11)
