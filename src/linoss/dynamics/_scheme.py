"""What a discretisation scheme is: one step, where it is stable, and how to aim its spectrum."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from jax import Array
from jaxtyping import Float

Values = Float[Array, "..."]


class Step(NamedTuple):
    """[z, y]_n = M [z, y]_{n-1} + F b_n, entry by entry: each is an array over oscillators."""

    matrix: tuple[tuple[Values, Values], tuple[Values, Values]]
    forcing: tuple[Values, Values]


class Interval(NamedTuple):
    """The stiffnesses A from `low` to `high` for which something holds."""

    low: Values
    high: Values


@dataclass(frozen=True)
class Scheme:
    """A discretisation of z' = -A y - G z + b, y' = z.

    Its functions take `timestep` and `damping` (and `stiffness`, or a wanted eigenvalue) and work
    element by element, so that one scheme serves constant and varying timesteps alike.
    """

    step: Callable[[Values, Values, Values], Step]
    """(stiffness, timestep, damping) to one step."""
    stable: Callable[[Values, Values], Interval]
    """(timestep, damping) to the stiffnesses with |eigenvalue| <= 1."""
    oscillating: Callable[[Values, Values], Interval]
    """(timestep, damping) to the stiffnesses whose eigenvalues are a complex pair."""
    ring: Callable[[Values, Values, Values], tuple[Values, Values]]
    """(radius, angle, timestep) to the (stiffness, damping) with that eigenvalue."""
    damped: bool = True
    """Whether the scheme knows damping."""
    onset: float = 1.0
    """Weight of the first force when the oscillators start at rest."""
