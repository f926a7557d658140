"""LinOSS-IM: the implicit Euler scheme. Dissipative.

It is stable for every A >= 0: |lambda|^2 = 1 / (1 + h G + h^2 A), or both eigenvalues are real in
(0, 1].
"""

import jax.numpy as jnp

from linoss.dynamics._scheme import Interval, Scheme, Step, Values


def step(stiffness: Values, timestep: Values, damping: Values) -> Step:
    """z_n = z_{n-1} + h (-A y_n - G z_n + b_n),   y_n = y_{n-1} + h z_n."""
    A, h, G = stiffness, timestep, damping
    S = 1 / (1 + h * G + h**2 * A)
    M = (
        (S, -h * A * S),
        (h * S, (1 + h * G) * S),
    )
    F = (h * S, h**2 * S)
    return Step(M, F)


def oscillating(timestep: Values, damping: Values) -> Interval:
    """G^2 < 4 A, as for the differential equation itself."""
    low = damping**2 / 4 + jnp.zeros_like(timestep)
    return Interval(low, jnp.full_like(low, jnp.inf))


def ring(radius: Values, angle: Values, timestep: Values) -> tuple[Values, Values]:
    """|lambda|^2 = 1/S and 2 Re lambda = (2 + h G)/S, solved for A and G.

    The scheme has numerical damping: at radius r, only angles up to arccos r are possible with G >=
    0. The angle, given in [0, pi], is therefore scaled to [0, arccos r].
    """
    theta = angle / jnp.pi * jnp.arccos(radius)
    G = 2 * (jnp.cos(theta) / radius - 1) / timestep
    A = ((1 / radius - jnp.cos(theta)) ** 2 + jnp.sin(theta) ** 2) / timestep**2
    return A, jnp.maximum(G, 0)


IM = Scheme("im", step, oscillating=oscillating, ring=ring, native="im")
