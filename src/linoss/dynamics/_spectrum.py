"""Closed forms: eigenvalues, stability, energy, and memory at initialisation."""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Complex, Float

from linoss import _checks
from linoss._arrays import common, common_dtype
from linoss._checks import AnyArray
from linoss.dynamics._scheme import Interval, Scheme
from linoss.dynamics._transition import Transition, VaryingTransition, check_damping, find_scheme


def eigenvalues(
    transition: Transition | VaryingTransition,
) -> Complex[Array, "*batch m 2"]:
    """The two eigenvalues of each oscillator's step, the one with the larger imaginary part first.

    lambda = (M_zz + M_yy)/2 +- sqrt(((M_zz - M_yy)/2)^2 + M_zy M_yz), a form of trace and
    determinant without cancellation at low frequency.

    ```python
    >>> import linoss
    >>> linoss.eigenvalues(linoss.discretize("im", [1.0], 1.0))
    Array([[0.5+0.5j, 0.5-0.5j]], dtype=complex64)

    ```
    """
    if not isinstance(transition, Transition | VaryingTransition):
        raise ValueError(
            f"transition is a {type(transition).__name__}, expected what linoss.discretize returns"
        )
    (zz, zy), (yz, yy) = transition.step.matrix
    dtype = common_dtype(zz, jnp.complex64)
    center = ((zz + yy) / 2).astype(dtype)
    root = jnp.sqrt((((zz - yy) / 2) ** 2 + zy * yz).astype(dtype))
    return jnp.stack([center + root, center - root], axis=-1)


def spectral_radius(transition: Transition | VaryingTransition) -> Float[Array, "*batch m"]:
    """max |lambda| of each oscillator: the factor by which its state decays in one step.

    ```python
    >>> import linoss
    >>> round(float(linoss.spectral_radius(linoss.discretize("im", [3.0], 1.0))[0]), 6)
    0.5

    ```
    """
    return jnp.max(jnp.abs(eigenvalues(transition)), axis=-1)


def stable_stiffness(scheme: str | Scheme, timestep: Any, damping: Any = 0.0) -> Interval:
    """The range (low, high) of stiffnesses A for which |eigenvalue| <= 1.

    ```python
    >>> import linoss
    >>> float(linoss.stable_stiffness("imex", timestep=0.5).high)
    16.0

    ```
    """
    return _region(find_scheme(scheme), "stable", timestep, damping)


def oscillating_stiffness(scheme: str | Scheme, timestep: Any, damping: Any = 0.0) -> Interval:
    """The range (low, high) of stiffnesses A whose eigenvalues are a complex pair.

    ```python
    >>> import linoss
    >>> float(linoss.oscillating_stiffness("exact", timestep=1.0, damping=2.0).low)
    1.0

    ```
    """
    return _region(find_scheme(scheme), "oscillates", timestep, damping)


def _region(scheme: Scheme, kind: str, timestep: Any, damping: Any) -> Interval:
    timestep = _checks.floating("timestep", timestep)
    damping = _checks.floating("damping", damping)
    _checks.nonnegative("timestep", timestep, allow_zero=False)
    _checks.nonnegative("damping", damping)
    check_damping(scheme, damping)
    try:
        np.broadcast_shapes(timestep.shape, damping.shape)
    except ValueError:
        raise ValueError(
            f"damping has shape {damping.shape}, expected one that fits timestep's {timestep.shape}"
        ) from None
    return getattr(scheme, kind)(*common(timestep, damping))


def hamiltonian(
    state: Float[AnyArray, "*batch m 2"],
    stiffness: Float[AnyArray, " m"],
    force: Float[AnyArray, "*batch m"] | float = 0.0,
) -> Float[Array, "*batch"]:
    """H = 1/2 sum_k (A_k y_k^2 + z_k^2 - 2 b_k y_k), the energy of [z, y] under a force b.

    ```python
    >>> import jax.numpy as jnp, linoss
    >>> float(linoss.hamiltonian(jnp.array([[3.0, 2.0]]), jnp.array([4.0])))
    12.5

    ```
    """
    state = _checks.floating("state", state)
    stiffness, force = _checks.floating("stiffness", stiffness), _checks.floating("force", force)
    _checks.shape("stiffness", stiffness, ("m",))
    _checks.shape("state", state, ("...", stiffness.shape[0], 2))
    if force.ndim > 0 and force.shape[-1] != stiffness.shape[0]:
        raise ValueError(f"force has shape {force.shape}, expected (..., {stiffness.shape[0]})")
    velocity, position, stiffness, force = common(state[..., 0], state[..., 1], stiffness, force)
    energy = stiffness * position**2 + velocity**2 - 2 * force * position
    return jnp.sum(energy, axis=-1) / 2


def expected_eigenvalue_power(
    power: int | float, timestep: int | float = 1.0, max_stiffness: int | float = 1.0
) -> float:
    """E |lambda|^N of LinOSS-IM at initialisation, A uniform on [0, A_max].

    ((h^2 A_max + 1)^(1 - N/2) - 1) / (h^2 A_max (1 - N/2)): the expected decay over N steps.

    ```python
    >>> import linoss
    >>> round(1 / linoss.expected_eigenvalue_power(100_000))
    49999

    ```
    """
    _checks.number("power", power, "a finite number >= 0", lambda n: 0 <= n < math.inf)
    _checks.positive_number("timestep", timestep)
    _checks.positive_number("max_stiffness", max_stiffness)
    reach, exponent = timestep**2 * max_stiffness, 1 - power / 2
    log = math.log1p(reach)
    return log / reach if exponent == 0 else math.expm1(exponent * log) / (reach * exponent)
