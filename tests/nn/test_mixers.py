"""Models to compare with: each against a loop in NumPy, piece by piece, and by every engine."""

import re
from typing import get_args, get_type_hints

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit

import linoss
from linoss.nn import MIXERS, Samples, trainable

T, H, M = 70, 5, 6
OTHERS = [name for name, kind in MIXERS.items() if name != "linoss" and not kind.follows]
OPTIONS = {"s5": {"state_blocks": 3}, "mamba": {"conv_size": 3, "expansion": 2}}


def make_layer(name, hidden=H):
    config = linoss.LinOSSConfig(
        in_size=2,
        out_size=3,
        hidden_size=hidden,
        mixer=name,
        **({"state_size": M} if "state_size" in MIXERS[name].settings else {}),
        **OPTIONS.get(name, {}),
    )
    layer = MIXERS[name].make(config, key=jax.random.key(3))
    noise = np.random.default_rng(5)  # no weight is at a special value
    return jax.tree.map(
        lambda x: x + 0.1 * noise.normal(size=x.shape) if eqx.is_inexact_array(x) else x, layer
    )


# ---- The definitions, a sample at a time ----


def held(L, h):
    return np.exp(L * h), (np.exp(L * h) - 1) / L


def lru(layer, u, h):
    modes, m = layer.modes, M
    a = np.exp(-np.exp(modes.nu) + 1j * np.exp(modes.theta))
    B = layer.input_weight[:m] + 1j * layer.input_weight[m:]
    C = layer.output_weight[:, :m] - 1j * layer.output_weight[:, m:]
    x, out = np.zeros(m, complex), []
    for n in range(len(u)):
        x = a * x + np.exp(modes.log_gain) * (B @ u[n])
        out.append((C @ x).real + layer.feedthrough * u[n])
    return np.array(out)


def s5(layer, u, h):
    modes, m = layer.modes, M // 2
    L = np.minimum(modes.real, -1e-4) + 1j * modes.imaginary
    B = layer.input_weight[:m] + 1j * layer.input_weight[m:]
    C = layer.output_weight[:, :m] - 1j * layer.output_weight[:, m:]
    x, out = np.zeros(m, complex), []
    for n in range(len(u)):
        a, g = held(L, np.exp(modes.log_timestep) * h[n])
        x = a * x + g * (B @ u[n])
        out.append(2 * (C @ x).real + layer.feedthrough * u[n])
    return np.array(out)


