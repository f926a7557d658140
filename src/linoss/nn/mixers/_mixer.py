"""What mixers share: the part of a block that moves information along time.

To add a mixer, write one file with a final subclass of `AbstractMixer`, or, for a diagonal linear
recurrence, of `AbstractDiagonal`.
"""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Complex, Float, PRNGKeyArray

from linoss._arrays import align
from linoss._checks import AnyArray
from linoss.dynamics import Transition
from linoss.kernels import LinearRecurrence
from linoss.nn._operations import product
from linoss.nn._samples import Samples
from linoss.scan import as_complex, as_pairs, diagonal_scan

Hidden = Float[Array, "*batch time hidden"]


class AbstractMixer(eqx.Module):
    """Maps features `(..., time, hidden)` to features of the same shape, along time."""

    hidden_size: eqx.AbstractVar[int]
    """Number of channels in and out."""

    @abc.abstractmethod
    def mix(self, u: Hidden, samples: Samples, state: Any, *, reverse: bool) -> tuple[Hidden, Any]:
        """The features after mixing, and the state after the last sample.

        `state` is the state before the first sample; None means `init_state`. With `reverse`,
        run from the last sample to the first.
        """

    @abc.abstractmethod
    def init_state(self, batch_shape: tuple[int, ...]) -> Any:
        """The state before the first sample."""

    def native(self) -> LinearRecurrence | None:
        """The mixer as a linear recurrence, which kernels and exports know; None if it is not one.

        The first array of the state is then that of the recurrence.
        """

    def __call__(
        self,
        u: Float[AnyArray, "*batch time hidden"],
        *,
        state: Any = None,
        mask: Bool[AnyArray, "*batch time"] | None = None,
        intervals: Float[AnyArray, "*batch time"] | None = None,
        reverse: bool = False,
        engine: str = "auto",
    ) -> tuple[Hidden, Any]:
        """The features after mixing whole sequences, and the state after the last sample.

        For `mask`, `reverse` and `engine` see [`linoss.oscillator_scan`][]. `intervals`, for
        irregular sampling, is the time since the previous sample in units of the regular sampling
        interval.
        """
        options = {"mask": mask, "intervals": intervals, "engine": engine}
        samples = Samples.checked(u, self.hidden_size, **options)
        return self.mix(samples.values, samples, state, reverse=reverse)


class AbstractDiagonal(AbstractMixer):
    """A diagonal complex recurrence between an input and an output projection.

        x_n = a x_{n-1} + g (B u_n),    y_n = s Re(C x_n) + D u_n

    A layer defines a and g, which may depend on the time since the previous sample. B and C are
    stored as real rows, real parts first; the imaginary part of C includes the minus sign, as in
    `LinOSSLayer`.
    """

    input_weight: eqx.AbstractVar[Float[Array, "pairs hidden"]]
    output_weight: eqx.AbstractVar[Float[Array, "hidden pairs"]]
    feedthrough: eqx.AbstractVar[Float[Array, " hidden"]]

    @abc.abstractmethod
    def step(
        self, samples: Samples, *, reverse: bool
    ) -> tuple[Complex[Array, "*samples m"], Complex[Array, "*samples m"]]:
        """a and g: one pair for regular samples, one for each sample at irregular times."""

    @property
    def output_scale(self) -> float:
        """s."""
        return 1.0

    def init_state(self, batch_shape: tuple[int, ...] = ()) -> Float[Array, "*batch m 2"]:
        """Zeros: real and imaginary part of each mode."""
        B = self.input_weight
        return jnp.zeros((*batch_shape, B.shape[0] // 2, 2), B.dtype)

    def mix(
        self, u: Hidden, samples: Samples, state: Any, *, reverse: bool
    ) -> tuple[Hidden, Float[Array, "*batch m 2"]]:
        """The features after mixing, and the state after the last sample."""
        factor, gain = self.step(samples, reverse=reverse)
        if gain.ndim == 1:
            force = product(u, self._forces(gain), samples.precision)
        else:
            force = product(u, self.input_weight, samples.precision)
            force = as_pairs(as_complex(force) * gain)
        start = self.init_state(u.shape[:-2]) if state is None else state
        states, after = diagonal_scan(
            as_pairs(factor),
            samples.forces(force),
            jnp.concatenate([start[..., 0], start[..., 1]], axis=-1),
            mask=samples.moving,
            reverse=reverse,
            engine=samples.engine,
            time_axis=samples.split.time,
        )
        y = product(states, self.output_scale * self.output_weight, samples.precision)
        after = jnp.stack(jnp.split(after, 2, axis=-1), axis=-1)
        return y + u * align(self.feedthrough, u), after

    def native(self) -> LinearRecurrence:
        """A rotation of real and imaginary part of each mode, on regular samples."""
        factor, gain = self.step(Samples(jnp.zeros_like(self.output_weight.T)), reverse=False)
        B, a, b = self._forces(gain), factor.real, factor.imag
        matrix = jnp.stack([jnp.stack([a, -b], axis=-1), jnp.stack([b, a], axis=-1)], axis=-2)
        step = Transition(matrix, jnp.ones((len(a), 2), a.dtype))
        C = self.output_scale * self.output_weight
        return LinearRecurrence(step, B, jnp.zeros(len(B), B.dtype), C, self.feedthrough)

    def _forces(self, gain: Complex[Array, " m"]) -> Float[Array, "pairs hidden"]:
        """g B."""
        return as_pairs(as_complex(self.input_weight.T) * gain[None]).T


def held(
    spectrum: Complex[Array, "*modes"],
    timestep: Float[Array, "*modes"],
    intervals: Float[Array, "*batch time"] | None,
) -> tuple[Complex[Array, "..."], Complex[Array, "..."]]:
    """a and g of x' = L x + u, with zero-order hold: exp(L d h) and (exp(L d h) - 1) / L."""
    exponent = spectrum * timestep.astype(spectrum.dtype)
    if intervals is not None:
        h = intervals.reshape(*intervals.shape, *[1] * spectrum.ndim).astype(spectrum.dtype)
        exponent, spectrum = align(exponent, h) * h, align(spectrum, h)
    factor = jnp.exp(exponent)
    return factor, (factor - 1) / spectrum


def refuse(samples: Samples, name: str, *, irregular: bool = False) -> None:
    """Raise for time split over devices, and, unless `irregular`, for irregular times."""
    if samples.intervals is not None and not irregular:
        raise ValueError(
            f"intervals were given, but mixer {name!r} does not support irregular times; use one "
            "of 'linoss', 's4', 's4d', 's5', 's6', or pass the time as a channel"
        )
    if samples.split.time is not None:
        raise ValueError(
            f"time is split over devices, which mixer {name!r} does not support; split only the "
            "batch"
        )


def move_to_front(mask: Bool[Array, "*batch time"]) -> tuple[Array, Array]:
    """The order in which present samples come first, and for each sample the place of the last
    present one up to it in this order."""
    order = jnp.argsort(~mask, axis=-1, stable=True)
    return order, jnp.maximum(jnp.cumsum(mask, axis=-1) - 1, 0)


def uniform(key: PRNGKeyArray, shape: tuple[int, ...], fan: int) -> Array:
    """Uniform between -1/sqrt(fan) and 1/sqrt(fan), where `fan` is the number of inputs."""
    return jax.random.uniform(key, shape, minval=-(fan**-0.5), maxval=fan**-0.5)
