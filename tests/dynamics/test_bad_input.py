"""A wrong argument is refused by name, with what came and what was expected."""

import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import linoss

pytestmark = pytest.mark.usefixtures("unchecked")

SCHEMES = ["im", "imex", "verlet", "exact"]
REGIONS = [linoss.stable_stiffness, linoss.oscillating_stiffness]
bank = partial(linoss.Oscillators, key=jax.random.key(0))


def refused(*words):
    """A ValueError whose message holds all words in this order."""
    return pytest.raises(ValueError, match=".*".join(re.escape(word) for word in words))


@pytest.mark.parametrize("scheme", ["IM", "", None, 3, ["im"], np.array(["im"])])
def test_unknown_scheme(scheme):
    for call in (
        lambda: linoss.discretize(scheme, [1.0], 1.0),
        *(partial(region, scheme, 1.0) for region in REGIONS),
        lambda: bank(3, scheme=scheme),
    ):
        with refused("scheme is", repr(scheme), "'im', 'imex', 'verlet', 'exact'"):
            call()


THREE = np.ones(3)
WRONG = [
    ({"stiffness": np.ones(())}, "stiffness has shape", "()", "expected (m,)"),
    ({"stiffness": np.ones((2, 3))}, "stiffness has shape", "(2, 3)", "expected (m,)"),
    ({"timestep": np.ones(2)}, "timestep has shape", "(2,)", "() or (m,) = (3,)", "time, 1)"),
    ({"timestep": np.ones((5, 2))}, "timestep has shape", "(5, 2)", "() or (m,) = (3,)"),
    ({"damping": np.ones((5, 3))}, "damping has shape", "(5, 3)", "() or (m,) = (3,)"),
    ({"stiffness": [[1.0, 2.0], [3.0]]}, "stiffness"),
    ({"stiffness": [None]}, "stiffness"),
    ({"stiffness": None}, "stiffness has NoneType", "floating-point"),
    ({"timestep": None}, "timestep has NoneType", "floating-point"),
    ({"timestep": 0.0}, "timestep is 0.0", "finite and > 0"),
    ({"timestep": -1.0}, "timestep is -1.0", "finite and > 0"),
    ({"timestep": [[1.0], [0.0]]}, "timestep is 0.0 at index (1, 0)", "finite and > 0"),
]
WRONG += [
    ({name: value}, f"{name} has {kind}", "expected a floating-point array")
    for name in ("stiffness", "timestep", "damping")
    for value, kind in (
        (np.ones(3, int), "dtype int64"),
        (np.ones(3, complex), "dtype complex128"),
        (np.ones(3, bool), "dtype bool"),
        ("1.0", "str"),
        (True, "bool"),
        (slice(None), "slice"),
    )
]
WRONG += [
    (
        {name: np.array([1.0, value, 1.0])},
        f"{name} is {value!s} at index (1,)",
        "expected every entry finite and >",
    )
    for name in ("stiffness", "timestep", "damping")
    for value in (-0.5, np.nan, np.inf)
]


@pytest.mark.parametrize(("changes", "words"), [(case[0], case[1:]) for case in WRONG], ids=str)
def test_arguments_of_a_step(changes, words):
    with refused(*words):
        linoss.discretize("exact", **{"stiffness": THREE, "timestep": 1.0, **changes})


@pytest.mark.parametrize("scheme", ["imex", "verlet"])
def test_past_the_stability_bound(scheme):
    """h^2 A <= 4; the message says what is allowed and what helps. Traced values are not seen."""
    linoss.discretize(scheme, [1.0, 16.0], 0.5)
    with refused("timestep 0.5 exceeds", repr(scheme), "16", "16.1 for oscillator 1", "'exact'"):
        linoss.discretize(scheme, [1.0, 16.1], 0.5)
    with refused("timestep 3 exceeds", repr(scheme), "1 for oscillator 2"):
        linoss.discretize(scheme, [0.1, 0.1, 1.0], np.array([[0.1], [3.0]]))
    step = jax.jit(lambda A: linoss.discretize(scheme, A, 1.0))(jnp.array([5.0]))
    assert linoss.spectral_radius(step)[0] > 1
    linoss.discretize("imex", [6.0], 1.0, 1.0)  # damping widens it: h^2 A <= 2 (2 + h G)
    with refused("timestep 1 exceeds", "6.1"):
        linoss.discretize("imex", [6.1], 1.0, 1.0)


