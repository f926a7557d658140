"""The native block is the plain block: values, states, statistics and gradients, with dropout."""

import contextlib
import dataclasses
import os
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.special import erf, expit

import linoss
from linoss import kernels
from linoss.kernels import Kept, kept_products
from linoss.nn import Samples, run_blocks

pytestmark = [
    pytest.mark.skipif("native" not in linoss.engines(), reason="the kernels were not built"),
    pytest.mark.usefixtures("single_precision"),
]


def run(block, engine, gaps, u, words, mask, intervals, state, weights_of_loss):
    """All that a block gives in one engine: training, evaluation, gradients."""
    weights, rest = eqx.partition(block, linoss.trainable(block))
    lengths = None if mask is None else u.shape[1] - 3 * jnp.arange(u.shape[0]) // 2

    def loss(weights, u, intervals):
        block = eqx.combine(weights, rest)
        samples = Samples(u, mask, intervals, lengths, engine=engine, gaps=gaps).joined()
        (trained, _), _, norm = run_blocks((block,), u, samples, None, words[None])
        (evaluated, _), final, _ = run_blocks((block,), u, samples, state)
        on_state = sum(jnp.sum(jnp.sin(x)) for x in jax.tree.leaves(final))
        total = jnp.sum(trained * weights_of_loss) + jnp.mean(evaluated**2) + on_state
        return total, (trained, norm, evaluated, final)

    arguments = (0, 1) if intervals is None else (0, 1, 2)
    return jax.grad(loss, argnums=arguments, has_aux=True)(weights, u, intervals)


def runs_natively(block, u, *, varying):
    return kernels.can_run(block.native(), u, irregular=varying, time_split=False)


def in_double_precision(tree):
    return jax.tree.map(
        lambda x: jnp.asarray(x, jnp.float64) if eqx.is_inexact_array(x) else x, tree
    )


def assert_trees_close(found, expected, tolerance, least=1e-6):
    found = dict(jax.tree_util.tree_leaves_with_path(found))
    for path, leaf in jax.tree_util.tree_leaves_with_path(expected):
        size, where = np.max(np.abs(leaf), initial=least), jax.tree_util.keystr(path)
        np.testing.assert_allclose(found[path], leaf, rtol=0, atol=tolerance * size, err_msg=where)


def compare(block, batch, time, *, masked=False, varying=False, gaps="move"):
    """The native block against the plain one in double precision."""
    keys = jax.random.split(jax.random.key(1), 6)
    hidden = block.glu.weight.shape[1]
    u = jax.random.normal(keys[0], (batch, time, hidden))
    mask = jax.random.bernoulli(keys[1], 0.8, (batch, time)) if masked else None
    intervals = jnp.exp(jax.random.normal(keys[5], (batch, time)) / 2) if varying else None
    state, *others = jax.tree.leaves(at_rest := block.mixer.init_state((batch,)))
    state = jax.tree.unflatten(
        jax.tree.structure(at_rest), [jax.random.normal(keys[2], state.shape), *others]
    )
    state = jax.tree.map(lambda x: x[None], state)
    words = jax.random.bits(keys[3], (2,), jnp.uint32)
    assert runs_natively(block, u, varying=varying)
    given = (block, u, words, mask, intervals, state, jax.random.normal(keys[4], u.shape))
    native = eqx.filter_jit(run)(block, "native", gaps, *given[1:])
    with jax.enable_x64(True):
        block, *given = in_double_precision(given)
        plain = eqx.filter_jit(run)(block, "sequential", gaps, *given)
    assert_trees_close(native, plain, 3e-4)


BATCH_NORM = {"norm": "batch", "glu_bias": False, "bias": True, "gelu": "tanh"}
EXACT = {"scheme": "exact", "damped": True, "feedthrough": "none"}
ALL = {"scheme": "verlet", "norm": "layer", "feedthrough": "dense", "bidirectional": True}


def longer(*values):
    return pytest.param(*values, marks=pytest.mark.integration)


