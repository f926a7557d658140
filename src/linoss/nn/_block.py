"""One block: norm, mixer, GELU, GLU and a skip connection."""

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, PRNGKeyArray, UInt32

from linoss._arrays import align
from linoss._checks import AnyArray
from linoss._declare import check_value
from linoss._settings import Dropout, GeluName, NormKind, PrecisionName
from linoss.kernels import Affine, BlockArrays
from linoss.nn._operations import (
    AbstractNorm,
    channel_moments,
    dropout,
    make_norm,
    normalize,
    product,
    words_of_block,
)
from linoss.nn._passes import run_blocks
from linoss.nn._samples import Samples
from linoss.nn.mixers._mixer import AbstractMixer


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
        weight, bias = self.native()
        products = product(x, weight, precision)
        gate, value = jnp.split(products + align(bias, products), 2, axis=-1)
        return jax.nn.sigmoid(gate) * value

    def native(self) -> Affine:
        """W_1 and W_2, and the biases."""
        bias = jnp.zeros_like(self.weight[:, 0]) if self.bias is None else self.bias
        return Affine(self.weight, bias)


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
    shared_dropout: bool = eqx.field(static=True)
    gelu: GeluName = eqx.field(static=True)

    def __init__(
        self,
        mixer: AbstractMixer,
        *,
        backward_mixer: AbstractMixer | None = None,
        norm: NormKind | None = "running",
        dropout: int | float = 0.05,
        shared_dropout: bool = False,
        gelu: GeluName = "erf",
        glu_bias: bool = True,
        key: PRNGKeyArray,
    ):
        """**Arguments:**

        - `mixer`: moves information along time, such as a [`linoss.LinOSSLayer`][].
        - `backward_mixer`: a second mixer that reads sequences backwards; the outputs are added.
        - `norm`: `None`; `"layer"`; `"batch"`; or `"running"`, batch normalisation that also uses
          running statistics in training, as in the published runs.
        - `dropout`: dropout probability in training, after GELU and after GLU.
        - `shared_dropout`: drop the same elements of all sequences of a batch.
        - `gelu`: `"erf"`, the exact one, or its `"tanh"` form.
        - `glu_bias`: use biases in the GLU.
        - `key`: from `jax.random.key`; initialises the GLU.
        """
        check_value("norm", norm, NormKind | None)
        check_value("dropout", dropout, Dropout)
        self.norm = make_norm(norm, mixer.hidden_size)
        self.mixer, self.backward_mixer = mixer, backward_mixer
        self.glu = GLU(mixer.hidden_size, bias=glu_bias, key=key)
        self.dropout, self.shared_dropout, self.gelu = float(dropout), shared_dropout, gelu

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
        states = jax.tree.map(lambda x: x[None], state)
        features, states, _ = run_blocks((self,), samples.values, samples, states)
        return features.values, jax.tree.map(lambda x: x[0], states)

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
        norm, updated, first, second = self.norm.native(), self.norm, None, None
        if words is not None:
            norm, updated = self.norm.update(channel_moments(u, samples), samples)
            first, second = jnp.split(words_of_block(words), 2)
        y, state = self.mix(normalize(norm, u), samples, state)
        drop = partial(dropout, split=samples.split, shared=self.shared_dropout)
        y = drop(jax.nn.gelu(y, approximate=self.gelu == "tanh"), self.dropout, first)
        y = drop(self.glu(y, samples.precision), self.dropout, second)
        return u + y, state, updated

    def mix(
        self, x: Float[Array, "*batch time hidden"], samples: Samples, state: Any
    ) -> tuple[Float[Array, "*batch time hidden"], Any]:
        """The sum of both mixers, and the state of the first one after the sequence."""
        y, state = self.mixer.mix(x, samples, state, reverse=False)
        if self.backward_mixer is not None:
            y = y + self.backward_mixer.mix(x, samples, None, reverse=True)[0]
        return y, state

    def native(self) -> BlockArrays:
        """The block in inference."""
        mixers = (self.mixer, self.backward_mixer)
        described = [mixer.native() for mixer in mixers if mixer is not None]
        recurrences = [mixer for mixer in described if mixer is not None]
        complete = tuple(recurrences) if len(recurrences) == len(described) else ()
        return BlockArrays(self.norm.native(), complete, self.glu.native(), self.gelu == "tanh")
