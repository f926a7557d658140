"""The native block is the plain block: values, states, statistics and gradients, with dropout."""

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
from linoss.nn import Samples
from linoss.nn._dropout import dropout
from linoss.nn._fused import encode, fused_block

pytestmark = [
    pytest.mark.skipif("native" not in linoss.engines(), reason="the kernels were not built"),
    pytest.mark.usefixtures("single_precision"),
]


def run(block, engine, u, words, mask, state, weights_of_loss):
    """All that a block gives in one engine: training, evaluation, gradients."""
    weights, rest = eqx.partition(block, linoss.trainable(block))
    samples = Samples(u, mask, engine=engine)

    def loss(weights, u):
        block = eqx.combine(weights, rest)
        trained, _, _ = block.run(u, samples, None, words)
        evaluated, final = block(u, state=state, mask=mask, engine=engine)
        on_state = jnp.sum(jnp.sin(final.oscillators))
        return jnp.sum(trained * weights_of_loss) + jnp.mean(evaluated**2) + on_state

    trained, _, norm = block.run(u, samples, None, words)
    evaluated, final = block(u, state=state, mask=mask, engine=engine)
    gradients = jax.grad(loss, argnums=(0, 1))(weights, u)
    return trained, norm, evaluated, final, gradients


def compare(block, batch, time, *, masked=False):
    keys = jax.random.split(jax.random.key(1), 5)
    hidden, pairs = block.glu.weight.shape[1], block.mixer.input_weight.shape[0]
    u = jax.random.normal(keys[0], (batch, time, hidden))
    mask = jax.random.bernoulli(keys[1], 0.8, (batch, time)) if masked else None
    state = block.mixer.init_state((batch,))
    state = eqx.tree_at(
        lambda s: s.oscillators, state, jax.random.normal(keys[2], (batch, pairs, 2))
    )
    words = jax.random.bits(keys[3], (2,), jnp.uint32)
    weights_of_loss = jax.random.normal(keys[4], u.shape)
    assert block.is_fused(u, Samples(u, engine="native"))
    plain, native = (
        eqx.filter_jit(run)(block, engine, u, words, mask, state, weights_of_loss)
        for engine in ("sequential", "native")
    )
    for path, expected in jax.tree_util.tree_leaves_with_path(plain):
        found = dict(jax.tree_util.tree_leaves_with_path(native))[path]
        size = np.max(np.abs(expected), initial=1e-6)
        np.testing.assert_allclose(
            found, expected, rtol=0, atol=3e-5 * size, err_msg=jax.tree_util.keystr(path)
        )


BATCH_NORM = {"norm": "batch", "glu_bias": False, "bias": True}
EXACT = {"scheme": "exact", "damped": True, "feedthrough": "none"}


@pytest.mark.parametrize(
    ("options", "masked"),
    [
        pytest.param({}, False, marks=pytest.mark.integration),
        ({}, True),
        pytest.param(BATCH_NORM, False, marks=pytest.mark.integration),
        (BATCH_NORM, True),
        ({"norm": None, "dropout": 0.0}, True),
        ({"scheme": "imex", "damped": True, "complex_projections": False}, False),
        pytest.param(EXACT, True, marks=pytest.mark.integration),
    ],
    ids=str,
)
def test_equals_the_plain_block(new_block, options, masked):
    block = new_block(12, 10, timestep="learned", key=jax.random.key(0), **options)
    compare(block, batch=3, time=150, masked=masked)


