"""Discretisation: from physical parameters to one step of the recurrence."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float

from linoss import _checks
from linoss._arrays import common, common_dtype
from linoss.dynamics._exact import EXACT
from linoss.dynamics._im import IM
from linoss.dynamics._imex import IMEX
from linoss.dynamics._scheme import Scheme, Step
from linoss.dynamics._verlet import VERLET

SCHEMES: dict[str, Scheme] = {scheme.name: scheme for scheme in (IM, IMEX, VERLET, EXACT)}


class Transition(eqx.Module):
    """One step for a bank of m oscillators, [z, y]_n = M [z, y]_{n-1} + F b_n."""

    matrix: Float[Array, "m 2 2"]
    forcing: Float[Array, "m 2"]
    weigh: Callable[[Array, Array], Array] | None = eqx.field(static=True, default=None)
    """The scheme's weights of forces, see `Scheme.weigh`."""

    @property
    def state_size(self) -> int:
        """Number of oscillators."""
        return self.forcing.shape[-2]

    @property
    def step(self) -> Step:
        """M and F, entry by entry."""
        M, F = self.matrix, self.forcing
        return Step(
            ((M[..., 0, 0], M[..., 0, 1]), (M[..., 1, 0], M[..., 1, 1])), (F[..., 0], F[..., 1])
        )


class VaryingTransition(eqx.Module):
    """One step per sample, h_n = timestep * intervals_n, for irregular sampling.

    It stores parameters instead of matrices: a scan computes the matrices of one segment at a time.
    """

    stiffness: Float[Array, " m"]
    timestep: Float[Array, " m"]
    damping: Float[Array, " m"]
    intervals: Float[Array, "*batch time #m"]
    scheme: Scheme = eqx.field(static=True)
    longest: Float[Array, " m"] | None = None
    """The maximum step; None for no limit."""

    @property
    def parameters(self) -> tuple[Array, Array, Array, Array | None]:
        """The parameters that all samples share."""
        return self.stiffness, self.timestep, self.damping, self.longest

    @property
    def state_size(self) -> int:
        """Number of oscillators."""
        return self.stiffness.shape[-1]

    @property
    def weigh(self) -> Callable[[Array, Array], Array] | None:
        """The scheme's weights of forces, see `Scheme.weigh`."""
        return self.scheme.weigh

    @property
    def step(self) -> Step:
        """M and F of all samples, entry by entry."""
        return self.scheme.steps(*self.parameters, self.intervals)

    @property
    def matrix(self) -> Float[Array, "*batch time m 2 2"]:
        """The matrices of all samples, for inspection; scans do not store them."""
        return _stack(self.step)[0]

    @property
    def forcing(self) -> Float[Array, "*batch time m 2"]:
        """The forcing of all samples, for inspection."""
        return _stack(self.step)[1]


def _stack(step: Step) -> tuple[Array, Array]:
    rows = [jnp.stack(jnp.broadcast_arrays(*row), axis=-1) for row in step.matrix]
    matrix = jnp.stack(jnp.broadcast_arrays(*rows), axis=-2)
    return matrix, jnp.stack(jnp.broadcast_arrays(*step.forcing), axis=-1)


def find_scheme(scheme: str | Scheme) -> Scheme:
    """The scheme with that name, or the scheme itself. Raises ValueError for an unknown name."""
    if isinstance(scheme, Scheme):
        return scheme
    _checks.one_of("scheme", scheme, SCHEMES)
    return SCHEMES[scheme]


def check_damping(scheme: Scheme, damping: Array) -> None:
    """Raise if damping is given for a scheme without damping."""
    if not scheme.damped and not (_checks.is_concrete(damping) and not np.asarray(damping).any()):
        raise ValueError(
            f"damping is {damping}, expected none: scheme {scheme.name!r} is undamped; use one of "
            f"{damped_schemes()}"
        )


def damped_schemes() -> str:
    """The names of the schemes with damping, for error messages."""
    return ", ".join(repr(name) for name, rule in SCHEMES.items() if rule.damped)


