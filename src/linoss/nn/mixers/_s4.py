"""S4 and S4D: a separate linear system in continuous time for each channel.

    x' = A x + B u,    y = 2 Re(c . x) + D u,    x of m/2 complex numbers,

the halves of conjugate pairs, with one timestep d for each channel. The layers do not mix channels;
the GLU does. The output for a whole sequence is a convolution with a kernel K_l of the sequence's
length, by the Fourier transform; pieces of a sequence and irregular times use the recurrence.

- S4D: A is diagonal, L, and B is 1. With zero-order hold as in `_s5.py`, x_n = a x_{n-1} + g u_n
  and K_l = 2 Re(c . a^l g). Initially L_k = -1/2 + i pi k. (Gu, Gupta, Goel and Re, On the
  Parameterization and Initialization of Diagonal State Space Models, 2022: S4D-Lin.)
- S4: A = L - P P*, diagonal plus low-rank. Initially A is the HiPPO-LegS matrix in the basis where
  its normal part is diagonal. The bilinear rule with h = d / 2 gives

      x_n = (I - h A)^-1 ((I + h A) x_{n-1} + d B u_n) = M x_{n-1} + F u_n,

  at the cost of a diagonal matrix (Woodbury). For N samples and z^N = 1,

      sum_l K_l z^l = c (I - M^N) (I - M z)^-1 F = 2 c' ((1 - z) / h - (1 + z) A)^-1 B

  with c' = c (I - M^N), whose terms are Cauchy products, sums of v_k / ((1 - z) / h - (1 + z) L_k).
  (Gu, Goel and Re, Efficiently Modeling Long Sequences with Structured State Spaces, 2022.)
"""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Complex, Float, PRNGKeyArray

from linoss import _checks
from linoss._arrays import align
from linoss.nn._samples import Samples
from linoss.nn.mixers._mixer import AbstractMixer, Hidden, held, move_to_front, refuse_split_time
from linoss.nn.mixers._s5 import check_pairs, hippo, log_timesteps
from linoss.scan import as_complex, as_pairs, loop_over_time

State = Complex[Array, "*batch hidden m"]


class Modes(eqx.Module):
    """log(-Re L) and Im L of each channel's modes, and log d of each channel; of S4 also P and B,
    real parts first."""

    log_decay: Float[Array, "hidden m"]
    frequency: Float[Array, "hidden m"]
    log_timestep: Float[Array, " hidden"]
    low_rank: Float[Array, "hidden pairs"] | None = None
    input_weight: Float[Array, "hidden pairs"] | None = None

    @property
    def spectrum(self) -> Complex[Array, "hidden m"]:
        """L."""
        return jax.lax.complex(-jnp.exp(self.log_decay), self.frequency)


class AbstractConvolution(AbstractMixer):
    """A linear system for each channel, with a kernel and a recurrence."""

    name: eqx.AbstractClassVar[str]
    """The name in the settings."""
    modes: eqx.AbstractVar[Modes]
    output_weight: eqx.AbstractVar[Float[Array, "hidden pairs"]]
    feedthrough: eqx.AbstractVar[Float[Array, " hidden"]]

    @abc.abstractmethod
    def kernel(self, time: int) -> Float[Array, "hidden time"]:
        """K."""

    @abc.abstractmethod
    def advance(
        self,
        x: State,
        u: Complex[Array, "*batch hidden"],
        interval: Float[Array, "*batch 1"] | None,
    ) -> State:
        """The state after a sample."""

    def init_state(self, batch_shape: tuple[int, ...] = ()) -> State:
        """Zeros."""
        return jnp.zeros_like(as_complex(self.output_weight), shape=(*batch_shape, *self._shape))

    @property
    def _shape(self) -> tuple[int, int]:
        hidden, pairs = self.output_weight.shape
        return hidden, pairs // 2

    def mix(
        self, u: Hidden, samples: Samples, state: State | None, *, reverse: bool
    ) -> tuple[Hidden, State]:
        """The features after mixing, and the state after the last sample."""
        refuse_split_time(samples, self.name)
        intervals = samples.intervals_after() if reverse else samples.intervals
        driving, C = samples.forces(u), as_complex(self.output_weight)
        interval = None if intervals is None else intervals[..., None]

        def advance(x: State, sample: Any) -> tuple[State, Array]:
            x = self.advance(x, *sample)
            return x, 2 * jnp.sum((align(C, x) * x).real, axis=-1)

        start = self.init_state(u.shape[:-2]) if state is None else state
        inputs = (driving.astype(C.dtype), interval)
        y, after = loop_over_time(advance, start, inputs, samples.moving, reverse=reverse)
        if state is None and intervals is None:  # only the final state is that of the loop
            y = self._convolve(driving, samples.moving, reverse=reverse)
        return y + u * align(self.feedthrough, u), after

    def _convolve(self, u: Hidden, moving: Array | None, *, reverse: bool) -> Hidden:
        u = jnp.flip(u, -2) if reverse else u
        place = None
        if moving is not None:
            order, place = move_to_front(jnp.flip(moving, -1) if reverse else moving)
            u = jnp.take_along_axis(u, order[..., None], axis=-2)
        time = u.shape[-2]
        spectrum = jnp.fft.rfft(jnp.moveaxis(u, -1, -2), 2 * time)
        K = jnp.fft.rfft(self.kernel(time), 2 * time)
        y = jnp.fft.irfft(spectrum * align(K, spectrum), 2 * time)[..., :time]
        y = jnp.moveaxis(y, -2, -1)
        if place is not None:
            y = jnp.take_along_axis(y, place[..., None], axis=-2)
        return jnp.flip(y, -2) if reverse else y


