"""A layer against a loop over time in complex arithmetic."""

import equinox as eqx
import jax
import numpy as np
import pytest

from linoss import LinOSSLayer

SCHEMES = [*((s, d) for s in ("im", "imex", "exact") for d in (False, True)), ("verlet", False)]
T, HIDDEN, STATE = 12, 4, 3


def make_layer(seed=0, **options):
    return LinOSSLayer(HIDDEN, STATE, key=jax.random.key(seed), **options)


@eqx.filter_jit
def run(layer, u, **options):
    return layer(u, **options)


def assert_close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("irregular", [False, True])
@pytest.mark.parametrize("complex_projections", [True, False])
@pytest.mark.parametrize(("scheme", "damped"), SCHEMES)
def test_layer_is_the_loop(
    layer_loop, draw, draw_intervals, scheme, damped, complex_projections, irregular
):
    options = {"damped": True, "min_radius": 0.5} if damped else {}
    layer = make_layer(scheme=scheme, complex_projections=complex_projections, **options)
    assert not damped or np.all(layer.oscillators.damping > 0)
    u, intervals = draw(T, HIDDEN), draw_intervals(T) if irregular else None
    assert_close(run(layer, u, intervals=intervals)[0], layer_loop(layer, u, intervals))


@pytest.mark.parametrize(
    ("feedthrough", "complex_projections"),
    [("vector", False), ("dense", True), ("dense", False), ("none", True)],
)
def test_feedthrough_and_bias(layer_loop, draw, feedthrough, complex_projections):
    layer = make_layer(
        feedthrough=feedthrough, bias=True, complex_projections=complex_projections, timestep=0.7
    )
    u = draw(T, HIDDEN)
    assert_close(run(layer, u)[0], layer_loop(layer, u))