def other_pairs(*values):
    """Of what is in the list, too, with something else."""
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.mark.several
@pytest.mark.parametrize(
    ("options", "masked", "varying"),
    [
        ({}, False, False),
        (BATCH_NORM, True, False),
        ({"scheme": "imex", "damped": True, "complex_projections": False}, False, True),
        ({**ALL, "shared_dropout": True}, True, True),
        longer({"norm": None, "dropout": 0.0, "feedthrough": "dense"}, True, False),
        longer(EXACT, False, True),
        other_pairs({"norm": "layer"}, True, True),
        other_pairs({"scheme": "imex", "bidirectional": True}, False, False),
        other_pairs({"scheme": "verlet", "complex_projections": False}, False, True),
        other_pairs({"scheme": "exact"}, True, True),
    ],
    ids=str,
)
def test_equals_the_plain_block(new_block, options, masked, varying):
    block = new_block(12, 8, timestep="learned", key=jax.random.key(0), **options)
    gaps = "stand" if options.get("norm", "") is None else "move"
    compare(block, batch=3, time=150, masked=masked, varying=varying, gaps=gaps)


@pytest.mark.integration
def test_pairs_of_states_equal_the_plain_block():
    """Modes that fill vectors and that do not, in both directions, with samples missing."""
    keys = jax.random.split(jax.random.key(0), 3)
    lru = linoss.nn.LRULayer(12, 5, key=keys[0])
    s5 = linoss.nn.S5Layer(12, 32, state_blocks=2, key=keys[1])
    compare(linoss.Block(lru, backward_mixer=s5, norm="layer", key=keys[2]), 3, 150, masked=True)
    compare(linoss.Block(s5, norm="batch", key=keys[2]), 1, 200)


