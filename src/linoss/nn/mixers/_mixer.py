"""Mixers: the part of a block that moves information along time.

To add a mixer, write one file with a final subclass of `AbstractMixer`.
"""

import abc
from typing import Any

import equinox as eqx
from jax import Array
from jaxtyping import Float

from linoss.kernels import LinearRecurrence
from linoss.nn._samples import Samples


class AbstractMixer(eqx.Module):
    """Maps features `(..., time, hidden)` to features of the same shape, along time."""

    hidden_size: eqx.AbstractVar[int]
    """Number of channels in and out."""

    @abc.abstractmethod
    def mix(
        self, u: Float[Array, "*batch time hidden"], samples: Samples, state: Any, *, reverse: bool
    ) -> tuple[Float[Array, "*batch time hidden"], Any]:
        """The features after mixing, and the state after the last sample.

        `state` is the state before the first sample; None means `init_state`. With `reverse`,
        run from the last sample to the first.
        """

    @abc.abstractmethod
    def init_state(self, batch_shape: tuple[int, ...]) -> Any:
        """The state before the first sample."""

    @abc.abstractmethod
    def native(self) -> LinearRecurrence | None:
        """The mixer as a linear recurrence, which kernels and exports know; None if it is not one.

        The first array of the state is then that of the recurrence.
        """


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
