"""Every engine against a loop in float64: values, final states, gradients, masks, pieces."""

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.signal
from hypothesis import example, given, settings
from hypothesis import strategies as st

import linoss

NATIVE = ["native"] if "native" in linoss.engines() else []
ENGINES = ["sequential", "associative", *NATIVE]
SCHEMES = ["im", "imex", "verlet", "exact"]
FEW = settings.default.max_examples // 10  # each is compiled
TOLERANCE = {False: 1e-5, True: 1e-11}
TIMES = {"associative": 13}  # slow to compile; the others have several segments
by_every_engine = pytest.mark.parametrize(
    ("engine", "time"), [(engine, TIMES.get(engine, 600)) for engine in ENGINES]
)


@st.composite
def shapes(draw):
    leading = tuple(draw(st.lists(st.integers(1, 2), max_size=2)))
    return leading, draw(st.integers(1, 3000)), draw(st.integers(1, 40))


@pytest.mark.integration
@settings(max_examples=FEW)
@given(
    shape=shapes(),
    scheme=st.sampled_from(SCHEMES),
    engine=st.sampled_from(["sequential", "auto", *NATIVE]),
    double=st.booleans(),
    at_rest=st.booleans(),
)
@example(shape=((2,), 300, 40), scheme="verlet", engine="auto", double=False, at_rest=True)
@example(shape=((), 129, 65), scheme="imex", engine="auto", double=True, at_rest=True)
@example(shape=((3, 2), 90, 5), scheme="exact", engine="associative", double=False, at_rest=True)
@example(shape=((1,), 47, 40), scheme="verlet", engine="associative", double=True, at_rest=True)
def test_engine_is_the_loop_for_any_shape(
    shape, scheme, engine, double, at_rest, make_transition, draw, scan, reference, assert_same
):
    with jax.enable_x64(double):
        leading, time, width = shape
        transition = make_transition(scheme, width)
        force, start, cotangents = draw(leading, time, width)
        found = scan(transition, force, cotangents, start=None if at_rest else start, engine=engine)
    weight = np.ones((time, 1))
    weight[0] = 0.5 if scheme == "verlet" and at_rest else 1
    start = np.zeros(start.shape) if at_rest else start
    expected = reference(transition.matrix, transition.forcing, force, start, cotangents, weight)
    assert found.positions.dtype == found.final.dtype == (jnp.float64 if double else jnp.float32)
    assert_same(found, expected, TOLERANCE[double])


CASES = [("sequential", n, True) for n in (1, 256, 257)]
CASES += [("associative", 64, True)]
CASES += [(engine, 64, True) for engine in NATIVE]
# Trees that are odd at every level, and lengths beside those of tiles; each takes long to compile.
MORE_CASES = [("associative", n, double) for n, double in ((1, True), (255, True), (1025, False))]
MORE_CASES += [(engine, n, True) for engine in NATIVE for n in (1, 63, 65)]
CASES += [pytest.param(*case, marks=pytest.mark.slow) for case in MORE_CASES]


LONG = [(engine, 49_999, False) for engine in ("sequential", *NATIVE)]
CASES += [pytest.param(*case, marks=pytest.mark.integration) for case in LONG]


@pytest.mark.several
@pytest.mark.parametrize(("engine", "time", "double"), CASES)
def test_engine_is_the_loop_for_every_length(
    engine, time, double, make_bank, draw, scan, reference, assert_same
):
    with jax.enable_x64(double):
        transition = make_bank()
        force, start, cotangents = draw((), time, 8)
        found = scan(transition, force, cotangents, start=start, engine=engine)
    expected = reference(transition.matrix, transition.forcing, force, start, cotangents)
    assert_same(found, expected, TOLERANCE[double])


