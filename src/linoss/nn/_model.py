"""The full model of Algorithm 1: encoder, blocks, head."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from jaxtyping import Bool, Float, Int, PRNGKeyArray, UInt32

from linoss import _checks
from linoss._checks import AnyArray
from linoss.nn._block import Averages, LinOSSBlock, step_entries
from linoss.nn._config import LinOSSConfig
from linoss.nn._dropout import key_words
from linoss.nn._fused import encode
from linoss.nn._heads import ForecastHead, Head, PooledHead, StepHead, affine
from linoss.nn._layer import LayerState
from linoss.nn._norm import Norm
from linoss.nn._split import WHOLE, Split
from linoss.scan import resolve_engine


class ModelState(eqx.Module):
    """What a model remembers between calls."""

    blocks: LayerState
    """The blocks' states, stacked along a first axis."""
    head: Any
    """The head's state."""


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
    blocks: tuple[LinOSSBlock, ...]
    head: Head
    config: LinOSSConfig = eqx.field(static=True)

    def __init__(self, config: LinOSSConfig, *, key: PRNGKeyArray):
        """**Arguments:**

        - `config`: see [`linoss.LinOSSConfig`][].
        - `key`: from `jax.random.key`; decides the weights at the start.
        """
        encoder_key, blocks_key, head_key = jax.random.split(key, 3)
        self.config = config
        self.encoder = eqx.nn.Linear(config.in_size, config.hidden_size, key=encoder_key)
        self.blocks = tuple(
            LinOSSBlock(
                config.hidden_size,
                config.state_size,
                norm=config.norm,
                dropout=config.dropout,
                glu_bias=config.glu_bias,
                bidirectional=config.bidirectional,
                complex_projections=config.complex_projections,
                feedthrough=config.feedthrough,
                bias=config.bias,
                scheme=config.scheme,
                parameterization=config.parameterization,
                init=config.stiffness_init,
                max_stiffness=config.max_stiffness,
                damped=config.damped,
                min_radius=config.min_radius,
                timestep=config.timestep,
                key=block_key,
            )
            for block_key in jax.random.split(blocks_key, config.num_blocks)
        )
        sizes = (config.hidden_size, config.out_size)
        if config.task == "forecasting":
            assert config.horizon is not None
            self.head = ForecastHead(*sizes, config.horizon, key=head_key)
        elif config.task == "regression" and config.every is not None:
            self.head = StepHead(*sizes, config.every, config.squash, key=head_key)
        else:
            self.head = PooledHead(*sizes, config.pooling, key=head_key)

    def __call__(
        self,
        u: Float[AnyArray, "*batch time in"],
        *,
        lengths: Int[AnyArray, "*batch"] | None = None,
        mask: Bool[AnyArray, "*batch time"] | None = None,
        intervals: Float[AnyArray, "*batch time"] | None = None,
        future: Float[AnyArray, "*batch horizon in"] | None = None,
        engine: str = "auto",
        mesh: Mesh | None = None,
    ) -> Float[Array, "..."]:
        """The model's answers for whole sequences.

        **Arguments:**

        - `u`: `(..., time, in_size)`. NaN where nothing is masked gives NaN.
        - `lengths`: how many samples of each sequence are real; the others are padding. A padded
          batch gives what its sequences give one by one.
        - `mask`: `(..., time)`, False where a sample is missing.
        - `intervals`: `(..., time)`, for irregular sampling: the time since the sample before, in
          units of the usual one.
        - `future`: forecasting: `(..., horizon, in_size)`, what is known in advance; zeros
          elsewhere, and by default.
        - `engine`: see [`linoss.oscillator_scan`][].
        - `mesh`: devices to run on, with an axis `"batch"`, an axis `"time"`, or both, along which
          sequences and their steps are split in equal parts; `u` is then `(batch, time, in_size)`.

        **Returns:** `(..., out_size)`, or `(..., answers, out_size)` for answers at every k-th step
        and for forecasts. Classification gives logits.
        """
        inputs = self._inputs(u, lengths, mask, intervals, future, engine)
        answers, _ = _whole(self, inputs, None, self._checked(mesh, inputs["u"].shape))
        return answers

    def train(
        self,
        u: Float[AnyArray, "*batch time in"],
        *,
        key: PRNGKeyArray,
        lengths: Int[AnyArray, "*batch"] | None = None,
        mask: Bool[AnyArray, "*batch time"] | None = None,
        intervals: Float[AnyArray, "*batch time"] | None = None,
        future: Float[AnyArray, "*batch horizon in"] | None = None,
        engine: str = "auto",
        mesh: Mesh | None = None,
    ) -> tuple[Float[Array, "..."], tuple[Norm | None, ...]]:
        """As a call, but in training: with dropout drawn by `key`, and norms that learn statistics.

        Returns the answers and the norms with their new statistics, for [`with_norms`][]. In the
        backward pass each block is computed again from its input, so that inputs are all that is
        kept.
        """
        _checks.random_key("key", key)
        inputs = self._inputs(u, lengths, mask, intervals, future, engine)
        return _whole(self, inputs, key, self._checked(mesh, inputs["u"].shape))

    def with_norms(self, norms: tuple[Norm | None, ...]) -> "LinOSS":
        """This model with other norms: those that [`train`][] returned."""
        return eqx.tree_at(
            lambda model: [block.norm for block in model.blocks],
            self,
            list(norms),
            is_leaf=lambda x: x is None,
        )

    def init_state(self, batch_shape: tuple[int, ...] = ()) -> ModelState:
        """The state before the first sample, for [`step`][] and [`run`][]."""
        if self.config.bidirectional:
            raise ValueError(
                "bidirectional is True, expected False: a model that reads backwards needs the end "
                "of the sequence and cannot be run step by step"
            )
        blocks = jax.tree.map(
            lambda *x: jnp.stack(x), *(block.init_state(batch_shape) for block in self.blocks)
        )
        return ModelState(blocks, self.head.init_state(batch_shape))

    def run(
        self,
        state: ModelState,
        u: Float[AnyArray, "*batch time in"],
        *,
        mask: Bool[AnyArray, "*batch time"] | None = None,
        intervals: Float[AnyArray, "*batch time"] | None = None,
        engine: str = "auto",
    ) -> tuple[Float[Array, "*batch time out"], ModelState]:
        """The answer after each sample of a piece of a sequence, and the state after the piece.

        Piece by piece gives what the whole sequence gives. The answer at a step is the one that the
        model would give if the sequence ended there; with `every` and in forecasting, it is what
        the decoder makes of that step.

        ```python
        >>> import jax, jax.numpy as jnp, linoss
        >>> config = linoss.LinOSSConfig(in_size=3, out_size=5, hidden_size=16, state_size=8)
        >>> model = linoss.LinOSS(config, key=jax.random.key(0))
        >>> state = model.init_state()
        >>> answers, state = model.run(state, jnp.zeros((100, 3)))
        >>> answers.shape
        (100, 5)

        ```
        """
        inputs = self._inputs(u, None, mask, intervals, None, engine)
        if not isinstance(state, ModelState):
            raise ValueError(
                f"state is a {type(state).__name__}, expected what init_state, step or run returned"
            )
        expected = (self.config.num_blocks, *inputs["u"].shape[:-2])
        if state.blocks.interval.shape != expected:
            raise ValueError(
                f"state is for a batch of shape {state.blocks.interval.shape[1:]}, expected "
                f"{expected[1:]}, that of u; make it with init_state({expected[1:]})"
            )
        return _piece(self, state, inputs)

    def step(
        self,
        state: ModelState,
        u: Float[AnyArray, "*batch in"],
        *,
        interval: Float[AnyArray, "*batch"] | float | None = None,
    ) -> tuple[Float[Array, "*batch out"], ModelState]:
        """The answer after one more sample, and the state after it.

        For many samples, one at a time, [`linoss.Stream`][] is faster.

        ```python
        >>> import jax, jax.numpy as jnp, linoss
        >>> config = linoss.LinOSSConfig(in_size=3, out_size=5, hidden_size=16, state_size=8)
        >>> model = linoss.LinOSS(config, key=jax.random.key(0))
        >>> answer, state = model.step(model.init_state(), jnp.zeros(3))
        >>> answer.shape
        (5,)

        ```
        """
        u = _checks.floating("u", u)
        _checks.shape("u", u, ("...", self.config.in_size))
        if interval is not None:
            interval = _checks.floating("interval", interval)
            if interval.ndim > 0:
                _checks.shape("interval", interval, u.shape[:-1])
            interval = jnp.broadcast_to(interval, u.shape[:-1])[..., None]
        answers, state = self.run(state, u[..., None, :], intervals=interval, engine="sequential")
        return answers[..., 0, :], state

    def forecast(
        self,
        state: ModelState,
        future: Float[AnyArray, "*batch horizon in"] | None = None,
        *,
        engine: str = "auto",
    ) -> Float[Array, "*batch horizon out"]:
        """What a forecasting model expects after the samples that led to `state`."""
        if not isinstance(self.head, ForecastHead):
            raise ValueError(f"task is {self.config.task!r}, expected 'forecasting' to forecast")
        shape = (
            *state.blocks.interval.shape[1:],
            self.head.horizon,
            self.config.in_size,
        )
        if future is None:
            future = jnp.zeros(shape, self.encoder.weight.dtype)
        future = _checks.floating("future", future)
        _checks.shape("future", future, shape)
        return self.run(state, future, engine=engine)[0]

    def _checked(self, mesh: Mesh | None, shape: tuple[int, ...]) -> Mesh | None:
        """A mesh that divides a batch of that shape."""
        split = Split.of(mesh)
        if mesh is None:
            return None
        if len(shape) != 3:
            raise ValueError(f"u has shape {shape}, expected (batch, time, in_size) for a mesh")
        sequences, steps, _ = shape
        if split.batch is not None and sequences % mesh.shape[split.batch]:
            raise ValueError(
                f"u has {sequences} sequences, expected a multiple of {mesh.shape[split.batch]}, "
                "the mesh's devices along 'batch'"
            )
        if split.time is not None:
            steps, devices = steps + (self.config.horizon or 0), mesh.shape[split.time]
            every = self.config.every or 1
            if steps % (devices * every):
                each = "" if every == 1 else f" times {every}, the steps from answer to answer"
                ahead = "" if self.config.horizon is None else ", those ahead included"
                raise ValueError(
                    f"u has {steps} steps{ahead}, expected a multiple of {devices}, the mesh's "
                    f"devices along 'time'{each}; pad it, and pass lengths"
                )
        return mesh

    def _inputs(
        self, u: Any, lengths: Any, mask: Any, intervals: Any, future: Any, engine: str
    ) -> dict[str, Any]:
        """What came in, looked at before anything is traced."""
        u = _checks.floating("u", u)
        _checks.shape("u", u, ("...", "time", self.config.in_size))
        *batch, time, _ = u.shape
        if time == 0:
            raise ValueError(f"u has shape {u.shape}, expected at least one step of time")
        if lengths is not None:
            lengths = _check_lengths(lengths, tuple(batch), time)
        if mask is not None:
            _checks.boolean("mask", mask)
            _checks.shape("mask", mask, (*batch, time))
            mask = jnp.asarray(mask)
        if intervals is not None:
            intervals = _checks.floating("intervals", intervals)
            _checks.shape("intervals", intervals, (*batch, time))
            there = True if mask is None else mask
            if lengths is not None:
                there = there & (np.arange(time) < lengths[..., None])
            with jax.ensure_compile_time_eval():
                intervals = jnp.where(there, intervals, 1)  # what is missing may be anything
            _checks.nonnegative("intervals", intervals, allow_zero=False)
        if future is not None:
            if self.config.horizon is None:
                raise ValueError(f"future was given, but task is {self.config.task!r}")
            future = _checks.floating("future", future)
            _checks.shape("future", future, (*batch, self.config.horizon, self.config.in_size))
        engine = resolve_engine(engine)
        return {
            "u": u,
            "lengths": lengths,
            "mask": mask,
            "intervals": intervals,
            "future": future,
            "engine": engine,
        }


