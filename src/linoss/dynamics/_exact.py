"""The exact solution for forces that are constant over a step (zero-order hold)."""

import itertools
import math
from collections.abc import Callable

import jax.numpy as jnp

from linoss.dynamics import _im
from linoss.dynamics._scheme import Scheme, Step, Values

# Use the Taylor series of the response if both are below these thresholds.
_SMALL_STIFFNESS = 1.0  # h^2 A
_SMALL_DAMPING = 2.0  # h G
# Use the Taylor series of sine and cosine (or sinh and cosh) within this threshold.
_NEAR_CRITICAL = 0.25  # |h omega|^2


def step(stiffness: Values, timestep: Values, damping: Values) -> Step:
    """[z, y]' = [[-G, -A], [1, 0]] [z, y] + [b, 0], solved over one timestep.

    M follows from the response to a unit force from rest, with velocity F_z and position F_y: a
    state [z, 0] is the effect of an impulse, and [0, y] is a displacement from the rest position
    A^-1 b.
    """
    A, G = stiffness, damping
    F_z, F_y = _unit_response(A, timestep, G)
    M = (
        (1 - A * F_y - G * F_z, -A * F_z),
        (F_z, 1 - A * F_y),
    )
    return Step(M, (F_z, F_y))


def _unit_response(A: Values, h: Values, G: Values) -> tuple[Values, Values]:
    """Velocity and position after one step from rest under unit force.

    With a = G/2, omega^2 = A - a^2, E = e^{-a h}, c = cos(omega h), s = sin(omega h)/omega it is
    [E s, (1 - E (c + a s)) / A]. Evaluated directly, the position divides rounding errors by A, so
    three formulas cover different ranges and agree at the boundaries. Each is evaluated at safe
    values outside its range, so that derivatives contain no infinities.
    """
    scaled_stiffness, scaled_damping = h**2 * A, h * G
    small = (scaled_stiffness <= _SMALL_STIFFNESS) & (scaled_damping <= _SMALL_DAMPING)
    half = scaled_damping / 2  # omega^2 < -half^2 / 4, by quotients because half^2 may overflow
    over = ~small & (scaled_stiffness / jnp.maximum(half, 1) < 0.75 * half)
    plain = ~small & ~over

    series = _series(jnp.where(small, scaled_stiffness, 0), jnp.where(small, scaled_damping, 0))
    apart = _two_exponentials(
        jnp.where(over, scaled_stiffness, 0.5), jnp.where(over, scaled_damping, 4.0)
    )
    direct = _direct(jnp.where(plain, scaled_stiffness, 4.0), jnp.where(plain, scaled_damping, 0.5))

    def choose(position: int) -> Values:
        return jnp.where(
            small, series[position], jnp.where(over, apart[position], direct[position])
        )

    return h * choose(0), h**2 * choose(1)


def _series(scaled_stiffness: Values, scaled_damping: Values) -> tuple[Values, Values]:
    """y = sum d_n over n >= 2, h z = sum n d_n, from y'' = 1 - G y' - A y term by term."""
    before, term = jnp.zeros_like(scaled_stiffness), jnp.full_like(scaled_stiffness, 0.5)
    velocity, position = 2 * term, term
    for n in range(3, _terms(term, lambda n: 2**n / math.factorial(n))):
        after = -(scaled_damping * (n - 1) * term + scaled_stiffness * before) / (n * (n - 1))
        before, term = term, after
        velocity, position = velocity + n * term, position + term
    return velocity, position


def _two_exponentials(scaled_stiffness: Values, scaled_damping: Values) -> tuple[Values, Values]:
    """Overdamped response with decay rates a -+ kappa; the slow one is A / (a + kappa), without
    cancellation."""
    half = scaled_damping / 2
    kappa = half * jnp.sqrt(1 - scaled_stiffness / half / half)
    fast = half + kappa
    slow = scaled_stiffness / fast
    velocity = (jnp.exp(-slow) - jnp.exp(-fast)) / (2 * kappa)
    position = (_decay_mean(slow) - _decay_mean(fast)) / (2 * kappa)
    return velocity, position


def _decay_mean(rate: Values) -> Values:
    """(1 - e^{-rate}) / rate; by its series for small rates, where the derivative would lose
    digits."""
    near = rate < 0.5
    x, safe = jnp.where(near, rate, 0.0), jnp.where(near, 1.0, rate)
    series = jnp.ones_like(x)
    for k in reversed(range(2, _terms(x, lambda k: 0.5 ** (k - 1) / math.factorial(k)))):
        series = 1 - x / k * series
    return jnp.where(near, series, -jnp.expm1(-safe) / safe)


def _direct(scaled_stiffness: Values, scaled_damping: Values) -> tuple[Values, Values]:
    """The formula evaluated directly, with E c and E s for real, imaginary and small omega."""
    a = scaled_damping / 2
    squared_angle = scaled_stiffness - a**2
    oscillating, over = squared_angle > _NEAR_CRITICAL, squared_angle < -_NEAR_CRITICAL
    angle = jnp.sqrt(jnp.where(oscillating, squared_angle, 1.0))
    kappa = jnp.sqrt(jnp.where(over, -squared_angle, 1.0))
    x = jnp.where(oscillating | over, 0.0, squared_angle)
    E = jnp.exp(-a)
    slow, fast = jnp.exp(jnp.where(over, kappa - a, 0.0)), jnp.exp(-kappa - a)

    def choose(wave: Values, decay: Values, series: Values) -> Values:
        return jnp.where(over, decay, E * jnp.where(oscillating, wave, series))

    Ec = choose(jnp.cos(angle), (slow + fast) / 2, _alternating(x, first=0))
    Es = choose(jnp.sin(angle) / angle, (slow - fast) / (2 * kappa), _alternating(x, first=1))
    return Es, (1 - (Ec + a * Es)) / scaled_stiffness


def _alternating(x: Values, first: int) -> Values:
    """sum (-x)^k / (2k + first)!: cos(sqrt x), or sin(sqrt x)/sqrt x with `first` = 1."""
    total = jnp.zeros_like(x)
    near = _NEAR_CRITICAL
    for k in reversed(range(_terms(x, lambda k: near**k / math.factorial(2 * k + first)))):
        total = 1 / math.factorial(2 * k + first) - x * total
    return total


def _terms(x: Values, bound: Callable[[int], float]) -> int:
    """The index of the first term of a series that is below rounding error."""
    return next(n for n in itertools.count(1) if bound(n) < jnp.finfo(x.dtype).eps / 4)


def ring(radius: Values, angle: Values, timestep: Values) -> tuple[Values, Values]:
    """lambda = e^{(-a + i omega) h}: a = -log(r)/h, omega = theta/h, G = 2a, A = omega^2 + a^2."""
    a, omega = -jnp.log(radius) / timestep, angle / timestep
    return omega**2 + a**2, 2 * a


EXACT = Scheme("exact", step, oscillating=_im.oscillating, ring=ring, native="exact")
