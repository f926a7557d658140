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
from linoss._settings import Dropout, NormKind, PrecisionName
from linoss.nn._dropout import dropout
from linoss.nn._fused import (
    Form,
    GLUWeights,
    MixerWeights,
    Visits,
    fused_block,
    fused_mixer,
    start_of_shard,
)
from linoss.nn._keep import Kept
from linoss.nn._mixer import AbstractMixer, LinearRecurrence
from linoss.nn._norm import AbstractNorm, make_norm
from linoss.nn._products import product
from linoss.nn._samples import Samples

_FORMLESS = "irregular times with a scheme that has no native form"
_SPLIT = "time split over devices with irregular times, both directions, layer norm or Verlet"
OUTSIDE_KERNELS = {"double precision": 4.2, _FORMLESS: 5.2, _SPLIT: 2.1}
"""Cases that the native kernels do not cover, in words, and the slowdown of an update by the plain
block, measured by `benchmarks/corners.py outside`."""


class GLU(eqx.Module):
    """sigmoid(W_1 x) * W_2 x, with both products computed as one."""

    weight: Float[Array, "2*hidden hidden"]
    bias: Float[Array, " 2*hidden"] | None

    def __init__(self, hidden_size: int, *, bias: bool, key: PRNGKeyArray):
        linear = eqx.nn.Linear(hidden_size, 2 * hidden_size, use_bias=bias, key=key)
        self.weight, self.bias = linear.weight, linear.bias

    def __call__(
        self, x: Float[Array, "*batch hidden"], precision: PrecisionName = "float32"
    ) -> Float[Array, "*batch hidden"]:
        """The gated values."""
        both = product(x, self.weight, precision)
        if self.bias is not None:
            both = both + align(self.bias, both)
        gate, value = jnp.split(both, 2, axis=-1)
        return jax.nn.sigmoid(gate) * value


class Averages(NamedTuple):
    """Averages over the present samples of the output of a native pass."""

    means: Float[Array, "*batch hidden"]
    """The mean over each sequence."""
    moments: Float[Array, "2 hidden"]
    """Mean and variance over all sequences."""


class BlockWeights(NamedTuple):
    """The weights of a block for streaming, as arrays."""

    mean: Float[Array, " hidden"]
    """The mean of the norm; the shift of a norm over channels."""
    scale: Float[Array, " hidden"]
    recurrence: LinearRecurrence | None
    """The mixer as a linear recurrence; None if it is not one."""
    glu_weight: Float[Array, "2*hidden hidden"]
    glu_bias: Float[Array, " 2*hidden"]


