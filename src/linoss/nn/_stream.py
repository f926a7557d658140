"""A trained model on a stream: one sample in, one answer out, in constant memory."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float

from linoss import _checks
from linoss._checks import AnyArray
from linoss.nn._model import LinOSS, ModelState, run_piece
from linoss.nn._samples import Samples

_LARGE = 1e-4  # of the root of the largest number: sums of squares of smaller ones are finite


class Stream:
    """A model compiled with its weights, and its state after the samples so far.

    Computes the same as [`linoss.LinOSS.step`][], faster, for samples that come one at a time.

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

        - `model`: any but a bidirectional one.
        - `batch_shape`: the shape of the batch, for several streams in step with each other.
        """
        self._begin = model.init_state(batch_shape)
        self._leaves, self._structure = jax.tree.flatten(self._begin)
        self._batch_axes = len(batch_shape)
        self._shape = (*batch_shape, model.config.in_size)
        self._dtype = model.encoder.weight.dtype

        def step(leaves: list[Array], sample: Array) -> tuple[Array, list[Array]]:
            state = jax.tree.unflatten(self._structure, leaves)
            samples = Samples(sample[..., None, :], engine="sequential")
            answers, state = run_piece(model, state, samples)
            return answers[..., 0, :], jax.tree.leaves(state)

        self._step = jax.jit(step)

    def __call__(self, sample: Float[AnyArray, "*batch in"] | Any) -> Float[Array, "*batch out"]:
        """The answer after one more sample."""
        if not isinstance(sample, np.ndarray) or sample.dtype != self._dtype:
            sample = np.asarray(_checks.floating("sample", sample), self._dtype)
        if sample.shape != self._shape:
            _checks.shape("sample", sample, self._shape)
        answer, self._leaves = self._step(self._leaves, sample)
        return answer

    @property
    def state(self) -> ModelState:
        """The state after all samples so far. May be set, to go on from an earlier one."""
        return jax.tree.unflatten(self._structure, self._leaves)

    @state.setter
    def state(self, state: ModelState) -> None:
        leaves, structure = jax.tree.flatten(state)
        shapes = [leaf.shape for leaf in self._leaves]
        if structure != self._structure or [np.shape(leaf) for leaf in leaves] != shapes:
            raise ValueError("state is of another model or batch, expected one of this model's")
        self._leaves = leaves

    def recover(self) -> int:
        """Put oscillators to rest that have left the numbers; returns how many.

        After a sample near the largest number, states are infinite or NaN, or so large that sums
        and squares of them are, and so is every later answer. The head's memory of such features
        is lost, too; all else stays.

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
