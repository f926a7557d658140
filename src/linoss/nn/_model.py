"""The full model of Algorithm 1: encoder, blocks, head."""

from typing import Any

import equinox as eqx
import jax
from jax import Array
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from jaxtyping import Bool, Float, Int, PRNGKeyArray

from linoss import _checks, kernels
from linoss._checks import AnyArray
from linoss._declare import check_value
from linoss._settings import Memory
from linoss.kernels import ModelArrays
from linoss.nn._block import Block
from linoss.nn._config import LinOSSConfig
from linoss.nn._heads import Ahead, Head
from linoss.nn._operations import AbstractNorm, as_arrays, key_words
from linoss.nn._parameters import draw_parts
from linoss.nn._passes import Norms, run_blocks, stack
from linoss.nn._samples import Samples
from linoss.nn.mixers import MixerKind
from linoss.nn.mixers._mixer import refuse


class ModelState(eqx.Module):
    """The state of a model between two pieces of a sequence."""

    blocks: Any
    """The states of the blocks, stacked along a first axis."""
    head: Any
    """The state of the head."""


class LinOSS(eqx.Module):
    """A LinOSS model: an affine encoder, blocks of oscillators, and a head.

    ```python
    >>> import jax, jax.numpy as jnp, linoss
    >>> config = linoss.LinOSSConfig(in_size=3, out_size=5, hidden_size=16, state_size=8)
    >>> model = linoss.LinOSS(config, key=jax.random.key(0))
    >>> model(jnp.zeros((10, 200, 3))).shape
    (10, 5)

    ```
    """

    encoder: eqx.nn.Linear
    blocks: tuple[Block, ...]
    head: Head
    config: LinOSSConfig = eqx.field(static=True)

    def __init__(self, config: LinOSSConfig, *, key: PRNGKeyArray):
        """**Arguments:**

        - `config`: see [`linoss.LinOSSConfig`][].
        - `key`: from `jax.random.key`; initialises the weights.
        """
        self.config = config
        self.encoder, self.blocks, self.head = draw_parts(config, key)

    def __call__(
        self,
        u: Float[AnyArray, "*batch time in"],
        *,
        lengths: Int[AnyArray, "*batch"] | None = None,
        mask: Bool[AnyArray, "*batch time"] | None = None,
        intervals: Float[AnyArray, "*batch time"] | None = None,
        future: Float[AnyArray, "*batch horizon in"] | None = None,
        future_intervals: Float[AnyArray, "*batch horizon"] | None = None,
        engine: str = "auto",
        mesh: Mesh | None = None,
    ) -> Float[Array, "..."]:
        """The outputs for whole sequences.

        **Arguments:**

        - `u`: `(..., time, in_size)`. NaN in a present sample gives NaN.
        - `lengths`: number of samples of each sequence; the rest is padding. A padded batch gives
          the same outputs as the unpadded sequences.
        - `mask`: `(..., time)`, False where a sample is missing: states advance without forcing or
          keep their value, depending on the setting `gaps`.
        - `intervals`: `(..., time)`, for irregular sampling: the time since the previous sample in
          units of the regular sampling interval.
        - `future`: for forecasting, `(..., horizon, in_size)`: values known in advance, 0 for the
          others; zeros by default.
        - `future_intervals`: for forecasting with `intervals`, those of the forecast horizon; 1 by
          default.
        - `engine`: see [`linoss.oscillator_scan`][].
        - `mesh`: devices to run on, with an axis `"batch"`, an axis `"time"`, or both, along which
          the batch and the steps of sequences are split into equal parts; `u` is then `(batch,
          time, in_size)`.

        **Returns:** `(..., out_size)`, or `(..., outputs, out_size)` for outputs at every k-th step
        and for forecasts. Classification gives logits.
        """
        options = {"lengths": lengths, "mask": mask, "intervals": intervals, "engine": engine}
        known = {"future": future, "future_intervals": future_intervals}
        samples, ahead = self._checked(u, mesh=mesh, **known, **options)
        return _run(self, samples, ahead, None, mesh)[0]

    def training_pass(
        self,
        u: Float[AnyArray, "*batch time in"],
        *,
        key: PRNGKeyArray,
        memory: int = 0,
        mesh: Mesh | None = None,
        **options: Any,
    ) -> tuple[Float[Array, "..."], Norms]:
        """The outputs in training mode, and the norms with updated statistics.

        `key` draws dropout; the options are the other arguments of a call. Pass the norms to
        [`with_norms`][] after the update. The backward pass recomputes each block from its input,
        so that only the inputs of blocks are stored; native passes store at most `memory` bytes
        more, of the most expensive products.
        """
        _checks.random_key("key", key)
        check_value("memory", memory, Memory)
        if (precision := self.config.precision) not in kernels.fast_precisions():
            raise ValueError(
                f"precision is {precision!r}, but this processor has no instructions for it, and "
                "training would take longer than in 'float32'; use 'float32', or AVX512-BF16"
            )
        samples, ahead = self._checked(u, mesh=mesh, memory=memory, **options)
        return _run(self, samples, ahead, key, mesh)

    def with_norms(self, norms: Norms) -> "LinOSS":
        """This model with the norms that [`training_pass`][] returned."""
        return eqx.tree_at(
            lambda model: [block.norm for block in model.blocks],
            self,
            list(norms),
            is_leaf=lambda x: isinstance(x, AbstractNorm),
        )

    def init_state(self, batch_shape: tuple[int, ...] = ()) -> ModelState:
        """The state before the first sample, for [`run`][]."""
        if MixerKind.of(self.config.mixer).follows:
            raise ValueError(
                f"mixer is {self.config.mixer!r}, expected another one: a differential equation is "
                "solved for a whole sequence and cannot be run step by step"
            )
        if self.config.bidirectional:
            raise ValueError(
                "bidirectional is True, expected False: a model that reads backwards needs the end "
                "of the sequence and cannot be run step by step"
            )
        blocks = [block.mixer.init_state(batch_shape) for block in self.blocks]
        return ModelState(stack(blocks), self.head.init_state(batch_shape))

    def run(
        self,
        state: ModelState,
        u: Float[AnyArray, "*batch time in"],
        *,
        mask: Bool[AnyArray, "*batch time"] | None = None,
        intervals: Float[AnyArray, "*batch time"] | None = None,
        engine: str = "auto",
    ) -> tuple[Float[Array, "*batch time out"], ModelState]:
        """The output after each sample of a piece of a sequence, and the state after the piece.

        Processing a sequence in pieces gives the same outputs as processing it whole. The output at
        a step is the one for a sequence that ends there; with `every` and in forecasting, it is the
        decoder's output at that step.

        ```python
        >>> import jax, jax.numpy as jnp, linoss
        >>> config = linoss.LinOSSConfig(in_size=3, out_size=5, hidden_size=16, state_size=8)
        >>> model = linoss.LinOSS(config, key=jax.random.key(0))
        >>> state = model.init_state()
        >>> outputs, state = model.run(state, jnp.zeros((100, 3)))
        >>> outputs.shape
        (100, 5)

        ```
        """
        options = {"mask": mask, "intervals": intervals, "engine": engine}
        options |= {"precision": self.config.precision, "gaps": self.config.gaps}
        samples = Samples.checked(u, self.config.in_size, **options)
        if not isinstance(state, ModelState):
            raise ValueError(
                f"state is a {type(state).__name__}, expected what init_state or run returned"
            )
        shape, expected = self._batch_shape(state), samples.values.shape[:-2]
        if shape != expected:
            raise ValueError(
                f"state is for a batch of shape {shape}, expected {expected}, that of u; make it "
                f"with init_state({expected})"
            )
        return _run_piece(self, state, samples)

    def native(self) -> ModelArrays:
        """The model as arrays, for streams and exports."""
        blocks, moves = tuple(block.native() for block in self.blocks), self.config.gaps == "move"
        encoder, head = as_arrays(self.encoder), self.head.native()
        return ModelArrays(encoder, blocks, head, self.config.precision, moves)

    def _batch_shape(self, state: ModelState) -> tuple[int, ...]:
        """The batch shape of a state, whose leaves have the axes (block, *batch, ...)."""
        one = jax.tree.leaves(jax.eval_shape(lambda: self.blocks[0].mixer.init_state(())))[0]
        leaf = jax.tree.leaves(state.blocks)[0]
        return leaf.shape[1 : leaf.ndim - one.ndim]

    def _checked(
        self,
        u: Any,
        *,
        mesh: Mesh | None,
        future: Any = None,
        future_intervals: Any = None,
        **options: Any,
    ) -> tuple[Samples, Ahead]:
        """Validate the arguments of a call."""
        settings = {"precision": self.config.precision, "gaps": self.config.gaps}
        samples = Samples.checked(u, self.config.in_size, mesh=mesh, **settings, **options)
        batch, horizon = samples.values.shape[:-2], self.config.horizon
        known = {
            "future": (future, (self.config.in_size,)),
            "future_intervals": (future_intervals, ()),
        }
        ahead = {}
        for name, (given, inner) in known.items():
            if given is not None:
                if horizon is None:
                    raise ValueError(f"{name} was given, but task is {self.config.task!r}")
                ahead[name] = _checks.floating(name, given)
                _checks.shape(name, ahead[name], (*batch, horizon, *inner))
        if future_intervals is not None:
            if samples.intervals is None:
                raise ValueError("future_intervals was given, but intervals is None")
            _checks.nonnegative("future_intervals", ahead["future_intervals"], allow_zero=False)
        if mesh is not None:
            samples.check_mesh(mesh, every=self.config.every, horizon=horizon)
        return samples, (ahead.get("future"), ahead.get("future_intervals"))


