"""The interface of a discretisation scheme.

To add a scheme to the library, write one file with its equations and a `Scheme`, and add it to
`SCHEMES` in `_transition.py`. No other file refers to a scheme by name. A scheme of your own is
passed as an object wherever a name is accepted.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from linoss._arrays import align

Values = Float[Array, "..."]


class Step(NamedTuple):
    """[z, y]_n = M [z, y]_{n-1} + F b_n, where each entry is an array over oscillators."""

    matrix: tuple[tuple[Values, Values], tuple[Values, Values]]
    forcing: tuple[Values, Values]


class Interval(NamedTuple):
    """A range of stiffnesses A, from `low` to `high`."""

    low: Values
    high: Values


def every_stiffness(timestep: Values, damping: Values) -> Interval:
    """Every A >= 0."""
    low = jnp.zeros_like(timestep * damping)
    return Interval(low, jnp.full_like(low, jnp.inf))


@dataclass(frozen=True)
class Scheme:
    """A discretisation of z' = -A y - G z + b, y' = z.

    All functions are elementwise, so that they apply to constant and varying timesteps. Only `step`
    is required; a scheme without `ring` has no damping.

    ```python
    >>> import linoss
    >>> from linoss.dynamics import Scheme, Step
    >>> def drift_first(A, h, G):
    ...     return Step(((1 - h**2 * A, -h * A), (h, 1)), (h, 0 * h))
    >>> linoss.discretize(Scheme("drift first", drift_first), [1.0], 0.5).matrix[0]
    Array([[ 0.75, -0.5 ],
           [ 0.5 ,  1.  ]], dtype=float32)

    ```
    """

    name: str
    step: Callable[[Values, Values, Values], Step]
    """(stiffness, timestep, damping) -> one step."""
    stable: Callable[[Values, Values], Interval] = every_stiffness
    """(timestep, damping) -> the stiffnesses with |eigenvalue| <= 1."""
    oscillating: Callable[[Values, Values], Interval] | None = None
    """(timestep, damping) -> the stiffnesses whose eigenvalues are a complex pair; None if they are
    all stable ones."""
    ring: Callable[[Values, Values, Values], tuple[Values, Values]] | None = None
    """(radius, angle, timestep) -> the (stiffness, damping) with that eigenvalue; None if the
    scheme has no damping."""
    weigh: Callable[[Values, Values], Values] | None = None
    """(previous interval, interval) -> weight of a force, for schemes whose forces act on both
    sides of a sample. The previous interval is 0 at the first sample; a scan carries the last one
    from piece to piece. None if every force has weight 1."""
    longest: Callable[[Values], Values] | None = None
    """stiffness -> the longest step that a model takes between irregular samples, well below the
    stability bound. None for no limit."""
    native: str | None = None
    """The name of the scheme's formulas in `native/schemes.h`, with which kernels compute steps
    that vary from sample to sample. None if there are none: JAX then computes the steps."""

    @property
    def damped(self) -> bool:
        """Whether the scheme has damping."""
        return self.ring is not None

    def oscillates(self, timestep: Values, damping: Values) -> Interval:
        """The stiffnesses whose eigenvalues are a complex pair."""
        return (self.oscillating or self.stable)(timestep, damping)

    def steps(
        self,
        stiffness: Values,
        timestep: Values,
        damping: Values,
        longest: Values | None,
        intervals: Values,
    ) -> Step:
        """One step per sample, from parameters `(m,)` and intervals `(..., #m)` in units of
        timesteps."""
        A, h, G = (align(x, intervals) for x in (stiffness, timestep, damping))
        h = h * intervals
        return self.step(A, h if longest is None else jnp.minimum(h, align(longest, h)), G)