@pytest.mark.integration
@settings(max_examples=settings.default.max_examples // 50)
@given(
    hidden=st.integers(1, 300),
    state=st.integers(1, 150),
    batch=st.integers(1, 3),
    time=st.integers(1, 200),
    scheme=st.sampled_from(["im", "imex", "verlet", "exact"]),
    norm=st.sampled_from(["running", "layer"]),
    feedthrough=st.sampled_from(["vector", "dense"]),
    bidirectional=st.booleans(),
    masked=st.booleans(),
    varying=st.booleans(),
)
@example(1, 1, 1, 1, "verlet", "layer", "dense", True, True, True)
@example(17, 33, 1, 700, "im", "running", "vector", False, True, True)
def test_drawn_sizes(
    new_block, hidden, state, batch, time, scheme, norm, feedthrough, bidirectional, masked, varying
):
    with jax.enable_x64(False):
        options = {"scheme": scheme, "norm": norm, "feedthrough": feedthrough}
        block = new_block(
            hidden,
            state,
            timestep="learned",
            bidirectional=bidirectional,
            key=jax.random.key(0),
            **options,
        )
        compare(block, batch, time, masked=masked, varying=varying)


@pytest.mark.several
@pytest.mark.parametrize("regular", [False, True])
@pytest.mark.parametrize("name", linoss.dynamics.SCHEMES)
def test_steps_have_the_formulas_of_the_scheme(name, regular):
    """Positions and gradients of a kernel, against the scheme in double precision: free particles,
    slow and stiff oscillators, undamped to critically damped, tiny and long steps; and one step for
    all samples."""
    scheme, generator = linoss.dynamics.SCHEMES[name], np.random.default_rng(0)
    A = np.array([0, 1e-8, 1e-6, 1e-4, 1e-3, 1e-2, 0.1, 0.5, 1, 1, 1, 4, 4, 100.0], np.float32)
    share = np.array([0, 0.5, 0, 1, 0.9, 0, 0.1, 1, 0, 0.999, 1, 0.3, 1, 0.01], np.float32)
    G = 2 * np.sqrt(A) * share if scheme.damped else 0 * A
    m, time = A.size, 150
    timestep = generator.uniform(0.1, 1, m).astype(np.float32)
    bounded = name in ("imex", "verlet")
    longest = 1 / np.sqrt(np.maximum(A, 1e-12)) if bounded else np.full(m, np.inf)
    if regular:
        timestep = np.minimum(timestep, 1.5 * longest)  # stable, and for some longer than that
    rows = np.stack([A, timestep, G, longest]).astype(np.float32)
    intervals = np.exp(generator.normal(0, 0 if regular else 2, (2, time))).astype(np.float32)
    force, pull = jnp.asarray(generator.normal(size=(2, 2, time, m)), jnp.float32)
    no, zeros = jnp.zeros((1, 1)), jnp.zeros(m)
    unweighted = dataclasses.replace(scheme, weigh=None)

    def by_kernel(rows, intervals):
        step = linoss.dynamics.VaryingTransition(*rows[:3], no[..., None], unweighted, rows[3])
        mixer = kernels.LinearRecurrence(step, jnp.eye(m), zeros, jnp.eye(m), zeros)
        block = kernels.BlockArrays(
            kernels.Normalization(0.0, 1.0), (mixer, mixer), kernels.Affine(no, zeros)
        )
        timing = kernels.Timing(intervals=None if regular else intervals)
        return jnp.sum(kernels.run_backwards(block, force, timing) * pull)

    def by_scheme(rows, intervals):
        A, timestep, G, longest = rows
        limit = None if regular else longest  # regular samples are a timestep apart, however long
        varying = linoss.dynamics.VaryingTransition(
            A, timestep, G, intervals[..., None], unweighted, limit
        )
        positions, _ = linoss.oscillator_scan(varying, force, reverse=True, engine="sequential")
        return jnp.sum(positions * pull)

    found = jax.value_and_grad(by_kernel, (0, 1))(jnp.asarray(rows), jnp.asarray(intervals))
    with jax.enable_x64(True):
        force, pull, *wide = (jnp.asarray(x, jnp.float64) for x in (force, pull, rows, intervals))
        expected = jax.jit(jax.value_and_grad(by_scheme, (0, 1)))(*wide)
    _, (d_rows, d_intervals) = expected
    assert np.isfinite(d_rows).all()
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-4)
    for row, found_row, size in zip(d_rows, found[1][0], np.abs(d_rows), strict=True):
        np.testing.assert_allclose(found_row, row, rtol=2e-4, atol=1e-5 * np.max(size))
    cut = bounded and not regular
    assert np.any(d_rows[3]) == cut  # no gradient reaches a bound that cuts nothing
    if not regular:
        size = np.max(np.abs(d_intervals))
        np.testing.assert_allclose(found[1][1], d_intervals, rtol=2e-4, atol=1e-5 * size)


def gradients_of_model(model, engine, u, lengths, labels):
    """Answers in training, norms, and the gradients of a loss, with the input's own."""
    weights, rest = eqx.partition(model, linoss.trainable(model))

    def loss(weights, u):
        model = eqx.combine(weights, rest)
        answers, norms = model.training_pass(
            u, key=jax.random.key(3), lengths=lengths, engine=engine
        )
        return jnp.mean((answers - labels) ** 2), (answers, norms)

    return jax.grad(loss, argnums=(0, 1), has_aux=True)(weights, u)


LAST, EVERY = {"pooling": "last"}, {"task": "regression", "every": 10}


@pytest.mark.several
@pytest.mark.parametrize(
    ("norm", "padded", "head"),
    [
        ("running", True, {}),
        ("batch", False, EVERY),
        longer("batch", True, LAST),
        other_pairs("running", True, EVERY),
        other_pairs(None, False, LAST),
    ],
)
def test_equals_the_plain_model(norm, padded, head):
    """Encoder, several blocks whose norms use each other's moments, and every head."""
    config = linoss.LinOSSConfig(
        in_size=5, out_size=2, hidden_size=12, state_size=6, num_blocks=2, norm=norm, **head
    )
    model = linoss.LinOSS(config, key=jax.random.key(0))
    u = jax.random.normal(jax.random.key(1), (4, 150, 5))
    lengths = jnp.array([150, 1, 64, 97]) if padded else None
    labels = jax.random.normal(jax.random.key(2), model(u).shape)
    plain, native = (
        eqx.filter_jit(gradients_of_model)(model, engine, u, lengths, labels)
        for engine in ("sequential", "native")
    )
    assert_trees_close(native, plain, 1e-4, least=1e-4)


