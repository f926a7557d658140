"""One block: norm, mixer, GELU, GLU and a skip connection."""

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, PRNGKeyArray, UInt32

from linoss._arrays import align
from linoss._checks import AnyArray
from linoss._declare import check_value
from linoss._settings import Dropout, NormKind
from linoss.nn._dropout import dropout
from linoss.nn._fused import fused_block, start_of_shard
from linoss.nn._mixer import AbstractMixer
from linoss.nn._norm import AbstractNorm, make_norm
from linoss.nn._samples import Samples
from linoss.scan import OscillatorState


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
            both = both + align(self.bias, both)
        gate, value = jnp.split(both, 2, axis=-1)
        return jax.nn.sigmoid(gate) * value


class Averages(NamedTuple):
    """Averages of a native pass's output over present samples."""

    means: Float[Array, "*batch hidden"]
    """The mean over each sequence."""
    moments: Float[Array, "2 hidden"]
    """Mean and variance over all sequences."""


class Block(eqx.Module):
    """u + dropout(GLU(dropout(GELU(mixer(norm(u)))))), the unit of which models are stacked.

    ```python
    >>> import jax, jax.numpy as jnp, linoss
    >>> layer = linoss.LinOSSLayer(8, 16, scheme="imex", key=jax.random.key(0))
    >>> block = linoss.Block(layer, key=jax.random.key(1))
    >>> output, state = block(jnp.ones((3, 100, 8)))
    >>> output.shape
    (3, 100, 8)

    ```
    """

    norm: AbstractNorm
    mixer: AbstractMixer
    backward_mixer: AbstractMixer | None
    glu: GLU
    dropout: float = eqx.field(static=True)

    def __init__(
        self,
        mixer: AbstractMixer,
        *,
        backward_mixer: AbstractMixer | None = None,
        norm: NormKind | None = "running",
        dropout: int | float = 0.05,
        glu_bias: bool = True,
        key: PRNGKeyArray,
    ):
        """**Arguments:**

        - `mixer`: moves information along time, such as a [`linoss.LinOSSLayer`][].
        - `backward_mixer`: a second one that reads sequences from their end; outputs are added.
        - `norm`: `None`; `"layer"`; `"batch"`; or `"running"`, batch normalisation with its running
          statistics also in training, as in the published runs.
        - `dropout`: probability, in training, after GELU and after GLU.
        - `glu_bias`: biases in the GLU.
        - `key`: from `jax.random.key`; initialises the GLU.
        """
        check_value("norm", norm, NormKind | None)
        check_value("dropout", dropout, Dropout)
        self.norm = make_norm(norm, mixer.hidden_size)
        self.mixer, self.backward_mixer = mixer, backward_mixer
        self.glu = GLU(mixer.hidden_size, bias=glu_bias, key=key)
        self.dropout = float(dropout)

    def __call__(
        self,
        u: Float[AnyArray, "*batch time hidden"],
        *,
        state: Any = None,
        mask: Bool[AnyArray, "*batch time"] | None = None,
        intervals: Float[AnyArray, "*batch time"] | None = None,
        engine: str = "auto",
    ) -> tuple[Float[Array, "*batch time hidden"], Any]:
        """The block after training: its output, and the mixer's state after the sequence.

        `state` is that before the sequence; None for its start. For `mask`, `intervals` and
        `engine` see [`linoss.LinOSS`][].
        """
        options = {"mask": mask, "intervals": intervals, "engine": engine}
        samples = Samples.checked(u, self.mixer.hidden_size, **options).joined()
        output, state, _ = self.run(samples.values, samples, state)
        return output, state

    def run(
        self,
        u: Float[Array, "*batch time hidden"],
        samples: Samples,
        state: Any,
        words: UInt32[Array, "2"] | None = None,
    ) -> tuple[Float[Array, "*batch time hidden"], Any, AbstractNorm]:
        """Output, state after the sequence, and norm with its statistics after it.

        With `words`, which draw dropout, the block is in training.
        """
        if self.is_fused(u, samples):
            return self.run_fused(u, samples, state, words)[:3]
        x, norm = self.norm(u, samples, training=words is not None)
        y, state = self.mixer.mix(x, samples, state, reverse=False)
        if self.backward_mixer is not None:
            y = y + self.backward_mixer.mix(x, samples, None, reverse=True)[0]
        first, second = (None, None) if words is None else jnp.split(_both_words(words), 2)
        y = dropout(jax.nn.gelu(y, approximate=False), self.dropout, first, samples.split)
        return u + dropout(self.glu(y), self.dropout, second, samples.split), state, norm

    @property
    def has_fused_form(self) -> bool:
        """Whether native passes exist for this norm and mixer."""
        return self.norm.is_per_channel and self.mixer.is_constant and self.backward_mixer is None

    def is_fused(self, u: Array, samples: Samples) -> bool:
        """Whether the block runs as a native pass: in single precision, on regular samples, of
        which there are some."""
        arrays = jax.tree.leaves(eqx.filter((self, u), eqx.is_inexact_array))
        return (
            samples.engine == "native"
            and self.has_fused_form
            and samples.intervals is None
            and u.size > 0
            and all(x.dtype == jnp.float32 for x in arrays)
        )

    def run_fused(
        self,
        u: Float[Array, "*batch time hidden"],
        samples: Samples,
        state: OscillatorState | None,
        words: UInt32[Array, "2"] | None,
        *,
        moments: Float[Array, "2 hidden"] | None = None,
        step: Float[Array, "6 m"] | None = None,
    ) -> tuple[Float[Array, "*batch time hidden"], OscillatorState, AbstractNorm, Averages]:
        """`run` as a native pass, with averages of the output.

        `moments` are mean and variance of this device's `u`, and `step` the mixer's step, if they
        are known.
        """
        *batch, time, hidden = u.shape
        mean, scale, norm = self.norm.mean_and_scale(
            u, samples, training=words is not None, moments=moments
        )
        B, bias, C, D = projections = self.mixer.projections()
        step = self.mixer.step_entries() if step is None else step
        before = (self.mixer.init_state(tuple(batch)) if state is None else state).oscillators
        sequences = u.reshape(-1, time, hidden)
        start = before.reshape(-1, *before.shape[-2:])
        start = start_of_shard(projections, step, sequences, mean, scale, start, samples)
        first_sample = samples.split.first_sample(math.prod(batch), time)
        out, final, means, moments = fused_block(
            0.0 if words is None else self.dropout,
            sequences,
            mean,
            scale,
            B,
            bias,
            step,
            C,
            D,
            self.glu.weight,
            jnp.zeros(2 * hidden) if self.glu.bias is None else self.glu.bias,
            jnp.concatenate([_both_words(words), first_sample]),
            samples.mask_bytes(),
            start,
        )
        after = OscillatorState(final.reshape(before.shape), None)
        averages = Averages(means.reshape(*batch, hidden), moments)
        return out.reshape(u.shape), after, norm, averages


def _both_words(words: Array | None) -> Array:
    """Two words for each of the two dropouts of a block."""
    if words is None:
        return jnp.zeros(4, jnp.uint32)
    return jnp.concatenate([words, words ^ jnp.uint32(0x9E3779B9)])
