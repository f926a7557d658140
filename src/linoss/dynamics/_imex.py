"""LinOSS-IMEX: the implicit-explicit (symplectic) Euler scheme. Undamped, it conserves volume."""

import jax.numpy as jnp

from linoss.dynamics._scheme import Interval, Scheme, Step, Values


def step(stiffness: Values, timestep: Values, damping: Values) -> Step:
    """z_n = z_{n-1} + h (-A y_{n-1} - G z_n + b_n),   y_n = y_{n-1} + h z_n."""
    A, h, G = stiffness, timestep, damping
    S = 1 + h * G
    M = (
        (1 / S, -h * A / S),
        (h / S, 1 - h**2 * A / S),
    )
    F = (h / S, h**2 / S)
    return Step(M, F)


def stable(timestep: Values, damping: Values) -> Interval:
    """det M = 1/S <= 1 and |tr M| <= 1 + det M: h^2 A <= 2 (S + 1), that is 4 without damping."""
    high = 2 * (2 + timestep * damping) / timestep**2
    return Interval(jnp.zeros_like(high), high)


def oscillating(timestep: Values, damping: Values) -> Interval:
    """(sqrt(S) - 1)^2 < h^2 A < (sqrt(S) + 1)^2, where |lambda|^2 = 1/S.

    The lower bound is computed as (G / (sqrt(S) + 1))^2, which avoids cancellation.
    """
    root = jnp.sqrt(1 + timestep * damping)
    return Interval((damping / (root + 1)) ** 2, (root + 1) ** 2 / timestep**2)


def ring(radius: Values, angle: Values, timestep: Values) -> tuple[Values, Values]:
    """r^2 = 1/S and 2 r cos(theta) = (1 + S - h^2 A)/S, solved for A and G."""
    h, S = timestep, 1 / radius**2
    G = (S - 1) / h
    A = (1 + S - 2 * jnp.sqrt(S) * jnp.cos(angle)) / h**2
    return A, G


def longest(stiffness: Values) -> Values:
    """h^2 A = 1, half of the longest stable step without damping.

    Steps of varying length excite each other near the bound: a product of their matrices grows. For
    Verlet, M(h) conserves z^2 + A (1 - h^2 A / 4) y^2, which at half of the bound changes by a
    quarter at most.
    """
    return 1 / jnp.sqrt(jnp.maximum(stiffness, 1e-12))


IMEX = Scheme("imex", step, stable, oscillating, ring, longest=longest, native="imex")
