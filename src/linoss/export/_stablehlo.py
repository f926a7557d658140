"""A program in JAX, and as StableHLO for any number of sequences of any length."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np

from linoss._extras import optional
from linoss.export._program import Part, Program
from linoss.export._whole import Rows, run


def stablehlo(program: Program) -> bytes:
    """A serialised function of samples `(batch, time, channels)`, for `jax.export.deserialize`.

    For irregular times a further argument is `intervals`, of shape `(batch, time)`. For a
    forecaster it returns a dict of the forecast and both ends of intervals. If needed, further
    arguments are `future`, the variables known in advance, of shape `(batch, horizon, channels)`,
    and `times`, in double precision, of shape `(batch, time + horizon)`.
    """
    optional("flatbuffers", "StableHLO", "export")
    window, horizon = program.window, program.horizon
    limits = [] if window is None else [f"time <= {window.past}"]
    batch, time = jax.export.symbolic_shape("batch, time", constraints=limits)
    shapes: dict[str, Any] = {}
    if program.irregular:
        shapes["intervals"] = jax.ShapeDtypeStruct((batch, time), np.float32)
    if program.known:
        shapes["future"] = jax.ShapeDtypeStruct((batch, horizon, program.channels), np.float32)
    timed = window is not None and window.clock is not None
    if timed:
        shapes["times"] = jax.ShapeDtypeStruct((batch, time + horizon), np.float64)

    def function(samples: Any, future: Any = None, times: Any = None, intervals: Any = None) -> Any:
        outputs = run(_Jax(), program, samples, future, times, intervals)
        outputs = {name: x.astype(jnp.float32) for name, x in outputs.items()}
        forecast = outputs.pop("answer")
        return forecast if window is None else {"forecast": forecast, **outputs}

    with jax.enable_x64(timed or program.dtype == np.float64):
        samples = jax.ShapeDtypeStruct((batch, time, program.channels), np.float32)
        exported = jax.export.export(jax.jit(function), platforms=("cpu", "cuda", "rocm", "tpu"))
        return bytes(exported(samples, **shapes).serialize())


class _Jax:
    """Arrays of JAX."""

    def part(self, part: Part, given: Rows) -> Rows:
        leading = jnp.broadcast_shapes(*(given[name].shape[:-1] for name in part.inputs))
        inputs = {
            name: jnp.broadcast_to(given[name], (*leading, size))
            for name, size in part.inputs.items()
        }
        compute = partial(_compute, part)
        for _ in leading:
            compute = jax.vmap(compute)
        return compute(inputs)

    def scan(self, part: Part, rows: Rows, around: Rows, each: Sequence[str]) -> tuple[Rows, Rows]:
        batch = rows["sample"].shape[0]
        sizes = {name: term.size for name, term in part.outputs.items()}
        begin = {name: jnp.zeros((batch, size), part.dtype) for name, size in sizes.items()}

        def step(states: Rows, row: Rows) -> tuple[Rows, Rows]:
            after = self.part(part, {**around, **states, **row})
            return after, {name: after[name] for name in each}

        over = {name: jnp.moveaxis(x, 1, 0) for name, x in rows.items()}
        after, steps = jax.lax.scan(step, begin, over, reverse=part.backwards)
        return after, {name: jnp.moveaxis(x, 0, 1) for name, x in steps.items()}

    def rows(self, x: Any, start: int, stop: int | None = None, every: int = 1) -> Any:
        time = x.shape[1]
        start, stop = start if start >= 0 else time + start, time + stop if stop else time
        return jax.lax.slice_in_dim(x, start, stop, every, axis=1)

    def latest(self, x: Any, count: int) -> Any:
        return x  # exported for no more than that

    def join(self, arrays: Sequence[Any]) -> Any:
        return jnp.concatenate(arrays, axis=1)

    def filled(self, like: Any, time: int | None, size: int, value: float) -> Any:
        return jnp.full((like.shape[0], time or like.shape[1], size), value, jnp.float32)

    def constant(self, x: np.ndarray) -> Any:
        return jnp.asarray(x, jnp.float32)

    def expand(self, x: Any, axis: int) -> Any:
        return jnp.expand_dims(x, axis)

    def cast(self, x: Any, dtype: Any) -> Any:
        return x.astype(dtype)

    def matmul(self, a: Any, b: Any) -> Any:
        return a @ b

    def reshape(self, x: Any, *shape: int) -> Any:
        return x.reshape(x.shape[0], *shape)


def _compute(part: Part, given: Rows) -> Rows:
    """The outputs of a part for one sample."""
    values = dict(given)

    def value(term: Any) -> Any:
        return values[term.name] if term.array is None else jnp.asarray(term.array)

    for primitive, inputs, shapes, output, details in part.nodes:
        arrays = (
            value(x) if np.shape(value(x)) == shape else jnp.broadcast_to(value(x).ravel(), shape)
            for x, shape in zip(inputs, shapes, strict=True)
        )
        values[output.name] = primitive.bind(*arrays, **details).ravel()[: output.size]
    return {name: value(term) for name, term in part.outputs.items()}
