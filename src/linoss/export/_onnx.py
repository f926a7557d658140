"""A program as ONNX: a graph of whole sequences, and one of a single sample."""

import json
from typing import Any

import numpy as np

from linoss._extras import optional
from linoss.export._program import OPERATIONS, Part, Program, Term

_OPSET, _IR = 17, 8
_ANSWERS = {
    "classification": "probabilities",
    "regression": "prediction",
    "forecasting": "forecast",
}


def whole_sequence(program: Program) -> bytes:
    """`samples` (batch, time, channels) to answers, by ONNX `Scan`."""
    graph = _Graph(program)
    samples = graph.given("samples", ["batch", "time", program.channels])
    graph.node("Shape", [samples], "shape")
    graph.node("Gather", ["shape", graph.integers([0])], "batch")
    scanned = samples
    if program.horizon:
        scanned = _with_steps_ahead(graph, program, samples)
    scanned = graph.in_precision(scanned, "scanned")
    states: dict[str, str] = {}
    for part in (program.forwards, program.backwards):
        if part is not None:
            states |= _scan(graph, program, part, scanned)
    if program.steps:
        start = -program.horizon if program.horizon else program.every - 1
        bounds = [graph.integers([x]) for x in (start, np.iinfo(np.int64).max, 1, program.every)]
        states = {
            name: graph.node("Slice", [f"{name}_each", *bounds], f"{name}_chosen")
            for name in program.steps
        }
    found = graph.part(program.answer, states)["answer"]
    shape = ["batch", *([program.horizon or "answers"] if program.steps else []), program.out_size]
    graph.answer(found, shape)
    return graph.model("whole sequences")


def step(program: Program) -> bytes:
    """One sample (batch, channels) and the states before it to an answer and the states after it.

    States are inputs of their names, which begin at 0, and outputs `next_...`.
    """
    if program.backwards is not None:
        raise ValueError(
            "causal is False: some oscillators read sequences backwards, which a step cannot do; "
            "fit with causal=True"
        )
    graph = _Graph(program)
    given = {"sample": graph.in_precision(graph.given("sample", ["batch", program.channels]), "s")}
    if program.horizon:
        given["ahead"] = graph.given("ahead", ["batch", 1])
    for name, size in program.states.items():
        given[name] = graph.given(name, ["batch", size], graph.kind)
    after = graph.part(program.forwards, given)
    graph.answer(graph.part(program.answer, after)["answer"], ["batch", program.out_size])
    for name, size in program.states.items():
        graph.node("Identity", [after[name]], f"next_{name}")
        graph.result(f"next_{name}", ["batch", size], graph.kind)
    return graph.model("one sample")


class _Graph:
    """An ONNX graph that grows."""

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
        """An input, single precision unless said."""
        kind = self.onnx.TensorProto.FLOAT if kind is None else kind
        self.inputs.append(self.onnx.helper.make_tensor_value_info(name, kind, shape))
        return name

    def result(self, name: str, shape: list[Any] | None, kind: int | None = None) -> str:
        """An output."""
        kind = self.onnx.TensorProto.FLOAT if kind is None else kind
        self.outputs.append(self.onnx.helper.make_tensor_value_info(name, kind, shape))
        return name

    def node(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, [output], **attributes))
        return output

    def weight(self, array: np.ndarray) -> str:
        """A constant, kept once."""
        key = f"{array.dtype}{array.shape}{array.tobytes().hex() if array.size < 8 else id(array)}"
        if key not in self.weights:
            name = f"w{len(self.weights)}"
            self.weights[key] = (self.onnx.numpy_helper.from_array(array, name), name, array)
        return self.weights[key][1]

    def integers(self, values: Any) -> str:
        return self.weight(np.asarray(values, np.int64))

    def in_precision(self, name: str, output: str) -> str:
        """In the numbers that the program computes with."""
        if not self.program.precise:
            return name
        return self.node("Cast", [name], output, to=self.kind)

    def answer(self, found: str, shape: list[Any]) -> None:
        """The answer, and for classification the label."""
        helper, proto = self.onnx.helper, self.onnx.TensorProto
        name = self.result(_ANSWERS[self.program.task], shape)
        self.node("Cast", [found], name, to=proto.FLOAT)
        classes = self.program.classes
        if classes:
            whole = all(isinstance(label, int) and not isinstance(label, bool) for label in classes)
            labels = list(classes) if whole else [str(label).encode() for label in classes]
            kind = proto.INT64 if whole else proto.STRING
            tensor = helper.make_tensor("classes", kind, [len(classes)], labels)
            self.weights["classes"] = (tensor, "classes", None)
            self.node("ArgMax", [found], "likeliest", axis=-1, keepdims=0)
            self.node("Gather", ["classes", "likeliest"], self.result("label", shape[:-1], kind))

    def part(self, part: Part, given: dict[str, str]) -> dict[str, str]:
        """The nodes of a part; returns the names of its outputs."""

        def name(term: Term) -> str:
            if term.array is not None:
                return self.weight(term.array.astype(self.dtype))
            return given.get(term.name, term.name)

        for operation, inputs, output, details in part.nodes:
            names = [name(term) for term in inputs]
            if operation == "erf" and self.program.precise:  # onnxruntime has no other
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
        """As the body of a loop, which sees the constants of the graph around it."""
        return self.onnx.helper.make_graph(self.nodes, label, self.inputs, self.outputs)

    def model(self, what: str) -> bytes:
        """The whole model, checked."""
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