def s4(layer, u, h):
    """(I - h A / 2)^-1 with dense matrices of all modes and their conjugates."""
    modes, out = layer.modes, []
    pairs = [layer.output_weight, modes.low_rank, modes.input_weight]
    if modes.low_rank is None:  # S4D
        pairs[1:] = 0 * pairs[0], np.repeat([[1, 0]], M // 2, axis=1) + 0 * pairs[0]
    halves = [x[:, : M // 2] + 1j * x[:, M // 2 :] for x in pairs]
    halves.append(-np.exp(modes.log_decay) + 1j * np.asarray(modes.frequency))
    C, P, B, L = (np.concatenate([half, half.conj()], axis=1) for half in halves)
    x, eye = np.zeros((H, M), complex), np.eye(M)
    for n in range(len(u)):
        for i in range(H):
            A = (np.diag(L[i]) - np.outer(P[i], P[i].conj())) * np.exp(modes.log_timestep[i]) * h[n]
            forced = (eye + A / 2) @ x[i] + np.exp(modes.log_timestep[i]) * h[n] * B[i] * u[n, i]
            x[i] = np.linalg.solve(eye - A / 2, forced)
        out.append((C * x).sum(1).real + layer.feedthrough * u[n])
    return np.array(out)


def selective(system, u, h):
    modes = system.modes
    rank = modes.step_weight.shape[1]
    x, out = np.zeros(modes.log_decay.shape), []
    for n in range(len(u)):
        d, B, C = np.split(system.selection @ u[n], [rank, rank + M])
        delta = np.log1p(np.exp(modes.step_weight @ d + modes.step_bias)) * h[n]
        x = np.exp(-np.exp(modes.log_decay) * delta[:, None]) * x + np.outer(delta * u[n], B)
        out.append(x @ C + system.feedthrough * u[n])
    return np.array(out)


def mamba(layer, u, h):
    x, z = np.split(u @ layer.input_weight.T, 2, axis=1)
    size = len(layer.conv_weight)
    known = np.concatenate([np.zeros((size - 1, x.shape[1])), x])
    conv = np.array([(known[n : n + size] * layer.conv_weight).sum(0) for n in range(len(u))])
    conv = conv + layer.bias
    y = selective(layer.system, conv * expit(conv), h)
    return (y * z * expit(z)) @ layer.output_weight.T


def recurrent(layer, u, h):
    """The equations of an LSTM and of a GRU; torch and Equinox agree on them."""
    cell, state, out = layer.cell, np.zeros((2, H)), []
    for x in u:
        gates, kept = cell.weight_ih @ x + cell.bias, cell.weight_hh @ state[0]
        if len(gates) == 4 * H:
            i, f, g, o = np.split(gates + kept, 4)
            c = expit(f) * state[1] + expit(i) * np.tanh(g)
            state = np.stack([expit(o) * np.tanh(c), c])
        else:
            (r, z, g), (r_h, z_h, g_h) = np.split(gates, 3), np.split(kept, 3)
            new = np.tanh(g + expit(r + r_h) * (g_h + cell.bias_n))
            state = np.stack([new + expit(z + z_h) * (state[0] - new), state[1]])
        out.append(state[0])
    return np.array(out)


LOOPS = {
    "lru": lru, "s5": s5, "s4d": s4, "s4": s4, "mamba": mamba, "lstm": recurrent, "gru": recurrent,
    "s6": lambda layer, u, h: selective(layer.system, u, h),
}  # fmt: skip


def test_every_name_has_a_mixer():
    name, _ = get_args(get_type_hints(linoss.LinOSSConfig)["mixer"])
    assert tuple(MIXERS) == get_args(name)
    assert set(LOOPS) == set(OTHERS)


@pytest.mark.several
@pytest.mark.parametrize("name", OTHERS)
def test_a_layer_is_its_equations(name, draw, draw_intervals):
    """With samples missing, forwards and backwards, at irregular times where it has a meaning."""
    layer, u = make_layer(name), draw(2, T, H)
    mask = np.random.default_rng(1).random((2, T)) < 0.7
    h = draw_intervals(2, T) if MIXERS[name].irregular else None
    engine = "native" if "native" in linoss.engines() else "auto"
    samples = Samples(jnp.asarray(u), jnp.asarray(mask), None if h is None else jnp.asarray(h))
    samples = Samples(*jax.tree.leaves(samples), engine=engine)
    whole, _ = layer.mix(samples.values, samples, None, reverse=False)
    back, _ = layer.mix(samples.values, samples, None, reverse=True)
    for i in range(2):
        there = np.flatnonzero(mask[i])
        steps = np.ones(len(there)) if h is None else h[i, there]
        weights = jax.tree.map(np.asarray, layer)
        close(whole[i, there], LOOPS[name](weights, u[i, there], steps))
        backwards = LOOPS[name](weights, u[i, there[::-1]], np.roll(steps[::-1], 1))
        close(back[i, there[::-1]], backwards)


@pytest.mark.several
@pytest.mark.parametrize("name", OTHERS)
def test_time_passes_at_missing_samples_where_a_layer_has_a_step_without_input(name, draw):
    layer, u = make_layer(name), jnp.asarray(draw(2, T, H))
    mask, lengths = jnp.asarray(np.random.default_rng(1).random((2, T)) < 0.7), jnp.array([T, 9])
    samples = Samples(u, mask, None, lengths, gaps="move").joined()
    whole, _ = layer.mix(u, samples, None, reverse=False)
    back, _ = layer.mix(u, samples, None, reverse=True)
    weights = jax.tree.map(np.asarray, layer)
    for i, length in enumerate(lengths):
        there = np.flatnonzero(samples.mask[i])
        visited = np.arange(length) if name in ("lru", "s5", "s4d", "s4") else there
        at = np.searchsorted(visited, there)
        given = np.where(mask[i][:, None], u[i], 0)[visited]
        close(whole[i, there], LOOPS[name](weights, given, np.ones(len(given)))[at])
        close(back[i, there], LOOPS[name](weights, given[::-1], np.ones(len(given)))[::-1][at])


def test_the_system_of_s4_is_hippo():
    """Up to a change of basis: the same eigenvalues, and the same output for its own C."""
    layer, n = linoss.nn.S4Layer(1, M, key=jax.random.key(0)), np.arange(M)
    L, P, B = (np.concatenate([x[0], x[0].conj()]) for x in layer.modes.system)
    root = np.sqrt(2 * n + 1)
    A = -np.tril(np.outer(root, root), -1) - np.diag(n + 1)
    found = np.diag(L) - np.outer(P, P.conj())
    p = np.sqrt(n + 0.5)  # what does not depend on the basis
    for power in range(5):
        one, other = (np.linalg.matrix_power(X, power) for X in (found, A))
        np.testing.assert_allclose(np.trace(one), np.trace(other), rtol=1e-9)
        np.testing.assert_allclose(P.conj() @ one @ B, p @ other @ root, rtol=1e-9)


def close(found, expected, rtol=1e-9):
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-10)


@pytest.mark.several
@pytest.mark.parametrize("name", OTHERS)
def test_piece_by_piece_is_the_whole(name, draw, draw_intervals):
    layer, u = make_layer(name), jnp.asarray(draw(2, 12, H))
    mask = jnp.asarray(np.random.default_rng(2).random((2, 12)) < 0.7)
    h = jnp.asarray(draw_intervals(2, 12)) if MIXERS[name].irregular else None
    whole, end = layer.mix(u, Samples(u, mask, h, gaps="move").joined(), None, reverse=False)
    state, at = layer.init_state((2,)), 0
    for size in (1, 1, 5, 1, 4):
        here = slice(at, at + size)
        piece = Samples(u[:, here], mask[:, here], None if h is None else h[:, here], gaps="move")
        piece = piece.joined()
        found, state = layer.mix(u[:, here], piece, state, reverse=False)
        there = mask[:, here]  # elsewhere, nothing reads it
        close(found[there], whole[:, here][there])
        at += size
    for leaf, other in zip(*map(jax.tree.leaves, (state, end)), strict=True):
        close(leaf, other)


# ---- Kernels ----

native = pytest.mark.skipif("native" not in linoss.engines(), reason="kernels were not built")


@pytest.mark.parametrize("name", ["lru", "s5", "s4", "s4d"])
def test_gradients_are_those_of_the_recurrence(name, draw, draw_intervals):
    """Those of a scan in parallel, and of a convolution, which a given state does not have."""
    layer, u = make_layer(name), jnp.asarray(draw(3, T, H))
    mask = jnp.asarray(np.random.default_rng(1).random((3, T)) < 0.7)
    convolves = name in ("s4", "s4d")
    h = jnp.asarray(draw_intervals(3, T)) if name == "s5" else None
    weights, rest = eqx.partition(layer, eqx.is_inexact_array)

    def gradient(engine, state):
        samples = Samples(u, mask, h, engine=engine, gaps="stand" if convolves else "move").joined()

        def value(weights, u):
            out, end = eqx.combine(weights, rest).mix(u, samples, state, reverse=True)
            of_state = 0 if convolves else sum(jnp.sum(x**2) for x in jax.tree.leaves(end))
            return jnp.sum(jnp.where(mask[..., None], jnp.sin(out), 0)) + of_state

        return jax.tree.leaves(jax.jit(jax.grad(value, argnums=(0, 1)))(weights, u))

    loop = ("auto", layer.init_state((3,))) if convolves else ("sequential", None)
    found = gradient("auto" if convolves else "associative", None)
    for one, other in zip(found, gradient(*loop), strict=True):
        close(one, other, 1e-7)


@pytest.mark.integration
@native
@pytest.mark.usefixtures("single_precision")
def test_a_native_pass_after_the_mixer_is_the_plain_block(make_model, draw):
    """Norm, mixers in both directions, GELU, GLU and dropout, with samples missing."""
    model = make_model(mixer="s6", norm="batch", dropout=0.3, bidirectional=True)
    model = jax.tree.map(lambda x: x.astype(jnp.float32) if eqx.is_inexact_array(x) else x, model)
    u = draw(3, T, 2).astype(np.float32)
    lengths = np.array([T, 3, 66])
    weights, rest = eqx.partition(model, trainable(model))

    def value(weights, engine):
        model = eqx.combine(weights, rest)
        options = {"lengths": lengths, "engine": engine}
        answers, norms = model.training_pass(u, key=jax.random.key(1), **options)
        return jnp.sum(jnp.sin(answers)), (answers, norms)

    gradient = jax.jit(jax.value_and_grad(value, has_aux=True), static_argnums=1)
    found, expected = (gradient(weights, engine) for engine in ("native", "sequential"))
    for leaf, other in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
        np.testing.assert_allclose(leaf, other, rtol=2e-4, atol=2e-5)


@pytest.mark.integration
def test_time_split_over_devices(draw):
    """States of diagonal layers go from shard to shard; the others say that theirs do not."""
    mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(2, 4), ("batch", "time"))
    sizes = {"in_size": 3, "out_size": 2, "hidden_size": 4, "state_size": 4, "num_blocks": 1}
    u = draw(2, 24, 3)
    config = linoss.LinOSSConfig(**sizes, mixer="s5", bidirectional=True)
    model = linoss.LinOSS(config, key=jax.random.key(0))
    options = {"lengths": np.array([24, 10])}
    close(model(u, mesh=mesh, **options), model(u, **options), 1e-7)
    model = linoss.LinOSS(linoss.LinOSSConfig(**sizes, mixer="s6"), key=jax.random.key(0))
    with pytest.raises(
        ValueError, match="time is split over devices, which mixer 's6' does not support"
    ):
        model(u, mesh=mesh)


# ---- Settings ----


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"mixer": "lru", "scheme": "imex"},
            "scheme is 'imex', but mixer 'lru' has no such setting; its own: state_size",
        ),
        ({"mixer": "s5", "state_size": 7}, "state_size is 7, expected a multiple of 2"),
        (
            {"mixer": "s5", "state_size": 6, "state_blocks": 2},
            "expected a multiple of 4: mixer 's5' has pairs of states, in state_blocks = 2 equal",
        ),
        ({"mixer": "s4d", "state_size": 7}, "expected a multiple of 2: mixer 's4d' has pairs"),
        ({"mixer": "s7"}, "mixer is 's7', expected one of 'linoss', 'lru', 's5'"),
    ],
)
def test_settings_of_other_mixers_are_refused(settings, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        linoss.LinOSSConfig(in_size=2, out_size=3, **settings)


@pytest.mark.several
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", [name for name in OTHERS if not MIXERS[name].irregular])
def test_models_without_time_refuse_irregular_times(make_model, draw, name):
    model = make_model(mixer=name, state_size=4 if MIXERS[name].settings else 64)
    with pytest.raises(ValueError, match=f"mixer '{name}' does not support irregular times"):
        model(draw(2, 5, 2), intervals=np.ones((2, 5)))
