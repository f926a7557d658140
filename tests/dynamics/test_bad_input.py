"""A wrong argument is refused by name, with what came and what was expected."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import linoss

pytestmark = pytest.mark.usefixtures("unchecked")

SCHEMES = ["im", "imex", "verlet", "exact"]


def refused(*words):
    """A ValueError whose message holds all words in this order."""
    return pytest.raises(ValueError, match=".*".join(re.escape(word) for word in words))


@pytest.mark.parametrize("scheme", ["IM", "euler", "", None, 3, ["im"], np.array(["im"])])
@pytest.mark.parametrize(
    "call",
    [
        lambda scheme: linoss.discretize(scheme, [1.0], 1.0),
        lambda scheme: linoss.stable_stiffness(scheme, 1.0),
        lambda scheme: linoss.oscillating_stiffness(scheme, 1.0),
        lambda scheme: linoss.Oscillators(3, scheme=scheme, key=jax.random.key(0)),
    ],
    ids=["discretize", "stable_stiffness", "oscillating_stiffness", "Oscillators"],
)
def test_unknown_scheme(call, scheme):
    with refused("scheme is", repr(scheme), "'im', 'imex', 'verlet', 'exact'"):
        call(scheme)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("shape", [(), (2, 3), (1, 1, 1)])
def test_stiffness_of_wrong_rank(scheme, shape):
    with refused("stiffness has shape", str(shape), "expected (m,)"):
        linoss.discretize(scheme, np.ones(shape), 1.0)


@pytest.mark.parametrize("shape", [(1,), (2,), (5, 2), (3, 5)])
def test_timestep_of_wrong_shape(shape):
    with refused("timestep has shape", str(shape), "expected () or (m,) = (3,)", "time, 1)"):
        linoss.discretize("im", np.ones(3), np.ones(shape))


@pytest.mark.parametrize("shape", [(1,), (2,), (5, 3)])
def test_damping_of_wrong_shape(shape):
    with refused("damping has shape", str(shape), "expected () or (m,) = (3,)"):
        linoss.discretize("im", np.ones(3), 1.0, np.ones(shape))


WRONG_DTYPES = {
    "int64": np.ones(3, int),
    "int32": jnp.ones(3, jnp.int32),
    "complex128": np.ones(3, complex),
    "bool": np.ones(3, bool),
}


@pytest.mark.parametrize("dtype", WRONG_DTYPES)
@pytest.mark.parametrize("argument", ["stiffness", "timestep", "damping"])
def test_wrong_dtype(argument, dtype):
    arguments = {"stiffness": np.ones(3), "timestep": 1.0, argument: WRONG_DTYPES[dtype]}
    with refused(f"{argument} has dtype {dtype}", "expected a floating-point array"):
        linoss.discretize("imex", **arguments)


@pytest.mark.parametrize(
    ("value", "found"), [("1.0", "str"), (True, "bool"), (1j, "complex"), (object(), "object")]
)
@pytest.mark.parametrize("argument", ["stiffness", "timestep", "damping"])
def test_not_an_array(argument, value, found):
    arguments = {"stiffness": np.ones(3), "timestep": 1.0, argument: value}
    with refused(f"{argument} has {found}", "expected a floating-point array"):
        linoss.discretize("imex", **arguments)


def test_none_is_no_damping_but_nothing_else():
    assert linoss.discretize("im", [1.0], 1.0, None).state_size == 1
    with refused("stiffness has NoneType", "floating-point"):
        linoss.discretize("im", None, 1.0)
    with refused("timestep has NoneType", "floating-point"):
        linoss.discretize("im", [1.0], None)


@pytest.mark.parametrize("value", [[[1.0, 2.0], [3.0]], ["a", "b"], [None], {1.0}])
def test_ragged_or_other_lists(value):
    with refused("stiffness"):
        linoss.discretize("im", value, 1.0)


@pytest.mark.parametrize("value", [-0.5, np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("argument", ["stiffness", "timestep", "damping"])
@pytest.mark.parametrize("scheme", ["im", "imex", "exact"])
def test_negative_or_missing_entry(scheme, argument, value):
    array = np.array([1.0, value, 1.0])
    arguments = {"stiffness": np.ones(3), "timestep": 1.0, argument: array}
    with refused(f"{argument} is {value!s} at index (1,)", "expected every entry finite and >"):
        linoss.discretize(scheme, **arguments)


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_lone_timestep_out_of_range(value):
    with refused(f"timestep is {value!s}", "finite and > 0"):
        linoss.discretize("exact", [1.0], value)
    with refused(f"timestep is {value!s}", "finite and > 0"):
        linoss.stable_stiffness("exact", value)


def test_timestep_per_sample_out_of_range():
    timestep = np.ones((2, 5, 1))
    timestep[1, 3] = 0
    with refused("timestep is 0.0 at index (1, 3, 0)", "finite and > 0"):
        linoss.discretize("im", [1.0, 2.0], timestep)


@pytest.mark.parametrize("scheme", ["imex", "verlet"])
def test_past_the_stability_bound(scheme):
    """h^2 A <= 4; the message says what is allowed and what helps."""
    linoss.discretize(scheme, [1.0, 16.0], 0.5)
    with refused("timestep 0.5 exceeds", repr(scheme), "16", "16.1 for oscillator 1", "'exact'"):
        linoss.discretize(scheme, [1.0, 16.1], 0.5)
    with refused("timestep 2.1 exceeds", repr(scheme), "oscillator 0"):
        linoss.discretize(scheme, [1.0], 2.1)
    with refused("timestep 3 exceeds", repr(scheme), "1 for oscillator 2"):
        linoss.discretize(scheme, [0.1, 0.1, 1.0], np.array([[0.1], [3.0]]))


def test_damping_widens_the_stability_bound():
    """h^2 A <= 2 (2 + h G)."""
    linoss.discretize("imex", [6.0], 1.0, 1.0)
    with refused("timestep 1 exceeds", "6.1"):
        linoss.discretize("imex", [6.1], 1.0, 1.0)


@pytest.mark.parametrize("damping", [0.5, np.array([0.0, 0.1])])
def test_verlet_has_no_damping(damping):
    with refused("damping", "'verlet'", "'imex', 'exact'"):
        linoss.discretize("verlet", [1.0, 1.0], 1.0, damping)
    linoss.discretize("verlet", [1.0, 1.0], 1.0, 0.0)


@pytest.mark.parametrize("region", [linoss.stable_stiffness, linoss.oscillating_stiffness])
def test_regions_refuse_what_discretize_refuses(region):
    with refused("damping is -1.0", "finite and >= 0"):
        region("im", 1.0, -1.0)
    with refused("timestep has dtype int64"):
        region("im", np.ones(2, int))


@pytest.mark.parametrize("region", [linoss.stable_stiffness, linoss.oscillating_stiffness])
def test_verlet_has_no_region_with_damping(region):
    with refused("damping", "'verlet'"):
        region("verlet", 1.0, 0.5)


@pytest.mark.parametrize("region", [linoss.stable_stiffness, linoss.oscillating_stiffness])
def test_regions_of_shapes_that_do_not_fit(region):
    with refused("damping has shape", "(3,)", "(2,)"):
        region("imex", np.ones(2), np.ones(3))


@pytest.mark.parametrize("function", [linoss.eigenvalues, linoss.spectral_radius])
def test_spectrum_of_what_has_none(function):
    with refused("transition is a ndarray", "linoss.discretize"):
        function(np.ones((1, 2, 2)))


@pytest.mark.parametrize(
    "state", [np.ones((3, 3)), np.ones((2, 2)), np.ones(2), np.ones((3, 2), int)]
)
def test_hamiltonian_of_a_wrong_state(state):
    with refused("state has"):
        linoss.hamiltonian(state, np.ones(3))


@pytest.mark.parametrize("value", [0, -1.0, np.nan, np.inf, "1"])
@pytest.mark.parametrize("argument", ["timestep", "max_stiffness"])
def test_moment_of_a_wrong_spectrum(argument, value):
    with refused(f"{argument} is {value!r}", "expected a finite number > 0"):
        linoss.expected_eigenvalue_power(2, **{argument: value})


WRONG_OPTIONS = [
    ("state_size", 0, "integer >= 1"),
    ("state_size", -3, "integer >= 1"),
    ("state_size", 2.0, "integer >= 1"),
    ("state_size", True, "integer >= 1"),
    ("parameterization", "exp", "'relu', 'squared'"),
    ("parameterization", None, "'relu', 'squared'"),
    ("init", "zeros", "'uniform', 'normal'"),
    ("max_stiffness", 0.0, "finite number > 0"),
    ("max_stiffness", -1.0, "finite number > 0"),
    ("max_stiffness", float("nan"), "finite number > 0"),
    ("max_stiffness", float("inf"), "finite number > 0"),
    ("max_stiffness", "1", "finite number > 0"),
    ("min_radius", 0.0, "number in (0, 1]"),
    ("min_radius", 1.5, "number in (0, 1]"),
    ("min_radius", float("nan"), "number in (0, 1]"),
    ("min_radius", "0.9", "number in (0, 1]"),
    ("timestep", 0.0, "'learned' or a finite number > 0"),
    ("timestep", -1.0, "'learned' or a finite number > 0"),
    ("timestep", float("nan"), "'learned' or a finite number > 0"),
    ("timestep", float("inf"), "'learned' or a finite number > 0"),
    ("timestep", "fixed", "'learned' or a finite number > 0"),
    ("timestep", None, "'learned' or a finite number > 0"),
]


@pytest.mark.parametrize(("option", "value", "expected"), WRONG_OPTIONS)
def test_wrong_option_of_a_bank(option, value, expected):
    options = {"state_size": 4, "key": jax.random.key(0), option: value}
    with refused(f"{option} is {value!r}", "expected", expected):
        linoss.Oscillators(**options)


def test_damped_verlet_bank():
    with refused("damped is True", "'verlet'", "'imex'"):
        linoss.Oscillators(4, scheme="verlet", damped=True, key=jax.random.key(0))


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    ("stiffness", "timestep"), [(-1.0, 1.0), (np.nan, 1.0), (np.inf, 1.0), (1.0, -1.0), (1.0, 0.0)]
)
def test_traced_values_cannot_be_refused(scheme, stiffness, timestep):
    def matrix(stiffness, timestep):
        return linoss.discretize(scheme, stiffness, timestep).matrix

    arguments = jnp.array([stiffness]), jnp.array(timestep)
    with refused("expected every entry finite"):
        matrix(*arguments)
    assert jax.jit(matrix)(*arguments).shape == (1, 2, 2)


@pytest.mark.parametrize("scheme", ["imex", "verlet"])
def test_traced_values_past_the_bound_cannot_be_refused(scheme):
    """What the recurrence does past the bound is then the caller's business."""
    step = jax.jit(lambda A: linoss.discretize(scheme, A, 1.0))(jnp.array([5.0]))
    assert linoss.spectral_radius(step)[0] > 1


