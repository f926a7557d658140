"""One LinOSS block: norm, oscillators, GELU, GLU and a skip connection."""

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, PRNGKeyArray, UInt32

from linoss import _checks
from linoss.dynamics import Oscillators
from linoss.nn._dropout import dropout
from linoss.nn._fused import fused_block
from linoss.nn._layer import LayerState, LinOSSLayer, last_interval
from linoss.nn._norm import EPSILON, BatchNorm, LayerNorm, Norm, NormKind, make_norm
from linoss.nn._split import WHOLE, Split
from linoss.scan import resolve_engine


class GLU(eqx.Module):
    """sigmoid(W_1 x) * W_2 x, both products in one."""

    weight: Float[Array, "2*hidden hidden"]
    bias: Float[Array, " 2*hidden"] | None

    def __init__(self, hidden_size: int, *, bias: bool, key: PRNGKeyArray):
        linear = eqx.nn.Linear(hidden_size, 2 * hidden_size, use_bias=bias, key=key)
        self.weight, self.bias = linear.weight, linear.bias

    def __call__(self, x: Float[Array, "*batch hidden"]) -> Float[Array, "*batch hidden"]:
        """The gated values."""
        both = x @ self.weight.T
        if self.bias is not None:
            both = both + self.bias
        gate, value = jnp.split(both, 2, axis=-1)
        return jax.nn.sigmoid(gate) * value


class Averages(NamedTuple):
    """Of what a native pass puts out, over the samples that are there."""

    means: Float[Array, "*batch hidden"]
    """Over each sequence."""
    moments: Float[Array, "2 hidden"]
    """Mean and variance over all of them."""


