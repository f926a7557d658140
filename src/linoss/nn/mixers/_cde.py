"""Neural controlled differential equations: NCDE, NRDE and Log-NCDE.

The sequence defines a path X in time that drives the features y:

    dy = f(y) dX,    y = W x + b at the first sample,

where f(y) is a matrix (hidden, channels), the output of an MLP with a final tanh. There are no
blocks: W is the encoder, and the head reads y.

- NCDE: X is a cubic Hermite spline through the present samples. (Kidger and others, Neural
  Controlled Differential Equations for Irregular Time Series, 2020.)
- NRDE: over each window of samples, dy = f(y) s, where s is the log-signature of the path in the
  window up to depth 1 or 2, and f has a column for each entry of s, from an additional linear map.
  (Morrill and others, Neural Rough Differential Equations, 2021.)
- Log-NCDE: the same with f of an NCDE: entries of s of depth 1 multiply its columns f_i, those of
  depth 2 the brackets [f_i, f_j] = Df_j f_i - Df_i f_j. (Walker and others, Log Neural Controlled
  Differential Equations, 2024.)

Heun's method takes `solver_steps` steps between samples, or for each window. Solver and adjoint are
from Diffrax, log-signatures from Signax: `pip install ".[baselines]"`.
"""

import abc
from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, PRNGKeyArray

from linoss import _checks, _extras
from linoss._arrays import steps
from linoss.nn._operations import NoNorm
from linoss.nn._passes import Features
from linoss.nn._samples import Samples
from linoss.nn.mixers._mixer import move_to_front

_package = partial(_extras.optional, purpose="a mixer ncde, nrde or log-ncde", extra="baselines")


class Perceptron(eqx.Module):
    """An MLP with a final tanh, whose initial weights are divided by a scale."""

    layers: tuple[eqx.nn.Linear, ...]
    activation: Callable[[Array], Array] = eqx.field(static=True)

    def __init__(
        self,
        in_size: int,
        out_size: int,
        width: int,
        depth: int,
        scale: int | float,
        activation: Callable[[Array], Array],
        key: PRNGKeyArray,
    ):
        _checks.positive_integer("field_width", width)
        _checks.positive_number("field_scale", scale)
        drawn = eqx.nn.MLP(in_size, out_size, width, depth, key=key)
        self.layers = jax.tree.map(lambda x: x / scale, drawn.layers)
        self.activation = activation

    def __call__(self, y: Float[Array, " in"]) -> Float[Array, " out"]:
        """The output for one vector."""
        for layer in self.layers[:-1]:
            y = self.activation(layer(y))
        return jnp.tanh(self.layers[-1](y))


class AbstractCDE(eqx.Module):
    """A CDE in place of the blocks of a model: features driven by the path of the samples."""

    norm: eqx.AbstractVar[NoNorm]

    @abc.abstractmethod
    def follow(
        self,
        values: Float[Array, "time channels"],
        times: Float[Array, " time"],
        start: Float[Array, " hidden"],
    ) -> Float[Array, "time hidden"]:
        """y at every sample of one sequence without missing samples."""

    def features(self, encoder: eqx.nn.Linear, samples: Samples) -> Features:
        """y at every sample."""
        *batch, time, channels = samples.values.shape
        values = samples.values.reshape(-1, time, channels)
        intervals = jnp.ones(values.shape[:2], values.dtype)
        if samples.intervals is not None:
            intervals = samples.intervals.reshape(-1, time)
        place = None
        if samples.mask is not None:  # present samples come first; the last one is repeated
            order, place = move_to_front(samples.mask.reshape(-1, time))
            index = jnp.minimum(steps(*order.shape), place[:, -1:])
            order = jnp.take_along_axis(order, index, axis=1)
            values = jnp.take_along_axis(values, order[..., None], axis=1)
            intervals = jnp.take_along_axis(intervals, order, axis=1)
        with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
            start = jax.vmap(encoder)(values[:, 0])
            y = jax.vmap(self.follow)(values, jnp.cumsum(intervals, axis=1), start)
        if place is not None:
            y = jnp.take_along_axis(y, place[..., None], axis=1)
        return Features(y.reshape(*batch, time, -1))


class NeuralCDE(AbstractCDE):
    """An NCDE."""

    field: Perceptron
    norm: NoNorm
    solver_steps: int = eqx.field(static=True)

    def __init__(
        self,
        hidden_size: int,
        in_size: int,
        *,
        field_width: int = 128,
        field_depth: int = 3,
        field_scale: int | float = 1.0,
        solver_steps: int = 1,
        key: PRNGKeyArray,
    ):
        sizes = (hidden_size, hidden_size * in_size)
        self.field = Perceptron(*sizes, field_width, field_depth, field_scale, jax.nn.relu, key)
        self.norm, self.solver_steps = NoNorm(), solver_steps

    def follow(self, values: Array, times: Array, start: Array) -> Array:
        """Integrate along a spline through the samples."""
        if len(times) == 1:
            return start[None]
        diffrax = _package("diffrax")
        coefficients = diffrax.backward_hermite_coefficients(times, values)
        spline = diffrax.CubicInterpolation(times, coefficients)

        def matrix(t: Array, y: Array, _: Any) -> Array:
            return self.field(y).reshape(len(y), -1)

        term = diffrax.ControlTerm(matrix, spline).to_ode()
        return _solve(term, times, start, self.solver_steps)