def _scan(graph: _Graph, program: Program, part: Part, scanned: str) -> dict[str, str]:
    """The states after all samples; those of each step, if asked for, are called `..._each`."""
    body = _Graph(program, graph)
    given = {name: body.given(f"{name}_before", None, body.kind) for name in part.outputs}
    given["sample"] = body.given(f"{part.label}_sample", None, body.kind)
    axes, inputs = [1], [scanned]
    if program.horizon:
        given["ahead"] = body.given("ahead_of", None)
        axes, inputs = [1, 0], [scanned, "ahead"]
    for name, found in body.part(part, given).items():
        body.result(body.node("Identity", [found], f"{name}_after"), None, body.kind)
    for name in program.steps:
        found = body.node("Identity", [f"{name}_after"], f"{name}_now")
        body.result(found, None, body.kind)
    begin = []
    for name, term in part.outputs.items():
        shape = graph.node(
            "Concat", ["batch", graph.integers([term.size])], f"{name}_shape", axis=0
        )
        zero = graph.onnx.numpy_helper.from_array(np.zeros(1, graph.dtype))
        begin.append(graph.node("ConstantOfShape", [shape], f"{name}_begin", value=zero))
    outputs = {name: f"{name}_end" for name in part.outputs}
    node = graph.onnx.helper.make_node(
        "Scan",
        [*begin, *inputs],
        [*outputs.values(), *(f"{name}_each" for name in program.steps)],
        body=body.body(f"{part.label}_step"),
        num_scan_inputs=len(inputs),
        scan_input_axes=axes,
        scan_input_directions=[int(part is program.backwards)] * len(inputs),
        **({"scan_output_axes": [1] * len(program.steps)} if program.steps else {}),
    )
    graph.nodes.append(node)
    return outputs


def _with_steps_ahead(graph: _Graph, program: Program, samples: str) -> str:
    """The samples and the steps ahead; `ahead` is 1 at these."""
    sizes = [graph.integers([x]) for x in (program.horizon, program.channels)]
    if program.known:
        future = graph.given("future", ["batch", program.horizon, program.channels])
    else:
        shape = graph.node("Concat", ["batch", *sizes], "future_shape", axis=0)
        unknown = graph.onnx.numpy_helper.from_array(np.full(1, np.nan, np.float32))
        future = graph.node("ConstantOfShape", [shape], "future", value=unknown)
    time = graph.node("Gather", ["shape", graph.integers([1])], "time")
    one = graph.integers([1])
    parts = []
    for count, value in ((time, 0.0), (sizes[0], 1.0)):
        shape = graph.node("Concat", [count, one], f"flag_shape{value:.0f}", axis=0)
        flag = graph.onnx.numpy_helper.from_array(np.full(1, value, np.float32))
        parts.append(graph.node("ConstantOfShape", [shape], f"flag{value:.0f}", value=flag))
    graph.node("Concat", parts, "ahead", axis=0)
    return graph.node("Concat", [samples, future], "all_samples", axis=1)
