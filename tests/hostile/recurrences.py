"""The kernels of recurrences against loops in NumPy, in float64: scan, diagonal and selective."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from drivers import compare, load, numbers

import linoss
from linoss.scan import diagonal_scan, selective_scan

SCHEMES = ("im", "imex", "verlet", "exact")
TIMES = (1, 2, 7, 33, 64, 65, 130, 513)


def scans(draw):
    """`oscillator_scan` with all its gradients: constant and varying steps, both precisions."""
    loops, shared = load("scan/conftest.py"), draw.shared
    batch, time, width = shared.choice([1, 2, 5]), shared.choice(TIMES), shared.randint(1, 40)
    masked, reverse, varying, double = (shared.random() < 0.3 for _ in range(4))
    random, scheme = numbers(draw), draw.choice(SCHEMES[:2] if varying else SCHEMES)
    kind, epsilon = _precision(double)
    stiffness = random.uniform(0, 4, width) * 10.0 ** random.uniform(-4, 0, width)
    damping = None if scheme == "verlet" else random.uniform(0, 1, width) * (random.random() < 0.7)
    timestep = random.uniform(0.05, 0.9, (batch, time, 1) if varying else ())
    size = 10.0 ** random.uniform(-6, 6)
    force, start, d_positions, d_final = (
        np.asarray(random.normal(size=shape), kind)
        for shape in ((batch, time, width), (batch, width, 2)) * 2
    )
    force, start = kind(size) * force, kind(size) * start
    mask = random.random((batch, time)) < 0.8 if masked else None
    cotangents = (d_positions, d_final)
    with jax.enable_x64(double):
        step = linoss.discretize(
            scheme, jnp.asarray(stiffness, kind), jnp.asarray(timestep, kind), damping
        )
        (positions, final), d_step, d_force, d_start = loops.run_scan(
            *(step, force, start, mask, cotangents),
            **{"engine": "native", "reverse": reverse, "forward_mode": False},
        )
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda x: jnp.asarray(x, np.float64), step)
        steps, pull_back = jax.vjp(lambda step: (step.matrix, step.forcing), wide)
    given = (force, start, cotangents, mask, reverse)
    expected = _masked_reference(loops, *map(np.asarray, steps), *given)
    with jax.enable_x64(True):
        expected[2:4] = jax.tree.leaves(pull_back(tuple(map(jnp.asarray, expected[2:4]))))
    found = [positions, final, *jax.tree.leaves(d_step), d_force, d_start]
    tolerance = 50 * epsilon * (4 + time)  # an undamped oscillator sums its rounding errors
    for i, (one, other) in enumerate(zip(found, expected, strict=True)):
        compare(f"scan, {scheme}, varying={varying}, result {i}", one, other, tolerance)
    return "scans"


def _precision(double):
    kind = np.float64 if double else np.float32
    return kind, float(np.finfo(kind).eps)


def _masked_reference(loops, matrix, forcing, force, start, cotangents, mask, reverse):
    """The loop over the samples that are there, one series at a time."""
    flip = slice(None, None, -1) if reverse else slice(None)
    varying, results = matrix.ndim > 3, []
    for i in range(len(force)):
        there = np.ones(len(force[i]), bool) if mask is None else mask[i]
        here, d_here = force[i][there][flip], cotangents[0][i].astype(np.float64)
        steps = (x[i][there][flip] if varying else x for x in (matrix, forcing))
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
        found = loops.run_reference(*steps, here, start[i], (gathered, cotangents[1][i]))
        positions = np.empty(force[i].shape)
        for n, before in enumerate(last):
            positions[order[n]] = found.positions[before] if before >= 0 else start[i][:, 1]
        slopes = [found.d_matrix, found.d_forcing, found.d_force]
        for k in range(0 if varying else 2, 3):
            slopes[k], by_sample = np.zeros((len(there), *slopes[k].shape[1:])), slopes[k]
            slopes[k][places] = by_sample
        d_start = found.d_start + np.stack([np.zeros_like(d_first), d_first], axis=-1)
        results.append((positions, found.final, *slopes, d_start))
    columns = [np.stack(column) for column in zip(*results, strict=True)]
    if not varying:
        columns[2], columns[3] = columns[2].sum(0), columns[3].sum(0)
    return columns


@partial(jax.jit, static_argnames=("function", "static"))
def _with_gradients(function, arguments, cotangents, *, static=(), **options):
    run = partial(function, engine="native", **dict(static), **options)
    outputs, pull_back = jax.vjp(run, *arguments)
    return *outputs, *pull_back(cotangents)


def diagonals(draw):
    """`diagonal_scan` with all its gradients: constant and varying factors, both precisions."""
    shared, random = draw.shared, numbers(draw)
    batch, time, modes = shared.choice([1, 2, 5]), shared.choice(TIMES), shared.randint(1, 40)
    masked, reverse, varying, double = (shared.random() < 0.3 for _ in range(4))
    kind, epsilon = _precision(double)
    shape = (batch, time, modes) if varying else (modes,)
    decay = 10.0 ** random.uniform(-6, 1, shape)
    factor = np.exp(-decay + 1j * random.uniform(-np.pi, np.pi, shape))
    size = 10.0 ** random.uniform(-6, 6)
    sequence, state = (batch, time, 2 * modes), (batch, 2 * modes)
    force, start = (size * random.normal(size=x) for x in (sequence, state))
    drawn = (np.concatenate([factor.real, factor.imag], -1), force, start)
    arguments = tuple(np.asarray(x, kind) for x in drawn)
    cotangents = tuple(np.asarray(random.normal(size=x), kind) for x in (sequence, state))
    mask = random.random((batch, time)) < 0.8 if masked else np.ones((batch, time), bool)
    with jax.enable_x64(double):
        options = {"mask": mask if masked else None, "static": (("reverse", reverse),)}
        found = _with_gradients(diagonal_scan, arguments, cotangents, **options)
    expected = _diagonal_loop(arguments, mask, cotangents, reverse)
    names = ("states", "final", "d_factor", "d_force", "d_start")
    for name, one, other in zip(names, found, expected, strict=True):
        compare(f"diagonal, {name}", one, other, 50 * epsilon * (4 + time))
    return "diagonals"


def _diagonal_loop(arguments, mask, cotangents, reverse):
    """States, the last one, and gradients; g stands for dL/dRe + i dL/dIm."""
    wide = (x.astype(np.float64) for x in (*arguments, *cotangents))
    a, f, start, g_states, g_last = (x[..., : x.shape[-1] // 2] + 1j * x[..., x.shape[-1] // 2 :]
                                     for x in wide)  # fmt: skip
    factors, order = np.broadcast_to(a, f.shape), range(f.shape[1])[:: -1 if reverse else 1]
    states, g_f, g_a = np.zeros_like(f), np.zeros_like(f), np.zeros_like(f)
    before, x = np.zeros_like(f), start
    for n in order:
        before[:, n], there = x, mask[:, n, None]
        x = states[:, n] = np.where(there, factors[:, n] * x + f[:, n], x)
    g = g_last.copy()
    for n in reversed(order):
        g, there = g + g_states[:, n], mask[:, n, None]
        g_f[:, n] = np.where(there, g, 0)
        g_a[:, n] = np.where(there, before[:, n].conj() * g, 0)
        g = np.where(there, factors[:, n].conj() * g, g)
    g_a = g_a if a.ndim == 3 else g_a.sum((0, 1))
    return [np.concatenate([z.real, z.imag], -1) for z in (states, x, g_a, g_f, g)]


def selectives(draw):
    """`selective_scan` with all its gradients; some steps are 0, as those of missing samples."""
    shared, random = draw.shared, numbers(draw)
    batch, time = shared.choice([1, 2, 5]), shared.choice(TIMES)
    channels, states = shared.randint(1, 40), shared.choice([1, 2, 3, 8, 16, 17])
    steps = 10.0 ** random.uniform(-3, 0.5, (batch, time, channels))
    steps *= random.random((batch, time, 1)) < 0.9
    decay = -(10.0 ** random.uniform(-3, 1, (states, channels)))
    sequence, kept = (batch, time, channels), (batch, states, channels)
    u, B, C, start = (
        random.normal(size=shape)
        for shape in (sequence, (batch, time, states), (batch, time, states), kept)
    )
    arguments = tuple(np.asarray(x, np.float32) for x in (u, steps, decay, B, C, start))
    cotangents = tuple(np.asarray(random.normal(size=x), np.float32) for x in (sequence, kept))
    found = _with_gradients(selective_scan, arguments, cotangents)
    names = ("y", "final", "d_u", "d_delta", "d_A", "d_B", "d_C", "d_start")
    for name, one, other in zip(
        names, found, _selective_loop(*arguments, *cotangents), strict=True
    ):
        compare(f"selective, {name}", one, other, 50 * float(np.finfo(np.float32).eps) * (4 + time))
    return "selectives"


def _selective_loop(*given):
    """y, the last state, and gradients."""
    u, delta, A, B, C, x, g_y, g = (x.astype(np.float64) for x in given)
    before, y = [], np.zeros_like(u)
    for n in range(u.shape[1]):
        before.append(x)
        kick = (delta[:, n] * u[:, n])[:, None] * B[:, n, :, None]
        x = np.exp(delta[:, n, None] * A) * x + kick
        y[:, n] = (C[:, n, :, None] * x).sum(1)
    final, after = x, x
    d_u, d_delta, d_A, d_B, d_C = (np.zeros_like(v) for v in (u, delta, A, B, C))
    for n in reversed(range(u.shape[1])):
        d_C[:, n] = (after * g_y[:, n, None]).sum(2)
        g = g + C[:, n, :, None] * g_y[:, n, None]
        factor, driven = np.exp(delta[:, n, None] * A), (g * B[:, n, :, None]).sum(1)
        d_u[:, n], d_B[:, n] = delta[:, n] * driven, (g * (delta * u)[:, n, None]).sum(2)
        d_exponent = g * factor * before[n]
        d_delta[:, n] = u[:, n] * driven + (d_exponent * A).sum(1)
        d_A += (d_exponent * delta[:, n, None]).sum(0)
        g, after = factor * g, before[n]
    return y, final, d_u, d_delta, d_A, d_B, d_C, g
