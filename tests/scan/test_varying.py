"""A timestep per sample, against steps that NumPy makes from the equations of each scheme."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

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
        pytest.param("exact", "sequential", 600, marks=pytest.mark.integration),
    ],
)
STIFFNESS = np.array([0.0, 0.6, 2.7])
DAMPING = np.array([0.05, 0.0, 0.1])


def matrices(rows):
    """[[a, b], [c, d]] of arrays as arrays of matrices."""
    return np.stack([np.stack(np.broadcast_arrays(*row), -1) for row in rows], -2)


def implicit_steps(A, h, G):
    """x_n = x_{n-1} + h (L x_n + [b_n, 0])."""
    M = np.linalg.inv(np.eye(2) - matrices([[-h * G, -h * A], [h, 0 * h]]))
    return M, M[..., 0] * h[..., None]


def implicit_explicit_steps(A, h, G):
    """z_n = z_{n-1} + h (-A y_{n-1} - G z_n + b_n), then y_n = y_{n-1} + h z_n."""
    one, zero = np.ones_like(A * h), np.zeros_like(A * h)
    ahead = np.linalg.inv(matrices([[1 + h * G + zero, zero], [-h, one]]))
    return ahead @ matrices([[one, -h * A], [zero, one]]), ahead[..., 0] * h[..., None]


def verlet_steps(A, h, G):
    """A kick by h b_n; half a kick by -A y, a drift, half a kick by -A y."""
    one, zero = np.ones_like(A * h), np.zeros_like(A * h)
    kick = matrices([[one, -h * A / 2], [zero, one]])
    M = kick @ matrices([[one, zero], [h, one]]) @ kick
    return M, M[..., 0] * h[..., None]


def exponential(matrix):
    """Taylor's series of a small part, squared; scipy's takes a millisecond for each matrix."""
    term = total = np.broadcast_to(np.eye(3), matrix.shape)
    for n in range(1, 15):
        term = term @ matrix / 2**6 / n
        total = total + term
    for _ in range(6):
        total = total @ total
    return total


def test_exponential_is_scipys():
    matrix = np.random.default_rng(0).normal(size=(5, 3, 3))
    np.testing.assert_allclose(exponential(matrix), scipy.linalg.expm(matrix), rtol=1e-12)


def exact_steps(A, h, G):
    """The exponential of h [[-G, -A, 1], [1, 0, 0], [0, 0, 0]]: the force is a third state."""
    one, zero = np.ones_like(A * h), np.zeros_like(A * h)
    rate = matrices([[-G * one, -A * one, one], [one, zero, zero], [zero, zero, zero]])
    whole = exponential(rate * h[..., None, None])
    return whole[..., :2, :2], whole[..., :2, 2]


STEPS = {
    "im": implicit_steps,
    "imex": implicit_explicit_steps,
    "verlet": verlet_steps,
    "exact": exact_steps,
}


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
def test_every_sample_takes_its_own_step(scheme, engine, time, draw, scan, reference, assert_same):
    timestep, (force, start, cotangents) = uneven(time, 3), draw((), time, 3)
    found, _ = scan(discretize(scheme, timestep), force, cotangents, start=start, engine=engine)
    steps = STEPS[scheme](STIFFNESS, timestep, damping_of(scheme))
    weight = kick_weights(scheme, timestep, at_rest=False)
    assert_same(found, reference(*steps, force, start, cotangents, weight), 1e-11)


@pytest.mark.several
@by_schemes_and_engines
def test_gradients_of_parameters_and_timesteps_are_finite_differences(
    scheme, engine, time, draw, scan, states_by_loop, difference
):
    timestep, (force, start, cotangents) = uneven(time, 3), draw((), time, 3)
    _, gradient = scan(discretize(scheme, timestep), force, cotangents, start=start, engine=engine)

    def loss(A, h, G):
        matrix, forcing = STEPS[scheme](A, h, G)
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
@pytest.mark.parametrize("engine", ENGINES)
def test_single_precision_errs_by_the_rounding_of_the_steps_only(
    engine, single_precision, draw, scan, reference, assert_same
):
    """The steps are rounded once each, to 6e-8, and 13 of them add up to some 1e-6."""
    timestep, (force, start, cotangents) = uneven(13, 3).astype(np.float32), draw((), 13, 3)
    found, _ = scan(discretize("imex", timestep), force, cotangents, start=start, engine=engine)
    A, h, G = (np.float64(np.float32(x)) for x in (STIFFNESS, timestep, DAMPING))
    expected = reference(*STEPS["imex"](A, h, G), force, start, cotangents)
    assert found.positions.dtype == jnp.float32
    assert_same(found, expected, 1e-5)


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


@by_every_engine
def test_a_masked_sample_is_no_sample(engine, time, draw):
    """Nor is its timestep: the mask says that no time passed."""
    timestep, (force, _, _) = uneven(time, 1), draw((), time, 3)
    there = np.random.default_rng(2).random(time) < 0.6
    positions, final = linoss.oscillator_scan(
        discretize("verlet", timestep), force, mask=there, engine=engine
    )
    expected = linoss.oscillator_scan(
        discretize("verlet", timestep[there]), force[there], engine="sequential"
    )
    scale = np.abs(expected[0]).max()
    np.testing.assert_allclose(positions[there], expected[0], rtol=0, atol=1e-11 * scale)
    np.testing.assert_allclose(final, expected[1], rtol=0, atol=1e-11 * scale)


@pytest.mark.several
@by_every_engine
def test_verlet_weighs_a_force_after_a_gap_by_the_last_sample_that_is_there(
    engine, time, draw, scan, reference, assert_same
):
    timestep, (force, _, cotangents) = uneven(time, 1), draw((), time, 3)
    mask = np.random.default_rng(3).random(time) < 0.5
    mask[:2] = False
    found, _ = scan(
        discretize("verlet", timestep), force, cotangents, mask=jnp.asarray(mask), engine=engine
    )
    matrix, forcing = verlet_steps(STIFFNESS, np.broadcast_to(timestep, (time, 3)), 0.0)
    matrix[~mask], forcing[~mask] = np.eye(2), 0.0
    weight = kick_weights("verlet", timestep, at_rest=True, mask=mask)
    expected = reference(matrix, forcing, force, np.zeros((3, 2)), cotangents, weight)
    assert_same(found, expected, 1e-11)


@pytest.mark.several
@pytest.mark.parametrize("scheme", ["im", "imex", "exact"])  # Verlet's pieces are the layer's
def test_pieces_with_carried_state_are_the_whole(scheme, draw):
    timestep, (force, _, _) = uneven(600, 1), draw((2,), 600, 3)
    expected = linoss.oscillator_scan(discretize(scheme, timestep), force)
    first, state = linoss.oscillator_scan(discretize(scheme, timestep[:300]), force[:, :300])
    second, state = linoss.oscillator_scan(
        discretize(scheme, timestep[300:]), force[:, 300:], initial_state=state
    )
    scale = np.abs(expected[0]).max()
    positions = np.concatenate([first, second], axis=1)
    np.testing.assert_allclose(positions, expected[0], rtol=0, atol=1e-11 * scale)
    np.testing.assert_allclose(state, expected[1], rtol=0, atol=1e-11 * scale)


@by_every_engine
def test_reverse_is_flipping(engine, time, draw):
    timestep, (force, start, _) = uneven(time, 1), draw((), time, 3)
    options = {"initial_state": start, "engine": engine}
    found = linoss.oscillator_scan(discretize("verlet", timestep), force, reverse=True, **options)
    expected = linoss.oscillator_scan(discretize("verlet", timestep[::-1]), force[::-1], **options)
    np.testing.assert_allclose(found[0], expected[0][::-1], rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-11, atol=1e-11)