@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize("masked", [False, True])
def test_moments_are_those_of_double_precision(offset, masked):
    """Far from zero, where sums of squares would lose the variance."""
    u = jax.random.normal(jax.random.key(0), (5000, 3))
    mask = jax.random.bernoulli(jax.random.key(1), 0.5, (5000,)) if masked else None
    encoder = kernels.Affine(jnp.eye(20, 3), jnp.full(20, offset))
    out, moments = kernels.encode(encoder, u, kernels.Timing(mask))
    samples = np.asarray(out, np.float64)[np.asarray(mask)] if masked else np.float64(out)
    np.testing.assert_allclose(moments[0], samples.mean(0), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(moments[1], samples.var(0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "precision"),
    [({"norm": "layer"}, "float32"), ({"norm": None, "complex_projections": False}, "bfloat16")],
)
def test_what_is_not_a_number_stays_in_its_sequence(new_block, options, precision):
    """The next sequence of a thread uses the same rows: their padding enters sums over channels,
    and pairs of an odd number of them."""
    block = new_block(5, 3, key=jax.random.key(0), **options)
    u = jax.random.normal(jax.random.key(1), (20, 70, 5))

    def run(u):
        samples = Samples(u, engine="native", precision=precision)
        return run_blocks((block,), u, samples, None)[0].values

    found, expected = run(u.at[0, 3].set(jnp.nan)), run(u)
    assert np.isnan(found[0]).any()
    np.testing.assert_array_equal(found[1:], expected[1:])


@pytest.mark.parametrize("form", ["erf", "tanh"])
def test_activations_have_the_stated_error(new_block, form):
    """With C = 0, D = 1 and a GLU that passes on (or opens by) its input, the block is GELU."""
    block = new_block(1, 1, norm=None, gelu=form, key=jax.random.key(0))
    x = jnp.linspace(-30, 30, 60_001)[:, None]

    def with_weights(gate, gate_bias, value, value_bias):
        new = (jnp.zeros((1, 2)), jnp.ones(1), jnp.array([[gate], [value]]))
        return eqx.tree_at(
            lambda b: (b.mixer.output_weight, b.mixer.feedthrough, b.glu.weight, b.glu.bias),
            block,
            (*new, jnp.array([gate_bias, value_bias])),
        )

    passes = with_weights(0.0, 100.0, 1.0, 0.0)
    wide = np.asarray(x, np.float64)
    bent = np.tanh(np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3))
    gelu = wide * 0.5 * (1 + (bent if form == "tanh" else erf(wide / np.sqrt(2))))
    found = passes(x, engine="native")[0] - x
    assert np.max(np.abs(found - gelu) / np.maximum(1, np.abs(wide))) < 4e-7

    opens = with_weights(1.0, -10.0, 0.0, 1.0)
    found = opens(x, engine="native")[0] - x
    argument = np.asarray(np.float32(gelu) - np.float32(10), np.float64)
    resolution = 1e-6 + 4e-7 * np.abs(wide)  # what is left after the skip connection's sum
    assert np.max(np.abs(found - expit(argument)) / resolution) < 1


