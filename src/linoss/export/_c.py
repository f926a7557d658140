"""A program as C99: a header with a function of one sample, and a file of weights.

No memory is allocated: all variables are in a state, of which the caller has one for each stream.
Terms with disjoint lifetimes share memory in the state's field `work`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from linoss.export._program import OPERATIONS, Node, Part, Program, Term

_HEADER = """\
/* {name}: {task}, one sample at a time. Written by linoss.
 *
 * {flash} bytes of constants, {ram} bytes of state.
 *
 *     static {name}_state state;              all 0 before the first sample
 *     float answer[{name}_OUTPUTS];
 *     {name}_step(&state, sample, answer);
 *
 * sample has {name}_CHANNELS numbers, NaN for missing ones. answer is the output for all
 * samples so far.{usage}
 * Do not compile with -ffast-math, which assumes that there is no NaN.
 */
#ifndef {guard}_H
#define {guard}_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define {name}_CHANNELS {channels}
#define {name}_OUTPUTS {answers}

typedef struct {{
{states}}} {name}_state;

{constants}
static inline void {name}_reset({name}_state *state) {{ memset(state, 0, sizeof *state); }}

static inline void {name}_step(
    {name}_state *state, const float *sample, float *answer{parameter}) {{
    float *const w = state->work;
{body}}}

