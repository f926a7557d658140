"""Native streams: one sample in, one output out, with the state of a model updated in place."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from linoss.dynamics import VaryingTransition
from linoss.kernels._arrays import ModelArrays
from linoss.kernels._block import mixer_arrays
from linoss.kernels._library import native, usable


def can_stream(model: ModelArrays) -> bool:
    """Whether a native stream runs a model: in single precision, with oscillators of a scheme that
    has native formulas and no weights of forces, and without pooling but mean and last."""
    mixers = model.blocks[0].mixers
    return (
        usable()
        and all(x.dtype == jnp.float32 for x in jax.tree.leaves(model) if hasattr(x, "dtype"))
        and bool(mixers)
        and isinstance(mixers[0].step, VaryingTransition)
        and mixers[0].step.scheme.native is not None
        and mixers[0].step.weigh is None
        and model.head.pooling in ("", "mean", "last")
    )


class NativeStream:
    """A stream of a model, with a tree of its state, whose arrays are oscillators `(blocks, *batch,
    m, 2)`, and, if the head pools, parts of a sum `(*batch, hidden + 1)`: pooled features and the
    number of samples."""

    def __init__(self, model: ModelArrays, state: Any):
        arrays, self._structure = jax.tree.flatten(state)
        self._shapes = [np.shape(x) for x in arrays]
        blocks, *batch, m, _ = self._shapes[0]
        streams, hidden = int(np.prod(batch)), model.encoder.bias.size
        self._states = np.empty((blocks, streams, 2, m), np.float32)
        self._pooled = np.zeros((streams, hidden + 1) if len(arrays) > 1 else (0, 0))
        self._output_shape = (*batch, model.head.decoder.bias.size)
        self.state = state
        layouts = [mixer_arrays(block.mixers[0], block.norm) for block in model.blocks]
        self._kernel = native.Stream(
            _plain(*model.encoder, *model.head.decoder),
            [_plain(*x, *b.glu) for (_, x), b in zip(layouts, model.blocks, strict=True)],
            self._states,
            self._pooled,
            pooling=model.head.pooling,
            squash=model.head.squash,
            epsilon=model.blocks[0].norm.epsilon,
            scheme=layouts[0][0],
            approximate=model.blocks[0].approximate,
            half=model.precision == "bfloat16",
            moves=model.moves,
        )

    def step(self, sample: np.ndarray, interval: float | None, present: bool) -> np.ndarray:
        """The output after one more sample of each sequence."""
        output = np.empty(self._output_shape, np.float32)
        if not present:
            sample = np.zeros_like(sample)
        elif not sample.flags.c_contiguous:
            sample = np.ascontiguousarray(sample)
        self._kernel.step(sample, output, interval or 0.0, present)
        return output

    @property
    def state(self) -> Any:
        """The tree, of copies of the arrays."""
        arrays: list[Any] = [np.moveaxis(self._states, -2, -1)]
        left = self._pooled.copy()
        for _ in self._shapes[1:]:
            arrays.append(left.astype(np.float32))
            left -= arrays[-1]
        pairs = zip(arrays, self._shapes, strict=True)
        return jax.tree.unflatten(self._structure, [jnp.array(x.reshape(s)) for x, s in pairs])

    @state.setter
    def state(self, state: Any) -> None:
        oscillators, *pooled = map(np.asarray, jax.tree.leaves(state))
        self._states[:] = np.moveaxis(oscillators, -1, -2).reshape(self._states.shape)
        self._pooled[:] = sum(x.astype(np.float64).reshape(self._pooled.shape) for x in pooled)


def _plain(*arrays: Any) -> list[np.ndarray]:
    return [np.ascontiguousarray(x, np.float32) for x in arrays]
