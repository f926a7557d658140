"""A program on whole sequences, by any library of arrays: the same calls make an ONNX graph, or
compute in JAX.

The library, `arrays`, has operations on arrays `(batch, time, size)`: the `part` of a program for
each sample, the `scan` of a part over time, slices along time (`rows`, `latest`), `join` along
time, `filled` arrays, a `constant`, and `expand`, `cast`, `matmul` and `reshape` as in NumPy.
"""

from typing import Any

import numpy as np

from linoss.export._program import Program, WholeWindow

Rows = dict[str, Any]
"""Arrays `(batch, time, size)` by name."""


def run(
    arrays: Any, program: Program, samples: Any, future: Any, times: Any, intervals: Any
) -> Rows:
    """The outputs for sequences `(batch, time, channels)`; None for what is not an input."""
    if program.window is not None:
        return _forecasts(arrays, program, program.window, samples, future, times)
    rows = {"sample": samples}
    if intervals is not None:
        rows["interval"] = arrays.expand(intervals, 2)
    if program.dtype != np.float32:
        rows = {name: arrays.cast(x, program.dtype) for name, x in rows.items()}
    states, rows = _scanned(arrays, program, rows, {})
    if program.steps:
        chosen = (program.every - 1, None, program.every)
        states = {name: arrays.rows(rows[name], *chosen) for name in program.steps}
    return arrays.part(program.answer, states)


def _scanned(arrays: Any, program: Program, rows: Rows, around: Rows) -> tuple[Rows, Rows]:
    """The states after all rows, and rows with those states that are needed at each step."""
    states: Rows = {}
    for part in program.parts:
        given = {name: x for name, x in rows.items() if name == "sample" or name in part.inputs}
        after, each = arrays.scan(part, given, around, program.each(part))
        states, rows = states | after, rows | each
    return states, rows


def _forecasts(
    arrays: Any, program: Program, window: WholeWindow, samples: Any, future: Any, times: Any
) -> Rows:
    """The forecast, and both ends of intervals, by name."""
    horizon, targets = program.horizon, program.out_size
    past = arrays.latest(samples, window.past)
    if future is None:
        future = arrays.filled(samples, horizon, program.channels, np.nan)
    ahead = [arrays.filled(past, None, 1, 0.0), arrays.filled(samples, horizon, 1, 1.0)]
    rows = {"sample": arrays.join([past, future]), "ahead": arrays.join(ahead)}
    if window.clock is not None:
        given = {"time": arrays.expand(arrays.latest(times, window.past + horizon), 2)}
        rows["moment"] = arrays.cast(arrays.part(window.clock, given)["moment"], np.float32)
    around: Rows = {}
    if window.survey is not None:
        seen = {name: arrays.rows(x, 0, -horizon) for name, x in rows.items()}
        around, _ = arrays.scan(window.survey, seen, {}, ())
    _, rows = _scanned(arrays, program, rows, around)
    given = {name: arrays.rows(x, -horizon) for name, x in rows.items()}
    given |= {name: arrays.expand(x, 1) for name, x in around.items()}
    given |= {name: arrays.constant(x) for name, x in window.tables.items()}
    if len(window.linear):
        empty = arrays.filled(samples, window.past, targets, 0.0)
        relative = arrays.join([empty, arrays.rows(rows["relative"], 0, -horizon)])
        relative = arrays.rows(relative, -window.past)
        if len(window.linear) > 1:  # pasts of one target after another, in its own column
            only = [np.diag(row) for row in np.eye(targets)]
            relative = arrays.join([arrays.matmul(relative, arrays.constant(x)) for x in only])
        linear = np.concatenate(window.linear).T
        given["first"] = arrays.matmul(arrays.constant(linear), relative)
    return arrays.part(program.answer, given)