def _check_lengths(lengths: Any, batch: tuple[int, ...], time: int) -> Array:
    if _checks.is_concrete(lengths):
        with jax.ensure_compile_time_eval():
            lengths = jnp.asarray(lengths)
    if not jnp.issubdtype(lengths.dtype, jnp.integer):
        raise ValueError(f"lengths has dtype {lengths.dtype}, expected integers")
    _checks.shape("lengths", lengths, batch)
    if _checks.is_concrete(lengths):
        seen = np.asarray(lengths)
        wrong = (seen < 1) | (seen > time)
        if wrong.any():
            index = tuple(int(i) for i in np.argwhere(wrong)[0])
            raise ValueError(
                f"lengths is {int(seen[index])} at index {index}, expected 1 to {time}, "
                f"the number of steps in u"
            )
    return lengths


@eqx.filter_jit
def _whole(
    model: LinOSS, inputs: dict[str, Any], key: PRNGKeyArray | None, mesh: Mesh | None
) -> tuple[Array, tuple[Norm | None, ...]]:
    """Answers for whole sequences; in training (with a key) also the norms' new statistics."""
    arrays, static = eqx.partition(model, eqx.is_array)
    split, head = Split.of(mesh), model.head

    def answer(arrays: Any, words: Any, samples: Any, sequences: Any) -> tuple[Array, Any]:
        """For all sequences, or those of a device."""
        model: LinOSS = eqx.combine(arrays, static)
        (u, mask, intervals), (lengths, future) = samples, sequences
        if isinstance(model.head, ForecastHead):
            whole = _extended(model.head, u, mask, intervals, lengths, future)
            u, mask, intervals = split.cut(whole)
        elif lengths is not None:
            before, _ = split.steps_before(u.shape[-2])
            there = jnp.arange(u.shape[-2]) + before < lengths[..., None]
            mask = there if mask is None else mask & there
        features, means, _, norms = _features(
            model, u, mask, intervals, inputs["engine"], states=None, words=words, split=split
        )
        if isinstance(model.head, PooledHead):
            return model.head(features, mask, means, split), norms
        if isinstance(model.head, ForecastHead):
            return model.head(features, lengths, split), norms
        return model.head(features, mask), norms

    words = None
    if key is not None:
        words = jax.vmap(key_words)(jax.random.split(key, len(model.blocks)))
    samples = tuple(inputs[name] for name in ("u", "mask", "intervals"))
    arguments = (arrays, words, samples, (inputs["lengths"], inputs["future"]))
    if mesh is None:
        return answer(*arguments)
    # A forecast's sequences are whole on each device until the steps ahead are behind them.
    along_time = split.sequences if isinstance(head, ForecastHead) else split.samples
    answers = split.samples if isinstance(head, StepHead) else split.sequences
    return jax.shard_map(
        answer,
        mesh=mesh,
        in_specs=(P(), P(), along_time, split.sequences),
        out_specs=(answers, P()),
        check_vma=False,  # the kernels do not say what varies from device to device
    )(*arguments)


