"""The recurrence with constant steps by batched products, for accelerators.

Over a chunk of L steps with initial state s,

    y_i = sum_{j<=i} (M^{i-j} F)_y b_j + (M^{i+1} s)_y,   x_L = sum_j M^{L-1-j} F b_j + M^L s,

which is one Toeplitz matrix for each oscillator, the same in all chunks of all sequences. The
initial states of chunks satisfy the same recurrence with M^L instead of M, and are computed in the
same way, in chunks of chunks, until one chunk holds all of them.

Powers of M are computed in double precision and rounded once. No rounded power is applied
repeatedly: a state passes through one product for each level, four in a million steps. Products are
in full single precision, even if the device's default is lower.
"""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float, Int

from linoss.dynamics import Step
from linoss.scan._adjoint import Gradients, Solver
from linoss.scan._recurrence import Recurrence, Sampling, State, double_precision

CHUNK = 64
"""Number of steps in a chunk, and of chunks in a chunk of chunks."""

_product = partial(jnp.einsum, precision=jax.lax.Precision.HIGHEST)


@dataclass(frozen=True)
class Toeplitz(Solver):
    """A whole sequence by products; the backward pass consists of the transposed products.

    A NaN or infinite force makes the whole sequence of its oscillator NaN, because products also
    multiply it by the zeros of a Toeplitz matrix.
    """

    def run(
        self, recurrence: Recurrence, sampling: Sampling, force: Array, start: State
    ) -> tuple[Array, State, State]:
        """The residual is the initial state."""
        positions, end = _solve(sampling.mask, recurrence.parameters, force, start)
        return positions, end, start

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
            solve = partial(_solve, sampling.mask)
            _, pull_back = jax.vjp(solve, recurrence.parameters, force, kept)
            d_step, d_force, d_start = pull_back((d_positions, d_end))
        return Gradients(d_force, Recurrence(d_step, None), None, d_start)


def _solve(mask: Array | None, step: Step, force: Array, start: State) -> tuple[Array, State]:
    """All positions, and the state after the last sample.

    A masked step does nothing. Present samples are therefore moved to the front and run alone, and
    each position is the one after the latest present sample.
    """
    batch, time, _ = force.shape
    with jax.enable_x64(True):
        begin = jnp.stack(start, axis=-1)
        if mask is None:
            positions, end = _run(step, force, begin, jnp.full(batch, time, jnp.int32))
        else:
            present = jnp.broadcast_to(mask[..., 0], (batch, time))
            order = jnp.argsort(~present, axis=1, stable=True)
            latest = jnp.cumsum(present, axis=1, dtype=jnp.int32) - 1
            moved, end = _run(step, _gather(force, order), begin, latest[:, -1] + 1)
            positions = _gather(moved, jnp.maximum(latest, 0))
            positions = jnp.where(latest[..., None] < 0, start[1][:, None], positions)
    return positions, (end[..., 0], end[..., 1])


def _run(
    step: Step, force: Array, start: Float[Array, "batch m 2"], count: Int[Array, " batch"]
) -> tuple[Array, Float[Array, "batch m 2"]]:
    """All positions, and the state after `count` samples of each sequence."""
    length = min(CHUNK, force.shape[1])
    b = _in_chunks(force, length)
    rows = [jnp.stack(row, axis=-1) for row in double_precision(step.matrix)]
    kick = jnp.stack(double_precision(step.forcing), axis=-1)[..., None]
    exact = _powers(jnp.stack(rows, axis=-2), length)
    response = _multiply(exact[:-1], kick[None])[..., 0].astype(force.dtype)  # M^n F
    powers = exact.astype(force.dtype)

    ends = _product("bkjm,jmw->bkmw", b, jnp.flip(response, axis=0))
    states = _accumulate(exact[-1], jnp.concatenate([start[:, None], ends], axis=1))
    before = states[:, :-1]
    y = _product("bkjm,ijm->bkim", b, _lower(response[..., 1]))
    y = y + _product("bkmx,imx->bkim", before, powers[1:, :, 1])

    chunk, within = jnp.divmod(count, jnp.int32(length))
    lag = within[:, None] - 1 - jnp.arange(length, dtype=jnp.int32)[None]
    last = jnp.where(lag[..., None, None] >= 0, response[lag], 0)
    end = _product("bjm,bjmw->bmw", _at(b, jnp.minimum(chunk, b.shape[1] - 1)), last)
    end = end + _product("bmx,bmwx->bmw", _at(states, chunk), powers[within])
    return _whole(y, force.shape[1]), end


