"""S4 and S4D: a separate linear system in continuous time for each channel.

    x' = A x + B u,    y = 2 Re(c . x) + D u,    x of m/2 complex numbers,

the halves of conjugate pairs, with one timestep d for each channel. The layers do not mix channels;
the GLU does. In S4, A = L - P P* is diagonal plus low-rank, initially the HiPPO-LegS matrix in the
basis where its normal part is diagonal. In S4D, A is diagonal, initially L_k = -1/2 + i pi k, and B
is 1. The bilinear rule with h = d / 2 gives

    x_n = (I - h A)^-1 ((I + h A) x_{n-1} + d B u_n) = M x_{n-1} + F u_n,

at the cost of a diagonal matrix (Woodbury). It runs pieces of a sequence and irregular times, with
d multiplied by the time since the previous sample. The output for a whole sequence of N samples is
a convolution with K_l = 2 Re(c . M^l F), which follows from its generating function: for z^N = 1,

    sum_l K_l z^l = c (I - M^N) (I - M z)^-1 F = 2 c' ((1 - z) / h - (1 + z) A)^-1 B

with c' = c (I - M^N), whose terms are Cauchy products, sums of v_k / ((1 - z) / h - (1 + z) L_k).
(Gu, Goel and Re, Efficiently Modeling Long Sequences with Structured State Spaces, 2022; Gu, Gupta,
Goel and Re, On the Parameterization and Initialization of Diagonal State Space Models, 2022.)
"""

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
from linoss.nn.mixers._mixer import AbstractMixer, Hidden, move_to_front, refuse
from linoss.nn.mixers._s5 import check_pairs, hippo, log_timesteps
from linoss.scan import as_complex, as_pairs, loop_over_time

State = Complex[Array, "*batch hidden m"]


class S4Modes(eqx.Module):
    """log(-Re L) and Im L of each channel's modes, log d of each channel, and, of S4, P and B, real
    parts first."""

    log_decay: Float[Array, "hidden m"]
    frequency: Float[Array, "hidden m"]
    log_timestep: Float[Array, " hidden"]
    low_rank: Float[Array, "hidden pairs"] | None
    input_weight: Float[Array, "hidden pairs"] | None

    @property
    def system(self) -> tuple[State, State, State]:
        """L, P and B."""
        L = jax.lax.complex(-jnp.exp(self.log_decay), self.frequency)
        if self.low_rank is None or self.input_weight is None:
            return L, jnp.zeros_like(L), jnp.ones_like(L)
        return L, as_complex(self.low_rank), as_complex(self.input_weight)


