"""LinOSS-VV: velocity Verlet. Second order, symplectic, undamped.

With forces b_n, the paper writes

    y_n = y_{n-1} + h z_{n-1} + h^2/2 (-A y_{n-1} + b_n),
    z_n = z_{n-1} + h/2 (-A y_n + b_{n+1} - A y_{n-1} + b_n),

where z_n depends on the future force b_{n+1}. The velocity w_n = z_n - h/2 b_{n+1} does not, and
turns the scheme into an impulse h b_n followed by free motion,

    [w, y]_n = M ([w, y]_{n-1} + [h b_n, 0]),

with the paper's M: the same positions, with one causal force in each step.

The impulse is the sum of two halves: the end of step n-1 and the start of step n. With varying
timesteps it is therefore (h_{n-1} + h_n)/2 b_n, and the first force has half of its weight (h_{-1}
= 0, as in the trapezoidal rule). These weights keep the scheme second order; see `weigh`.
"""

import jax.numpy as jnp

from linoss.dynamics import _imex
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


def weigh(previous: Values, interval: Values) -> Values:
    """(h_{n-1} + h_n) / (2 h_n): the impulse of a sample relative to regular sampling."""
    return (previous + interval) / (2 * interval)


VERLET = Scheme("verlet", step, stable, weigh=weigh, longest=_imex.longest, native="verlet")
