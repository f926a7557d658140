"""One layer of linear recurrent units.

With u_n the features at sample n, elementwise in m complex modes:

    x_n = a x_{n-1} + g (B u_n),    y_n = Re(C x_n) + D u_n,    a = exp(-exp(nu) + i exp(theta)).

The modulus of a is below 1 for all nu. Initially a is uniform in area on the unit disc, and g =
sqrt(1 - |a|^2), which gives each mode unit variance for white noise; log g is learned. (Orvieto and
others, Resurrecting Recurrent Neural Networks for Long Sequences, 2023.)
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Complex, Float, PRNGKeyArray

from linoss import _checks
from linoss.nn._samples import Samples
from linoss.nn.mixers._mixer import AbstractDiagonal, refuse

_PHASES = 6.28


class LRUModes(eqx.Module):
    """nu, theta and log g of each mode."""

    nu: Float[Array, " m"]
    theta: Float[Array, " m"]
    log_gain: Float[Array, " m"]

    def __init__(self, state_size: int, *, key: PRNGKeyArray):
        radius_key, angle_key = jax.random.split(key)
        smallest = jnp.finfo(jnp.zeros(()).dtype).tiny
        area = jax.random.uniform(radius_key, (state_size,), minval=smallest)
        angle = jax.random.uniform(angle_key, (state_size,), minval=smallest)
        self.nu, self.theta = jnp.log(-jnp.log(area) / 2), jnp.log(_PHASES * angle)
        self.log_gain = jnp.log1p(-area) / 2

    @property
    def factor(self) -> Complex[Array, " m"]:
        """a."""
        return jnp.exp(jax.lax.complex(-jnp.exp(self.nu), jnp.exp(self.theta)))


class LRULayer(AbstractDiagonal):
    """Linear recurrent units between an input and an output projection.

    ```python
    >>> import jax, jax.numpy as jnp
    >>> from linoss.nn import LRULayer, Samples
    >>> layer = LRULayer(8, 16, key=jax.random.key(0))
    >>> x, state = layer(jnp.ones((3, 100, 8)))
    >>> x.shape, state.shape
    ((3, 100, 8), (3, 16, 2))

    ```
    """

    hidden_size: int = eqx.field(static=True)
    modes: LRUModes
    input_weight: Float[Array, "pairs hidden"]
    output_weight: Float[Array, "hidden pairs"]
    feedthrough: Float[Array, " hidden"]

    def __init__(self, hidden_size: int, state_size: int, *, key: PRNGKeyArray):
        """**Arguments:**

        - `hidden_size`: number of channels in and out.
        - `state_size`: number of complex modes.
        """
        _checks.positive_integer("hidden_size", hidden_size)
        self.hidden_size = hidden_size
        _checks.positive_integer("state_size", state_size)
        modes_key, in_key, out_key, through_key = jax.random.split(key, 4)
        self.modes = LRUModes(state_size, key=modes_key)
        self.input_weight = jax.random.normal(in_key, (2 * state_size, hidden_size)) * (
            (2 * hidden_size) ** -0.5
        )
        self.output_weight = jax.random.normal(out_key, (hidden_size, 2 * state_size)) * (
            state_size**-0.5
        )
        self.feedthrough = jax.random.normal(through_key, (hidden_size,))

    def step(
        self, samples: Samples, *, reverse: bool
    ) -> tuple[Complex[Array, " m"], Complex[Array, " m"]]:
        """a and g; samples are regular."""
        if samples.intervals is not None:
            refuse(samples, "lru")
        gain = jnp.exp(self.modes.log_gain)
        return self.modes.factor, jax.lax.complex(gain, jnp.zeros_like(gain))