def _extended(
    head: ForecastHead,
    u: Array,
    mask: Array | None,
    intervals: Array | None,
    lengths: Array | None,
    future: Array | None,
) -> tuple[Array, Array | None, Array | None]:
    """Samples, mask and intervals with the steps ahead."""
    u = head.extend(u, future, lengths)
    time = jnp.arange(u.shape[-2])
    added = [(0, 0)] * (u.ndim - 2) + [(0, head.horizon)]
    mask = None if mask is None else jnp.pad(mask, added, constant_values=True)
    intervals = None if intervals is None else jnp.pad(intervals, added, constant_values=1)
    if lengths is not None:
        ahead, there = time >= lengths[..., None], time < lengths[..., None] + head.horizon
        mask = there if mask is None else (mask | ahead) & there
        intervals = None if intervals is None else jnp.where(ahead, 1, intervals)
    return u, mask, intervals


def run_piece(model: LinOSS, state: ModelState, inputs: dict[str, Any]) -> tuple[Array, ModelState]:
    """Answers at every step of a piece of a sequence, and the state after it."""
    mask = inputs["mask"]
    features, _, states, _ = _features(
        model, inputs["u"], mask, inputs["intervals"], inputs["engine"], state.blocks, None
    )
    assert states is not None
    answers, head_state = model.head.run(features, mask, state.head)
    return answers, ModelState(states, head_state)


