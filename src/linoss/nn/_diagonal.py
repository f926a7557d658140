"""Layers with a diagonal complex recurrence.

    x_n = a x_{n-1} + g (B u_n),    y_n = s Re(C x_n) + D u_n

A layer defines a and g, which may depend on the time since the previous sample. B and C are stored
as real rows, real parts first; the imaginary part of C includes the minus sign, as in
`LinOSSLayer`.
"""

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Complex, Float

from linoss._arrays import align
from linoss._checks import AnyArray
from linoss.nn._mixer import PAIRS, AbstractPlainMixer, LinearRecurrence, Projections
from linoss.nn._products import product
from linoss.nn._samples import Samples
from linoss.scan import as_complex, as_pairs, diagonal_scan

_VECTOR = 8  # modes that kernels compute together


class AbstractDiagonal(AbstractPlainMixer):
    """A diagonal recurrence between an input and an output projection."""

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

    @property
    def hidden_size(self) -> int:
        """Number of channels in and out."""
        return self.input_weight.shape[-1]

    def __call__(
        self,
        u: Float[AnyArray, "*batch time hidden"],
        *,
        state: Float[Array, "*batch pairs"] | None = None,
        mask: Bool[AnyArray, "*batch time"] | None = None,
        intervals: Float[AnyArray, "*batch time"] | None = None,
        reverse: bool = False,
        engine: str = "auto",
    ) -> tuple[Float[Array, "*batch time hidden"], Float[Array, "*batch pairs"]]:
        """The output for a whole sequence, and the state after it; as [`linoss.LinOSSLayer`][]."""
        options = {"mask": mask, "intervals": intervals, "engine": engine}
        samples = Samples.checked(u, self.hidden_size, **options)
        return self.mix(samples.values, samples, state, reverse=reverse)

    def init_state(self, batch_shape: tuple[int, ...] = ()) -> Float[Array, "*batch pairs"]:
        """Zeros: real parts of all modes, then imaginary parts."""
        return jnp.zeros((*batch_shape, self.input_weight.shape[0]), self.input_weight.dtype)

    def mix(
        self,
        u: Float[Array, "*batch time hidden"],
        samples: Samples,
        state: Any,
        *,
        reverse: bool,
    ) -> tuple[Float[Array, "*batch time hidden"], Float[Array, "*batch pairs"]]:
        """The features after mixing, and the state after the last sample."""
        factor, gain = self.step(samples, reverse=reverse)
        if gain.ndim == 1:
            force = product(u, self._forces(gain), samples.precision)
        else:
            force = product(u, self.input_weight, samples.precision)
            force = as_pairs(as_complex(force) * gain)
        states, after = diagonal_scan(
            as_pairs(factor),
            samples.forces(force),
            self.init_state(u.shape[:-2]) if state is None else state,
            mask=samples.moving,
            reverse=reverse,
            engine=samples.engine,
            time_axis=samples.split.time,
        )
        y = product(states, self.output_scale * self.output_weight, samples.precision)
        return y + u * align(self.feedthrough, u), after

    def recurrence(self) -> LinearRecurrence:
        """A rotation for each mode, with real and imaginary parts z and y."""
        factor, gain = self._regular_step()
        B, a, b = self._forces(gain), factor.real, factor.imag
        return LinearRecurrence(
            jnp.stack([a, -b, b, a]),
            jnp.ones((2, len(a)), a.dtype),
            B,
            jnp.zeros(len(B), a.dtype),
            self.output_scale * self.output_weight,
            self.feedthrough,
        )

    def _regular_step(self) -> tuple[Complex[Array, " m"], Complex[Array, " m"]]:
        return self.step(Samples(jnp.zeros((1, self.hidden_size))), reverse=False)

    def _forces(self, gain: Complex[Array, " m"]) -> Float[Array, "pairs hidden"]:
        """g B."""
        return as_pairs(as_complex(self.input_weight.T) * gain[None]).T

    # ---- Native passes: on regular samples, with modes padded to whole vectors ----

    def has_projections(self, *, irregular: bool, time_split: bool) -> bool:
        """True if the step is constant."""
        return not (irregular or time_split)

    @property
    def native_form(self) -> str:
        """Pairs of real and imaginary parts."""
        return PAIRS

    def projections(self) -> Projections:
        """g B, no bias, s C and D."""
        B = _filled(self._forces(self._regular_step()[1]), axis=0)
        C = _filled(self.output_scale * self.output_weight, axis=1)
        return Projections(B, jnp.zeros(len(B), B.dtype), C, self.feedthrough)

    def step_rows(self, *, parameters: bool) -> Float[Array, "rows pairs"]:
        """Re a for both parts, then -Im a and Im a."""
        factor, _ = self._regular_step()
        a, b = factor.real, factor.imag
        rows = jnp.stack([jnp.concatenate([a, a]), jnp.concatenate([-b, b])])
        return _filled(rows, axis=1)

    def native_state(self, state: Float[Array, "*batch pairs"]) -> Float[Array, "*batch filled 2"]:
        """The padded state as y, with z = 0."""
        y = _filled(state, axis=-1)
        return jnp.stack([jnp.zeros_like(y), y], axis=-1)

    def with_native_state(
        self, state: Float[Array, "*batch pairs"], found: Float[Array, "*batch filled 2"]
    ) -> Float[Array, "*batch pairs"]:
        """The state without padding."""
        m = self.input_weight.shape[0] // 2
        return jnp.concatenate([part[..., :m] for part in jnp.split(found[..., 1], 2, -1)], -1)


def _filled(pairs: Array, *, axis: int) -> Array:
    """Pad both halves with zeros to whole vectors."""
    widths = [(0, 0)] * pairs.ndim
    widths[axis] = (0, -(pairs.shape[axis] // 2) % _VECTOR)
    halves = jnp.split(pairs, 2, axis)
    return jnp.concatenate([jnp.pad(half, widths) for half in halves], axis)


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
