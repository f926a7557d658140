"""The paper's equations as NumPy loops over time, and small models to compare with them."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from scipy.special import erf, expit

from linoss import Block, LinOSS, LinOSSConfig, LinOSSLayer


def _oscillator_loop(scheme, A, G, h, b):
    """Positions of y'' = -A y - G y' + b from rest; `h` and `b` are (time, m)."""
    y = z = np.zeros_like(b[0])
    ahead = [*b[1:], np.zeros_like(b[0])]
    positions = []
    for h_n, b_n, b_next in zip(h, b, ahead, strict=True):
        if scheme == "im":
            rows = [[1 + h_n * G, h_n * A], [-h_n, np.ones_like(A)]]
            sides = np.stack([z + h_n * b_n, y], axis=-1)[..., None]
            z, y = np.linalg.solve(np.moveaxis(np.array(rows), -1, 0), sides)[..., 0].T
        elif scheme == "imex":
            z = (z + h_n * (-A * y + b_n)) / (1 + h_n * G)
            y = y + h_n * z
        elif scheme == "verlet":
            before = y
            y = y + h_n * z + h_n**2 / 2 * (-A * y + b_n)
            z = z + h_n / 2 * (-A * y + b_next - A * before + b_n)
        else:
            flows = [
                scipy.linalg.expm(step * np.array([[-g, -a, 1], [1, 0, 0], [0, 0, 0]]))
                for a, g, step in zip(A, G, h_n, strict=True)
            ]
            z, y, _ = np.einsum("mij,jm->im", flows, np.stack([z, y, b_n]))
        positions.append(y)
    return np.stack(positions)


def _layer_loop(layer, u, intervals=None, there=True):
    """x = Re(C y) + D u for one series, with complex numbers where B and C are complex; without
    force where a sample is not there."""
    bank, m = layer.oscillators, layer.oscillators.state_size
    raw = np.asarray(bank.raw_stiffness)
    G = np.zeros(m) if bank.raw_damping is None else np.maximum(bank.raw_damping, 0)
    dt = bank.fixed_timestep if bank.raw_timestep is None else expit(np.asarray(bank.raw_timestep))
    A = np.maximum(raw, 0) if bank.parameterization == "relu" else raw**2
    A = A + ((np.sqrt(1 + dt * G) - 1) ** 2 / dt**2 if bank.scheme == "imex" else G**2 / 4)
    h = np.ones((len(u), m)) * dt if intervals is None else intervals[:, None] * dt * np.ones(m)
    weight = np.ones_like(h)
    if intervals is not None and bank.scheme in ("imex", "verlet"):
        whole, h = h, np.minimum(h, 1 / np.sqrt(A))
    if intervals is not None and bank.scheme == "verlet":  # kicks are shared as by whole intervals
        before, cut_before = (np.concatenate([0 * x[:1], x[:-1]]) for x in (whole, h))
        weight = (before + whole) / whole * h / (cut_before + h)
    B, C = np.asarray(layer.input_weight), np.asarray(layer.output_weight)
    bias = np.zeros(len(B)) if layer.bias is None else np.asarray(layer.bias)
    if len(B) == 2 * m:
        B, bias = B[:m] + 1j * B[m:], bias[:m] + 1j * bias[m:]
        C = C[:, :m] - 1j * C[:, m:]
    there = np.broadcast_to(there, len(u))[:, None]
    y = _oscillator_loop(bank.scheme, A, G, h, there * weight * (u @ B.T + bias))
    x = (y @ C.T).real
    if layer.feedthrough is None:
        return x
    D = np.asarray(layer.feedthrough)
    return x + (D * u if D.ndim == 1 else u @ D.T)


