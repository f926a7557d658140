"""A program in JAX, and as StableHLO with any number of sequences of any length."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np

from linoss.export._program import OPERATIONS, Part, Program, Term


def stablehlo(program: Program) -> bytes:
    """A function of samples `(batch, time, channels)`, as `jax.export.deserialize` reads it.

    With variables that are known in advance it takes a second argument, `future`, of shape
    `(batch, horizon, channels)`.
    """
    batch, time = jax.export.symbolic_shape("batch, time")
    shapes = [(batch, time, program.channels)]
    if program.known:
        shapes.append((batch, program.horizon, program.channels))
    with jax.enable_x64(program.precise):
        arguments = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
        function = jax.jit(lambda *given: run_program(program, *given))
        exported = jax.export.export(function, platforms=("cpu", "cuda", "rocm", "tpu"))
        return bytes(exported(*arguments).serialize())


def run_program(program: Program, samples: Any, future: Any = None) -> Any:
    """The answers of a program for whole sequences `(batch, time, channels)`, in JAX."""
    dtype = jnp.float64 if program.precise else jnp.float32
    batch = samples.shape[0]
    if program.horizon:
        if future is None:
            future = jnp.full((batch, program.horizon, program.channels), jnp.nan, samples.dtype)
        samples = jnp.concatenate([samples, future], axis=1)
    time = samples.shape[1]
    ahead = (jnp.arange(time) >= time - program.horizon).astype(dtype)[:, None]
    states, steps = {}, {}
    for part in (program.forwards, program.backwards):
        if part is None:
            continue
        begin = {name: jnp.zeros((batch, term.size), dtype) for name, term in part.outputs.items()}

        def step(states: Any, given: Any, part: Part = part) -> Any:
            sample, ahead = given
            after = run_part(part, {**states, "sample": sample, "ahead": ahead}, dtype)
            return after, {name: after[name] for name in program.steps}

        scanned = (jnp.moveaxis(samples, 1, 0).astype(dtype), ahead)
        after, steps = jax.lax.scan(step, begin, scanned, reverse=part is program.backwards)
        states |= after
    if program.steps:
        start = time - program.horizon if program.horizon else program.every - 1
        states = {n: jnp.moveaxis(x[start :: program.every], 0, 1) for n, x in steps.items()}
    return run_part(program.answer, states, dtype)["answer"].astype(jnp.float32)


def run_part(part: Part, given: Mapping[str, Any], dtype: Any) -> dict[str, Any]:
    """The outputs of a part, for inputs `(..., size)`."""
    values = {name: given[name] for name in part.inputs}

    def value(term: Term) -> Any:
        return values[term.name] if term.array is None else jnp.asarray(term.array, dtype)

    for operation, inputs, output, details in part.nodes:
        arguments = [value(term) for term in inputs]
        if operation in OPERATIONS:
            values[output.name] = OPERATIONS[operation].jax(*arguments)
        else:
            values[output.name] = _VECTORS[operation](dtype, *arguments, **details)
    return {name: value(term) for name, term in part.outputs.items()}


def _joined(dtype: Any, *terms: Any) -> Any:
    leading = jnp.broadcast_shapes(*(term.shape[:-1] for term in terms))
    return jnp.concatenate([jnp.broadcast_to(t, (*leading, t.shape[-1])) for t in terms], axis=-1)


_VECTORS: dict[str, Callable[..., Any]] = {
    "matmul": lambda dtype, x, weight: x @ jnp.asarray(weight.T, dtype),
    "sum": lambda dtype, x: jnp.sum(x, axis=-1, keepdims=True),
    "softmax": lambda dtype, x: jax.nn.softmax(x, axis=-1),
    "join": _joined,
    "take": lambda dtype, x, places: jnp.take(x, np.asarray(places), axis=-1),
    "slice": lambda dtype, x, start, stop: x[..., start:stop],
}