@pytest.mark.parametrize("scheme", SCHEMES)
def test_traced_shapes_and_dtypes_are_refused(scheme):
    run = jax.jit(lambda *arguments: linoss.discretize(scheme, *arguments).matrix)
    with refused("stiffness has shape (2, 3)", "expected (m,)"):
        run(jnp.ones((2, 3)), 1.0)
    with refused("timestep has shape (2,)", "(m,) = (3,)"):
        run(jnp.ones(3), jnp.ones(2))
    with refused("damping has shape (2,)", "(m,) = (3,)"):
        run(jnp.ones(3), 1.0, jnp.ones(2))
    with refused("stiffness has dtype int64"):
        run(jnp.ones(3, int), 1.0)


def test_verlet_without_damping_under_jit():
    """No damping is no damping, traced or not."""
    A = jnp.array([0.5, 1.0])
    expected = linoss.discretize("verlet", A, 1.0).matrix
    found = jax.jit(lambda A: linoss.discretize("verlet", A, 1.0).matrix)(A)
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_values_that_can_be_seen_are_refused_under_jit():
    """A constant next to a traced argument: "refused when they can be seen"."""
    with refused("timestep is -1.0"):
        jax.jit(lambda A: linoss.discretize("im", A, -1.0).matrix)(jnp.ones(3))
