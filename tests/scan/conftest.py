"""The recurrence and its adjoint as NumPy loops in float64, and what compares a scan with them."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import linoss
from tests.dynamics.conftest import steps_from_equations  # noqa: F401


class Result(NamedTuple):
    """What a scan gives, and the gradients of <cotangents, what it gives>."""

    positions: Any
    final: Any
    d_matrix: Any
    d_forcing: Any
    d_force: Any
    d_start: Any


OSCILLATOR_AXIS = Result(-1, -2, -3, -2, -1, -2)


def _float64(x):
    return np.asarray(x, np.float64)


def _time_first(x, trailing):
    return np.moveaxis(x, x.ndim - 2 - trailing, 0)


def _entries(matrix, shape):
    """zz, zy, yz, yy, each (time, ..., m)."""
    M = _time_first(np.broadcast_to(_float64(matrix), (*shape, 2, 2)), 2)
    return M[..., 0, 0], M[..., 0, 1], M[..., 1, 0], M[..., 1, 1]


def run_loop(matrix, forcing, force, start):
    """The states x_0 ... x_time of x_n = M_n x_{n-1} + F_n b_n, (time + 1, ..., m) for z and y."""
    zz, zy, yz, yy = _entries(matrix, force.shape)
    kick = np.broadcast_to(_float64(forcing), (*force.shape, 2)) * force[..., None]
    kick_z, kick_y = _time_first(kick[..., 0], 0), _time_first(kick[..., 1], 0)
    zs, ys = np.empty((2, len(zz) + 1, *zz.shape[1:]))
    z, y = zs[0], ys[0] = np.moveaxis(np.broadcast_to(start, (*zz.shape[1:], 2)), -1, 0)
    for n in range(len(zz)):
        z, y = zz[n] * z + zy[n] * y + kick_z[n], yz[n] * z + yy[n] * y + kick_y[n]
        zs[n + 1], ys[n + 1] = z, y
    return zs, ys


def run_adjoint_loop(matrix, d_positions, d_final):
    """lambda_n = dL/dx_n, (time, ..., m) for z and y, and dL/dx_0."""
    zz, zy, yz, yy = _entries(matrix, d_positions.shape)
    dy = _time_first(d_positions, 0)
    lz, ly = d_final[..., 0], d_final[..., 1]
    lzs, lys = np.empty((2, *dy.shape))
    for n in reversed(range(len(dy))):
        ly = ly + dy[n]
        lzs[n], lys[n] = lz, ly
        lz, ly = zz[n] * lz + yz[n] * ly, zy[n] * lz + yy[n] * ly
    return lzs, lys, np.stack([lz, ly], axis=-1)


def run_reference(matrix, forcing, force, start, cotangents, weight=1.0):
    """The recurrence with forces `weight` * b_n, forwards and backwards.

    `weight` is where Verlet differs: oscillators that start at rest feel the first force by half,
    because a kick joins the end of a step with the start of the next, and no step ended before.
    Gradients of `matrix` and `forcing` have their shapes if constant, else one entry a sample.
    """
    force, start = _float64(force), _float64(start)
    d_positions, d_final = map(_float64, cotangents)
    weight = np.broadcast_to(weight, force.shape)
    zs, ys = run_loop(matrix, forcing, weight * force, start)
    lzs, lys, d_start = run_adjoint_loop(matrix, d_positions, d_final)

    time_back = partial(np.moveaxis, source=0, destination=-2)
    before = np.stack([time_back(zs[:-1]), time_back(ys[:-1])], axis=-1)
    lambdas = np.stack([time_back(lzs), time_back(lys)], axis=-1)
    d_matrix = lambdas[..., :, None] * before[..., None, :]
    d_forcing = lambdas * (weight * force)[..., None]
    if np.ndim(matrix) == 3:
        d_matrix = d_matrix.reshape(-1, *np.shape(matrix)).sum(0)
        d_forcing = d_forcing.reshape(-1, *np.shape(forcing)).sum(0)
    d_force = weight * (np.broadcast_to(forcing, lambdas.shape) * lambdas).sum(-1)
    final = np.stack([zs[-1], ys[-1]], axis=-1)
    return Result(time_back(ys[1:]), final, d_matrix, d_forcing, d_force, d_start)


@partial(jax.jit, static_argnames=("engine", "reverse", "forward_mode"))
def run_scan(transition, force, start, mask, cotangents, **options):
    """`oscillator_scan` and all its gradients; compiled once for all data of a shape."""

    def scan(transition, force, start):
        return linoss.oscillator_scan(transition, force, initial_state=start, mask=mask, **options)

    outputs, pull_back = jax.vjp(scan, transition, force, start)
    d_transition, d_force, d_start = pull_back(cotangents)
    return outputs, d_transition, d_force, d_start


@pytest.fixture(scope="session")
def reference():
    return run_reference


@pytest.fixture(scope="session")
def states_by_loop():
    return run_loop


@pytest.fixture(scope="session")
def scan():
    """Values and gradients by `oscillator_scan`; without a mask and from rest unless given."""

    def run(transition, force, cotangents, *, start=None, mask=None, **options):
        outputs, d_transition, d_force, d_start = run_scan(
            transition, force, start, mask, cotangents, **options
        )
        if not isinstance(transition, linoss.Transition):
            return Result(*outputs, None, None, d_force, d_start), d_transition
        return Result(*outputs, d_transition.matrix, d_transition.forcing, d_force, d_start)

    return run


@pytest.fixture(scope="session")
def difference():
    """The central difference of a function along `direction` in one of its arguments."""

    def slope(function, point, argument, direction, distance=1e-6):
        def at(shift):
            moved = [x + shift * direction if i == argument else x for i, x in enumerate(point)]
            return function(*moved)

        return (at(distance) - at(-distance)) / (2 * distance)

    return slope


@pytest.fixture(scope="session")
def assert_same():
    """Each oscillator's largest error is below `tolerance` times its largest reference value."""

    def check(found, expected, tolerance):
        for name, axis, one, other in zip(
            Result._fields, OSCILLATOR_AXIS, found, expected, strict=True
        ):
            if one is None or other is None:
                continue
            one, other = (np.moveaxis(_float64(x), axis, 0) for x in (one, other))
            assert one.shape == other.shape, name
            one, other = (x.reshape(len(x), -1) for x in (one, other))
            error, scale = np.abs(one - other).max(1), np.abs(other).max(1)
            worst = np.max(error / np.where(scale > 0, scale, 1))
            assert np.all(error <= tolerance * scale), f"{name} is off by {worst:.1e}"

    return check