@pytest.mark.integration
@settings(max_examples=settings.default.max_examples // 10)
@given(
    hidden=st.integers(1, 300),
    state=st.integers(1, 150),
    batch=st.integers(1, 3),
    time=st.integers(1, 200),
)
@example(hidden=1, state=1, batch=1, time=1)
@example(hidden=17, state=33, batch=1, time=65)
@example(hidden=300, state=2, batch=1, time=63)
@example(hidden=3, state=2, batch=20, time=5)
def test_drawn_sizes(new_block, hidden, state, batch, time):
    with jax.enable_x64(False):
        block = new_block(hidden, state, timestep="learned", key=jax.random.key(0))
        compare(block, batch, time)


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


HEADS = [{}, {"pooling": "last"}, {"task": "regression", "every": 10}]
# Every pair of norm, padding and head occurs; three of them are tested daily.
MODELS = [
    pytest.param(norm, (i + j) % 2 == 1, head, marks=[pytest.mark.integration] * (j != (i + 1) % 3))
    for i, norm in enumerate(["running", "batch", None])
    for j, head in enumerate(HEADS)
]


@pytest.mark.parametrize(("norm", "padded", "head"), MODELS)
def test_equals_the_plain_model(norm, padded, head):
    """Encoder, several blocks whose norms use each other's moments, and every head."""
    config = linoss.LinOSSConfig(
        in_size=5, out_size=2, hidden_size=12, state_size=6, num_blocks=3, norm=norm, **head
    )
    model = linoss.LinOSS(config, key=jax.random.key(0))
    u = jax.random.normal(jax.random.key(1), (4, 150, 5))
    lengths = jnp.array([150, 1, 64, 97]) if padded else None
    labels = jax.random.normal(jax.random.key(2), model(u).shape)
    plain, native = (
        eqx.filter_jit(gradients_of_model)(model, engine, u, lengths, labels)
        for engine in ("sequential", "native")
    )
    found = dict(jax.tree_util.tree_leaves_with_path(native))
    for path, expected in jax.tree_util.tree_leaves_with_path(plain):
        size = np.max(np.abs(expected), initial=1e-4)
        np.testing.assert_allclose(
            found[path], expected, rtol=0, atol=1e-4 * size, err_msg=jax.tree_util.keystr(path)
        )


@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize("masked", [False, True])
def test_moments_are_those_of_double_precision(offset, masked):
    """Far from zero, where sums of squares would lose the variance."""
    u = jax.random.normal(jax.random.key(0), (5000, 3))
    mask = jax.random.bernoulli(jax.random.key(1), 0.5, (5000,)) if masked else jnp.zeros(0)
    weight, bias = jnp.eye(20, 3), jnp.full(20, offset)
    out, moments = encode(u, weight, bias, mask.astype(jnp.uint8))
    samples = np.asarray(out, np.float64)[np.asarray(mask)] if masked else np.float64(out)
    np.testing.assert_allclose(moments[0], samples.mean(0), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(moments[1], samples.var(0), rtol=1e-5, atol=1e-6)


def words_with(bits):
    """Two words by which position 0 has these bits: the generator's rounds, undone."""
    second, x = 0x12345678, bits
    x ^= x >> 16
    x = x * pow(0x846CA68B, -1, 2**32) % 2**32
    x ^= x >> 15 ^ x >> 30
    x = (x - second) % 2**32
    x = x * pow(0x7FEB352D, -1, 2**32) % 2**32
    return jnp.array([x ^ x >> 16, second], jnp.uint32)


@pytest.mark.parametrize(
    "rate", [1e-9, 0.05, 0.1, 1 / 3, 0.5, 0.7, 0.999, float(np.nextafter(1, 0))]
)
def test_dropout_has_the_mask_of_the_plain_block(rate):
    """With bits next to the rate, so that a threshold that is off by one would show."""
    threshold = min(round(rate * 2**32), 2**32 - 1)
    x = jnp.ones((1, 1, 1))
    weights = {"mean": jnp.zeros(1), "scale": jnp.ones(1), "feedthrough": jnp.ones(1)}
    for bits in {max(threshold - 1, 0), threshold, min(threshold + 1, 2**32 - 1)}:
        words, kept = words_with(bits), words_with(2**32 - 1)
        for both in ((words, kept), (kept, words)):
            out, *_ = fused_block(
                rate,
                x,
                **weights,
                input_weight=jnp.zeros((1, 1)),
                bias=jnp.zeros(1),
                step=jnp.zeros((6, 1)),
                output_weight=jnp.zeros((1, 1)),
                glu_weight=jnp.array([[0.0], [1.0]]),
                glu_bias=jnp.array([100.0, 0.0]),
                words=jnp.concatenate([*both, jnp.array([0, 1], jnp.uint32)]),
                mask=jnp.zeros((0, 0), jnp.uint8),
                start=jnp.zeros((1, 1, 2)),
            )
            assert (out != x).item() == (bits >= threshold)
        assert (dropout(x, rate, words) != 0).item() == (bits >= threshold)


def test_an_empty_batch(new_block):
    block = new_block(4, 3, key=jax.random.key(0))
    output, state = block(jnp.zeros((0, 10, 4)), engine="native")
    assert output.shape == (0, 10, 4)
    assert state.oscillators.shape == (0, 6, 2)


def test_activations_have_the_stated_error(new_block):
    """With C = 0, D = 1 and a GLU that passes on (or opens by) its input, the block is GELU."""
    block = new_block(1, 1, norm=None, key=jax.random.key(0))
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
    gelu = wide * 0.5 * (1 + erf(wide / np.sqrt(2)))
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
layer = linoss.LinOSSLayer(20, 9, key=jax.random.key(0))
block = linoss.Block(layer, norm=None, key=jax.random.key(1))
u = jax.random.normal(jax.random.key(1), (19, 300, 20))
weights, rest = eqx.partition(block, linoss.trainable(block))
words = jnp.array([1, 2], jnp.uint32)
samples = linoss.nn.Samples(u, engine="native")
train = lambda w, u: eqx.combine(w, rest).run(u, samples, None, words)[0]
out, pull_back = jax.vjp(train, weights, u)
results = jax.device_get((out, pull_back(out)))
np.save(sys.argv[2], np.concatenate([np.ravel(x) for x in jax.tree.leaves(results)]))
"""


def results_of_a_process(folder, cores, **environment):
    """Values and gradients of a block, computed on so many cores."""
    environment = {**os.environ, "JAX_ENABLE_X64": "0", **environment}
    file = folder / "results.npy"
    command = [sys.executable, "-c", PROGRAM, str(cores), str(file)]
    subprocess.run(command, env=environment, capture_output=True, check=True)
    return np.load(file)


@pytest.mark.integration
def test_any_number_of_threads_gives_the_same_bits(tmp_path):
    """Each process has its own number of cores to run on."""
    expected, *others = (results_of_a_process(tmp_path, cores) for cores in (1, 2, 2))
    assert all(found.tobytes() == expected.tobytes() for found in others)


@pytest.mark.integration
@pytest.mark.parametrize("level", ["2", "3"])
def test_lower_instruction_sets_compute_the_same(tmp_path, level):
    """With channels that leave vectors of every width in part or wholly unused."""
    expected = results_of_a_process(tmp_path, 2)
    found = results_of_a_process(tmp_path, 2, LINOSS_NATIVE_LEVEL=level)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    "case",
    ["double precision", "layer norm", "verlet", "intervals", "bidirectional", "dense"],
)
def test_what_is_not_covered_runs_as_the_plain_block(new_block, case):
    options = {
        "layer norm": {"norm": "layer"},
        "verlet": {"scheme": "verlet"},
        "bidirectional": {"bidirectional": True},
        "dense": {"feedthrough": "dense"},
    }.get(case, {})
    block = new_block(4, 3, key=jax.random.key(0), **options)
    u = jax.random.normal(jax.random.key(1), (2, 20, 4))
    intervals = jnp.ones((2, 20)) if case == "intervals" else None
    with jax.enable_x64(case == "double precision"):
        if case == "double precision":
            block, u = jax.tree.map(
                lambda x: x.astype(jnp.float64) if eqx.is_inexact_array(x) else x, (block, u)
            )
        assert not block.is_fused(u, Samples(u, intervals=intervals, engine="native"))
        found = block(u, intervals=intervals, engine="native")[0]
        expected = block(u, intervals=intervals, engine="sequential")[0]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("unchecked")
def test_a_wrong_buffer_is_an_error_from_python(new_block):
    block = new_block(4, 3, key=jax.random.key(0))
    good = [
        jnp.zeros((2, 5, 4)),
        jnp.zeros(4),
        jnp.ones(4),
        block.mixer.input_weight,
        jnp.zeros(6),
        jnp.zeros((6, 6)),
        block.mixer.output_weight,
        jnp.zeros(4),
        block.glu.weight,
        block.glu.bias,
        jnp.zeros(6, jnp.uint32),
        jnp.zeros((0, 0), jnp.uint8),
        jnp.zeros((2, 6, 2)),
    ]
    fused_block(0.0, *good)
    for i, argument in enumerate(good):
        for wrong in (jnp.zeros((7, 7, 7, 7), argument.dtype), argument.astype(jnp.int32)):
            if i == 0 and wrong.ndim == 4:
                continue  # of another rank, before a kernel is asked
            with pytest.raises(Exception, match=r"wrong shape|type|dtype|Wrong"):
                jax.block_until_ready(fused_block(0.0, *good[:i], wrong, *good[i + 1 :]))


@pytest.mark.usefixtures("unchecked")
def test_a_wrong_buffer_of_the_encoder_is_an_error_from_python():
    good = [jnp.zeros((9, 4)), jnp.zeros((3, 4)), jnp.zeros(3), jnp.zeros(9, jnp.uint8)]
    encode(*good)
    for i, argument in enumerate(good):
        for wrong in (jnp.zeros((7, 7, 7, 7), argument.dtype), argument.astype(jnp.int32)):
            with pytest.raises(Exception, match=r"wrong shape|type|dtype|Wrong"):
                jax.block_until_ready(encode(*good[:i], wrong, *good[i + 1 :]))
