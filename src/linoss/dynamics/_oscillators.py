"""The learnable parameters of a bank of oscillators, and their initialisation."""

from collections.abc import Callable
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, PRNGKeyArray

from linoss import _checks
from linoss import _settings as settings
from linoss._declare import check_value
from linoss._settings import Parameterization, StiffnessInit
from linoss.dynamics._scheme import Scheme
from linoss.dynamics._transition import (
    Transition,
    VaryingTransition,
    damped_schemes,
    find_scheme,
    make_transition,
)

# At the upper bound the eigenvalue is double, and rounding could move it outside the unit disc.
_MARGIN = 1e-5


class Oscillators(eqx.Module):
    """Learnable A, G and dt of m oscillators, with A >= 0, G >= 0 and dt in (0, 1).

    A is kept in the range in which the scheme is stable and oscillates,
    [`linoss.oscillating_stiffness`][]: it is the lower bound (0 without damping) plus a positive
    number, and at most the upper bound.

    ```python
    >>> import jax, linoss
    >>> bank = linoss.Oscillators(16, scheme="imex", timestep="learned", key=jax.random.key(0))
    >>> bank.transition().matrix.shape
    (16, 2, 2)

    ```
    """

    raw_stiffness: Float[Array, " m"]
    raw_damping: Float[Array, " m"] | None
    raw_timestep: Float[Array, " m"] | None
    scheme: str | Scheme = eqx.field(static=True)
    parameterization: Parameterization = eqx.field(static=True)
    fixed_timestep: float | None = eqx.field(static=True)

    def __init__(
        self,
        state_size: int,
        *,
        scheme: str | Scheme = "im",
        parameterization: Parameterization = "relu",
        init: StiffnessInit = "uniform",
        max_stiffness: int | float = 1.0,
        damped: bool = False,
        min_radius: int | float = 0.9,
        timestep: int | float | Literal["learned"] = 1.0,
        key: PRNGKeyArray,
    ):
        """**Arguments:**

        - `state_size`: number of oscillators, m.
        - `scheme`: see [`linoss.discretize`][].
        - `parameterization`: the positive number is max(raw, 0) for `"relu"` and raw^2 for
          `"squared"`.
        - `init`: `"uniform"` for A uniform on [0, `max_stiffness`], `"uniform-root"` for its root
          uniform, or `"normal"` for raw standard normal. Use `"normal"` with `"squared"` only: with
          `"relu"`, half of the oscillators would have A = 0.
        - `damped`: learn G. Initial A and G then give eigenvalues uniform in area on the ring with
          radii from `min_radius` to 1; `init` is ignored.
        - `timestep`: a fixed number (1 in the paper), or `"learned"`, sigmoid(raw) with raw
          initialised uniformly on [0, 1].
        """
        rule = find_scheme(scheme)
        _checks.positive_integer("state_size", state_size)
        check_value("parameterization", parameterization, Parameterization)
        check_value("init", init, StiffnessInit)
        _checks.positive_number("max_stiffness", max_stiffness)
        _checks.number("min_radius", min_radius, "a number in (0, 1]", lambda x: 0 < x <= 1)
        _checks.boolean_option("damped", damped)
        check_value("timestep", timestep, settings.Timestep)
        if damped and rule.ring is None:
            raise ValueError(
                f"damped is True, but scheme {rule.name!r} has no damping; use one of "
                f"{damped_schemes()}"
            )

        self.scheme, self.parameterization = scheme, parameterization
        self.fixed_timestep = None if timestep == "learned" else float(timestep)
        stiffness_key, angle_key, timestep_key = jax.random.split(key, 3)
        self.raw_timestep = (
            jax.random.uniform(timestep_key, (state_size,)) if timestep == "learned" else None
        )
        if damped and rule.ring is not None:
            area = jax.random.uniform(stiffness_key, (state_size,), minval=min_radius**2)
            angle = jax.random.uniform(angle_key, (state_size,), maxval=jnp.pi)
            timesteps = self._timestep(area)
            stiffness, self.raw_damping = rule.ring(jnp.sqrt(area), angle, timesteps)
            above = stiffness - rule.oscillates(timesteps, self.raw_damping).low
        else:
            drawn = jax.random.uniform(stiffness_key, (state_size,))
            above = max_stiffness * (drawn**2 if init == "uniform-root" else drawn)
            self.raw_damping = None
        if init == "normal" and not damped:
            self.raw_stiffness = jax.random.normal(stiffness_key, (state_size,))
        else:
            above = jnp.maximum(above, 0)
            self.raw_stiffness = above if parameterization == "relu" else jnp.sqrt(above)

    def _timestep(self, like: Array) -> Array:
        if self.raw_timestep is not None:
            return jax.nn.sigmoid(self.raw_timestep)
        assert self.fixed_timestep is not None
        return jnp.full_like(like, self.fixed_timestep)

    @property
    def state_size(self) -> int:
        """Number of oscillators."""
        return self.raw_stiffness.shape[0]

    @property
    def weigh(self) -> Callable[[Array, Array], Array] | None:
        """The scheme's weights of forces, see `Scheme.weigh`."""
        return find_scheme(self.scheme).weigh

    @property
    def timestep(self) -> Float[Array, " m"]:
        """dt of each oscillator."""
        return self._timestep(self.raw_stiffness)

    @property
    def damping(self) -> Float[Array, " m"]:
        """G of each oscillator."""
        if self.raw_damping is None:
            return jnp.zeros_like(self.raw_stiffness)
        return jax.nn.relu(self.raw_damping)

    @property
    def stiffness(self) -> Float[Array, " m"]:
        """A of each oscillator."""
        raw = self.raw_stiffness
        above = jax.nn.relu(raw) if self.parameterization == "relu" else raw**2
        low, high = find_scheme(self.scheme).oscillates(self.timestep, self.damping)
        return jnp.minimum(low + above, (1 - _MARGIN) * high)

    def transition(
        self, intervals: Float[Array, "*batch time"] | None = None, copies: int = 1
    ) -> Transition | VaryingTransition:
        """The step of this bank, repeated `copies` times with shared parameters.

        `intervals`, for irregular sampling, is the time since the previous sample in units of the
        regular sampling interval. If the scheme has a stability bound, steps are limited to
        `Scheme.longest`.
        """
        scheme = find_scheme(self.scheme)
        A, h, G = (jnp.tile(x, copies) for x in (self.stiffness, self.timestep, self.damping))
        if intervals is None:
            return make_transition(scheme, A, h, G)
        longest = None if scheme.longest is None else scheme.longest(A)
        return make_transition(scheme, A, h, G, intervals[..., None], longest)
