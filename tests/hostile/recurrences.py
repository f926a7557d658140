"""The kernel of the scan against loops in NumPy, in float64."""

import jax
import jax.numpy as jnp
import numpy as np
from drivers import compare, load, numbers

import linoss

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
