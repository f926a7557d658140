"""One S5 layer: a linear system in continuous time, held between samples.

    x' = L x + B u,    y = 2 Re(C x) + D u,    L diagonal with m/2 complex numbers,

the halves of conjugate pairs. With a timestep d for each, and u constant between samples
(zero-order hold), x_n = a x_{n-1} + g (B u_n) with a = exp(L d h_n) and g = (a - 1) / L, where h_n
is the time since the sample before, 1 for regular samples.

At the start L is the spectrum of the normal part of the HiPPO-LegS matrix, in `state_blocks` equal
blocks, and B and C are drawn in the basis of that matrix. (Smith, Warrington and Linderman,
Simplified State Space Layers for Sequence Modeling, 2023.)
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Complex, Float, PRNGKeyArray

from linoss import _checks
from linoss.nn._samples import Samples
from linoss.nn.mixers._mixer import AbstractDiagonal, held
from linoss.scan import as_pairs

_TIMESTEPS = (0.001, 0.1)
_LEAST_DECAY = 1e-4


class S5Modes(eqx.Module):
    """L and log d of each mode."""

    real: Float[Array, " m"]
    imaginary: Float[Array, " m"]
    log_timestep: Float[Array, " m"]

    @property
    def spectrum(self) -> Complex[Array, " m"]:
        """L, of a system that forgets."""
        return jax.lax.complex(jnp.minimum(self.real, -_LEAST_DECAY), self.imaginary)


class S5Layer(AbstractDiagonal):
    """A diagonal linear system with its input and output projection.

    ```python
    >>> import jax, jax.numpy as jnp
    >>> from linoss.nn import S5Layer
    >>> layer = S5Layer(8, 16, state_blocks=2, key=jax.random.key(0))
    >>> x, state = layer(jnp.ones((3, 100, 8)))
    >>> x.shape, state.shape
    ((3, 100, 8), (3, 8, 2))

    ```
    """

    hidden_size: int = eqx.field(static=True)
    modes: S5Modes
    input_weight: Float[Array, "pairs hidden"]
    output_weight: Float[Array, "hidden pairs"]
    feedthrough: Float[Array, " hidden"]

    def __init__(
        self, hidden_size: int, state_size: int, *, state_blocks: int = 1, key: PRNGKeyArray
    ):
        """**Arguments:**

        - `hidden_size`: number of channels in and out.
        - `state_size`: number of real states, m; a multiple of twice the number of blocks.
        - `state_blocks`: number of blocks of the state matrix at the start.
        """
        _checks.positive_integer("hidden_size", hidden_size)
        self.hidden_size = hidden_size
        _checks.positive_integer("state_size", state_size)
        _checks.positive_integer("state_blocks", state_blocks)
        check_pairs("s5", state_size, state_blocks)
        spectrum, basis = hippo(state_size // state_blocks)
        spectrum, basis = np.tile(spectrum, state_blocks), np.kron(np.eye(state_blocks), basis)
        step_key, in_key, out_key, through_key = jax.random.split(key, 4)
        m, dtype = state_size // 2, jnp.zeros(()).dtype
        self.modes = S5Modes(
            jnp.asarray(np.real(spectrum), dtype),
            jnp.asarray(np.imag(spectrum), dtype),
            log_timesteps(step_key, (m,)),
        )
        draw = jax.nn.initializers.lecun_normal()
        real, imaginary = (jnp.asarray(part, dtype) for part in (np.real(basis), np.imag(basis)))
        B = draw(in_key, (state_size, hidden_size))
        self.input_weight = jnp.concatenate([real.T @ B, -imaginary.T @ B])
        C = draw(out_key, (hidden_size, state_size, 2))
        C_basis = jax.lax.complex(
            C[..., 0] @ real - C[..., 1] @ imaginary, C[..., 0] @ imaginary + C[..., 1] @ real
        )
        self.output_weight = as_pairs(jnp.conj(C_basis))  # the minus sign of -Im
        self.feedthrough = jax.random.normal(through_key, (hidden_size,))

    @property
    def output_scale(self) -> float:
        """2, for conjugate modes."""
        return 2.0

    def step(
        self, samples: Samples, *, reverse: bool
    ) -> tuple[Complex[Array, "*samples m"], Complex[Array, "*samples m"]]:
        """a and g."""
        intervals = samples.intervals_after() if reverse else samples.intervals
        return held(self.modes.spectrum, jnp.exp(self.modes.log_timestep), intervals)


def check_pairs(mixer: str, state_size: int, state_blocks: int = 1) -> None:
    """Raise unless equal blocks of pairs of states make up all states."""
    if state_size % (2 * state_blocks):
        blocks = f", in state_blocks = {state_blocks} equal blocks" if mixer == "s5" else ""
        raise ValueError(
            f"state_size is {state_size}, expected a multiple of {2 * state_blocks}: mixer "
            f"{mixer!r} has pairs of states{blocks}"
        )


def hippo(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Half of the eigenvalues of the normal part of the HiPPO-LegS matrix, and their eigenvectors.

    The matrix is -sqrt((2i + 1)(2j + 1)) below its diagonal and -(i + 1) on it. With p p^T added,
    p_i = sqrt(i + 1/2), it is -1/2 plus a skew matrix.
    """
    root = np.sqrt(2 * np.arange(size) + 1)
    above = np.triu(np.outer(root, root) / 2, 1)
    frequencies, vectors = np.linalg.eigh(-1j * (above - above.T))
    half = size // 2
    return -0.5 + 1j * frequencies[:half], vectors[:, :half]


def log_timesteps(key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
    """Uniform between the logarithms of the shortest and the longest timestep."""
    low, high = map(float, np.log(_TIMESTEPS))
    return jax.random.uniform(key, shape, minval=low, maxval=high)
