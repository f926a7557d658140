"""One LinOSS layer: y'' = -A y + B u + b, x = C y + D u."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, PRNGKeyArray

from linoss import _checks
from linoss._arrays import align
from linoss._declare import check_value
from linoss._settings import Feedthrough
from linoss.dynamics import Oscillators
from linoss.kernels import LinearRecurrence
from linoss.nn._operations import product
from linoss.nn._samples import Samples
from linoss.nn.mixers._mixer import AbstractMixer, Hidden, uniform
from linoss.scan import OscillatorState, at_rest, scan_forces


class LinOSSLayer(AbstractMixer):
    """Oscillators between an input and an output projection.

    Complex B and C are stored and computed as real pairs: the step is real, so a complex oscillator
    is two real ones that share A and dt, driven by B_re u and B_im u and read out as
    C_re y_re - C_im y_im. The stored output weight includes the minus sign.

    ```python
    >>> import jax, jax.numpy as jnp, linoss
    >>> layer = linoss.LinOSSLayer(8, 16, key=jax.random.key(0))
    >>> x, state = layer(jnp.ones((3, 100, 8)))
    >>> x.shape, state.oscillators.shape
    ((3, 100, 8), (3, 32, 2))

    ```
    """

    hidden_size: int = eqx.field(static=True)
    oscillators: Oscillators
    input_weight: Float[Array, "pairs hidden"]
    output_weight: Float[Array, "hidden pairs"]
    feedthrough: Float[Array, " hidden"] | Float[Array, "hidden hidden"] | None
    bias: Float[Array, " pairs"] | None

    def __init__(
        self,
        hidden_size: int,
        state_size: int,
        *,
        complex_projections: bool = True,
        feedthrough: Feedthrough = "vector",
        bias: bool = False,
        key: PRNGKeyArray,
        **oscillator_options: Any,
    ):
        """**Arguments:**

        - `hidden_size`: number of channels in and out.
        - `state_size`: number of oscillators; a complex one counts once.
        - `complex_projections`: use complex B and C, as in the published runs, instead of real
          ones, as in the text.
        - `feedthrough`: D as a `"vector"`, `"dense"`, or `"none"`.
        - `bias`: add the constant force b.
        - other options: see [`linoss.Oscillators`][].
        """
        _checks.positive_integer("hidden_size", hidden_size)
        self.hidden_size = hidden_size
        check_value("feedthrough", feedthrough, Feedthrough)
        oscillator_key, in_key, out_key, through_key, bias_key = jax.random.split(key, 5)
        self.oscillators = Oscillators(state_size, key=oscillator_key, **oscillator_options)
        pairs = 2 * state_size if complex_projections else state_size
        self.input_weight = uniform(in_key, (pairs, hidden_size), hidden_size)
        self.output_weight = uniform(out_key, (hidden_size, pairs), state_size)
        if feedthrough == "vector":
            self.feedthrough = jax.random.normal(through_key, (hidden_size,))
        elif feedthrough == "dense":
            self.feedthrough = uniform(through_key, (hidden_size, hidden_size), hidden_size)
        else:
            self.feedthrough = None
        self.bias = uniform(bias_key, (pairs,), hidden_size) if bias else None

    def init_state(self, batch_shape: tuple[int, ...] = ()) -> OscillatorState:
        """All oscillators at rest."""
        pairs, dtype = self.input_weight.shape[0], self.input_weight.dtype
        return at_rest(self.oscillators.weigh is not None, batch_shape, pairs, dtype)

    def mix(
        self, u: Hidden, samples: Samples, state: OscillatorState | None, *, reverse: bool
    ) -> tuple[Hidden, OscillatorState]:
        """x = C y + D u, and the state after the last sample."""
        intervals = samples.intervals_after() if reverse else samples.intervals
        transition = self.oscillators.transition(intervals, self._copies)
        force = product(u, self.input_weight, samples.precision)
        if self.bias is not None:
            force = force + align(self.bias, force)
        y, after = scan_forces(
            transition,
            samples.forces(force),
            state,
            mask=samples.moving,
            reverse=reverse,
            engine=samples.engine,
            time_axis=samples.split.time,
        )
        x = product(y, self.output_weight, samples.precision)
        if (D := self.feedthrough) is not None:
            x = x + (u * align(D, u) if D.ndim == 1 else product(u, D, samples.precision))
        return x, after

    @property
    def _copies(self) -> int:
        """2 with complex projections, whose real and imaginary parts share their oscillators."""
        return self.input_weight.shape[0] // self.oscillators.state_size

    def native(self) -> LinearRecurrence:
        """Oscillators between B and C."""
        B, C = self.input_weight, self.output_weight
        step = self.oscillators.transition(jnp.ones(1, B.dtype), self._copies)
        bias = jnp.zeros_like(B[:, 0]) if self.bias is None else self.bias
        D = jnp.zeros_like(B[0]) if self.feedthrough is None else self.feedthrough
        return LinearRecurrence(step, B, bias, C, D)