class Block(eqx.Module):
    """u + dropout(GLU(dropout(GELU(mixer(norm(u)))))), the building block of models.

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
        - `backward_mixer`: a second mixer that reads sequences backwards; the outputs are added.
        - `norm`: `None`; `"layer"`; `"batch"`; or `"running"`, batch normalisation that also uses
          running statistics in training, as in the published runs.
        - `dropout`: dropout probability in training, after GELU and after GLU.
        - `glu_bias`: use biases in the GLU.
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
        """Inference: the output, and the mixer's state after the sequence.

        `state` is the state before the sequence; None for the initial state. For `mask` and
        `engine` see [`linoss.oscillator_scan`][], for `intervals` [`linoss.LinOSS`][].
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
        """Output, state after the sequence, and norm with updated statistics.

        With `words`, the random bits of dropout, the block is in training mode.
        """
        if self.is_fused(u, samples):
            return self.run_fused(u, samples, state, words)[:3]
        y, state, norm = self._mixed(u, samples, state, training=words is not None)
        first, second = (None, None) if words is None else jnp.split(_both_words(words), 2)
        y = dropout(jax.nn.gelu(y, approximate=False), self.dropout, first, samples.split)
        gated = self.glu(y, samples.precision)
        return u + dropout(gated, self.dropout, second, samples.split), state, norm

    def _mixed(
        self,
        u: Array,
        samples: Samples,
        state: Any,
        *,
        training: bool,
        moments: Array | None = None,
    ) -> tuple[Array, Any, AbstractNorm]:
        """Norm and mixers: features before GELU, state after the sequence, and updated norm."""
        x, norm = self.norm(u, samples, training=training, moments=moments)
        y, state = self.mixer.mix(x, samples, state, reverse=False)
        if self.backward_mixer is not None:
            y = y + self.backward_mixer.mix(x, samples, None, reverse=True)[0]
        return y, state, norm

    @property
    def _mixers(self) -> list[AbstractMixer]:
        both = (self.mixer, self.backward_mixer)
        return [mixer for mixer in both if mixer is not None]

    def _whole(self, *, irregular: bool, time_split: bool) -> bool:
        """Whether native passes include the mixers; otherwise they begin after them, with GELU."""
        case = {"irregular": irregular, "time_split": time_split}
        return all(mixer.has_projections(**case) for mixer in self._mixers)

    def outside_kernels(self, *, irregular: bool, time_split: bool) -> str | None:
        """The reason why native passes do not cover this block; None if they do.

        `irregular` is whether samples have intervals, `time_split` whether time is split over
        devices.
        """
        if not self._whole(irregular=irregular, time_split=time_split):
            return (
                "time split over devices, with a mixer without a native form"
                if time_split
                else None
            )
        if irregular and any(mixer.native_scheme is None for mixer in self._mixers):
            return f"{_FORMLESS}: {OUTSIDE_KERNELS[_FORMLESS]:g} times slower"
        if time_split:
            for name, found in (
                ("irregular times", irregular),
                ("both directions", self.backward_mixer is not None),
                ("a norm over channels", self.norm.epsilon_over_channels > 0),
                ("a scheme that weighs forces", self.mixer.weighs_forces),
            ):
                if found:
                    factor = OUTSIDE_KERNELS[_SPLIT]
                    return f"time split over devices, with {name}: {factor:g} times slower"
        return None

    def is_fused(self, u: Array, samples: Samples) -> bool:
        """Whether the block runs as a native pass: in single precision, with at least one sample,
        if the kernels cover it."""
        arrays = jax.tree.leaves(eqx.filter((self, u), eqx.is_inexact_array))
        return (
            samples.engine == "native"
            and u.size > 0
            and all(x.dtype == jnp.float32 for x in arrays)
            and self.outside_kernels(**_case(samples)) is None
        )

    def run_fused(
        self,
        u: Float[Array, "*batch time hidden"],
        samples: Samples,
        state: Any,
        words: UInt32[Array, "2"] | None,
        *,
        moments: Float[Array, "2 hidden"] | None = None,
        steps: tuple[Float[Array, "rows m"], ...] | None = None,
        keep: Kept = Kept.NONE,
    ) -> tuple[Float[Array, "*batch time hidden"], Any, AbstractNorm, Averages]:
        """`run` as a native pass, with averages of the output.

        `moments` are mean and variance of this device's `u`, and `steps` the rows of the mixers'
        steps, if they are already computed; `keep` selects the products to store for the backward
        pass.
        """
        if not self._whole(**_case(samples)):
            return self._run_rest(u, samples, state, words, moments, keep)
        *batch, time, hidden = u.shape
        mean, scale, norm = self.norm.mean_and_scale(
            u, samples, training=words is not None, moments=moments
        )
        sequences = u.reshape(-1, time, hidden)
        steps = self.step_rows(samples) if steps is None else steps
        forms, weights = [], []
        for mixer, step in zip(self._mixers, steps, strict=True):
            B, bias, C, D = mixer.projections()
            weights.append(MixerWeights(mean, scale, B, bias, step, C, D))
            scheme = _native_scheme(mixer, samples) or mixer.native_form
            rate = 0.0 if words is None else self.dropout
            epsilon, half = self.norm.epsilon_over_channels, samples.precision == "bfloat16"
            forms.append(Form(rate, epsilon, scheme, half))
        extra = jnp.zeros((0, 0, 0), jnp.float32)
        if self.backward_mixer is not None:
            rest = self.backward_mixer.init_state(tuple(batch))
            there = _visits(self.backward_mixer, samples, rest, reverse=True)[0]
            extra = fused_mixer(forms[1], sequences, weights[1], there)
        state = self.mixer.init_state(tuple(batch)) if state is None else state
        visits, after = _visits(self.mixer, samples, state, reverse=False)
        before = self.mixer.native_state(state)
        start = before.reshape(-1, *before.shape[-2:])
        first_sample = samples.split.first_sample(math.prod(batch), time)
        results: Any = fused_block(
            forms[0]._replace(keep=keep),
            sequences,
            weights[0],
            self._glu_weights,
            jnp.concatenate([_both_words(words), first_sample]),
            visits,
            extra,
            start_of_shard(weights[0], sequences, start, samples),
        )
        out, final, means, new_moments = results
        after = self.mixer.with_native_state(after, final.reshape(before.shape))
        averages = Averages(means.reshape(*batch, hidden), new_moments)
        return out.reshape(u.shape), after, norm, averages

    def _run_rest(
        self,
        u: Float[Array, "*batch time hidden"],
        samples: Samples,
        state: Any,
        words: UInt32[Array, "2"] | None,
        moments: Float[Array, "2 hidden"] | None,
        keep: Kept,
    ) -> tuple[Float[Array, "*batch time hidden"], Any, AbstractNorm, Averages]:
        """`run_fused` for a mixer without a native form: norm and mixer in JAX, the rest as a
        native pass over a block without oscillators, to which the mixer's output is added."""
        *batch, time, hidden = u.shape
        y, state, norm = self._mixed(u, samples, state, training=words is not None, moments=moments)
        zero, none = jnp.zeros(hidden, jnp.float32), jnp.zeros(0, jnp.float32)
        B, step, C = (none.reshape(shape) for shape in ((0, hidden), (6, 0), (hidden, 0)))
        silent = MixerWeights(zero, zero, B, none, step, C, zero)
        first_sample = samples.split.first_sample(math.prod(batch), time)
        rate, half = 0.0 if words is None else self.dropout, samples.precision == "bfloat16"
        results: Any = fused_block(
            Form(rate, half=half, keep=keep & Kept.GATES),
            u.reshape(-1, time, hidden),
            silent,
            self._glu_weights,
            jnp.concatenate([_both_words(words), first_sample]),
            Visits(samples.mask_bytes(), none.reshape(0, 0), none.reshape(0, 0)),
            y.reshape(-1, time, hidden),
            jnp.zeros((math.prod(batch), 0, 2), jnp.float32),
        )
        out, _, means, new_moments = results
        averages = Averages(means.reshape(*batch, hidden), new_moments)
        return out.reshape(u.shape), state, norm, averages

    def weights(self) -> BlockWeights:
        """The weights of the block as arrays, for streams of regular samples."""
        hidden = self.mixer.hidden_size
        samples = Samples(jnp.zeros((1, hidden), jnp.float32))
        mean, scale, _ = self.norm.mean_and_scale(samples.values, samples, training=False)
        return BlockWeights(mean, scale, self.mixer.recurrence(), *self._glu_weights)

    @property
    def _glu_weights(self) -> GLUWeights:
        weight, bias = self.glu.weight, self.glu.bias
        return GLUWeights(weight, jnp.zeros(weight.shape[0]) if bias is None else bias)

    def step_rows(self, samples: Samples) -> tuple[Float[Array, "rows m"], ...]:
        """The rows from which native passes compute the steps of each mixer; empty if they exclude
        the mixers."""
        if not self._whole(**_case(samples)):
            return ()
        return tuple(
            mixer.step_rows(parameters=_native_scheme(mixer, samples) is not None)
            for mixer in self._mixers
        )