_piece = eqx.filter_jit(run_piece)


def _features(
    model: LinOSS,
    u: Array,
    mask: Array | None,
    intervals: Array | None,
    engine: str,
    states: LayerState | None,
    words: UInt32[Array, "blocks 2"] | None,
    split: Split = WHOLE,
) -> tuple[Array, Array | None, LayerState | None, tuple[Norm | None, ...]]:
    """Encoder and blocks: features, their means over time where a pass has found them by the way,
    states, and norms, in training (with words for dropout) with their new statistics."""
    if mask is not None:  # what is missing may be anything, NaN included
        u = jnp.where(mask[..., None], u, 0)
    if model.blocks[0].can_fuse(u, intervals, engine):
        return _fused_features(model, u, mask, states, words, split)
    hidden = affine(model.encoder, u)
    arrays, static = zip(*(eqx.partition(b, eqx.is_array) for b in model.blocks), strict=True)
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *arrays)  # alike: one is compiled, in a loop
    options = {"mask": mask, "intervals": intervals, "engine": engine, "split": split}

    def train(hidden: Array, block_and_words: Any) -> Any:
        arrays, words = block_and_words
        return eqx.combine(arrays, static[0]).train(hidden, words=words, **options)

    def evaluate(hidden: Array, block_and_state: Any) -> Any:
        arrays, state = block_and_state
        return eqx.combine(arrays, static[0])(hidden, state=state, **options)

    if words is None:
        hidden, states = jax.lax.scan(evaluate, hidden, (stacked, states))
        return hidden, None, states, tuple(block.norm for block in model.blocks)
    train = jax.checkpoint(train, prevent_cse=False)
    hidden, norm = jax.lax.scan(train, hidden, (stacked, words))
    norms = tuple(jax.tree.map(lambda x, i=i: x[i], norm) for i in range(len(model.blocks)))
    return hidden, None, None, norms