class NeuralRDE(AbstractCDE):
    """An NRDE; or, with `brackets`, a Log-NCDE."""

    field: Perceptron
    last: eqx.nn.Linear | None
    norm: NoNorm
    signature_depth: int = eqx.field(static=True)
    signature_steps: int = eqx.field(static=True)
    solver_steps: int = eqx.field(static=True)

    def __init__(
        self,
        hidden_size: int,
        in_size: int,
        *,
        field_width: int = 128,
        field_depth: int = 3,
        field_scale: int | float = 1.0,
        solver_steps: int = 1,
        signature_depth: int = 2,
        signature_steps: int = 8,
        brackets: bool = False,
        key: PRNGKeyArray,
    ):
        _checks.one_of("signature_depth", signature_depth, (1, 2))
        _checks.positive_integer("signature_steps", signature_steps)
        self.norm, self.solver_steps, self.last = NoNorm(), solver_steps, None
        self.signature_depth, self.signature_steps = signature_depth, signature_steps
        if brackets:  # f with a column for each channel
            shape = (hidden_size, hidden_size * in_size, field_width, field_depth, field_scale)
            self.field = Perceptron(*shape, jax.nn.silu, key)
            return
        field_key, last_key = jax.random.split(key)
        entries = in_size + (in_size * (in_size - 1) // 2 if signature_depth == 2 else 0)
        shape = (hidden_size, field_width, field_width, field_depth - 1, field_scale)
        self.field = Perceptron(*shape, jax.nn.relu, field_key)
        self.last = eqx.nn.Linear(field_width, hidden_size * entries, key=last_key)

    def follow(self, values: Array, times: Array, start: Array) -> Array:
        """For each sample, y at the end of its window."""
        time = len(times)
        windows = -(-(time - 1) // self.signature_steps)
        if windows == 0:
            return start[None]
        diffrax, signax = _package("diffrax"), _package("signax")
        missing = windows * self.signature_steps + 1 - time
        path = jnp.pad(values, ((0, missing), (0, 0)), mode="edge")
        inner = path[:-1].reshape(windows, self.signature_steps, -1)
        ends = path[self.signature_steps :: self.signature_steps, None]
        pieces = jnp.concatenate([inner, ends], axis=1)
        signatures = jax.vmap(lambda piece: signax.logsignature(piece, self.signature_depth))(
            pieces
        )

        knots = jnp.arange(windows + 1, dtype=values.dtype)
        driver = jnp.concatenate([jnp.zeros_like(signatures[:1]), jnp.cumsum(signatures, axis=0)])
        term = diffrax.ControlTerm(
            lambda t, y, _: self.matrix(y), diffrax.LinearInterpolation(knots, driver)
        )
        y = _solve(term, knots, start, self.solver_steps)
        window = -(-jnp.arange(time) // self.signature_steps)
        return y[window]

    def matrix(self, y: Float[Array, " hidden"]) -> Float[Array, "hidden entries"]:
        """The matrix that multiplies the log-signature of a window."""
        if self.last is not None:
            return self.last(self.field(y)).reshape(len(y), -1)
        columns = self.field(y).reshape(-1, len(y))
        if self.signature_depth == 1:
            return columns.T
        along = jax.vmap(lambda v: jax.jvp(self.field, (y,), (v,))[1])(columns)
        along = along.reshape(len(columns), *columns.shape)  # Df_j f_i
        first, second = jnp.triu_indices(len(columns), 1)
        return jnp.concatenate([columns, along[first, second] - along[second, first]]).T


def _solve(term: Any, knots: Float[Array, " n"], start: Array, number: int) -> Array:
    """y at every knot, by Heun's method with `number` equal steps between knots."""
    diffrax = _package("diffrax")
    parts = jnp.arange(number, dtype=knots.dtype) / number
    fine = (knots[:-1, None] + parts[None] * (knots[1:] - knots[:-1])[:, None]).reshape(-1)
    fine = jnp.concatenate([fine, knots[-1:]])
    solution = diffrax.diffeqsolve(
        term,
        diffrax.Heun(),
        t0=knots[0],
        t1=knots[-1],
        dt0=None,
        y0=start,
        saveat=diffrax.SaveAt(ts=knots),
        stepsize_controller=diffrax.StepTo(ts=fine),
        max_steps=len(fine),
    )
    return solution.ys