def _norm_loop(norm, u):
    if not jax.tree.leaves(norm):
        return u
    if hasattr(norm, "scale"):
        centred = u - u.mean(-1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
        return np.asarray(norm.scale) * centred / deviation + np.asarray(norm.shift)
    return (u - np.asarray(norm.mean)) / np.sqrt(np.asarray(norm.variance) + 1e-5)


def _same(x):
    return x


def _block_loop(block, u, intervals=None, *, there=True, norm=None, drop=(_same, _same)):
    """u + GLU(GELU(layer(norm(u)))), with the second layer on the reversed sequence."""
    x = _norm_loop(block.norm, u) if norm is None else norm(u)
    there = np.broadcast_to(there, len(u))
    y = _layer_loop(block.mixer, x, intervals, there)
    if block.backward_mixer is not None:
        between = None if intervals is None else np.roll(intervals[::-1], 1)
        y = y + _layer_loop(block.backward_mixer, x[::-1], between, there[::-1])[::-1]
    bent = np.tanh(np.sqrt(2 / np.pi) * (y + 0.044715 * y**3))
    gelu = drop[0](y * (1 + (bent if block.gelu == "tanh" else erf(y / np.sqrt(2)))) / 2)
    W1, W2 = np.split(np.asarray(block.glu.weight), 2)
    b1, b2 = (0, 0) if block.glu.bias is None else np.split(np.asarray(block.glu.bias), 2)
    return u + drop[1](expit(gelu @ W1.T + b1) * (gelu @ W2.T + b2))


def _model_loop(model, u, intervals=None, future=None, there=True, ahead=None):
    """Algorithm 1 for one series, and what the head makes of it; oscillators move on without force
    where a sample is not there."""
    config, decoder = model.config, model.head.decoder
    there = np.broadcast_to(there, len(u))
    u = np.where(there[:, None], u, 0)
    if config.task == "forecasting":
        future = np.zeros((config.horizon, u.shape[1])) if future is None else future
        u, there = np.concatenate([u, future]), np.append(there, [True] * config.horizon)
        if intervals is not None:
            ahead = np.ones(config.horizon) if ahead is None else ahead
            intervals = np.concatenate([intervals, ahead])
    hidden = u @ np.asarray(model.encoder.weight).T + np.asarray(model.encoder.bias)
    for block in model.blocks:
        hidden = _block_loop(block, hidden, intervals, there=there)
    if config.task == "forecasting":
        hidden = hidden[-config.horizon :]
    elif config.every is not None:
        counted = np.arange(1, len(u) + 1)
        hidden = hidden[counted % config.every == 0]
    else:
        hidden = np.concatenate(
            [_POOLINGS[way](hidden[there]) for way in config.pooling.split("+")]
        )
    answers = hidden @ np.asarray(decoder.weight).T + np.asarray(decoder.bias)
    return np.tanh(answers) if config.squash else answers


_POOLINGS = {
    "mean": lambda hidden: hidden.mean(0),
    "last": lambda hidden: hidden[-1],
    "max": lambda hidden: hidden.max(0),
}


def _stirred(norm, seed):
    """The norm with numbers in it that matter."""
    generator = np.random.default_rng(seed)
    if not jax.tree.leaves(norm):
        return norm
    size = len(jax.tree.leaves(norm)[0])
    middle, width = (
        jnp.array(generator.normal(size=size)),
        jnp.array(generator.uniform(0.5, 2, size)),
    )
    if hasattr(norm, "scale"):
        return eqx.tree_at(lambda n: (n.shift, n.scale), norm, (middle, width))
    values = (middle, width, jnp.array(False))
    return eqx.tree_at(lambda n: (n.mean, n.variance, n.fresh), norm, values)


def _new_block(hidden_size, state_size, *, bidirectional=False, key, **options):
    """A block of LinOSS layers; options are those of block and layer."""
    names = ("norm", "dropout", "shared_dropout", "gelu", "glu_bias")
    own = {name: options.pop(name) for name in names if name in options}
    keys = jax.random.split(key, 3)
    if bidirectional:
        backward = {**options, "feedthrough": "none"}
        own["backward_mixer"] = LinOSSLayer(hidden_size, state_size, key=keys[2], **backward)
    return Block(LinOSSLayer(hidden_size, state_size, key=keys[0], **options), key=keys[1], **own)


def _make_model(preset=LinOSSConfig, *, seed=0, **changes):
    """A tiny model of a block whose norm has seen data; the same one for the same settings."""
    return _build_model(preset, seed, jnp.zeros(()).dtype, tuple(sorted(changes.items())))


@functools.cache
def _build_model(preset, seed, _precision, changes):
    sizes = {"in_size": 2, "out_size": 3, "hidden_size": 4, "state_size": 3, "num_blocks": 1}
    model = LinOSS(preset(**{**sizes, **dict(changes)}), key=jax.random.key(seed))
    return model.with_norms(tuple(_stirred(b.norm, i) for i, b in enumerate(model.blocks)))


def _draw(*shape, seed=0):
    """Normal numbers."""
    return np.random.default_rng(seed).normal(size=shape)


def _draw_intervals(*shape, seed=1):
    """Between samples, around 1."""
    return np.random.default_rng(seed).uniform(0.3, 1.5, size=shape)


def _given(function):
    """A fixture that is the function itself."""
    return pytest.fixture(lambda: function, scope="session")


layer_loop, block_loop, model_loop = map(_given, (_layer_loop, _block_loop, _model_loop))
new_block, make_model, stirred = map(_given, (_new_block, _make_model, _stirred))
draw, draw_intervals = map(_given, (_draw, _draw_intervals))
