"""Mixers: the part of a block that moves information along time.

To add a mixer, write one file with a final subclass of `AbstractMixer`.
"""

import abc
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from linoss.nn._samples import Samples

PAIRS = "pairs"
"""The form of native passes for states that are no oscillators but pairs: each has a force of its
own and is read, and the partners of the first half of them are the second half."""


class Projections(NamedTuple):
    """The weights of x_n = M x_{n-1} + F w_n (B u_n + b), y_n = C x_n + D u_n, beside its step."""

    input_weight: Float[Array, "m hidden"]
    bias: Float[Array, " m"]
    output_weight: Float[Array, "hidden m"]
    feedthrough: Float[Array, " hidden"] | Float[Array, "hidden hidden"]


class LinearRecurrence(NamedTuple):
    """A mixer whose state is m pairs of numbers x = [z, y], on regular samples.

        b = B u_n + bias,    x_n = M x_{n-1} + F b,    y_n = C x_n + D u_n

    with a 2 x 2 matrix M for each pair. If B has m rows, b forces both z and y; if it has 2 m, the
    first half forces z and the second y. If C has m columns it reads y; if it has 2 m, [z, y].
    """

    matrix: Float[Array, "4 m"]
    """zz, zy, yz, yy."""
    forcing: Float[Array, "2 m"]
    input_weight: Float[Array, "forces hidden"]
    bias: Float[Array, " forces"]
    output_weight: Float[Array, "hidden read"]
    feedthrough: Float[Array, " hidden"] | Float[Array, "hidden hidden"]
    first_weight: float = 1.0
    """What the force of the first sample is multiplied by."""


class AbstractMixer(eqx.Module):
    """Maps features `(..., time, hidden)` to features of the same shape, along time."""

    @property
    @abc.abstractmethod
    def hidden_size(self) -> int:
        """Number of channels in and out."""

    @abc.abstractmethod
    def init_state(self, batch_shape: tuple[int, ...] = ()) -> Any:
        """The state before the first sample."""

    @abc.abstractmethod
    def mix(
        self, u: Float[Array, "*batch time hidden"], samples: Samples, state: Any, *, reverse: bool
    ) -> tuple[Float[Array, "*batch time hidden"], Any]:
        """The features after mixing, and the state after the last sample.

        `state` is the state before the first sample; None stands for `init_state`. With `reverse`,
        run from the last sample to the first.
        """

    @abc.abstractmethod
    def recurrence(self) -> LinearRecurrence | None:
        """The mixer as a linear recurrence; None if it is none."""

    @abc.abstractmethod
    def has_projections(self, *, irregular: bool, time_split: bool) -> bool:
        """Whether the mixer has the form of `Projections`, with a step that is constant on regular
        samples; native passes over whole blocks need that form, and what follows here. `irregular`
        is whether samples have intervals, `time_split` whether time is split over devices.
        """

    @property
    @abc.abstractmethod
    def native_form(self) -> str:
        """What states are on regular samples: empty for oscillators, or `PAIRS`."""

    @property
    @abc.abstractmethod
    def native_scheme(self) -> str | None:
        """The formulas in `native/schemes.h` by which steps vary with the interval; None if there
        are none."""

    @abc.abstractmethod
    def projections(self) -> Projections:
        """B, b, C and D."""

    @abc.abstractmethod
    def step_rows(self, *, varying: bool) -> Float[Array, "rows m"]:
        """What native passes compute steps from: rows zz, zy, yz, yy, fz, fy of M and F; for steps
        that vary, rows A, timestep, G and the longest step; for `PAIRS`, what a state and what its
        partner is multiplied by."""

    @property
    @abc.abstractmethod
    def weighs_forces(self) -> bool:
        """Whether forces have weights other than 1."""

    @abc.abstractmethod
    def weights(
        self, samples: Samples, state: Any, *, reverse: bool
    ) -> tuple[Float[Array, "sequences time"], Any]:
        """w, in the order in which samples are visited, or an empty array if all are 1; and the
        state with all that is carried from piece to piece but the oscillators."""

    @abc.abstractmethod
    def native_state(self, state: Any) -> Float[Array, "*batch m 2"]:
        """The state as native passes take it: z and y of oscillators; of pairs, each is a y."""

    @abc.abstractmethod
    def with_native_state(self, state: Any, found: Float[Array, "*batch m 2"]) -> Any:
        """The state with what a native pass found."""


class AbstractPlainMixer(AbstractMixer):
    """A mixer that runs beside native passes: these begin after it, with GELU."""

    def recurrence(self) -> LinearRecurrence | None:
        """It has another form."""
        return None

    def has_projections(self, *, irregular: bool, time_split: bool) -> bool:
        """It has another form."""
        return False

    @property
    def native_form(self) -> str:
        """There is none."""
        return ""

    @property
    def native_scheme(self) -> str | None:
        """There is none."""
        return None

    @property
    def weighs_forces(self) -> bool:
        """There are no forces to weigh."""
        return False

    def projections(self) -> Projections:
        """There are none."""
        raise NotImplementedError(f"{type(self).__name__} has no projections")

    def step_rows(self, *, varying: bool) -> Float[Array, "rows m"]:
        """There are none."""
        raise NotImplementedError(f"{type(self).__name__} has no step")

    def weights(
        self, samples: Samples, state: Any, *, reverse: bool
    ) -> tuple[Float[Array, "sequences time"], Any]:
        """None but 1."""
        return jnp.zeros((0, 0), jnp.float32), state

    def native_state(self, state: Any) -> Float[Array, "*batch m 2"]:
        """There is none."""
        raise NotImplementedError(f"{type(self).__name__} has no native state")

    def with_native_state(self, state: Any, found: Float[Array, "*batch m 2"]) -> Any:
        """There is none."""
        raise NotImplementedError(f"{type(self).__name__} has no native state")


def refuse_intervals(samples: Samples, name: str) -> None:
    """Raise for irregular sampling, which a mixer in discrete time has no meaning for."""
    if samples.intervals is not None:
        raise ValueError(
            f"intervals were given, but mixer {name!r} counts samples and knows no time; use one "
            "of 'linoss', 's5', 's4d', 's6', or give it the time as a channel"
        )


def refuse_split_time(samples: Samples, name: str) -> None:
    """Raise if devices share sequences, whose shards a mixer cannot join."""
    if samples.split.time is not None:
        raise ValueError(
            f"time is split over devices, which mixer {name!r} cannot do; split the batch alone"
        )
