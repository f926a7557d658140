"""Derivatives of every kind: the adjoint, JAX's own, their transformations."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import linoss

by_every_engine = pytest.mark.parametrize("engine", linoss.engines())
TIME, WIDTH = 13, 3


@pytest.fixture
def problem(make_transition, draw):
    force, start, cotangents = draw((2,), TIME, WIDTH)
    return make_transition("imex", WIDTH), force, start, cotangents


def weigh(outputs, cotangents):
    """A number that depends on every output, and not linearly."""
    return sum(jnp.vdot(jnp.sin(x), weight) for x, weight in zip(outputs, cotangents, strict=True))


def test_reference_adjoint_is_finite_differences(problem, reference, difference):
    transition, force, start, cotangents = problem
    point = [np.asarray(x) for x in (transition.matrix, transition.forcing, force, start)]
    weight = np.linspace(0.5, 1.5, TIME)[:, None]

    def loss(*arguments):
        result = reference(*arguments, cotangents, weight)
        return (result.positions * cotangents[0]).sum() + (result.final * cotangents[1]).sum()

    result = reference(*point, cotangents, weight)
    for i, slope in enumerate(result[2:]):
        direction = np.random.default_rng(i).normal(size=point[i].shape)
        expected = difference(loss, point, i, direction)
        np.testing.assert_allclose((slope * direction).sum(), expected, rtol=1e-7)


@pytest.mark.several
@pytest.mark.parametrize(
    ("engine", "double"),
    [
        ("sequential", False),
        ("sequential", True),
        pytest.param("associative", True, marks=pytest.mark.integration),
    ],
)
def test_jaxs_own_gradients_are_the_adjoints(
    engine, double, make_transition, draw, scan, assert_same
):
    with jax.enable_x64(double):
        transition = make_transition("verlet", WIDTH)
        force, _, cotangents = draw((2,), TIME, WIDTH)
        adjoint, own = (
            scan(transition, force, cotangents, engine=engine, forward_mode=mode)
            for mode in (False, True)
        )
    assert_same(own, adjoint, 1e-12 if double else 1e-5)


@pytest.mark.several
@pytest.mark.parametrize("engine", ["sequential", "associative"])
def test_hessian_is_the_finite_difference_of_gradients(engine, draw):
    force, _, cotangents = draw((), 6, 2)

    def loss(stiffness, **options):
        step = linoss.discretize("imex", stiffness, 0.4)
        return weigh(linoss.oscillator_scan(step, force, engine=engine, **options), cotangents)

    point = jnp.array([0.5, 2.0])
    hessian = jax.jit(jax.hessian(lambda x: loss(x, forward_mode=True)))(point)
    slope = jax.jit(jax.grad(loss))
    differences = [(slope(point + e) - slope(point - e)) / 2e-5 for e in 1e-5 * np.eye(2)]
    np.testing.assert_allclose(hessian, differences, rtol=1e-6)


@by_every_engine
@pytest.mark.parametrize("over", ["forces", "transitions"])
def test_vmap_is_one_after_the_other(engine, over, make_transition, draw):
    force, start, cotangents = draw((3,), TIME, WIDTH)
    each = [make_transition("im", WIDTH, seed=seed) for seed in range(3)]
    transitions = jax.tree.map(lambda *x: jnp.stack(x), *each)
    several = {"forces": force, "transitions": transitions}[over]

    def loss(one):
        force_here, transition = (one, each[0]) if over == "forces" else (force[0], one)
        options = {"initial_state": start[0], "engine": engine}
        outputs = linoss.oscillator_scan(transition, force_here, **options)
        return weigh(outputs, [x[0] for x in cotangents])

    slope = jax.jit(jax.value_and_grad(loss))
    one_by_one = [slope(jax.tree.map(lambda x, i=i: x[i], several)) for i in range(3)]
    expected = jax.tree.map(lambda *x: jnp.stack(x), *one_by_one)
    jax.tree.map(
        partial(np.testing.assert_allclose, rtol=1e-11, atol=1e-11),
        jax.vmap(slope)(several),
        expected,
    )
