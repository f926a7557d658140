"""A program as ONNX: a graph for whole sequences, and one for a single sample."""

import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np

from linoss._extras import optional
from linoss.export._program import OPERATIONS, Part, Program, Term
from linoss.export._whole import Rows, run

_OPSET, _IR = 17, 8
_OUTPUTS = {
    "classification": "probabilities",
    "regression": "prediction",
    "forecasting": "forecast",
}
_VECTORS = {
    "dot_general": "MatMul",
    "reduce_sum": "ReduceSum",
    "reduce_max": "ReduceMax",
    "concatenate": "Concat",
    "gather": "Gather",
    "slice": "Slice",
}


def whole_sequence(program: Program) -> bytes:
    """A graph from `samples` (batch, time, channels) to outputs, with ONNX `Scan`."""
    graph, window = _Graph(program), program.window
    samples = graph.given("samples", ["batch", "time", program.channels])
    future = times = intervals = None
    if program.known:
        future = graph.given("future", ["batch", program.horizon, program.channels])
    if window is not None and window.clock is not None:
        double = graph.onnx.TensorProto.DOUBLE
        times = graph.given("times", ["batch", "time_and_horizon"], double)
    if program.irregular:
        intervals = graph.given("intervals", ["batch", "time"])
    count = graph.count_of(samples)
    given = (graph.at_least_one(x) for x in (samples, future, times, intervals))
    outputs = run(graph, program, *given)
    answers = [] if window is None and not program.steps else [program.horizon or "answers"]
    shape = ["batch", *answers, program.out_size]
    graph.answer(outputs.pop("answer"), shape, count)
    for name, x in outputs.items():
        graph.first(x, count, graph.result(name, shape))
    return graph.model("whole sequences")


def step(program: Program) -> bytes:
    """A graph from one sample (batch, channels) and states to an output and the next states.

    States are inputs with their names, initially 0, and outputs `next_...`.
    """
    program.refuse_step()
    graph, part = _Graph(program), program.parts[0]
    sizes = {"sample": program.channels}
    sizes |= {"ahead": 1} if program.horizon else {"interval": 1} if program.irregular else {}
    given = {name: graph.given(name, ["batch", size]) for name, size in sizes.items()}
    if program.dtype != np.float32:
        given = {name: graph.cast(x, program.dtype) for name, x in given.items()}
    for name, size in program.states.items():
        given[name] = graph.given(name, ["batch", size], graph.kind)
    after = graph.part(part, given)
    answer = graph.part(program.answer.only(["answer"]), after)["answer"]
    graph.answer(answer, ["batch", program.out_size])
    for name, size in program.states.items():
        graph.node("Identity", [after[name]], f"next_{name}")
        graph.result(f"next_{name}", ["batch", size], graph.kind)
    return graph.model("one sample")