def _fused_features(
    model: LinOSS,
    u: Array,
    mask: Array | None,
    states: LayerState | None,
    words: Array | None,
    split: Split,
) -> tuple[Array, Array, LayerState, tuple[Norm | None, ...]]:
    """The same by native passes, each of which finds the moments that the next one's norm needs."""
    *batch, time, channels = u.shape
    assert model.encoder.bias is not None
    hidden, moments = encode(
        u.reshape(-1, channels),
        model.encoder.weight,
        model.encoder.bias,
        jnp.zeros(0, jnp.uint8)
        if mask is None
        else jnp.broadcast_to(mask, u.shape[:-1]).reshape(-1).astype(jnp.uint8),
    )
    hidden = hidden.reshape(*batch, time, -1)
    banks = jax.tree.map(lambda *x: jnp.stack(x), *(b.layer.oscillators for b in model.blocks))
    pairs = model.blocks[0].layer.input_weight.shape[0]
    steps = jax.vmap(lambda bank: step_entries(bank, pairs))(banks)  # of all blocks at once
    finals, norms, averages = [], [], Averages(jnp.zeros(0), moments)
    for i, block in enumerate(model.blocks):
        state = None if states is None else jax.tree.map(lambda x, i=i: x[i], states)
        hidden, final, norm, averages = block.run_fused(
            hidden,
            state,
            mask,
            None if words is None else words[i],
            training=words is not None,
            split=split,
            moments=averages.moments,
            step=steps[i],
        )
        finals.append(final)
        norms.append(norm)
    after = jax.tree.map(lambda *x: jnp.stack(x), *finals)
    return hidden, averages.means, after, tuple(norms)
