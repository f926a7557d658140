"""Streaming inference: one sample in, one output out, in constant memory."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from linoss import _checks, kernels
from linoss._checks import AnyArray
from linoss.nn._model import LinOSS, ModelState

_LARGE = 1e-4  # times the root of the largest float: sums of squares of smaller numbers are finite


class Stream:
    """Streaming inference with a trained model.

    Computes the same as [`linoss.LinOSS.run`][], but faster, for samples that arrive one at a
    time. Each sample is one call of a native kernel, or of a compiled program if the kernels were
    not built, in double precision, for schemes with weights of forces, and for poolings other than
    mean and last.

    ```python
    >>> import jax, jax.numpy as jnp, linoss
    >>> config = linoss.LinOSSConfig(in_size=3, out_size=5, hidden_size=16, state_size=8)
    >>> model = linoss.LinOSS(config, key=jax.random.key(0))
    >>> stream = linoss.Stream(model)
    >>> for sample in jnp.zeros((100, 3)):
    ...     output = stream(sample)
    >>> output.shape
    (5,)

    ```
    """

    def __init__(self, model: LinOSS, batch_shape: tuple[int, ...] = ()):
        """**Arguments:**

        - `model`: any model that is not bidirectional.
        - `batch_shape`: the shape of the batch, for several synchronous streams.
        """
        state = self._begin = model.init_state(batch_shape)
        arrays = model.native()
        native = kernels.can_stream(arrays)
        self._engine = kernels.NativeStream(arrays, state) if native else _ByProgram(model, state)
        self._shape = (*batch_shape, model.config.in_size)
        self._dtype = model.encoder.weight.dtype

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
        return self._engine.step(sample, interval, bool(present))

    @property
    def state(self) -> ModelState:
        """The state after all samples so far. Set it to continue from an earlier state."""
        return self._engine.state

    @state.setter
    def state(self, state: ModelState) -> None:
        (leaves, structure), (known, expected) = map(jax.tree.flatten, (state, self.state))
        shapes = [leaf.shape for leaf in known]
        if structure != expected or [np.shape(leaf) for leaf in leaves] != shapes:
            raise ValueError("state is that of another model or batch, expected one of this model")
        self._engine.state = state

    def recover(self) -> int:
        """Reset oscillators whose state has overflowed; returns their number.

        After a sample near the largest float, states are infinite or NaN, or so large that their
        sums and squares are, and so is every later output. The head's state of such features is
        also reset; everything else is unchanged.

        ```python
        >>> import jax, jax.numpy as jnp, linoss
        >>> config = linoss.LinOSSConfig(in_size=1, out_size=2, hidden_size=8, state_size=4)
        >>> stream = linoss.Stream(linoss.LinOSS(config, key=jax.random.key(0)))
        >>> bool(jnp.isfinite(stream(jnp.array([3e38]))).all()), stream.recover() > 0
        (False, True)
        >>> bool(jnp.isfinite(stream(jnp.array([1.0]))).all())
        True

        ```
        """
        limit = _LARGE * math.sqrt(float(jnp.finfo(self._dtype).max))
        state, begin = jax.device_get((self.state, self._begin))
        lost = jax.tree.map(lambda x: ~(np.abs(x) < limit).all(axis=-1, keepdims=True), state)
        self.state = jax.tree.map(np.where, lost, begin, state)
        return sum(int(leaf.sum()) for leaf in jax.tree.leaves(lost.blocks))


class _ByProgram:
    """Streaming by a program compiled by XLA."""

    def __init__(self, model: LinOSS, state: ModelState):
        self._model, self.state = model, state

    def step(self, sample: np.ndarray, interval: float | None, present: bool) -> np.ndarray:
        shape = (*sample.shape[:-1], 1)
        outputs, self.state = self._model.run(
            self.state,
            sample[..., None, :],
            mask=None if present else np.zeros(shape, bool),
            intervals=None if interval is None else np.full(shape, interval, sample.dtype),
            engine="sequential",
        )
        return np.asarray(outputs[..., 0, :])