PROGRAM = """
import os, sys
os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[: int(sys.argv[1])]))
import equinox as eqx, jax, jax.numpy as jnp, linoss, numpy as np
from linoss.nn import run_blocks
results = {"float32": [], "bfloat16": []}
for batch, scheme, both in ((19, "im", False), (1, "exact", True), (3, "im", False)):
    new = lambda i: linoss.LinOSSLayer(20, 9, scheme=scheme, key=jax.random.key(i))
    block = linoss.Block(
        new(0), backward_mixer=new(2) if both else None, norm=None, key=jax.random.key(1)
    )
    u = jax.random.normal(jax.random.key(1), (batch, 1200 if batch == 1 else 300, 20))
    weights, rest = eqx.partition(block, linoss.trainable(block))
    words = jnp.array([1, 2], jnp.uint32)
    intervals = 0.5 + jax.random.uniform(jax.random.key(3), u.shape[:2]) if both else None
    precision = "bfloat16" if batch == 3 else "float32"
    samples = linoss.nn.Samples(u, intervals=intervals, engine="native", precision=precision)
    train = lambda w, u: run_blocks((eqx.combine(w, rest),), u, samples, None, words[None])[0]
    out, pull_back = jax.vjp(train, weights, u)
    results[precision] += jax.tree.leaves(jax.device_get((out, pull_back(out))))
joined = {name: np.concatenate([np.ravel(x) for x in found]) for name, found in results.items()}
np.savez(sys.argv[2], **joined)
"""


@pytest.fixture(scope="module")
def results_of_a_process(tmp_path_factory):
    """Values and gradients of a block in both precisions, computed on so many cores by a process of
    its own."""

    def run(cores, **environment):
        file = tmp_path_factory.mktemp("process") / "results.npz"
        command = [sys.executable, "-c", PROGRAM, str(cores), str(file)]
        environment = {**os.environ, "JAX_ENABLE_X64": "0", **environment}
        subprocess.run(command, env=environment, capture_output=True, check=True)
        return dict(np.load(file))

    return run


@pytest.fixture(scope="module")
def results_on_two_cores(results_of_a_process):
    return results_of_a_process(2)