class S4DLayer(AbstractConvolution):
    """A diagonal linear system for each channel."""

    name = "s4d"
    hidden_size: int = eqx.field(static=True)
    modes: Modes
    output_weight: Float[Array, "hidden pairs"]
    feedthrough: Float[Array, " hidden"]

    def __init__(self, hidden_size: int, state_size: int, *, key: PRNGKeyArray):
        """**Arguments:**

        - `hidden_size`: number of channels in and out.
        - `state_size`: number of real states of each channel, m; even.
        """
        self.hidden_size, m = hidden_size, _modes(self.name, hidden_size, state_size)
        step_key, out_key, through_key = jax.random.split(key, 3)
        self.modes = Modes(
            jnp.full((hidden_size, m), jnp.log(0.5)),
            jnp.tile(jnp.pi * jnp.arange(m, dtype=jnp.zeros(()).dtype), (hidden_size, 1)),
            log_timesteps(step_key, (hidden_size,)),
        )
        self.output_weight = jax.random.normal(out_key, (hidden_size, 2 * m)) * 0.5**0.5
        self.feedthrough = jax.random.normal(through_key, (hidden_size,))

    def kernel(self, time: int) -> Float[Array, "hidden time"]:
        """2 Re(c . a^l g)."""
        L, d = self.modes.spectrum, jnp.exp(self.modes.log_timestep)[:, None]
        steps = jnp.arange(time, dtype=d.dtype)
        gain = as_complex(self.output_weight) * held(L, jnp.broadcast_to(d, L.shape), None)[1]

        def one(L: Array, gain: Array) -> Array:
            return (
                2 * (gain[:, None] * jnp.exp(L[:, None] * (d * steps[None]).astype(L.dtype))).real
            )

        return _sum_over_modes(one, L, gain)

    def advance(self, x: State, u: Any, interval: Any) -> State:
        """a x + g u."""
        d = jnp.exp(self.modes.log_timestep)[:, None]
        factor, gain = held(self.modes.spectrum, jnp.broadcast_to(d, self._shape), interval)
        if interval is not None:
            factor, gain = factor[..., 0, :, :], gain[..., 0, :, :]
        return align(factor, x) * x + align(gain, x) * u[..., None]


