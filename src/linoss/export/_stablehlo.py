"""A program in JAX, and as StableHLO for any number of sequences of any length."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np

from linoss.export._program import OPERATIONS, Part, Program, Term, WholeWindow


def stablehlo(program: Program) -> bytes:
    """A serialised function of samples `(batch, time, channels)`, for `jax.export.deserialize`.

    For irregular times a further argument is `intervals`, of shape `(batch, time)`. For a
    forecaster it returns a dict of the forecast and both ends of intervals. If needed, further
    arguments are `future`, the variables known in advance, of shape `(batch, horizon, channels)`,
    and `times`, in double precision, of shape `(batch, time + horizon)`.
    """
    window, given = program.window, {}
    limits = [] if window is None else [f"time <= {window.past}"]
    batch, time = jax.export.symbolic_shape("batch, time", constraints=limits)
    timed = window is not None and window.clock is not None
    with jax.enable_x64(program.precise or timed):
        if program.irregular:
            given["intervals"] = jax.ShapeDtypeStruct((batch, time), jnp.float32)
        samples = jax.ShapeDtypeStruct((batch, time, program.channels), jnp.float32)
        if program.known:
            shape = (batch, program.horizon, program.channels)
            given["future"] = jax.ShapeDtypeStruct(shape, jnp.float32)
        if timed:
            given["times"] = jax.ShapeDtypeStruct((batch, time + program.horizon), jnp.float64)
        function = jax.jit(lambda samples, **given: run_program(program, samples, **given))
        exported = jax.export.export(function, platforms=("cpu", "cuda", "rocm", "tpu"))
        return bytes(exported(samples, **given).serialize())


def run_program(
    program: Program, samples: Any, future: Any = None, times: Any = None, intervals: Any = None
) -> Any:
    """The outputs of a program for whole sequences `(batch, time, channels)`, in JAX."""
    dtype = jnp.float64 if program.precise else jnp.float32
    if program.window is not None:
        return _forecasts(program, program.window, samples, future, times)
    rows = {"sample": samples.astype(dtype)}
    if intervals is not None:
        rows["interval"] = intervals[..., None].astype(dtype)
    states, rows = _scanned_all(program, rows, {})
    if program.steps:
        states = {name: rows[name][:, program.every - 1 :: program.every] for name in program.steps}
    return run_part(program.answer, states, dtype)["answer"].astype(jnp.float32)


def _scanned_all(
    program: Program, rows: dict[str, Any], around: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The states after all rows, and rows with those states that are needed at each step."""
    states = {}
    for part in program.parts:
        given = {name: rows[name] for name in rows if name == "sample" or name in part.inputs}
        after, each = _scanned(part, given, around, program.each(part))
        states, rows = states | after, rows | each
    return states, rows


def _scanned(
    part: Part, rows: dict[str, Any], around: dict[str, Any], steps: Sequence[str] = ()
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The states after all rows `(batch, time, size)`, and some of them at each step."""
    batch, dtype = rows["sample"].shape[0], rows["sample"].dtype
    begin = {name: jnp.zeros((batch, term.size), dtype) for name, term in part.outputs.items()}

    def step(states: Any, row: Any) -> Any:
        after = run_part(part, {**around, **states, **row}, dtype)
        return after, {name: after[name] for name in steps}

    over = {name: jnp.moveaxis(x, 1, 0) for name, x in rows.items()}
    after, each = jax.lax.scan(step, begin, over, reverse=part.backwards)
    return after, {name: jnp.moveaxis(x, 0, 1) for name, x in each.items()}


def _forecasts(program: Program, window: WholeWindow, samples: Any, future: Any, times: Any) -> Any:
    """The forecast, and both ends of intervals, by name."""
    (batch, past, channels), horizon = samples.shape, program.horizon
    if future is None:
        future = jnp.full((batch, horizon, channels), jnp.nan, samples.dtype)
    ahead = jnp.concatenate([jnp.zeros((batch, past, 1)), jnp.ones((batch, horizon, 1))], axis=1)
    rows = {"sample": jnp.concatenate([samples, future], axis=1), "ahead": ahead}
    if window.clock is not None:
        turns = times[..., None] * window.clock.frequencies
        place = (times[..., None] - window.clock.start) / window.clock.span
        rows["moment"] = jnp.concatenate([place, turns - jnp.floor(turns)], axis=2)
    rows = {name: x.astype(jnp.float32) for name, x in rows.items()}
    around = {}
    if window.survey is not None:
        seen = {name: x[:, :past] for name, x in rows.items()}
        around, _ = _scanned(window.survey, seen, {})
    _, rows = _scanned_all(program, rows, around)
    given = {name: x[:, past:] for name, x in rows.items()}
    given |= {name: x[:, None] for name, x in around.items()}
    given |= {name: jnp.asarray(x, jnp.float32) for name, x in window.tables.items()}
    if len(window.blocks):
        relative = rows["relative"][:, :past]
        lags = jnp.asarray(window.lags, jnp.float32)[:, window.past - past :]
        features = jnp.einsum("bp,npv->nbv", lags, relative).reshape(batch, -1)
        first = features @ jnp.asarray(window.direct, jnp.float32)
        given["first"] = first.reshape(batch, horizon, -1)
    outputs = run_part(program.answer, given, jnp.float32)
    return {"forecast" if name == "answer" else name: x for name, x in outputs.items()}


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
    "matmul": lambda dtype, x, weight, exact: x @ jnp.asarray(weight.T, dtype),
    "sum": lambda dtype, x: jnp.sum(x, axis=-1, keepdims=True),
    "softmax": lambda dtype, x: jax.nn.softmax(x, axis=-1),
    "join": _joined,
    "take": lambda dtype, x, places: jnp.take(x, np.asarray(places), axis=-1),
    "slice": lambda dtype, x, start, stop: x[..., start:stop],
}
