"""A program as ONNX: a graph for whole sequences, and one for a single sample."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from linoss._extras import optional
from linoss.export._program import OPERATIONS, Moments, Part, Program, Term, WholeWindow

_OPSET, _IR = 17, 8
_OUTPUTS = {
    "classification": "probabilities",
    "regression": "prediction",
    "forecasting": "forecast",
}


def whole_sequence(program: Program) -> bytes:
    """A graph from `samples` (batch, time, channels) to outputs, with ONNX `Scan`."""
    graph = _Graph(program)
    samples = graph.given("samples", ["batch", "time", program.channels])
    if program.window is not None:
        _forecasts(graph, program.window, samples)
        return graph.model("whole windows")
    graph.size_of(samples, 0, "batch")
    rows = {"sample": graph.in_precision(samples, "scanned")}
    if program.irregular:
        intervals = graph.given("intervals", ["batch", "time"])
        column = graph.node("Unsqueeze", [intervals, graph.integers([2])], "each_interval")
        rows["interval"] = graph.in_precision(column, "scanned_intervals")
    states, rows = _scan_all(graph, rows, {})
    if program.steps:
        states = {
            name: graph.rows(rows[name], f"{name}_chosen", program.every - 1, program.every)
            for name in program.steps
        }
    output = graph.part(program.answer, states)["answer"]
    graph.answer(output, ["batch", *(["answers"] if program.steps else []), program.out_size])
    return graph.model("whole sequences")


def step(program: Program) -> bytes:
    """A graph from one sample (batch, channels) and states to an output and the next states.

    States are inputs with their names, initially 0, and outputs `next_...`.
    """
    program.refuse_step()
    graph, answer = _Graph(program), program.answer.only("answer")
    given = {"sample": graph.in_precision(graph.given("sample", ["batch", program.channels]), "s")}
    if program.horizon:
        given["ahead"] = graph.given("ahead", ["batch", 1])
    if program.irregular:
        given["interval"] = graph.in_precision(graph.given("interval", ["batch", 1]), "i")
    for name, size in program.states.items():
        given[name] = graph.given(name, ["batch", size], graph.kind)
    after = graph.part(program.parts[0], given)
    graph.answer(graph.part(answer, after)["answer"], ["batch", program.out_size])
    for name, size in program.states.items():
        graph.node("Identity", [after[name]], f"next_{name}")
        graph.result(f"next_{name}", ["batch", size], graph.kind)
    return graph.model("one sample")


class _Graph:
    """A builder of an ONNX graph."""

    def __init__(self, program: Program, outer: "_Graph | None" = None):
        self.onnx = onnx = optional("onnx", "export to ONNX", "export")
        self.program = program
        self.kind = onnx.TensorProto.DOUBLE if program.precise else onnx.TensorProto.FLOAT
        self.dtype = np.float64 if program.precise else np.float32
        self.nodes: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.weights: dict[str, Any] = {} if outer is None else outer.weights

    def given(self, name: str, shape: list[Any] | None, kind: int | None = None) -> str:
        """Add an input, by default in single precision."""
        kind = self.onnx.TensorProto.FLOAT if kind is None else kind
        self.inputs.append(self.onnx.helper.make_tensor_value_info(name, kind, shape))
        return name

    def result(self, name: str, shape: list[Any] | None, kind: int | None = None) -> str:
        """Add an output."""
        kind = self.onnx.TensorProto.FLOAT if kind is None else kind
        self.outputs.append(self.onnx.helper.make_tensor_value_info(name, kind, shape))
        return name

    def node(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, [output], **attributes))
        return output

    def weight(self, array: np.ndarray) -> str:
        """Add a constant, once for equal values."""
        key = f"{array.dtype}{array.shape}{array.tobytes().hex() if array.size < 8 else id(array)}"
        if key not in self.weights:
            name = f"w{len(self.weights)}"
            self.weights[key] = (self.onnx.numpy_helper.from_array(array, name), name, array)
        return self.weights[key][1]

    def integers(self, values: Any) -> str:
        return self.weight(np.asarray(values, np.int64))

    def size_of(self, name: str, axis: int, output: str) -> str:
        """A size of a tensor, as a vector of one number."""
        self.node("Shape", [name], f"{output}_shape")
        return self.node("Gather", [f"{output}_shape", self.integers([axis])], output)

    def filled(
        self, sizes: Sequence[str | int], value: float, output: str, kind: Any = np.float32
    ) -> str:
        """A tensor filled with one number; sizes are numbers or names."""
        names = [x if isinstance(x, str) else self.integers([x]) for x in sizes]
        shape = self.node("Concat", names, f"{output}_sizes", axis=0)
        number = self.onnx.numpy_helper.from_array(np.full(1, value, kind))
        return self.node("ConstantOfShape", [shape], output, value=number)

    def rows(
        self, name: str, output: str, start: int, every: int = 1, stop: int | None = None
    ) -> str:
        """A slice of a tensor along its second axis, the steps."""
        end = np.iinfo(np.int64).max if stop is None else stop
        bounds = [self.integers([x]) for x in (start, end, 1, every)]
        return self.node("Slice", [name, *bounds], output)

    def in_precision(self, name: str, output: str) -> str:
        """Convert to the precision of the program."""
        if not self.program.precise:
            return name
        return self.node("Cast", [name], output, to=self.kind)

    def answer(self, output: str, shape: list[Any]) -> None:
        """Add the output, and for classification the label: the last one of NaN."""
        helper, proto = self.onnx.helper, self.onnx.TensorProto
        name = self.result(_OUTPUTS[self.program.task], shape)
        self.node("Cast", [output], name, to=proto.FLOAT)
        classes = self.program.classes
        if classes:
            whole = all(isinstance(label, int) and not isinstance(label, bool) for label in classes)
            labels = [*classes, -1] if whole else [*(str(x).encode() for x in classes), b""]
            kind = proto.INT64 if whole else proto.STRING
            tensor = helper.make_tensor("classes", kind, [len(labels)], labels)
            self.weights["classes"] = (tensor, "classes", None)
            self.node("ArgMax", [output], "likeliest", axis=-1, keepdims=0)
            self.node("ReduceSum", [output, self.integers([-1])], "sum_of_all", keepdims=0)
            self.node("IsNaN", ["sum_of_all"], "is_unknown")
            unknown = self.integers(len(classes))
            self.node("Where", ["is_unknown", unknown, "likeliest"], "place_of_label")
            label = self.result("label", shape[:-1], kind)
            self.node("Gather", ["classes", "place_of_label"], label)

    def part(self, part: Part, given: dict[str, str]) -> dict[str, str]:
        """Add the nodes of a part; returns the names of its outputs."""

        def name(term: Term) -> str:
            if term.array is not None:
                return self.weight(term.array.astype(self.dtype))
            return given.get(term.name, term.name)

        for operation, inputs, output, details in part.nodes:
            names = [name(term) for term in inputs]
            if operation == "erf" and self.program.precise:  # unsupported in double
                proto, x = self.onnx.TensorProto, f"{output.name}_single"
                self.node("Cast", names, x, to=proto.FLOAT)
                self.node("Erf", [x], f"{x}_erf")
                self.node("Cast", [f"{x}_erf"], output.name, to=self.kind)
            elif operation in OPERATIONS:
                self.node(OPERATIONS[operation].onnx, names, output.name)
            elif operation == "matmul":
                weight = np.ascontiguousarray(details["weight"].T.astype(self.dtype))
                self.node("MatMul", [*names, self.weight(weight)], output.name)
            elif operation == "sum":
                self.node("ReduceSum", [*names, self.integers([-1])], output.name, keepdims=1)
            elif operation == "softmax":
                self.node("Softmax", names, output.name, axis=-1)
            elif operation == "join":
                self.node("Concat", names, output.name, axis=-1)
            elif operation == "take":
                places = self.integers(details["places"])
                self.node("Gather", [*names, places], output.name, axis=-1)
            else:
                bounds = [self.integers([details[which]]) for which in ("start", "stop")]
                self.node("Slice", [*names, *bounds, self.integers([-1])], output.name)
        return {key: name(term) for key, term in part.outputs.items()}

    def body(self, label: str) -> Any:
        """The body of a loop, which may use the constants of the outer graph."""
        return self.onnx.helper.make_graph(self.nodes, label, self.inputs, self.outputs)

    def model(self, what: str) -> bytes:
        """The whole model, validated."""
        helper, program = self.onnx.helper, self.program
        from linoss import __version__

        tensors = [tensor for tensor, *_ in self.weights.values()]
        graph = helper.make_graph(self.nodes, "linoss", self.inputs, self.outputs, tensors)
        opsets = [helper.make_opsetid("", _OPSET)]
        model = helper.make_model(
            graph, opset_imports=opsets, ir_version=_IR, producer_name="linoss",
            producer_version=__version__, doc_string=f"{program.task}, {what}",
        )  # fmt: skip
        lists = {"channels": program.names, "classes": program.classes}
        facts = {name: json.dumps(x, ensure_ascii=False) for name, x in lists.items() if x}
        helper.set_model_props(model, {"task": program.task, **facts})
        self.onnx.checker.check_model(model, full_check=True)
        return model.SerializeToString()


def _scan_all(
    graph: _Graph, rows: dict[str, str], around: dict[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """The states after all rows, and rows with those states that are needed at each step."""
    program, states = graph.program, {}
    for part in program.parts:
        given = {name: rows[name] for name in rows if name == "sample" or name in part.inputs}
        each = program.each(part)
        states |= _scan(graph, part, given, around, each)
        rows = rows | {name: f"{name}_each" for name in each}
    return states, rows


def _scan(
    graph: _Graph,
    part: Part,
    rows: dict[str, str],
    around: dict[str, str],
    steps: Sequence[str] = (),
) -> dict[str, str]:
    """The states after all rows `(batch, time, size)`; requested states at each step are named
    `..._each`. `around` are constant inputs of the part."""
    body = _Graph(graph.program, graph)
    given = {name: body.given(f"{name}_before", None, body.kind) for name in part.outputs}
    given |= around
    given |= {name: body.given(f"{part.label}_{name}", None, body.kind) for name in rows}
    for name, state in body.part(part, given).items():
        body.result(body.node("Identity", [state], f"{name}_after"), None, body.kind)
    for name in steps:
        state = body.node("Identity", [f"{name}_after"], f"{name}_now")
        body.result(state, None, body.kind)
    begin = [
        graph.filled(["batch", term.size], 0.0, f"{name}_begin", graph.dtype)
        for name, term in part.outputs.items()
    ]
    outputs = {name: f"{name}_end" for name in part.outputs}
    axes, ways = [1] * len(steps), [int(part.backwards)] * len(steps)
    node = graph.onnx.helper.make_node(
        "Scan",
        [*begin, *rows.values()],
        [*outputs.values(), *(f"{name}_each" for name in steps)],
        body=body.body(f"{part.label}_step"),
        num_scan_inputs=len(rows),
        scan_input_axes=[1] * len(rows),
        scan_input_directions=[int(part.backwards)] * len(rows),
        **({"scan_output_axes": axes, "scan_output_directions": ways} if steps else {}),
    )
    graph.nodes.append(node)
    return outputs


def _forecasts(graph: _Graph, window: WholeWindow, samples: str) -> None:
    """Add the forecast, and both ends of intervals, as outputs."""
    program = graph.program
    horizon = program.horizon
    batch, past = graph.size_of(samples, 0, "batch"), graph.rows(samples, "past", -window.past)
    if program.known:
        future = graph.given("future", ["batch", horizon, program.channels])
    else:
        future = graph.filled([batch, horizon, program.channels], np.nan, "future")
    before = graph.filled([batch, graph.size_of(past, 1, "steps"), 1], 0.0, "before_now")
    after = graph.filled([batch, horizon, 1], 1.0, "after_now")
    rows = {
        "sample": graph.node("Concat", [past, future], "all_samples", axis=1),
        "ahead": graph.node("Concat", [before, after], "ahead", axis=1),
    }
    if window.clock is not None:
        rows["moment"] = _moments(graph, window.clock, window.past + horizon)
    around: dict[str, str] = {}
    if window.survey is not None:
        seen = {name: graph.rows(x, f"{name}_seen", 0, stop=-horizon) for name, x in rows.items()}
        around = _scan(graph, window.survey, seen, {})
    _, rows = _scan_all(graph, rows, around)
    given = {name: graph.rows(x, f"{name}_chosen", -horizon) for name, x in rows.items()}
    one = graph.integers([1])
    given |= {name: graph.node("Unsqueeze", [x, one], f"{name}_w") for name, x in around.items()}
    given |= {name: graph.weight(x.astype(np.float32)) for name, x in window.tables.items()}
    if len(window.blocks):
        given["first"] = _first(graph, window, batch)
    outputs = graph.part(program.answer, given)
    shape = ["batch", horizon, program.out_size]
    graph.answer(outputs.pop("answer"), shape)
    for name, x in outputs.items():
        graph.node("Identity", [x], graph.result(name, shape))


def _moments(graph: _Graph, clock: Moments, most: int) -> str:
    """(batch, steps, size) of the input `times`, computed in double precision."""
    proto, last = graph.onnx.TensorProto, graph.integers([2])
    times = graph.given("times", ["batch", "time_and_horizon"], proto.DOUBLE)
    times = graph.node("Unsqueeze", [graph.rows(times, "some_times", -most), last], "each_time")
    numbers = [graph.weight(np.atleast_1d(x)) for x in (clock.start, clock.span)]
    since = graph.node("Sub", [times, numbers[0]], "since")
    parts = [graph.node("Div", [since, numbers[1]], "place_in_time")]
    if len(clock.frequencies):
        turns = graph.node("Mul", [times, graph.weight(clock.frequencies)], "turns")
        whole = graph.node("Floor", [turns], "whole_turns")
        parts.append(graph.node("Sub", [turns, whole], "phases"))
    moment = graph.node("Concat", parts, "moment_double", axis=2)
    return graph.node("Cast", [moment], "moments", to=proto.FLOAT)


def _first(graph: _Graph, window: WholeWindow, batch: str) -> str:
    """The linear forecast (batch, horizon, targets) from the end of the window."""
    targets = graph.program.out_size
    seen = graph.rows("relative_each", "relative_seen", 0, stop=-graph.program.horizon)
    empty = graph.filled([batch, window.past, targets], 0.0, "relative_empty")
    padded = graph.node("Concat", [empty, seen], "relative_padded", axis=1)
    whole = graph.rows(padded, "relative_whole", -window.past)
    lags, weights = (graph.weight(x.astype(np.float32)) for x in (window.lags, window.direct))
    means = graph.node("MatMul", [lags, whole], "features_of")
    flat = graph.node("Reshape", [means, graph.integers([0, -1])], "features_flat")
    answers = graph.node("MatMul", [flat, weights], "first_flat")
    shape = graph.integers([0, graph.program.horizon, targets])
    return graph.node("Reshape", [answers, shape], "first")
