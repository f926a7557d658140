"""Mixers: the part of a block that moves information along time.

To add a mixer, write one file with a final subclass of `AbstractMixer`.
"""

import abc
from typing import Any, NamedTuple

import equinox as eqx
from jax import Array
from jaxtyping import Float

from linoss.nn._samples import Samples


class Projections(NamedTuple):
    """The weights of x_n = M x_{n-1} + F (B u_n + b), y_n = C x_n + D u_n, beside its step."""

    input_weight: Float[Array, "m hidden"]
    bias: Float[Array, " m"]
    output_weight: Float[Array, "hidden m"]
    feedthrough: Float[Array, " hidden"]


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

    @property
    @abc.abstractmethod
    def is_constant(self) -> bool:
        """Whether the mixer has the form of `Projections` with a step that never varies.

        Native passes over whole blocks need that form: `projections` and `step_entries`.
        """

    @abc.abstractmethod
    def projections(self) -> Projections:
        """The weights of a mixer that is constant."""

    @abc.abstractmethod
    def step_entries(self) -> Float[Array, "6 m"]:
        """Rows zz, zy, yz, yy, fz, fy: M and F of a mixer that is constant."""
