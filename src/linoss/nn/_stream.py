"""Streaming inference: one sample in, one output out, in constant memory."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float

from linoss import _checks, kernels
from linoss._checks import AnyArray
from linoss.nn._block import Block
from linoss.nn._model import LinOSS, ModelState, run_piece
from linoss.nn._samples import Samples
from linoss.scan import engines

_LARGE = 1e-4  # times the root of the largest float: sums of squares of smaller numbers are finite


class Stream:
    """Streaming inference with a trained model.

    Computes the same as [`linoss.LinOSS.step`][], but faster, for samples that arrive one at a
    time. Each sample is one call of a native kernel, or of a compiled program if the kernels were
    not built, in double precision, for schemes with weights of forces, and for poolings other than
    mean and last.

    ```python
    >>> import jax, jax.numpy as jnp, linoss
    >>> config = linoss.LinOSSConfig(in_size=3, out_size=5, hidden_size=16, state_size=8)
    >>> model = linoss.LinOSS(config, key=jax.random.key(0))
    >>> listen = linoss.Stream(model)
    >>> for sample in jnp.zeros((100, 3)):
    ...     answer = listen(sample)
    >>> answer.shape
    (5,)

    ```
    """

    def __init__(self, model: LinOSS, batch_shape: tuple[int, ...] = ()):
        """**Arguments:**

        - `model`: any model that is not bidirectional.
        - `batch_shape`: the shape of the batch, for several synchronous streams.
        """
        state = self._begin = model.init_state(batch_shape)
        sample = jnp.zeros((*batch_shape, 1, model.config.in_size), model.encoder.weight.dtype)
        samples = Samples(sample, engine="native", precision=model.config.precision)
        mixer = model.blocks[0].mixer
        native = (
            "native" in engines()
            and model.blocks[0].is_fused(sample, samples)
            and mixer.native_scheme is not None
            and not mixer.weighs_forces
            and model.head.on_a_stream.pooling in ("", "mean", "last")
        )
        self._way = (_ByKernel if native else _ByProgram)(model, state)
        self._shape, self._dtype = (*batch_shape, model.config.in_size), sample.dtype

    def __call__(
        self,
        sample: Float[AnyArray, "*batch in"] | Any,
        *,
        interval: float | None = None,
        present: bool | np.bool_ = True,
    ) -> Float[np.ndarray, "*batch out"]:
        """The output after one more sample.

        **Arguments:**

        - `sample`: one number for each channel.
        - `interval`: for irregular sampling, the time since the previous sample in units of the
          regular sampling interval.
        - `present`: False if the sample is missing; its values are then ignored.
        """
        if not isinstance(sample, np.ndarray) or sample.dtype != self._dtype:
            sample = np.asarray(_checks.floating("sample", sample), self._dtype)
        if sample.shape != self._shape:
            _checks.shape("sample", sample, self._shape)
        if interval is not None and not 0 < interval < np.inf:
            raise ValueError(f"interval is {interval}, expected a finite number > 0")
        return self._way.step(sample, interval, bool(present))

    @property
    def state(self) -> ModelState:
        """The state after all samples so far. Set it to continue from an earlier state."""
        return self._way.state

    @state.setter
    def state(self, state: ModelState) -> None:
        (leaves, structure), (known, expected) = map(jax.tree.flatten, (state, self.state))
        shapes = [leaf.shape for leaf in known]
        if structure != expected or [np.shape(leaf) for leaf in leaves] != shapes:
            raise ValueError("state is that of another model or batch, expected one of this model")
        self._way.state = state

    def recover(self) -> int:
        """Reset oscillators whose state has overflowed; returns their number.

        After a sample near the largest float, states are infinite or NaN, or so large that their
        sums and squares are, and so is every later output. The head's state of such features is
        also reset; everything else is unchanged.

        ```python
        >>> import jax, jax.numpy as jnp, linoss
        >>> config = linoss.LinOSSConfig(in_size=1, out_size=2, hidden_size=8, state_size=4)
        >>> listen = linoss.Stream(linoss.LinOSS(config, key=jax.random.key(0)))
        >>> bool(jnp.isfinite(listen(jnp.array([3e38]))).all()), listen.recover() > 0
        (False, True)
        >>> bool(jnp.isfinite(listen(jnp.array([1.0]))).all())
        True

        ```
        """
        state, begin = jax.device_get((self.state, self._begin))
        rows, limit = self._shape[:-1], _LARGE * math.sqrt(float(jnp.finfo(self._dtype).max))

        def left(leaf: np.ndarray) -> np.ndarray:
            return np.asarray(~(np.abs(leaf) < limit))

        def begun_anew(new: np.ndarray, old: np.ndarray) -> np.ndarray:
            return np.where(anew.reshape(rows + (1,) * (old.ndim - len(rows))), new, old)

        lost = jax.tree.map(left, state.blocks)
        anew = np.zeros(rows, bool)
        for leaf in jax.tree.leaves(state.head):
            anew = anew | left(leaf).reshape(*rows, -1).any(axis=-1)
        self.state = ModelState(
            jax.tree.map(np.where, lost, begin.blocks, state.blocks),
            jax.tree.map(begun_anew, begin.head, state.head),
        )
        return sum(int(leaf.any(axis=-1).sum()) for leaf in jax.tree.leaves(lost))


class _ByProgram:
    """Streaming by a program compiled by XLA."""

    def __init__(self, model: LinOSS, state: ModelState):
        self._model, self.state = model, state

        def step(state: ModelState, sample: Array) -> tuple[Array, ModelState]:
            precision = model.config.precision
            samples = Samples(sample[..., None, :], engine="sequential", precision=precision)
            answers, state = run_piece(model, state, samples)
            return answers[..., 0, :], state

        self._step = jax.jit(step)

    def step(self, sample: np.ndarray, interval: float | None, present: bool) -> np.ndarray:
        if present and interval is None:
            answer, self.state = self._step(self.state, sample)
            return np.asarray(answer)
        shape = (*sample.shape[:-1], 1)
        answers, self.state = self._model.run(
            self.state,
            sample[..., None, :],
            mask=None if present else np.zeros(shape, bool),
            intervals=None if interval is None else np.full(shape, interval, sample.dtype),
            engine="sequential",
        )
        return np.asarray(answers[..., 0, :])


class _ByKernel:
    """Streaming by a native kernel, which updates the state in place."""

    def __init__(self, model: LinOSS, state: ModelState):
        blocks, *self._batch, pairs, _ = state.blocks.oscillators.shape
        streams = int(np.prod(self._batch))
        self._states = np.empty((blocks, streams, 2, pairs), np.float32)
        hidden = model.config.hidden_size
        _, pooling, squash = model.head.on_a_stream
        self._pooled = np.zeros((streams, hidden) if pooling else (0, 0), np.float32)
        self._counts = np.zeros(streams if pooling else 0, np.int32)
        self._empty, self._out = state, (*self._batch, model.config.out_size)
        self.state = state
        block, decoder = model.blocks[0], model.head.on_a_stream.decoder
        assert model.encoder.bias is not None
        assert decoder.bias is not None
        self._kernel = kernels.native.Stream(
            *_arrays(model.encoder.weight, model.encoder.bias),
            [_block(block) for block in model.blocks],
            *_arrays(decoder.weight, decoder.bias),
            self._states,
            self._pooled,
            self._counts,
            pooling,
            squash,
            block.norm.epsilon_over_channels,
            block.mixer.native_scheme,
            model.config.precision == "bfloat16",
            model.config.gaps == "move",
        )

    def step(self, sample: np.ndarray, interval: float | None, present: bool) -> np.ndarray:
        answer = np.empty(self._out, np.float32)
        if not present:
            sample = np.zeros_like(sample)
        elif not sample.flags.c_contiguous:
            sample = np.ascontiguousarray(sample)
        self._kernel.step(sample, answer, interval or 0.0, present)
        return answer

    @property
    def state(self) -> ModelState:
        """A copy of the arrays."""
        oscillators = np.moveaxis(self._states, -2, -1)
        leaves = [oscillators, self._pooled, self._counts]
        known, structure = jax.tree.flatten(self._empty)
        pairs = zip(known, leaves, strict=False)
        return jax.tree.unflatten(
            structure, [jnp.array(mine.reshape(leaf.shape)) for leaf, mine in pairs]
        )

    @state.setter
    def state(self, state: ModelState) -> None:
        oscillators, *pooled = map(np.asarray, jax.tree.leaves(state))
        self._states[:] = np.moveaxis(oscillators, -1, -2).reshape(self._states.shape)
        for mine, leaf in zip((self._pooled, self._counts), pooled, strict=False):
            mine[:] = leaf.reshape(mine.shape)


def _block(block: Block) -> list[np.ndarray]:
    """The arrays of a block in the layout of the kernel."""
    weights, steps = block.weights(), block.mixer.step_rows(parameters=True)
    B, bias, C, D = block.mixer.projections()
    norm, glu = (weights.mean, weights.scale), (weights.glu_weight, weights.glu_bias)
    return _arrays(*norm, B, bias, steps, C, D, *glu)


def _arrays(*arrays: Array) -> list[np.ndarray]:
    return [np.ascontiguousarray(x, np.float32) for x in arrays]