class _Graph:
    """A builder of an ONNX graph: arrays are names of tensors."""

    def __init__(self, program: Program, outer: "_Graph | None" = None):
        self.onnx = onnx = optional("onnx", "export to ONNX", "export")
        self.program = program
        double = program.dtype == np.float64
        self.kind = onnx.TensorProto.DOUBLE if double else onnx.TensorProto.FLOAT
        self.nodes: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.weights: dict[Any, Any] = {} if outer is None else outer.weights
        self._numbers: Iterator[int] = itertools.count() if outer is None else outer._numbers

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

    def name(self) -> str:
        """A new name."""
        return f"t{next(self._numbers)}"

    def node(self, kind: str, inputs: Sequence[str], output: Any = "", **attributes: Any) -> str:
        """Add an operation; returns the name of its output."""
        output = output or self.name()
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, [output], **attributes))
        return output

    def weight(self, array: np.ndarray) -> str:
        """Add a constant, once for equal values."""
        key = (str(array.dtype), array.shape, array.tobytes())
        if key not in self.weights:
            name = f"w{len(self.weights)}"
            self.weights[key] = (self.onnx.numpy_helper.from_array(array, name), name)
        return self.weights[key][1]

    def integers(self, *values: int) -> str:
        return self.weight(np.asarray(values, np.int64))

    def count_of(self, x: str) -> str:
        """The number of sequences."""
        return self.node("Gather", [self.node("Shape", [x]), self.integers(0)])

    def at_least_one(self, x: str | None) -> str | None:
        """With a sequence of zeros, if there is none: loops over none fail in runtimes."""
        if x is None:
            return None
        is_none = self.node("Equal", [self.count_of(x), self.integers(0)])
        more = self.node("Cast", [is_none], to=self.onnx.TensorProto.INT64)
        bounds = [self.integers(i) for i in (1, 9)]
        sizes = self.node(
            "Concat", [more, self.node("Slice", [self.node("Shape", [x]), *bounds])], axis=0
        )
        zeros = self.node("CastLike", [self.node("ConstantOfShape", [sizes]), x])
        return self.node("Concat", [x, zeros], axis=0)

    def first(self, x: str, count: str | None, output: str) -> None:
        """Name a result of the first sequences, or of all."""
        bounds = [] if count is None else [self.integers(0), count, self.integers(0)]
        self.node("Slice" if bounds else "Identity", [x, *bounds], output)

    def answer(self, output: str, shape: list[Any], count: str | None = None) -> None:
        """Add the output, and for classification the label: the last one of NaN."""
        helper, proto = self.onnx.helper, self.onnx.TensorProto
        name = self.result(_OUTPUTS[self.program.task], shape)
        self.first(self.cast(output, np.float32), count, name)
        classes = self.program.classes
        if classes:
            whole = all(isinstance(label, int) and not isinstance(label, bool) for label in classes)
            labels = [*classes, -1] if whole else [*(str(x).encode() for x in classes), b""]
            kind = proto.INT64 if whole else proto.STRING
            tensor = helper.make_tensor("classes", kind, [len(labels)], labels)
            self.weights["classes"] = (tensor, "classes")
            likeliest = self.node("ArgMax", [output], axis=-1, keepdims=0)
            total = self.node("ReduceSum", [output, self.integers(-1)], keepdims=0)
            place = [self.node("IsNaN", [total]), self.integers(len(classes)), likeliest]
            label = self.result("label", shape[:-1], kind)
            chosen = self.node("Gather", ["classes", self.node("Where", place)])
            self.first(chosen, count, label)

    def model(self, what: str) -> bytes:
        """The whole model, validated."""
        helper, program = self.onnx.helper, self.program
        from linoss import __version__

        tensors = [tensor for tensor, _ in self.weights.values()]
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

    # ---- The operations of `_whole` ----

    def part(self, part: Part, given: Rows) -> Rows:
        """The outputs of a part."""
        values = dict(given)

        def value(term: Term) -> str:
            return values[term.name] if term.array is None else self.weight(term.array)

        for primitive, inputs, _, output, details in part.nodes:
            name, more = primitive.name, cast("dict[str, Any]", {})
            read = {"dot_general": inputs[1:], "gather": inputs[:1], "ne": inputs[:1]}
            names = [value(x) for x in read.get(name, inputs)]
            operation = _VECTORS.get(name) or OPERATIONS[name][0]
            if name == "dot_general":
                names.append(self.weight(np.ascontiguousarray(inputs[0].array.T)))
            elif name == "reduce_sum":
                names, more = [*names, self.integers(-1)], {"keepdims": 1}
            elif name == "reduce_max":
                more = {"axes": [-1], "keepdims": 1}
            elif name == "concatenate":
                more = {"axis": -1}
            elif name == "gather":
                names.append(self.integers(*inputs[1].array.ravel()))
                more = {"axis": -1}
            elif name == "slice":
                bounds = (*details["start_indices"], *details["limit_indices"], -1)
                names += [self.integers(x) for x in bounds]
            elif name == "select_n":
                names[1:] = names[:0:-1]
            elif name == "convert_element_type":
                names += [self.weight(np.full(1, x, part.dtype)) for x in (1, 0)]
            elif name in ("square", "integer_pow"):
                assert details.get("y", 2) == 2
                names *= 2
            elif name == "expm1":
                names = [self.node("Exp", names), self.weight(np.ones(1, part.dtype))]
            elif name == "erf" and part.dtype == np.float64:  # unsupported in double
                names = [self.cast(names[0], np.float32)]
            values[output.name] = self.node(operation, names, **more)
            if name == "erf":
                values[output.name] = self.cast(values[output.name], part.dtype)
        return {name: value(term) for name, term in part.outputs.items()}

    def scan(self, part: Part, rows: Rows, around: Rows, each: Sequence[str]) -> tuple[Rows, Rows]:
        """A node `Scan` over the second axis."""
        body, kind = _Graph(self.program, self), self.kind
        given = {name: body.given(body.name(), None, kind) for name in (*part.outputs, *rows)}
        outputs = body.part(part, {**around, **given})
        after = [
            body.node("Identity", [x])
            for x in (*outputs.values(), *(outputs[name] for name in each))
        ]
        for name in after:
            body.result(name, None, kind)
        label = f"pass{self.name()}"
        graph = self.onnx.helper.make_graph(body.nodes, label, body.inputs, body.outputs)
        begin = [
            self.filled(rows["sample"], 0, term.size, 0.0, part.dtype)
            for term in part.outputs.values()
        ]
        names, axes, way = [self.name() for _ in after], [1] * len(each), int(part.backwards)
        more = {"scan_output_axes": axes, "scan_output_directions": [way] * len(each)}
        node = self.onnx.helper.make_node(
            "Scan",
            [*begin, *rows.values()],
            names,
            body=graph,
            num_scan_inputs=len(rows),
            scan_input_axes=[1] * len(rows),
            scan_input_directions=[way] * len(rows),
            **(more if each else {}),
        )
        self.nodes.append(node)
        states = dict(zip(part.outputs, names, strict=False))
        return states, dict(zip(each, names[len(states) :], strict=True))

    def rows(self, x: str, start: int, stop: int | None = None, every: int = 1) -> str:
        """A slice along time."""
        end = np.iinfo(np.int64).max if stop is None else stop
        return self.node("Slice", [x, *map(self.integers, (start, end, 1, every))])

    def latest(self, x: str, count: int) -> str:
        """The last `count` samples, or all if there are fewer."""
        return self.rows(x, -count)

    def join(self, arrays: Sequence[str]) -> str:
        """Concatenate along time."""
        return self.node("Concat", arrays, axis=1)

    def filled(
        self, like: str, time: int | None, size: int, value: float, dtype: Any = np.float32
    ) -> str:
        """One number; without the time axis if `time` is 0."""
        shape = self.node("Shape", [like])
        sizes = [self.node("Gather", [shape, self.integers(0)])]
        if time is None:
            sizes.append(self.node("Gather", [shape, self.integers(1)]))
        sizes += [self.integers(x) for x in (time, size) if x]
        number = self.onnx.numpy_helper.from_array(np.full(1, value, dtype))
        return self.node("ConstantOfShape", [self.node("Concat", sizes, axis=0)], value=number)

    def constant(self, x: np.ndarray) -> str:
        """A constant in single precision."""
        return self.weight(x.astype(np.float32))

    def expand(self, x: str, axis: int) -> str:
        """A new axis."""
        return self.node("Unsqueeze", [x, self.integers(axis)])

    def cast(self, x: str, dtype: Any) -> str:
        """Another precision."""
        return self.node("Cast", [x], to=self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def matmul(self, a: str, b: str) -> str:
        """Products of matrices."""
        return self.node("MatMul", [a, b])

    def reshape(self, x: str, *shape: int) -> str:
        """Another shape after the batch axis."""
        return self.node("Reshape", [x, self.integers(0, *shape)])