@eqx.filter_jit
def _run(
    model: LinOSS,
    samples: Samples,
    ahead: Ahead,
    key: PRNGKeyArray | None,
    mesh: Mesh | None,
) -> tuple[Array, Norms]:
    """Outputs for whole sequences, and norms; with a key, in training mode."""
    arrays, static = eqx.partition(model, eqx.is_array)

    def run(arrays: Any, words: Any, samples: Samples, ahead: Ahead) -> tuple[Array, Norms]:
        """The outputs for all sequences, or for a device's shard of them."""
        model: LinOSS = eqx.combine(arrays, static)
        samples = model.head.prepare(samples, ahead)
        if MixerKind.of(model.config.mixer).follows:
            equation: Any = model.blocks[0]
            refuse(samples, str(name := model.config.mixer), irregular=MixerKind.of(name).irregular)
            return model.head(equation.features(model.encoder, samples), samples), (equation.norm,)
        u, encoder = samples.values, model.encoder
        features, _, norms = run_blocks(model.blocks, u, samples, None, words, encoder=encoder)
        return model.head(features, samples), norms

    words = None
    if key is not None:
        words = jax.vmap(key_words)(jax.random.split(key, len(model.blocks)))
    arguments, split = (arrays, words, samples, ahead), samples.split
    if mesh is None:
        return run(*arguments)
    shards = jax.tree.map(lambda x: split.samples if x.ndim > 1 else split.sequences, samples)
    outputs = split.samples if model.config.every else split.sequences
    return jax.shard_map(
        run,
        mesh=mesh,
        in_specs=(P(), P(), shards, split.sequences),
        out_specs=(outputs, P()),
        check_vma=False,  # native kernels do not declare which values vary over devices
    )(*arguments)


@eqx.filter_jit
def _run_piece(model: LinOSS, state: ModelState, samples: Samples) -> tuple[Array, ModelState]:
    """Outputs at every step of a piece of a sequence, and the state after it."""
    samples = samples.joined()
    u, encoder = samples.values, model.encoder
    features, states, _ = run_blocks(model.blocks, u, samples, state.blocks, encoder=encoder)
    outputs, head = model.head.run(features, samples, state.head)
    return outputs, ModelState(states, head)