def _accumulate(
    matrix: Float[Array, "m 2 2"], v: Float[Array, "batch k m 2"]
) -> Float[Array, "batch k m 2"]:
    """x_k = M x_{k-1} + v_k for all k, from rest."""
    count, length = v.shape[1], min(CHUNK, v.shape[1])
    exact = _powers(matrix, length)
    powers = exact.astype(v.dtype)
    x = _product("bkjmx,ijmwx->bkimw", _in_chunks(v, length), _lower(powers[:-1]))
    if count > length:
        ends = _accumulate(exact[-1], x[:, :, -1])
        before = jnp.concatenate([jnp.zeros_like(ends[:, :1]), ends[:, :-1]], axis=1)
        x = x + _product("bkmx,imwx->bkimw", before, powers[1:])
    return _whole(x, count)


def _powers(matrix: Float[Array, "m 2 2"], highest: int) -> Float[Array, "n m 2 2"]:
    """M^0, M^1, ..., M^highest, by doubling."""
    one = jnp.broadcast_to(jnp.eye(2, dtype=matrix.dtype), matrix.shape)
    powers, square = one[None], matrix
    while len(powers) <= highest:
        powers = jnp.concatenate([powers, _multiply(powers, square[None])])
        # The barrier prevents the compiler from building one long formula for M^highest.
        powers, square = jax.lax.optimization_barrier((powers, _multiply(square, square)))
    return powers[: highest + 1]


def _multiply(a: Float[Array, "*n 2 2"], b: Float[Array, "*#n 2 k"]) -> Float[Array, "*n 2 k"]:
    """Products of small matrices, in full precision on every device."""
    return jnp.sum(a[..., :, :, None] * b[..., None, :, :], axis=-2)


def _lower(response: Float[Array, "n ..."]) -> Float[Array, "n n ..."]:
    """The Toeplitz matrix with response[i - j] at (i, j), 0 above the diagonal."""
    n = np.arange(response.shape[0], dtype=np.int32)
    lag = (n[:, None] - n).reshape(len(n), len(n), *[1] * (response.ndim - 1))
    return jnp.where(lag >= 0, response[np.maximum(n[:, None] - n, 0)], 0)


def _in_chunks(x: Float[Array, "batch time ..."], length: int) -> Float[Array, "batch k j ..."]:
    """Divide time into chunks of that length, the last one padded with zeros."""
    batch, time, *rest = x.shape
    chunks = -(-time // length)
    none = [(0, 0)] * len(rest)
    x = jnp.pad(x, [(0, 0), (0, chunks * length - time), *none])
    return x.reshape(batch, chunks, length, *rest)


def _whole(x: Float[Array, "batch k j ..."], time: int) -> Float[Array, "batch time ..."]:
    """Concatenate the chunks and remove the padding of the last one."""
    batch, chunks, length, *rest = x.shape
    return x.reshape(batch, chunks * length, *rest)[:, :time]


def _gather(x: Float[Array, "batch time m"], index: Int[Array, "batch time"]) -> Array:
    return jnp.take_along_axis(x, index[..., None], axis=1)


def _at(x: Float[Array, "batch k ..."], index: Int[Array, " batch"]) -> Float[Array, "batch ..."]:
    return jax.vmap(lambda one, i: one[i])(x, index)