def _case(samples: Samples) -> dict[str, bool]:
    """What decides which native passes cover a mixer."""
    return {
        "irregular": samples.intervals is not None,
        "time_split": samples.split.time is not None,
    }


def _native_scheme(mixer: AbstractMixer, samples: Samples) -> str | None:
    """The scheme by which native passes compute steps; None if they are given the step.

    If time is split, the state before a shard needs the step, too.
    """
    return mixer.native_scheme if samples.split.time is None else None


def _visits(
    mixer: AbstractMixer, samples: Samples, state: Any, *, reverse: bool
) -> tuple[Visits, Any]:
    """The samples in the order of a native pass, and the rest of the state to carry on."""
    weights, after = mixer.weights(samples, state, reverse=reverse)
    mask = samples.mask_bytes()
    intervals = samples.intervals_after() if reverse else samples.intervals
    if intervals is None:
        intervals = jnp.zeros((0, 0), jnp.float32)
    intervals = intervals.reshape(-1, intervals.shape[-1]) if intervals.size else intervals
    if reverse:
        mask, intervals = jnp.flip(mask, 1), jnp.flip(intervals, 1)
    return Visits(mask, intervals, weights), after


def _both_words(words: Array | None) -> Array:
    """Two random words for each of the two dropouts of a block."""
    if words is None:
        return jnp.zeros(4, jnp.uint32)
    return jnp.concatenate([words, words ^ jnp.uint32(0x9E3779B9)])
