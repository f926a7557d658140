"""LinOSS-VV: velocity Verlet. Second order, symplectic, undamped.

With forces b_n, the paper writes

    y_n = y_{n-1} + h z_{n-1} + h^2/2 (-A y_{n-1} + b_n),
    z_n = z_{n-1} + h/2 (-A y_n + b_{n+1} - A y_{n-1} + b_n),

where z_n waits for a force b_{n+1} that is yet to come. The velocity w_n = z_n - h/2 b_{n+1} does
not wait, and turns the scheme into a kick by h b_n followed by the free motion,

    [w, y]_n = M ([w, y]_{n-1} + [h b_n, 0]),

with the paper's M: the same positions, one causal force a step.

The kick joins two halves: the end of step n-1 and the start of step n. Before the first step
there is no such end, so oscillators that start at rest feel the first force with half its weight
(the trapezoidal rule's end weight), and where the timestep varies a kick weighs
(h_{n-1} + h_n) / 2. That is what keeps the scheme of second order; see `kick_weights`.
"""

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float

from linoss.dynamics._scheme import Interval, Scheme, Step, Values


def step(stiffness: Values, timestep: Values, damping: Values) -> Step:
    """w_n = w_{n-1} + h b_n - h/2 A (y_n + y_{n-1}).

    y_n = y_{n-1} + h (w_{n-1} + h b_n - h/2 A y_{n-1}).
    """
    A, h = stiffness, timestep
    half = 1 - h**2 * A / 2
    M = (
        (half, -h * A * (1 - h**2 * A / 4)),
        (h, half),
    )
    F = (h * half, h**2)
    return Step(M, F)


def stable(timestep: Values, damping: Values) -> Interval:
    """det M = 1 and |tr M| = |2 - h^2 A| <= 2."""
    high = 4 / timestep**2
    return Interval(jnp.zeros_like(high), high)


def ring(radius: Values, angle: Values, timestep: Values) -> tuple[Values, Values]:
    """The radius is 1 whatever is asked for; 2 cos(theta) = 2 - h^2 A, solved for A."""
    A = 2 * (1 - jnp.cos(angle)) / timestep**2
    return A, jnp.zeros_like(A * radius)


def kick_weights(
    intervals: Float[Array, "*batch time #m"], mask: Bool[Array, "*batch time 1"] | None
) -> Float[Array, "*batch time #m"]:
    """(h_{n-1} + h_n) / (2 h_n): what a force weighs next to one on a regular grid.

    `intervals` are the timesteps up to a common factor. The first weight is 1. A masked sample is
    no sample: the one before the next is the last that was not masked.
    """
    axis = intervals.ndim - 2
    before = jnp.concatenate([intervals[..., :1, :], intervals[..., :-1, :]], axis=axis)
    if mask is not None:
        index = jnp.arange(intervals.shape[axis])[:, None]
        last = jax.lax.cummax(jnp.where(mask, index, -1), axis=mask.ndim - 2)
        last = jnp.concatenate([jnp.full_like(last[..., :1, :], -1), last[..., :-1, :]], axis=-2)
        before = jnp.take_along_axis(intervals, jnp.where(last < 0, index, last), axis=axis)
    return (before + intervals) / (2 * intervals)


VERLET = Scheme(step, stable, stable, ring, damped=False, onset=0.5)