def test_verlet_has_no_damping():
    for damping in (0.5, np.array([0.0, 0.1])):
        with refused("damping", "'verlet'", "'imex', 'exact'"):
            linoss.discretize("verlet", [1.0, 1.0], 1.0, damping)
    for region in REGIONS:
        with refused("damping", "'verlet'"):
            region("verlet", 1.0, 0.5)
    with refused("damped is True", "'verlet'", "'imex'"):
        bank(4, scheme="verlet", damped=True)
    run = jax.jit(lambda A: linoss.discretize("verlet", A, 1.0, 0.0).matrix)
    np.testing.assert_array_equal(run(THREE), linoss.discretize("verlet", THREE, 1.0).matrix)


HALF = [np.ones((3, 3)), np.ones((2, 2)), np.ones(2), np.ones((3, 2), int)]
MOMENTS = [{name: x} for name in ("timestep", "max_stiffness") for x in (0, -1.0, np.nan, "1")]
CALLS = [
    *((f, ("im", 1.0, -1.0), {}, "damping is -1.0", "finite and >= 0") for f in REGIONS),
    *((f, ("im", np.ones(2, int)), {}, "timestep has dtype int64") for f in REGIONS),
    *((f, ("exact", np.nan), {}, "timestep is nan", "finite and > 0") for f in REGIONS),
    *((f, ("imex", np.ones(2), np.ones(3)), {}, "damping has shape", "(3,)") for f in REGIONS),
    (linoss.eigenvalues, (np.ones((1, 2, 2)),), {}, "transition is a ndarray", "linoss.discretize"),
    (linoss.spectral_radius, (THREE,), {}, "transition is a ndarray", "linoss.discretize"),
    *((linoss.hamiltonian, (state, THREE), {}, "state has") for state in HALF),
    *(
        (linoss.expected_eigenvalue_power, (2,), options, f"{name} is {x!r}", "finite number > 0")
        for options in MOMENTS
        for name, x in options.items()
    ),
]


@pytest.mark.parametrize(
    ("function", "arguments", "options", "words"),
    [(*call[:3], call[3:]) for call in CALLS],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_regions_spectra_and_energies(function, arguments, options, words):
    with refused(*words):
        function(*arguments, **options)


WRONG_OPTIONS = {
    "state_size": ((0, 2.0, True), "integer >= 1"),
    "parameterization": (("exp", None), "'relu', 'squared'"),
    "init": (("zeros",), "'uniform', 'uniform-root', 'normal'"),
    "max_stiffness": ((0.0, float("nan"), float("inf"), "1"), "finite number > 0"),
    "min_radius": ((0.0, 1.5, float("nan"), "0.9"), "number in (0, 1]"),
    "timestep": ((0.0, float("inf"), "fixed", None), "'learned' or a finite number > 0"),
}


@pytest.mark.parametrize("option", WRONG_OPTIONS)
def test_wrong_option_of_a_bank(option):
    values, expected = WRONG_OPTIONS[option]
    for value in values:
        with refused(f"{option} is {value!r}", "expected", expected):
            bank(**{"state_size": 4, option: value})


@pytest.mark.parametrize("scheme", SCHEMES)
def test_traced_values_cannot_be_refused_but_shapes_and_dtypes_can(scheme):
    def matrix(*arguments):
        return linoss.discretize(scheme, *arguments).matrix

    run = jax.jit(matrix)
    for stiffness, timestep in ((-1.0, 1.0), (np.nan, 1.0), (1.0, 0.0)):
        arguments = jnp.array([stiffness]), jnp.array(timestep)
        with refused("expected every entry finite"):
            matrix(*arguments)
        assert run(*arguments).shape == (1, 2, 2)
    with refused("stiffness has shape (2, 3)", "expected (m,)"):
        run(jnp.ones((2, 3)), 1.0)
    with refused("damping has shape (2,)", "(m,) = (3,)"):
        run(jnp.ones(3), 1.0, jnp.ones(2))
    with refused("stiffness has dtype int64"):
        run(jnp.ones(3, int), 1.0)
    with refused("timestep is -1.0"):  # a constant beside a traced argument
        jax.jit(lambda A: linoss.discretize(scheme, A, -1.0).matrix)(jnp.ones(3))