def discretize(
    scheme: str | Scheme, stiffness: Any, timestep: Any, damping: Any = None
) -> Transition | VaryingTransition:
    """Discretise y'' = -A y - G y' + b as a recurrence.

    **Arguments:**

    - `scheme`: `"im"` (implicit, dissipative), `"imex"` (implicit-explicit, symplectic),
      `"verlet"` (velocity Verlet, symplectic, second order), `"exact"` (zero-order hold), or a
      [`Scheme`][linoss.dynamics.Scheme] of your own.
    - `stiffness`: A, the stiffness of each oscillator, shape `(m,)`, at least 0.
    - `timestep`: the time between samples. Shape `()` or `(m,)` for regular sampling;
      `(..., time, 1)` or `(..., time, m)` for one timestep per sample: the time since the previous
      sample, or, for `"verlet"`, whose forces act at the start of a step, the time until the next
      sample.
    - `damping`: G, shape `()` or `(m,)`, at least 0; none by default. Not for `"verlet"`.

    **Returns:** a [`Transition`][] with `matrix` `(m, 2, 2)`, which acts on [z, y] = [velocity,
    position], and `forcing` `(m, 2)`; with a timestep per sample, a [`VaryingTransition`][].

    Raises `ValueError` for values outside the stable region, unless they are traced by `jax.jit`.

    ```python
    >>> import linoss
    >>> step = linoss.discretize("imex", stiffness=[1.0, 4.0], timestep=0.5)
    >>> step.matrix[1]
    Array([[ 1. , -2. ],
           [ 0.5,  0. ]], dtype=float32)

    ```
    """
    rule = find_scheme(scheme)
    stiffness = _checks.floating("stiffness", stiffness)
    timestep = _checks.floating("timestep", timestep)
    damping = _checks.floating("damping", 0.0 if damping is None else damping)
    _checks.shape("stiffness", stiffness, ("m",))
    m = stiffness.shape[0]
    if damping.shape not in ((), (m,)):
        raise ValueError(f"damping has shape {damping.shape}, expected () or (m,) = ({m},)")
    varying = timestep.ndim >= 2
    if timestep.shape[-1:] not in (((1,), (m,)) if varying else ((), (m,))):
        raise ValueError(
            f"timestep has shape {timestep.shape}, expected () or (m,) = ({m},), or for a timestep "
            f"per sample (..., time, 1) or (..., time, {m})"
        )
    _checks.nonnegative("stiffness", stiffness)
    _checks.nonnegative("timestep", timestep, allow_zero=False)
    _checks.nonnegative("damping", damping)
    check_damping(rule, damping)
    _check_stable(rule, stiffness, timestep, damping)

    dtype = common_dtype(stiffness, timestep, damping)
    damping = jnp.broadcast_to(damping, (m,)).astype(dtype)
    if varying:
        ones = jnp.ones(m, dtype)
        return make_transition(rule, stiffness.astype(dtype), ones, damping, timestep)
    timestep = jnp.broadcast_to(timestep, (m,)).astype(dtype)
    return make_transition(rule, stiffness.astype(dtype), timestep, damping)


def make_transition(
    scheme: Scheme,
    stiffness: Float[Array, " m"],
    timestep: Float[Array, " m"],
    damping: Float[Array, " m"],
    intervals: Float[Array, "*batch time #m"] | None = None,
    longest: Float[Array, " m"] | None = None,
) -> Transition | VaryingTransition:
    """`discretize` without validation."""
    if intervals is not None:
        intervals = intervals.astype(stiffness.dtype)
        return VaryingTransition(stiffness, timestep, damping, intervals, scheme, longest)
    return Transition(*_stack(scheme.step(stiffness, timestep, damping)), scheme.weigh)


def _check_stable(scheme: Scheme, stiffness: Array, timestep: Array, damping: Array) -> None:
    if not all(_checks.is_concrete(value) for value in (stiffness, timestep, damping)):
        return
    with jax.ensure_compile_time_eval():
        highest = np.asarray(scheme.stable(*common(timestep, damping)).high)
    excess = np.asarray(stiffness) > highest * (1 + 4 * np.finfo(highest.dtype).eps)
    if not excess.any():
        return
    index = tuple(np.argwhere(excess)[0])
    shape = excess.shape
    A, h, bound = (np.broadcast_to(x, shape)[index] for x in (stiffness, timestep, highest))
    raise ValueError(
        f"timestep {h:g} exceeds the stability bound of scheme {scheme.name!r}: with it, the "
        f"stiffness may be at most {bound:g}, but is {A:g} for oscillator {index[-1]}; use a "
        "smaller timestep or a scheme without a bound, 'im' or 'exact'"
    )