#endif
"""

_AHEAD = """
 * With ahead = 1 the step is one of the {horizon} to forecast: NaN in sample for unknown values.
 * Forecast from a copy of the state."""

_INTERVAL = """
 * interval is the time since the sample before, in the unit of the data, and any for the first."""


def c_files(program: Program, name: str, *, int8: bool = False) -> tuple[str, str, int, int]:
    """The header of a program, its weights, and the bytes of constants and of a state.

    All names begin with `name`, as does the file of weights.

    With `int8`, each row of a model's matrices is quantised to 255 levels.
    """
    if int8 and program.dtype == np.float64:
        raise ValueError(
            "int8 is True, but there are untrained oscillators, whose readout would lose "
            "accuracy; omit it"
        )
    program.refuse_step()
    constants, parts = _Constants(name, int8), (program.parts[0], program.answer.only(["answer"]))
    writers = [_PartWriter(part, constants) for part in parts]
    targets = {"answer": "answer"} | {state: f"state->{state}" for state in program.states}
    lines = [line for writer in writers for line in writer.lines(targets)]
    usage, parameter = "", ""
    if program.horizon:
        usage, parameter = _AHEAD.format(horizon=program.horizon), ", int ahead"
    elif program.irregular:
        usage, parameter = _INTERVAL, ", float interval"
    sizes = {**program.states, "work": max(writer.work for writer in writers)}
    ram = 4 * sum(sizes.values())
    declarations, definitions = constants.texts()
    if program.classes:
        labels = f"const char *const {name}_classes[{len(program.classes)}]"
        declarations += f"extern {labels};\n"
        definitions += f"\n{labels} = {{{', '.join(map(_quoted, program.classes))}}};\n"
    header = _HEADER.format(
        name=name,
        guard=name.upper(),
        task=program.task,
        channels=program.channels,
        answers=program.out_size,
        states="".join(f"    float {state}[{size}];\n" for state, size in sizes.items()),
        constants=declarations,
        flash=constants.bytes,
        ram=ram,
        usage=usage,
        parameter=parameter,
        body="".join(f"    {line}\n" for line in lines),
    )
    text = f'#include "{name}.h"\n\n{definitions}'
    return header, text, constants.bytes, ram


class _Constants:
    """The constants in the file of weights: one array of each type."""

    def __init__(self, name: str, int8: bool):
        self._name, self.int8 = name, int8
        self._arrays: dict[str, list[np.ndarray]] = {}
        self._known: dict[Any, str] = {}

    def place(self, array: np.ndarray, kind: str, dtype: Any = np.float32) -> str:
        """The address of an array: kind is weights, levels of bytes, or places."""
        array, arrays = array.astype(dtype).ravel(), self._arrays.setdefault(kind, [])
        key = (kind, array.tobytes())
        if key not in self._known:
            self._known[key] = f"({self._name}_{kind} + {sum(a.size for a in arrays)})"
            arrays.append(array)
        return self._known[key]

    @property
    def bytes(self) -> int:
        return sum(array.nbytes for arrays in self._arrays.values() for array in arrays)

    def texts(self) -> tuple[str, str]:
        """Declarations and definitions."""
        declarations, definitions = "", ""
        types = {"weights": "float", "levels": "int8_t", "places": "uint16_t"}
        for kind, arrays in self._arrays.items():
            numbers = [_number(x) for array in arrays for x in array.tolist()]
            rows = [", ".join(numbers[i : i + 8]) for i in range(0, len(numbers), 8)]
            head = f"const {types[kind]} {self._name}_{kind}[{len(numbers)}]"
            declarations += f"extern {head};\n"
            body = ",\n    ".join(rows)
            definitions += f"{head} = {{\n    {body}\n}};\n"
        return declarations, definitions


class _PartWriter:
    """Writes the lines of a part."""

    def __init__(self, part: Part, constants: _Constants):
        self._part, self._constants, self.work = part, constants, 1
        self._places = {name: f"state->{name}" for name in part.inputs}
        self._places |= {"sample": "sample", "ahead": "&ahead", "interval": "&interval"}
        self._held: dict[str, tuple[int, int]] = {}  # begin and end of terms in `work`
        self._last = {x.name: i for i, node in enumerate(part.nodes) for x in node.inputs}
        self._last |= {term.name: len(part.nodes) for term in part.outputs.values()}

    def lines(self, targets: Mapping[str, str]) -> list[str]:
        """The lines of all nodes; outputs are written to `targets`."""
        written = []
        for i, node in enumerate(self._part.nodes):
            output, single = node.output, node.primitive.name in OPERATIONS
            ending = [x for x in node.inputs if self._last[x.name] == i]
            if single:  # elementwise: a term of the same size may be overwritten
                self._free(x for x in ending if x.size == output.size)
            self._places[output.name] = f"(w + {self._room(output)})"
            written += self._single(node) if single else self._vector(node)
            self._free(ending)
        for name, term in self._part.outputs.items():
            written.append(
                f"memcpy({targets[name]}, {self._at(term)}, {term.size} * sizeof(float));"
            )
        return written

    def _room(self, term: Term) -> int:
        """The first place where a term fits between those that are still needed."""
        start = 0
        for begin, end in sorted(self._held.values()):
            if start + term.size <= begin:
                break
            start = max(start, end)
        self._held[term.name] = (start, start + term.size)
        self.work = max(self.work, start + term.size)
        return start

    def _free(self, terms: Iterable[Term]) -> None:
        for term in terms:
            self._held.pop(term.name, None)

    def _at(self, term: Term) -> str:
        if term.array is None:
            return self._places[term.name]
        return self._constants.place(term.array, "weights")

    def _number_of(self, term: Term) -> str:
        """The element at index i."""
        if term.array is not None and np.all(term.array == term.array.flat[0]):
            return _number(float(np.float32(term.array.flat[0])))
        return f"{self._at(term)}[i]" if term.size > 1 else f"*{self._at(term)}"

    def _single(self, node: Node) -> list[str]:
        numbers = [self._number_of(term) for term in node.inputs]
        text = OPERATIONS[node.primitive.name][1].format(*numbers)
        return [_loop(node.output.size, f"{self._number_of(node.output)} = {text};")]

    def _vector(self, node: Node) -> list[str]:
        name, x = node.primitive.name, node.inputs[-1]
        y, size = self._at(node.output), node.output.size
        if name == "dot_general":
            return self._matmul(node.inputs[0].array, self._at(x), y)
        if name == "reduce_sum":
            return [f"*{y} = 0.0f;", _loop(x.size, f"*{y} += {self._at(x)}[i];")]
        if name == "reduce_max":
            most = _loop(x.size, f"*{y} = fmaxf(*{y}, {self._at(x)}[i]);")
            return [f"*{y} = *{self._at(x)};", most]
        if name == "gather":
            places = self._constants.place(x.array, "places", np.uint16)
            return [_loop(size, f"{y}[i] = {self._at(node.inputs[0])}[{places}[i]];")]
        if name == "slice":
            return [_loop(size, f"{y}[i] = {self._at(x)}[{node.details['start_indices'][0]} + i];")]
        assert name == "concatenate"
        lines, start = [], 0
        for term, (length,) in zip(node.inputs, node.shapes, strict=True):
            number = self._number_of(term)
            lines.append(f"for (int i = 0; i < {length}; ++i) {y}[{start} + i] = {number};")
            start += length
        return lines

    def _matmul(self, weight: Any, x: str, y: str) -> list[str]:
        (rows, columns), factor = weight.shape, ""
        if self._constants.int8:
            scale = np.abs(weight).max(axis=1) / 127
            scale = np.where(scale > 0, scale, 1.0)
            levels = np.rint(weight / scale[:, None])
            matrix = self._constants.place(levels, "levels", np.int8)
            factor = f" * {self._constants.place(scale, 'weights')}[i]"
        else:
            matrix = self._constants.place(weight, "weights")
        return [
            f"for (int i = 0; i < {rows}; ++i) {{",
            "    float total = 0.0f;",
            f"    for (int j = 0; j < {columns}; ++j)",
            f"        total += {matrix}[i * {columns} + j] * {x}[j];",
            f"    {y}[i] = total{factor};",
            "}",
        ]


def _loop(size: int, text: str) -> str:
    return f"for (int i = 0; i < {size}; ++i) {text}" if "[i]" in text else text


def _number(value: float) -> str:
    """A literal."""
    if isinstance(value, int):
        return str(value)
    text = f"{value:.9g}"
    return f"{text}f" if set(text) & set(".e") else f"{text}.0f"


def _quoted(label: Any) -> str:
    """A string literal in ASCII, with other characters escaped."""
    plain = "".join(
        chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else f"\\{b:03o}"
        for b in str(label).encode()
    )
    return f'"{plain}"'
