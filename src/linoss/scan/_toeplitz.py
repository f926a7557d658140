"""The recurrence with constant steps by batched products, for accelerators and narrow banks.

Over a chunk of L steps with initial state s,

    y_i = sum_{j<=i} (M^{i-j} F)_y b_j + (M^{i+1} s)_y,   x_L = sum_j M^{L-1-j} F b_j + M^L s,

which is one Toeplitz matrix for each oscillator, the same in all chunks of all sequences. The
states before the chunks are those of a loop over chunks with M^L instead of M.

Powers of M, and that loop, are in double precision: a rounded power would be applied repeatedly.
Products are in full single precision, even if the device's default is lower.
"""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float

from linoss.dynamics import Step
from linoss.scan._adjoint import Gradients, Solver
from linoss.scan._recurrence import Recurrence, Sampling, State, double_precision

CHUNK = 64
"""Number of steps in a chunk."""

_product = partial(jnp.einsum, precision=jax.lax.Precision.HIGHEST)


@dataclass(frozen=True)
class Toeplitz(Solver):
    """A whole sequence by products; the backward pass consists of the transposed products.

    A NaN or infinite force makes its chunk and all later ones of its oscillator NaN, because
    products also multiply it by the zeros of a Toeplitz matrix.
    """

    def run(
        self, recurrence: Recurrence, sampling: Sampling, force: Array, start: State
    ) -> tuple[Array, State, State]:
        """The residual is the initial state."""
        return *_solve(recurrence.parameters, force, start), start

    def pull_back(
        self,
        recurrence: Recurrence,
        sampling: Sampling,
        force: Array,
        kept: State,
        d_positions: Array,
        d_end: State,
    ) -> Gradients:
        """The transpose: gradients of the Toeplitz matrices, and of M through its powers."""
        with jax.enable_x64(True):  # also for the transposed powers
            _, pull_back = jax.vjp(_solve, recurrence.parameters, force, kept)
            d_step, d_force, d_start = pull_back((d_positions, d_end))
        return Gradients(d_force, Recurrence(d_step, None), None, d_start)


def _solve(step: Step, force: Array, start: State) -> tuple[Array, State]:
    """All positions, and the state after the last sample: whole chunks, then the rest."""
    positions, time = [], force.shape[1]
    with jax.enable_x64(True):
        state = jnp.stack(double_precision(start), axis=-1)
        for part in jnp.split(force, [time - time % CHUNK], axis=1):
            if part.shape[1]:
                y, state = _in_chunks(step, part, state)
                positions.append(y)
        end = state.astype(force.dtype)
    return jnp.concatenate(positions, axis=1), (end[..., 0], end[..., 1])


def _in_chunks(step: Step, force: Array, start: Float[Array, "batch m 2"]) -> tuple[Array, Array]:
    """All positions, and the state after a number of whole chunks, or one that is shorter."""
    (batch, time, m), dtype = force.shape, force.dtype
    length = min(CHUNK, time)
    b = force.reshape(batch, time // length, length, m)
    rows = [jnp.stack(row, axis=-1) for row in double_precision(step.matrix)]
    powers = _powers(jnp.stack(rows, axis=-2), length)
    kick = jnp.stack(double_precision(step.forcing), axis=-1)
    response = _multiply(powers[:-1], kick[None, ..., None])[..., 0].astype(dtype)  # M^n F
    ends = _product("bkjm,jmw->kbmw", b, jnp.flip(response, axis=0))

    def after(state: Array, end: Array) -> tuple[Array, Array]:
        moved = _multiply(powers[-1:], state[..., None])[..., 0]
        return moved + end.astype(moved.dtype), state

    final, before = jax.lax.scan(after, start, ends)
    y = _product("bkjm,ijm->bkim", b, _lower(response[..., 1]))
    read = powers[1:, :, 1].astype(dtype)
    y = y + _product("kbmx,imx->bkim", before.astype(dtype), read)
    return y.reshape(force.shape), final


def _powers(matrix: Float[Array, "m 2 2"], highest: int) -> Float[Array, "n m 2 2"]:
    """M^0, M^1, ..., M^highest, by doubling."""
    one = jnp.broadcast_to(jnp.eye(2, dtype=matrix.dtype), matrix.shape)
    powers, square = one[None], matrix
    while len(powers) <= highest:
        powers = jnp.concatenate([powers, _multiply(powers, square[None])])
        # The barrier prevents the compiler from building one long formula for M^highest.
        powers, square = jax.lax.optimization_barrier((powers, _multiply(square, square)))
    return powers[: highest + 1]


def _multiply(a: Float[Array, "*#n 2 2"], b: Float[Array, "*#n 2 k"]) -> Float[Array, "*n 2 k"]:
    """Products of small matrices, in full precision on every device."""
    return jnp.sum(a[..., :, :, None] * b[..., None, :, :], axis=-2)


def _lower(response: Float[Array, "n m"]) -> Float[Array, "n n m"]:
    """The Toeplitz matrix with response[i - j] at (i, j), 0 above the diagonal."""
    n = np.arange(len(response), dtype=np.int32)
    lag = n[:, None] - n
    return jnp.where(lag[..., None] >= 0, response[np.maximum(lag, 0)], 0)