class S4Layer(AbstractMixer):
    """A linear system for each channel.

    ```python
    >>> import jax, jax.numpy as jnp
    >>> from linoss.nn import S4Layer
    >>> layer = S4Layer(8, 16, key=jax.random.key(0))
    >>> x, state = layer(jnp.ones((3, 100, 8)))
    >>> x.shape, state.shape
    ((3, 100, 8), (3, 8, 8))

    ```
    """

    hidden_size: int = eqx.field(static=True)
    modes: S4Modes
    output_weight: Float[Array, "hidden pairs"]
    feedthrough: Float[Array, " hidden"]

    def __init__(
        self, hidden_size: int, state_size: int, *, diagonal: bool = False, key: PRNGKeyArray
    ):
        """**Arguments:**

        - `hidden_size`: number of channels in and out.
        - `state_size`: number of real states of each channel, m; even.
        - `diagonal`: S4D.
        """
        _checks.positive_integer("hidden_size", hidden_size)
        self.hidden_size = hidden_size
        _checks.positive_integer("state_size", state_size)
        check_pairs("s4d" if diagonal else "s4", state_size)
        step_key, out_key, through_key = jax.random.split(key, 3)
        dtype, order = jnp.zeros(()).dtype, np.arange(state_size)
        spectrum, basis = hippo(state_size)
        if diagonal:
            spectrum = -0.5 + 1j * np.pi * order[: state_size // 2]

        def each(row: Any) -> Array:
            return jnp.tile(jnp.asarray(row, dtype)[None], (hidden_size, 1))

        def in_basis(x: np.ndarray) -> Array | None:
            x = basis.conj().T @ x
            return None if diagonal else each(np.concatenate([np.real(x), np.imag(x)]))

        self.modes = S4Modes(
            each(np.log(-np.real(spectrum))),
            each(np.imag(spectrum)),
            log_timesteps(step_key, (hidden_size,)),
            in_basis(np.sqrt(order + 0.5)),
            in_basis(np.sqrt(2 * order + 1)),
        )
        self.output_weight = jax.random.normal(out_key, (hidden_size, state_size)) * 0.5**0.5
        self.feedthrough = jax.random.normal(through_key, (hidden_size,))

    def init_state(self, batch_shape: tuple[int, ...] = ()) -> State:
        """Zeros."""
        C = as_complex(self.output_weight)
        return jnp.zeros((*batch_shape, *C.shape), C.dtype)

    def mix(
        self, u: Hidden, samples: Samples, state: State | None, *, reverse: bool
    ) -> tuple[Hidden, State]:
        """The features after mixing, and the state after the last sample."""
        refuse(samples, "s4", irregular=True)
        intervals = samples.intervals_after() if reverse else samples.intervals
        driving, C = samples.forces(u), as_complex(self.output_weight)

        def advance(x: State, sample: Any) -> tuple[State, Array]:
            x = self._advance(x, *sample)
            return x, 2 * jnp.sum((align(C, x) * x).real, axis=-1)

        start = self.init_state(u.shape[:-2]) if state is None else state
        inputs = (driving.astype(C.dtype), None if intervals is None else intervals[..., None])
        y, after = loop_over_time(advance, start, inputs, samples.moving, reverse=reverse)
        if state is None and intervals is None:  # of the loop, only the final state is used
            y = self._convolve(driving, samples.moving, reverse=reverse)
        return y + u * align(self.feedthrough, u), after

    def _convolve(self, u: Hidden, moving: Array | None, *, reverse: bool) -> Hidden:
        time, place = u.shape[-2], None
        u = jnp.flip(u, -2) if reverse else u
        if moving is not None:
            order, place = move_to_front(jnp.flip(moving, -1) if reverse else moving)
            u = jnp.take_along_axis(u, order[..., None], axis=-2)
        spectrum = jnp.fft.rfft(jnp.moveaxis(u, -1, -2), 2 * time)
        K = jnp.fft.rfft(self.kernel(time), 2 * time)
        y = jnp.fft.irfft(spectrum * align(K, spectrum), 2 * time)[..., :time]
        y = jnp.moveaxis(y, -2, -1)
        if place is not None:
            y = jnp.take_along_axis(y, place[..., None], axis=-2)
        return jnp.flip(y, -2) if reverse else y

    def kernel(self, time: int) -> Float[Array, "hidden time"]:
        """K: the transform of the values of its generating function at the roots of unity."""
        (L, P, B), C = self.modes.system, self.output_weight
        hidden, pairs = C.shape
        unit = jnp.broadcast_to(jnp.eye(pairs, dtype=C.dtype)[:, None], (pairs, hidden, pairs))
        columns = self._advance(as_complex(unit), jnp.zeros((pairs, hidden), L.dtype), None)
        M = jnp.einsum("jhi->hij", as_pairs(columns))
        row = as_pairs(as_complex(C).conj())  # Re(c . x) for pairs x
        row = row - jnp.einsum("hi,hij->hj", row, jnp.linalg.matrix_power(M, time))
        C = as_complex(row).conj()
        z = np.exp(-2j * np.pi * np.arange(time // 2 + 1) / time)
        less, more = (jnp.asarray(x, L.dtype)[None] for x in (1 - z, 1 + z))
        less = less * 2 / jnp.exp(self.modes.log_timestep)[:, None].astype(L.dtype)

        def add(sums: Array, mode: Any) -> tuple[Array, None]:  # no array has all modes and values
            L, *products = mode
            first, second = (1 / (less - more * x[:, None]) for x in (L, L.conj()))
            terms = [v[:, None] * first + v.conj()[:, None] * second for v in products]
            return sums + jnp.stack(terms), None

        modes = (L, C * B, C * P, P.conj() * B, P.conj() * P)
        sums = jnp.zeros((4, hidden, len(z)), L.dtype)
        sums, _ = jax.lax.scan(jax.checkpoint(add), sums, tuple(x.T for x in modes))
        CB, CP, PB, PP = sums
        return jnp.fft.irfft(2 * (CB - more * CP * PB / (1 + more * PP)), time)

    def _advance(
        self,
        x: State,
        u: Complex[Array, "*batch hidden"],
        interval: Float[Array, "*batch 1"] | None,
    ) -> State:
        """The solution of (I - h A) x_n = (I + h A) x_{n-1} + d B u_n, divided by h."""
        h = jnp.exp(self.modes.log_timestep)[:, None] / 2
        per_h = 1 / (h if interval is None else align(h, x) * interval[..., None]).astype(x.dtype)
        per_h, L, P, B = (align(each, x) for each in (per_h, *self.modes.system))

        def along(x: Array) -> Array:
            return 2 * jnp.sum((P.conj() * x).real, axis=-1, keepdims=True).astype(x.dtype)

        inverse = 1 / (per_h - L)
        y = inverse * ((per_h + L) * x - P * along(x) + 2 * B * u[..., None])
        return y - inverse * P * (along(y) / (1 + along(inverse * P)))