@pytest.fixture(scope="session")
def make_transition():
    """Oscillators of one scheme in JAX's current precision: from still to fast, some damped."""

    def make(scheme, width, *, seed=0, timestep=0.4):
        random = np.random.default_rng(seed)
        stiffness = random.uniform(0.01, 4.0, width)
        damping = np.where(np.arange(width) % 2, random.uniform(0, 0.2, width), 0.0)
        return linoss.discretize(
            scheme, jnp.asarray(stiffness), timestep, None if scheme == "verlet" else damping
        )

    return make


@pytest.fixture(scope="session")
def make_bank(make_transition):
    """Oscillators of all four schemes side by side."""

    def make(each=2):
        banks = [
            make_transition(s, each, seed=i)
            for i, s in enumerate(("im", "imex", "verlet", "exact"))
        ]
        leaves = map(jax.tree.leaves, banks)
        return linoss.Transition(*(jnp.concatenate(x) for x in zip(*leaves, strict=True)))

    return make


@pytest.fixture(scope="session")
def draw():
    """Forces, an initial state and cotangents in JAX's current precision."""

    def arrays(leading, time, width, *, seed=0):
        random = np.random.default_rng(seed)
        sequence, state = (*leading, time, width), (*leading, width, 2)
        shapes = (sequence, state, sequence, state)
        force, start, d_positions, d_final = (jnp.asarray(random.normal(size=s)) for s in shapes)
        return force, start, (d_positions, d_final)

    return arrays
