"""Mixers: the part of a block that moves information along time.

To add a mixer, write one file with a final subclass of `AbstractMixer`.
"""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from linoss.nn._samples import Samples

PAIRS = "pairs"
"""The native form of mixers with pairs of states instead of oscillators. Each state has its own
force and output; the partner of a state in the first half is in the second half."""


class Projections(NamedTuple):
    """B, b, C and D of x_n = M x_{n-1} + F w_n (B u_n + b), y_n = C x_n + D u_n."""

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
    """The weight of the first sample's force."""
    varying: Callable[[Array, Array], tuple[Array, ...]] | None = None
    """(previous interval, interval) -> rows of M, then of F, and the weight of the force; None if
    they are not known for irregular samples."""


class AbstractMixer(eqx.Module):
    """Maps features `(..., time, hidden)` to features of the same shape, along time."""

    @property
    @abc.abstractmethod
    def hidden_size(self) -> int:
        """Number of channels in and out."""

    @abc.abstractmethod
    def init_state(self, batch_shape: tuple[int, ...] = ()) -> Any:
        """The initial state."""

    @abc.abstractmethod
    def mix(
        self, u: Float[Array, "*batch time hidden"], samples: Samples, state: Any, *, reverse: bool
    ) -> tuple[Float[Array, "*batch time hidden"], Any]:
        """The features after mixing, and the state after the last sample.

        `state` is the state before the first sample; None means `init_state`. With `reverse`,
        run from the last sample to the first.
        """

    @abc.abstractmethod
    def recurrence(self) -> LinearRecurrence | None:
        """The mixer as a linear recurrence; None if it is not one."""

    @abc.abstractmethod
    def has_projections(self, *, irregular: bool, time_split: bool) -> bool:
        """Whether the mixer has the form of `Projections`, with a constant step on regular samples.

        Native passes over whole blocks need this form and the following members. `irregular` is
        whether samples have intervals, `time_split` whether time is split over devices.
        """

    @property
    @abc.abstractmethod
    def native_form(self) -> str:
        """The form of the states on regular samples: empty for oscillators, or `PAIRS`."""

    @property
    @abc.abstractmethod
    def native_scheme(self) -> str | None:
        """The name of the formulas for steps in `native/schemes.h`; None if there are none."""

    @abc.abstractmethod
    def projections(self) -> Projections:
        """B, b, C and D."""

    @abc.abstractmethod
    def step_rows(self, *, parameters: bool) -> Float[Array, "rows m"]:
        """Rows from which native passes compute steps: zz, zy, yz, yy, fz, fy of M and F; with
        `parameters`, those of `native_scheme`: A, timestep, G and the longest step; for `PAIRS`,
        the factors of a state and of its partner."""

    @property
    @abc.abstractmethod
    def weighs_forces(self) -> bool:
        """Whether forces have weights other than 1."""

    @abc.abstractmethod
    def weights(
        self, samples: Samples, state: Any, *, reverse: bool
    ) -> tuple[Float[Array, "sequences time"], Any]:
        """w in the order in which samples are visited, or an empty array if all weights are 1; and
        the state to carry on, without the oscillators."""

    @abc.abstractmethod
    def native_state(self, state: Any) -> Float[Array, "*batch m 2"]:
        """The state for native passes: z and y of oscillators; for pairs, each state is a y."""

    @abc.abstractmethod
    def with_native_state(self, state: Any, found: Float[Array, "*batch m 2"]) -> Any:
        """The state with the result of a native pass."""


class AbstractPlainMixer(AbstractMixer):
    """A mixer without a native form: native passes begin after it, with GELU."""

    def recurrence(self) -> LinearRecurrence | None:
        """None: the mixer is not a linear recurrence."""
        return None

    def has_projections(self, *, irregular: bool, time_split: bool) -> bool:
        """False: the mixer has another form."""
        return False

    @property
    def native_form(self) -> str:
        """Empty: there is no native form."""
        return ""

    @property
    def native_scheme(self) -> str | None:
        """None: native passes do not run it."""
        return None

    @property
    def weighs_forces(self) -> bool:
        """False: it has no forces."""
        return False

    def projections(self) -> Projections:
        """Raises, because there are none."""
        raise NotImplementedError(f"{type(self).__name__} has no projections")

    def step_rows(self, *, parameters: bool) -> Float[Array, "rows m"]:
        """Raises, because there are none."""
        raise NotImplementedError(f"{type(self).__name__} has no step")

    def weights(
        self, samples: Samples, state: Any, *, reverse: bool
    ) -> tuple[Float[Array, "sequences time"], Any]:
        """Empty: all weights are 1."""
        return jnp.zeros((0, 0), jnp.float32), state

    def native_state(self, state: Any) -> Float[Array, "*batch m 2"]:
        """Raises, because there is none."""
        raise NotImplementedError(f"{type(self).__name__} has no native state")

    def with_native_state(self, state: Any, found: Float[Array, "*batch m 2"]) -> Any:
        """Raises, because there is none."""
        raise NotImplementedError(f"{type(self).__name__} has no native state")


def refuse_intervals(samples: Samples, name: str) -> None:
    """Raise for irregular sampling, which a mixer in discrete time does not support."""
    if samples.intervals is not None:
        raise ValueError(
            f"intervals were given, but mixer {name!r} does not support irregular times; use one "
            "of 'linoss', 's5', 's4d', 's6', or pass the time as a channel"
        )


def refuse_split_time(samples: Samples, name: str) -> None:
    """Raise if time is split over devices."""
    if samples.split.time is not None:
        raise ValueError(
            f"time is split over devices, which mixer {name!r} does not support; split only the "
            "batch"
        )
