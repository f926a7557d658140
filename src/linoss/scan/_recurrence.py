"""The recurrence that every engine runs: x_n = M_n x_{n-1} + F_n b_n, x = [z, y].

In this package arrays are `(batch, time, m)` with one batch axis, and a state is a pair (z, y).
Intervals and mask, which vary from sample to sample, are passed together with the force, so that
M_n and F_n are computed where they are used and never stored for a whole sequence.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float

from linoss._arrays import align, fit
from linoss.dynamics import Scheme, Step

State = tuple[Array, Array]
"""Velocity and position, each `(batch, ..., m)`."""
Matrix = tuple[tuple[Array, Array], tuple[Array, Array]]
"""[[zz, zy], [yz, yy]], each entry an array over oscillators, and over samples if it varies."""


class Sampling(eqx.Module):
    """Sampling intervals, and which samples are present."""

    intervals: Float[Array, "#batch time #m"] | None
    mask: Bool[Array, "#batch time 1"] | None

    def cut(self, start: Any, size: int) -> "Sampling":
        """The `size` samples that begin at `start`."""
        return jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, start, size, axis=1), self)


class Recurrence(eqx.Module):
    """The parameters that all samples share and that determine M and F of a sample.

    With a scheme, the parameters are (stiffness, timestep, damping, longest step or None); without,
    they are the step.
    """

    parameters: Any
    scheme: Scheme | None = eqx.field(static=True)

    def step(self, sampling: Sampling) -> Step:
        """M and F for these samples; a single step if it is constant."""
        if self.scheme is None:
            step = self.parameters
        else:
            assert sampling.intervals is not None
            A, timestep, G, longest = self.parameters
            step = self.scheme.steps(A, timestep, G, longest, sampling.intervals)
        return step if sampling.mask is None else _masked(step, sampling.mask)

    def adjoint_step(self, sampling: Sampling) -> Step:
        """The step of the sensitivities, backwards in time: mu_n = M_n^T (mu_{n+1} + e_y dy_n)."""
        (zz, zy), (yz, yy) = self.step(sampling).matrix
        return Step(((zz, yz), (zy, yy)), (yz, yy))


def _masked(step: Step, mask: Array) -> Step:
    """A masked step leaves the state unchanged: M = 1, F = 0."""
    ((zz, zy), (yz, yy)), (fz, fy) = jax.tree.map(lambda x: align(x, mask), step)
    return Step(
        (
            (jnp.where(mask, zz, 1), jnp.where(mask, zy, 0)),
            (jnp.where(mask, yz, 0), jnp.where(mask, yy, 1)),
        ),
        (jnp.where(mask, fz, 0), jnp.where(mask, fy, 0)),
    )


def apply(matrix: Matrix, state: State) -> State:
    """M x, in the precision of x."""
    z, y = state
    (zz, zy), (yz, yy) = jax.tree.map(lambda x: fit(x, z), matrix)
    return zz * z + zy * y, yz * z + yy * y


def add(state: State, other: State) -> State:
    """x + f, in the precision of x."""
    (z, y), (fz, fy) = state, other
    return z + fit(fz, z), y + fit(fy, y)


def push(forcing: State, force: Array) -> State:
    """F b."""
    fz, fy = forcing
    return align(fz, force) * force, align(fy, force) * force


def multiply(second: Matrix, first: Matrix) -> Matrix:
    """M_2 M_1."""
    (a, b), (c, d) = first
    column_z, column_y = apply(second, (a, c)), apply(second, (b, d))
    return (column_z[0], column_y[0]), (column_z[1], column_y[1])


def double_precision(values: Any) -> Any:
    """Convert to double precision."""
    return jax.tree.map(lambda x: x.astype(jnp.float64), values)