class LinOSSBlock(eqx.Module):
    """u + dropout(GLU(dropout(GELU(layer(norm(u)))))), the unit of which models are stacked.

    ```python
    >>> import jax, jax.numpy as jnp, linoss
    >>> block = linoss.LinOSSBlock(8, 16, scheme="imex", key=jax.random.key(0))
    >>> output, state = block(jnp.ones((3, 100, 8)))
    >>> output.shape
    (3, 100, 8)

    ```
    """

    norm: Norm | None
    layer: LinOSSLayer
    backward_layer: LinOSSLayer | None
    glu: GLU
    dropout: float = eqx.field(static=True)

    def __init__(
        self,
        hidden_size: int,
        state_size: int,
        *,
        norm: NormKind | None = "running",
        dropout: int | float = 0.05,
        glu_bias: bool = True,
        bidirectional: bool = False,
        key: PRNGKeyArray,
        **layer_options: Any,
    ):
        """**Arguments:**

        - `hidden_size`, `state_size`: widths, see [`linoss.LinOSSLayer`][].
        - `norm`: `None`; `"layer"`; `"batch"`; or `"running"`, batch normalisation that uses its
          running statistics in training, too, as the published runs did.
        - `dropout`: probability, in training, after GELU and after GLU.
        - `glu_bias`: biases in the GLU.
        - `bidirectional`: a second layer reads the sequence from its end; the outputs are added.
        - everything else goes to [`linoss.LinOSSLayer`][].
        """
        _checks.positive_integer("hidden_size", hidden_size)
        _checks.one_of("norm", norm, (None, "layer", "batch", "running"))
        _checks.number("dropout", dropout, "a number in [0, 1)", lambda rate: 0 <= rate < 1)
        layer_key, glu_key, backward_key = jax.random.split(key, 3)
        self.norm = make_norm(norm, hidden_size)
        self.layer = LinOSSLayer(hidden_size, state_size, key=layer_key, **layer_options)
        self.backward_layer = None
        if bidirectional:
            options = {**layer_options, "feedthrough": "none"}
            self.backward_layer = LinOSSLayer(hidden_size, state_size, key=backward_key, **options)
        self.glu = GLU(hidden_size, bias=glu_bias, key=glu_key)
        self.dropout = float(dropout)

    def init_state(self, batch_shape: tuple[int, ...] = ()) -> LayerState:
        """All oscillators at rest."""
        return self.layer.init_state(batch_shape)

    def __call__(
        self,
        u: Float[Array, "*batch time hidden"],
        *,
        state: LayerState | None = None,
        mask: Bool[Array, "*batch time"] | None = None,
        intervals: Float[Array, "*batch time"] | None = None,
        engine: str = "auto",
        split: Split = WHOLE,
    ) -> tuple[Float[Array, "*batch time hidden"], LayerState]:
        """The block as it is used after training, and the state after the sequence."""
        output, state, _ = self._run(u, state, mask, intervals, engine, split, None, training=False)
        return output, state

    def train(
        self,
        u: Float[Array, "*batch time hidden"],
        *,
        words: UInt32[Array, "2"],
        mask: Bool[Array, "*batch time"] | None = None,
        intervals: Float[Array, "*batch time"] | None = None,
        engine: str = "auto",
        split: Split = WHOLE,
    ) -> tuple[Float[Array, "*batch time hidden"], Norm | None]:
        """The block in training, dropout drawn by `words`, and its norm with new statistics."""
        output, _, norm = self._run(u, None, mask, intervals, engine, split, words, training=True)
        return output, norm

    def _run(
        self,
        u: Array,
        state: LayerState | None,
        mask: Array | None,
        intervals: Array | None,
        engine: str,
        split: Split,
        words: Array | None,
        *,
        training: bool,
    ) -> tuple[Array, LayerState, Norm | None]:
        u = _checks.floating("u", u)
        _checks.shape("u", u, ("...", "time", self.glu.weight.shape[1]))
        if self.can_fuse(u, intervals, engine):
            return self.run_fused(u, state, mask, words, training=training, split=split)[:3]
        x, norm = u, None
        if self.norm is not None:
            x, norm = self.norm(u, mask, training=training, split=split)
        options = {"mask": mask, "intervals": intervals, "engine": engine, "split": split}
        y, state = self.layer(x, state=state, **options)
        if self.backward_layer is not None:
            y = y + self.backward_layer(x, reverse=True, **options)[0]
        first, second = (None, None) if words is None else jnp.split(_both_words(words), 2)
        y = dropout(jax.nn.gelu(y, approximate=False), self.dropout, first, split)
        return u + dropout(self.glu(y), self.dropout, second, split), state, norm

    def can_fuse(self, u: Array, intervals: Array | None, engine: str) -> bool:
        """Whether the native block covers this case; where it does not, the plain one runs."""
        arrays = jax.tree.leaves(eqx.filter((self, u), eqx.is_inexact_array))
        return (
            resolve_engine(engine) == "native"
            and all(x.dtype == jnp.float32 for x in arrays)
            and intervals is None
            and not isinstance(self.norm, LayerNorm)
            and self.backward_layer is None
            and self.layer.oscillators.scheme != "verlet"
            and (self.layer.feedthrough is None or self.layer.feedthrough.ndim == 1)
        )

    def run_fused(
        self,
        u: Array,
        state: LayerState | None,
        mask: Array | None,
        words: Array | None,
        *,
        training: bool,
        split: Split = WHOLE,
        moments: Array | None = None,
        step: Array | None = None,
    ) -> tuple[Array, LayerState, Norm | None, Averages]:
        """The native block: output, state, norm, and averages of the output.

        `moments`: mean and variance of each channel of this device's `u`, if known; `step`: that of
        the oscillators, likewise.
        """
        *batch, time, hidden = u.shape
        layer, pairs = self.layer, self.layer.input_weight.shape[0]
        mean, scale, norm = jnp.zeros(hidden), jnp.ones(hidden), None
        if isinstance(self.norm, BatchNorm):
            mean, variance, norm = self.norm.statistics(
                u, mask, training=training, split=split, moments=moments
            )
            scale = jax.lax.rsqrt(variance + EPSILON)
        if state is None:
            state = layer.init_state(tuple(batch))
        start = state.oscillators.reshape(-1, pairs, 2)
        if split.time is not None:
            start = layer.start_of_piece(u, mean, scale, start, mask, "native", split.time)
        out, final, means, moments = fused_block(
            0.0 if words is None else self.dropout,
            u.reshape(-1, time, hidden),
            mean,
            scale,
            layer.input_weight,
            jnp.zeros(pairs) if layer.bias is None else layer.bias,
            step_entries(layer.oscillators, pairs) if step is None else step,
            layer.output_weight,
            jnp.zeros(hidden) if layer.feedthrough is None else layer.feedthrough,
            self.glu.weight,
            jnp.zeros(2 * hidden) if self.glu.bias is None else self.glu.bias,
            jnp.concatenate([_both_words(words), split.first_sample(math.prod(batch), time)]),
            jnp.zeros((0, 0), jnp.uint8)
            if mask is None
            else jnp.broadcast_to(mask, u.shape[:-1]).reshape(-1, time).astype(jnp.uint8),
            start,
        )
        interval = last_interval(state.interval, u.shape[:-1], mask, None, 1)
        final = LayerState(final.reshape(*batch, pairs, 2), interval)
        averages = Averages(means.reshape(*batch, hidden), moments)
        return out.reshape(u.shape), final, norm, averages


def step_entries(oscillators: Oscillators, pairs: int) -> Float[Array, "6 pairs"]:
    """The step of each oscillator, as the native block takes it."""
    step = oscillators.transition(copies=pairs // oscillators.state_size).step
    return jnp.stack(jax.tree.leaves(step))


def _both_words(words: Array | None) -> Array:
    """Two words for each of a block's two dropouts."""
    if words is None:
        return jnp.zeros(4, jnp.uint32)
    return jnp.concatenate([words, words ^ jnp.uint32(0x9E3779B9)])
