"""The native kernels against loops in NumPy, in float64: values and gradients."""

import contextlib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from drivers import Finding, load

import linoss

SCHEMES = ("im", "imex", "verlet", "exact")
SINGLE = float(np.finfo(np.float32).eps)


@contextlib.contextmanager
def driver():
    """Draw sizes, weights and data; compare the recurrence, or a whole model."""
    if "native" not in linoss.engines():
        raise SystemExit("the kernels were not built, see linoss doctor")
    with jax.enable_x64(False):
        yield lambda draw: (_scan if draw.shared.random() < 0.5 else _model)(draw)


def _numbers(draw):
    return np.random.default_rng(draw.getrandbits(64))


def _scan(draw):
    """`oscillator_scan` with all its gradients."""
    loops, shared = load("scan/conftest.py"), draw.shared
    batch, time = shared.choice([1, 2, 5]), shared.choice([1, 2, 7, 33, 130, 513])
    width, masked, reverse = shared.randint(1, 40), shared.random() < 0.3, shared.random() < 0.3
    random, scheme = _numbers(draw), draw.choice(SCHEMES)
    stiffness = random.uniform(0, 4, width) * 10.0 ** random.uniform(-4, 0, width)
    damping = None if scheme == "verlet" else random.uniform(0, 1, width) * (random.random() < 0.7)
    timestep = random.uniform(0.05, 0.9)
    step = linoss.discretize(scheme, jnp.asarray(stiffness, jnp.float32), timestep, damping)
    size = 10.0 ** random.uniform(-6, 6)
    force, start, d_positions, d_final = (
        np.asarray(random.normal(size=shape), np.float32)
        for shape in ((batch, time, width), (batch, width, 2)) * 2
    )
    force, start = np.float32(size) * force, np.float32(size) * start
    mask = random.random((batch, time)) < 0.8 if masked else None
    cotangents = (d_positions, d_final)
    (positions, final), d_step, d_force, d_start = loops.run_scan(
        step, force, start, mask, cotangents, engine="native", reverse=reverse, forward_mode=False
    )
    found = (positions, final, d_step.matrix, d_step.forcing, d_force, d_start)
    matrix, forcing = np.asarray(step.matrix), np.asarray(step.forcing)
    expected = _masked_reference(loops, matrix, forcing, force, start, cotangents, mask, reverse)
    tolerance = 50 * SINGLE * (4 + time)  # an undamped oscillator sums its rounding errors
    for name, one, other in zip(loops.Result._fields, found, expected, strict=True):
        _compare(f"scan, {scheme}, {name}", one, other, tolerance)
    return "scans"


def _masked_reference(loops, matrix, forcing, force, start, cotangents, mask, reverse):
    """The loop over the samples that are there, one series at a time."""
    flip = slice(None, None, -1) if reverse else slice(None)
    results = []
    for i in range(len(force)):
        there = np.ones(len(force[i]), bool) if mask is None else mask[i]
        here, d_here = force[i][there][flip], cotangents[0][i].astype(np.float64)
        places = np.flatnonzero(there)[flip]
        order = np.arange(len(there))[flip]
        # what is missing repeats the position before it: its cotangent belongs to that one
        last = np.searchsorted(np.argsort(order)[places], np.arange(len(order)), "right") - 1
        gathered, d_first = np.zeros((len(places), here.shape[1])), np.zeros(here.shape[1])
        for n, before in enumerate(last):
            if before >= 0:
                gathered[before] += d_here[order[n]]
            else:
                d_first += d_here[order[n]]
        d_final = cotangents[1][i]
        found = loops.run_reference(matrix, forcing, here, start[i], (gathered, d_final))
        positions, d_force = np.empty(force[i].shape), np.zeros(force[i].shape)
        for n, before in enumerate(last):
            positions[order[n]] = found.positions[before] if before >= 0 else start[i][:, 1]
        d_force[places] = found.d_force
        d_start = found.d_start + np.stack([np.zeros_like(d_first), d_first], axis=-1)
        results.append((positions, found.final, found.d_matrix, found.d_forcing, d_force, d_start))
    columns = [np.stack(column) for column in zip(*results, strict=True)]
    columns[2], columns[3] = columns[2].sum(0), columns[3].sum(0)
    return columns


def _model(draw):
    """A model in evaluation, and its slope in a drawn direction of all weights."""
    loops, shared = load("nn/conftest.py"), draw.shared
    settings = {
        "in_size": shared.randint(1, 3),
        "out_size": shared.randint(1, 4),
        "hidden_size": shared.choice([1, 3, 4, 8, 17]),
        "state_size": shared.choice([1, 2, 4, 9]),
        "num_blocks": shared.randint(1, 2),
        "scheme": shared.choice(SCHEMES[:3]),  # the loop of the exact one is very slow
        "norm": shared.choice(["layer", "batch", None]),
        "bidirectional": shared.random() < 0.2,
        "bias": shared.random() < 0.5,
        "glu_bias": shared.random() < 0.5,
    }
    batch, time = shared.choice([1, 3]), shared.choice([1, 5, 24])
    random = _numbers(draw)
    key = jax.random.key(draw.randrange(2**31))
    model = linoss.LinOSS(linoss.LinOSSConfig(**settings), key=key)
    stirred = tuple(loops._stirred(b.norm, draw.randrange(99)) for b in model.blocks)
    model = jax.tree.map(
        lambda x: x.astype(jnp.float32) if eqx.is_inexact_array(x) else x, model.with_norms(stirred)
    )
    u = np.asarray(random.normal(size=(batch, time, settings["in_size"])), np.float32)
    weight = np.asarray(random.normal(size=(batch, settings["out_size"])), np.float32)
    weights, rest = eqx.partition(model, linoss.trainable(model))
    answers, slopes = _with_slopes(weights, rest, u, weight)
    moved = jax.tree.map(
        lambda x: random.normal(size=x.shape) * max(np.abs(x).mean(), 1e-3), weights
    )
    wide = jax.tree.map(lambda x: np.asarray(x, np.float64), weights)

    def loop(shift):
        there = eqx.combine(jax.tree.map(lambda x, d: x + shift * d, wide, moved), rest)
        return np.stack([loops._model_loop(there, case.astype(np.float64)) for case in u])

    _compare(f"model, {settings}", answers, loop(0.0), 2e-3)
    distance = 1e-6
    expected = np.sum(weight * (loop(distance) - loop(-distance)) / (2 * distance))
    products = [
        np.asarray(slope, np.float64) * way
        for slope, way in zip(jax.tree.leaves(slopes), jax.tree.leaves(moved), strict=True)
    ]
    found = sum(part.sum() for part in products)
    size = sum(np.abs(part).sum() for part in products)
    if not abs(found - expected) <= 2e-3 * size + 1e-6:
        raise Finding(f"model, {settings}: a slope is {found}, expected {expected}")
    return "models"


@eqx.filter_jit
def _with_slopes(weights, rest, u, weight):
    def total(weights):
        answers = eqx.combine(weights, rest)(u, engine="native")
        return jnp.sum(weight * answers), answers

    (_, answers), slopes = eqx.filter_value_and_grad(total, has_aux=True)(weights)
    return answers, slopes


def _compare(what, found, expected, tolerance):
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    error, scale = np.abs(found - expected).max(), np.abs(expected).max()
    if found.shape != expected.shape or not error <= tolerance * scale + 1e-30:
        raise Finding(f"{what}: off by {error:.3g}, of {scale:.3g}")