class S4Layer(AbstractConvolution):
    """A linear system of a diagonal and a low-rank matrix for each channel."""

    name = "s4"
    hidden_size: int = eqx.field(static=True)
    modes: Modes
    output_weight: Float[Array, "hidden pairs"]
    feedthrough: Float[Array, " hidden"]

    def __init__(self, hidden_size: int, state_size: int, *, key: PRNGKeyArray):
        """**Arguments:**

        - `hidden_size`: number of channels in and out.
        - `state_size`: number of real states of each channel, m; even.
        """
        self.hidden_size, m = hidden_size, _modes(self.name, hidden_size, state_size)
        step_key, out_key, through_key = jax.random.split(key, 3)
        spectrum, basis = hippo(state_size)
        order, dtype = np.arange(state_size), jnp.zeros(()).dtype

        def each(row: np.ndarray) -> Array:
            return jnp.tile(jnp.asarray(row, dtype)[None], (hidden_size, 1))

        def in_basis(x: np.ndarray) -> Array:
            x = basis.conj().T @ x
            return each(np.concatenate([np.real(x), np.imag(x)]))

        self.modes = Modes(
            each(np.log(-np.real(spectrum))),
            each(np.imag(spectrum)),
            log_timesteps(step_key, (hidden_size,)),
            in_basis(np.sqrt(order + 0.5)),
            in_basis(np.sqrt(2 * order + 1)),
        )
        self.output_weight = jax.random.normal(out_key, (hidden_size, 2 * m)) * 0.5**0.5
        self.feedthrough = jax.random.normal(through_key, (hidden_size,))

    @property
    def _system(self) -> tuple[Array, Array, Array]:
        """L, P and B."""
        P, B = self.modes.low_rank, self.modes.input_weight
        assert P is not None
        assert B is not None
        return self.modes.spectrum, as_complex(P), as_complex(B)

    def kernel(self, time: int) -> Float[Array, "hidden time"]:
        """The transform of the values of its generating function at the roots of unity."""
        C, d = self.output_weight, jnp.exp(self.modes.log_timestep)[:, None]
        L, P, B = self._system
        hidden, pairs = C.shape
        unit = jnp.broadcast_to(jnp.eye(pairs, dtype=C.dtype)[:, None], (pairs, hidden, pairs))
        M = as_pairs(self.advance(as_complex(unit), jnp.zeros((pairs, hidden), L.dtype), None))
        row = as_pairs(as_complex(C).conj())  # Re(c . x) for pairs x
        row = row - jnp.einsum("hi,jhi->hj", row, _power(M, time))
        C = as_complex(row).conj()
        z = np.exp(-2j * np.pi * np.arange(time // 2 + 1) / time)
        less, more = (jnp.asarray(x, L.dtype)[None] for x in (1 - z, 1 + z))
        less = less * 2 / d.astype(L.dtype)

        def one(L: Array, *products: Array) -> Array:
            first, second = (1 / (less - more * x[:, None]) for x in (L, L.conj()))
            return jnp.stack([v[:, None] * first + v.conj()[:, None] * second for v in products])

        CB, CP, PB, PP = _sum_over_modes(one, L, C * B, C * P, P.conj() * B, P.conj() * P)
        values = 2 * (CB - more * CP * PB / (1 + more * PP))
        return jnp.fft.irfft(values, time)

    def advance(self, x: State, u: Any, interval: Any) -> State:
        """The solution of (I - h A) x_n = (I + h A) x_{n-1} + d B u_n, divided by h."""
        h = jnp.exp(self.modes.log_timestep)[:, None] / 2
        per_h = 1 / (h if interval is None else align(h, x) * interval[..., None]).astype(x.dtype)
        per_h, L, P, B = (align(each, x) for each in (per_h, *self._system))

        def along(x: Array) -> Array:
            return 2 * jnp.sum((P.conj() * x).real, axis=-1, keepdims=True).astype(x.dtype)

        inverse = 1 / (per_h - L)
        y = inverse * ((per_h + L) * x - P * along(x) + 2 * B * u[..., None])
        return y - inverse * P * (along(y) / (1 + along(inverse * P)))


def _modes(name: str, hidden_size: int, state_size: int) -> int:
    _checks.positive_integer("hidden_size", hidden_size)
    _checks.positive_integer("state_size", state_size)
    check_pairs(name, state_size)
    return state_size // 2


def _power(rows: Float[Array, "n hidden n"], exponent: int) -> Float[Array, "n hidden n"]:
    """A power of a matrix for each channel, whose columns are the first axis."""
    powers = jnp.linalg.matrix_power(jnp.moveaxis(rows, 1, 0), exponent)
    return jnp.moveaxis(powers, 0, 1)


def _sum_over_modes(one: Any, *modes: Complex[Array, "hidden m"]) -> Array:
    """The sum of a function of one mode of every channel, without an array of all modes."""
    columns = tuple(x.T for x in modes)
    first = one(*(x[0] for x in columns))

    @jax.checkpoint
    def add(total: Array, here: tuple[Array, ...]) -> tuple[Array, None]:
        return total + one(*here), None

    return jax.lax.scan(add, jnp.zeros_like(first), columns)[0]