@pytest.mark.parametrize("engine", ["sequential", "auto"])
def test_a_million_steps_end_as_a_filter_does(engine, single_precision):
    """Each component of x obeys x_n = tr(M) x_{n-1} - det(M) x_{n-2} + c_0 b_n + c_1 b_{n-1}."""
    force = np.random.default_rng(0).normal(size=1_000_000).astype(np.float32)
    step = linoss.discretize("imex", [1.7], 0.3)
    positions, final = linoss.oscillator_scan(step, force[:, None], engine=engine)
    zz, zy, yz, yy, fz, fy = map(float, (*step.matrix[0].ravel(), *step.forcing[0]))
    poles = [1, -(zz + yy), zz * yy - zy * yz]
    z = scipy.signal.lfilter([fz, zy * fy - yy * fz], poles, force.astype(float))
    y = scipy.signal.lfilter([fy, yz * fz - zz * fy], poles, force.astype(float))
    assert np.abs(positions[:, 0] - y).max() <= 1e-5 * np.abs(y).max()
    np.testing.assert_allclose(final[0], [z[-1], y[-1]], atol=1e-5 * np.abs(y).max())


@pytest.mark.several
@pytest.mark.parametrize("platform", ["cuda", "tpu"])
def test_programs_for_accelerators_call_no_kernels(platform, single_precision, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    step = linoss.discretize("imex", [0.5], 0.3)
    function = jax.jit(jax.grad(lambda force: linoss.oscillator_scan(step, force)[0].sum()))
    shape = jax.ShapeDtypeStruct((300, 1), jnp.float32)
    program = jax.export.export(function, platforms=[platform])(shape).mlir_module()
    assert "custom_call" not in program.replace("custom_call @Sharding", "")
    assert "stablehlo.while" not in program


@pytest.mark.parametrize("engine", ENGINES)
def test_empty_batch_stays_empty(engine, make_transition, draw, scan):
    transition = make_transition("imex", 3)
    force, start, cotangents = draw((2, 0), 13, 3)
    found = scan(transition, force, cotangents, start=start, engine=engine)
    assert found.positions.shape == found.d_force.shape == (2, 0, 13, 3)
    assert found.final.shape == found.d_start.shape == (2, 0, 3, 2)
    assert not np.any(found.d_matrix)
    assert not np.any(found.d_forcing)


@pytest.mark.several
@pytest.mark.parametrize(
    ("engine", "time", "dtype"),
    [
        ("sequential", 600, jnp.float16),
        pytest.param("associative", 13, jnp.bfloat16, marks=pytest.mark.integration),
    ],
)
def test_half_precision_forces_are_accumulated_in_single(
    engine, time, dtype, single_precision, make_bank, draw, scan, reference, assert_same
):
    transition = make_bank()
    force, start, (d_positions, d_final) = draw((), time, 8)
    force, d_positions = force.astype(dtype), d_positions.astype(dtype)
    found = scan(transition, force, (d_positions, d_final), start=start, engine=engine)
    cotangents = (d_positions, d_final)
    expected = reference(transition.matrix, transition.forcing, force, start, cotangents)
    assert found.positions.dtype == found.d_force.dtype == dtype
    assert found.final.dtype == jnp.float32
    rounded = ("positions", "d_force")  # once, at the end, and not at every step
    assert_same(found, expected, float(jnp.finfo(dtype).eps))
    exact = dict.fromkeys(rounded)
    assert_same(found._replace(**exact), expected, TOLERANCE[False])


@pytest.fixture
def masked(make_bank, draw):
    """Sequences with gaps, one of which starts with one, and one has no sample."""

    def make(time):
        transition, (force, start, cotangents) = make_bank(), draw((3,), time, 8)
        mask = np.random.default_rng(1).random((3, time)) < 0.7
        mask[0, :3], mask[1, :3], mask[2] = False, True, False
        mask[:, time // 3 : time // 2] = False
        return transition, force, start, cotangents, jnp.asarray(mask)

    return make


def skip_masked(transition, mask):
    """M_n and F_n that do nothing where a sample is missing."""
    missing = ~np.asarray(mask)[..., None, None]
    matrix = np.where(missing[..., None], np.eye(2), transition.matrix)
    return matrix, np.where(missing, 0.0, transition.forcing)


@pytest.mark.several
@by_every_engine
def test_masked_steps_leave_the_state(engine, time, masked, scan, reference, assert_same):
    """Whatever the missing forces are."""
    transition, force, start, cotangents, mask = masked(time)
    nothing = jnp.where(jnp.arange(time)[:, None] % 2, jnp.nan, jnp.inf)
    missing = jnp.where(mask[..., None], force, nothing)
    result = scan(transition, missing, cotangents, start=start, mask=mask, engine=engine)
    expected = reference(*skip_masked(transition, mask), force, start, cotangents)
    present = np.asarray(mask)[..., None, None]
    d_matrix = (expected.d_matrix * present[..., None]).sum((0, 1))
    d_forcing = (expected.d_forcing * present).sum((0, 1))
    assert_same(result, expected._replace(d_matrix=d_matrix, d_forcing=d_forcing), TOLERANCE[True])
    assert not np.any(np.asarray(result.d_force)[~np.asarray(mask)])


@by_every_engine
def test_an_unmasked_nan_reaches_its_own_future_only(engine, time, make_bank, draw):
    transition, (force, _, _) = make_bank(), draw((2,), time, 8)
    spoiled = force.at[0, time // 2, 5].set(jnp.nan)
    clean = np.array(linoss.oscillator_scan(transition, force, engine=engine)[0])
    positions, final = linoss.oscillator_scan(transition, spoiled, engine=engine)
    clean[0, time // 2 :, 5] = np.nan
    np.testing.assert_allclose(positions, clean, rtol=1e-11, atol=1e-11)
    np.testing.assert_array_equal(np.isnan(final[..., 1]), np.isnan(clean[:, -1]))


@pytest.mark.several
@by_every_engine
@pytest.mark.parametrize("varying", [False, True])
def test_reverse_is_flipping(engine, time, varying, masked, make_transition):
    transition, force, start, _, mask = masked(time)
    flipped = transition
    if varying:
        timestep = np.random.default_rng(0).uniform(0.1, 0.8, (time, 1))
        transition, flipped = (
            make_transition("verlet", 8, timestep=h) for h in (timestep, timestep[::-1])
        )
    options = {"initial_state": start, "engine": engine}
    result = linoss.oscillator_scan(transition, force, mask=mask, reverse=True, **options)
    positions, final = linoss.oscillator_scan(
        flipped, force[:, ::-1], mask=mask[:, ::-1], **options
    )
    np.testing.assert_allclose(result[0], positions[:, ::-1], rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(result[1], final, rtol=1e-11, atol=1e-11)


@pytest.mark.several
@pytest.mark.parametrize(
    ("scheme", "varying"),
    [("imex", False), ("verlet", False), ("im", True), ("imex", True), ("exact", True)],
)  # Verlet's varying pieces are the layer's
@pytest.mark.parametrize("masked", [False, True])
def test_pieces_with_carried_state_are_the_whole(scheme, varying, masked, make_transition, draw):
    force, _, _ = draw((2,), 600, 3)
    random = np.random.default_rng(3)
    mask = random.random((2, 600)) < (0.7 if masked else 1)
    if scheme == "verlet":
        mask[:, 0] = True
    timestep = random.uniform(0.1, 0.8, (600, 1)) if varying else 0.4

    def run(piece, state):
        step = make_transition(scheme, 3, timestep=timestep[piece] if varying else timestep)
        options = {"initial_state": state, "mask": mask[:, piece]}
        return linoss.oscillator_scan(step, force[:, piece], **options)

    expected, expected_state = run(slice(None), None)
    pieces, state = [], None
    for begin, end in ((0, 1), (1, 101), (101, 599), (599, 600)):
        positions, state = run(slice(begin, end), state)
        pieces.append(positions)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(np.concatenate(pieces, 1), expected, rtol=0, atol=1e-11 * scale)
    np.testing.assert_allclose(state, expected_state, rtol=0, atol=1e-11 * scale)