@pytest.mark.integration
@pytest.mark.parametrize("cores", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_any_number_of_threads_gives_the_same_bits(
    results_of_a_process, results_on_two_cores, cores
):
    """Each process has its own number of cores to run on."""
    found = results_of_a_process(cores)
    for precision, expected in results_on_two_cores.items():
        assert found[precision].tobytes() == expected.tobytes()


@pytest.mark.integration
@pytest.mark.parametrize("level", ["2", "3", pytest.param("4", marks=pytest.mark.slow)])
def test_lower_instruction_sets_compute_the_same(results_of_a_process, results_on_two_cores, level):
    """With channels that leave vectors of every width in part or wholly unused."""
    found, expected = results_of_a_process(2, LINOSS_NATIVE_LEVEL=level), results_on_two_cores
    np.testing.assert_allclose(found["float32"], expected["float32"], rtol=1e-3, atol=1e-3)
    apart = np.linalg.norm(found["bfloat16"] - expected["bfloat16"])
    assert apart < 1e-3 * np.linalg.norm(expected["bfloat16"])  # a rounding is 2^-8 at most


# ---- Stored products: as many as memory allows, with the same results to the bit ----

EVERY_PRODUCT = Kept.FORCES | Kept.OUTPUTS | Kept.GATES
SIZES = {"samples": 1000, "hidden": 100, "pairs": 200, "blocks": 3, "precision": "float32"}
OF_OUTPUTS, OF_FORCES, OF_GATES = 4 * 1000 * 112, 4 * 1000 * 208, 4 * 1000 * 224


@pytest.mark.parametrize(
    ("memory", "changes", "expected"),
    [
        (0, {}, [Kept.NONE] * 3),
        (OF_OUTPUTS - 1, {}, [Kept.NONE] * 3),
        (2 * OF_OUTPUTS, {}, [Kept.OUTPUTS, Kept.OUTPUTS, Kept.NONE]),
        (3 * OF_OUTPUTS + OF_FORCES, {}, [Kept.OUTPUTS | Kept.FORCES] + [Kept.OUTPUTS] * 2),
        (3 * (OF_OUTPUTS + OF_FORCES + OF_GATES), {}, [EVERY_PRODUCT] * 3),
        (10**12, {"hidden": 16}, [Kept.OUTPUTS] * 3),  # forces and gates save too little
        (10**12, {"hidden": 16, "pairs": 32}, [Kept.NONE] * 3),
        (10**12, {"precision": "bfloat16"}, [Kept.OUTPUTS] * 3),
    ],
)
def test_what_saves_most_is_kept_first(memory, changes, expected):
    assert kept_products(memory, **{**SIZES, **changes}) == expected


@pytest.mark.integration
def test_results_do_not_depend_on_memory():
    """With nothing, a part and everything kept, in blocks that have all products there are."""
    config = linoss.LinOSSConfig(
        in_size=3,
        out_size=2,
        hidden_size=72,
        state_size=50,
        num_blocks=2,
        bidirectional=True,
        feedthrough="dense",
    )
    model = linoss.LinOSS(config, key=jax.random.key(0))
    weights, rest = eqx.partition(model, linoss.trainable(model))
    u = jax.random.normal(jax.random.key(1), (3, 150, 3))

    def results(memory):
        def loss(weights):
            answers, norms = eqx.combine(weights, rest).training_pass(
                u, key=jax.random.key(2), engine="native", memory=memory
            )
            return jnp.sum(answers**2), norms

        found = jax.jit(jax.value_and_grad(loss, has_aux=True))(weights)
        return [np.asarray(leaf) for leaf in jax.tree.leaves(found)]

    nothing, *others = (results(memory) for memory in (0, 4 * 450 * (2 * 80 + 112), 10**9))
    for found in others:
        assert [x.tobytes() for x in found] == [x.tobytes() for x in nothing]


# ---- What the kernels do not cover or accept ----


@pytest.mark.parametrize("case", ["double precision", "a scheme without native formulas"])
def test_what_is_not_covered_runs_as_the_plain_block(new_block, monkeypatch, case):
    double = case == "double precision"
    block = new_block(4, 3, key=jax.random.key(0))
    u = jax.random.normal(jax.random.key(1), (2, 20, 4))
    intervals = None if double else jnp.full((2, 20), 0.5)
    if not double:
        schemes = linoss.dynamics.SCHEMES
        monkeypatch.setitem(schemes, "im", dataclasses.replace(schemes["im"], native=None))
    with jax.enable_x64(double):
        if double:
            block, u = in_double_precision((block, u))
        assert not runs_natively(block, u, varying=not double)
        found = block(u, intervals=intervals, engine="native")[0]
        expected = block(u, intervals=intervals, engine="sequential")[0]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "options", [{"norm": None, "bidirectional": True, "glu_bias": False}, {"mixer": "s5"}], ids=str
)
def test_a_model_in_single_precision_runs_when_jax_has_double(options):
    config = linoss.LinOSSConfig(
        in_size=2, out_size=2, hidden_size=4, state_size=4, num_blocks=2, **options
    )
    model = linoss.LinOSS(config, key=jax.random.key(0))
    u, key = jnp.ones((3, 20, 2)), jax.random.key(1)
    expected = model.training_pass(u, key=key, engine="native")[0]
    with jax.enable_x64(True):
        found = model.training_pass(u, key=key, engine="native")[0]
        assert found.dtype == jnp.float32
        np.testing.assert_array_equal(found, expected)


@pytest.mark.usefixtures("unchecked")
def test_a_wrong_array_of_a_stream_is_an_error_from_python():
    config = linoss.LinOSSConfig(in_size=2, out_size=3, hidden_size=4, state_size=3, num_blocks=1)
    model = linoss.LinOSS(config, key=jax.random.key(0))
    arrays, state = model.native(), jax.tree.leaves(model.init_state())
    stream = kernels.NativeStream(arrays, state)
    for size, error in ((2, None), (3, "wrong sample")):
        with contextlib.nullcontext() if error is None else pytest.raises(ValueError, match=error):
            stream.step(np.zeros(size, np.float32), None, True)
    leaves, structure = jax.tree.flatten(arrays)
    for i, leaf in enumerate(leaves):
        if not hasattr(leaf, "shape") or leaf.shape == (1, 1):  # intervals are not used
            continue
        for changed in (leaf[:-1], leaf[:0], leaf[None]):
            wrong = jax.tree.unflatten(structure, [*leaves[:i], changed, *leaves[i + 1 :]])
            with pytest.raises((ValueError, TypeError)):
                kernels.NativeStream(wrong, state)
