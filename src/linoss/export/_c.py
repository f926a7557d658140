"""A program as C99: a header with one function, for a sample or a window, and a file of weights.

Nothing is allocated: a state, of which the caller has one for each stream, holds all that changes.
Terms that live at different times share the numbers of its field `work`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from linoss.export._program import OPERATIONS, Node, Part, Program, Term, WholeWindow


@dataclass(frozen=True)
class CFiles:
    """The text of both files, and what they need."""

    header: str
    weights: str
    flash: int
    """Bytes of constants, beside the code."""
    ram: int
    """Bytes of a state."""


def c_files(program: Program, name: str, *, int8: bool = False) -> CFiles:
    """C for a program. All names in it begin with `name`, as does the file of weights.

    With `int8`, each row of a model's matrices is rounded to 255 levels.
    """
    if int8 and program.precise:
        raise ValueError(
            "int8 is True, but there are untrained oscillators, whose readout loses accuracy when "
            "it is rounded; leave it out"
        )
    whole = program.window is not None and not program.streams
    if not whole:
        program.refuse_step()
    constants, work = _Constants(name, int8), _Work()
    if program.window is not None and whole:
        arrays, function = _forecast(program, program.window, name, constants, work)
    else:
        arrays, function = _step(program, name, constants, work)
    arrays["work"] = max(work.size, 1)
    flash, ram = constants.bytes + function.pop("more"), 4 * sum(arrays.values())
    labels = ""
    if program.classes:
        labels = f"extern const char *const {name}_classes[{len(program.classes)}];\n"
    header = _HEADER.format(
        name=name,
        guard=f"{name.upper()}_H",
        task=program.task,
        channels=program.channels,
        states="".join(f"    float {state}[{size}];\n" for state, size in arrays.items()),
        constants=constants.declarations,
        labels=labels,
        flash=flash,
        ram=ram,
        **function,
    )
    text = [f'#include "{name}.h"\n', constants.definitions]
    if program.classes:
        words = ", ".join(_quoted(label) for label in program.classes)
        text.append(f"const char *const {name}_classes[{len(program.classes)}] = {{{words}}};\n")
    return CFiles(header, "\n".join(text), flash, ram)


_HEADER = """\
/* {name}: {task}, {what}. Written by linoss.
 *
 * {flash} bytes of constants, {ram} bytes of state.
 *
{usage}
 * Do not compile with -ffast-math, which takes NaN for a number.
 */
#ifndef {guard}
#define {guard}

#include <math.h>
#include <stdint.h>
#include <string.h>

#define {name}_CHANNELS {channels}
#define {name}_ANSWERS {answers}
{defined}
typedef struct {{
{states}}} {name}_state;

{constants}{labels}
{code}
#endif
"""

# ---- One sample ----

_STEP_USAGE = """\
 *     static {name}_state state;              all 0: before the first sample
 *     float answer[{name}_ANSWERS];
 *     {name}_step(&state, sample, answer);
 *
 * sample has {name}_CHANNELS numbers, NaN for those that are missing. answer is that for all
 * samples so far.{ahead}"""

_AHEAD = """
 * With ahead = 1 the step is one of the {horizon} to forecast: NaN in sample for what is not known.
 * Forecast from a copy of the state."""

_STEP = """\
static inline void {name}_reset({name}_state *state) {{ memset(state, 0, sizeof *state); }}

static inline void {name}_step({name}_state *state, const float *sample, float *answer{ahead}) {{
    float *const w = state->work;
{body}}}
"""


def _step(
    program: Program, name: str, constants: "_Constants", work: "_Work"
) -> tuple[dict[str, int], dict[str, Any]]:
    """The state's arrays, and what is particular to a function of one sample."""
    lines = [
        *_Writer(program.forwards, constants, work).lines(),
        *_Writer(program.answer.only("answer"), constants, work).lines({"answer": "answer"}),
    ]
    ahead = _AHEAD.format(horizon=program.horizon) if program.horizon else ""
    parameter = ", int ahead" if program.horizon else ""
    return dict(program.states), {
        "more": 0,
        "what": "one sample at a time",
        "usage": _STEP_USAGE.format(name=name, ahead=ahead),
        "answers": program.out_size,
        "defined": "",
        "code": _STEP.format(name=name, ahead=parameter, body=_indented(lines, 1)),
    }


# ---- A whole window ----

_FORECAST_USAGE = """\
 *     static {name}_state state;
 *     float answers[{name}_HORIZON][{name}_ANSWERS];
 *     {name}_forecast(&state, samples, steps{usage}, answers[0]);
 *
 * samples are the last steps, {name}_CHANNELS numbers each, NaN for those that are missing; at most
 * {past} steps are read.{more}
 * Of each step ahead answers have, one number for each variable: {order}."""

_TIMES = """
 * times has those of all steps, then of the {horizon} ahead, in the unit of the fit: {unit}."""

_FUTURE = """
 * future has the steps ahead, as samples; NaN for what is not known in advance."""

_FORECAST = """\
static inline void {name}_forecast(
    {name}_state *state, const float *samples, int steps{parameters}, float *answers) {{
    float *const w = state->work;
    memset(state, 0, sizeof *state);
    if (steps > {past}) {{
{skip}        steps = {past};
    }}
{survey}    for (int n = 0; n < steps + {horizon}; ++n) {{
        const int ahead = n >= steps, h = n - steps;
        const float *sample = ahead ? {future} : samples + n * {channels};
{forwards}        if (!ahead) {{
{seen}            continue;
        }}
        (void)h;
{answer}    }}
}}
"""

_MOMENT = """\
static inline void {name}_moment(float *moment, double time) {{
    static const double frequencies[] = {{{frequencies}}};
    moment[0] = (float)((time - {start}) / {span});
    for (int i = 0; i < {size}; ++i) {{
        const double turns = time * frequencies[i];
        moment[1 + i] = (float)(turns - floor(turns));
    }}
}}

"""


def _forecast(
    program: Program, window: WholeWindow, name: str, constants: "_Constants", work: "_Work"
) -> tuple[dict[str, int], dict[str, Any]]:
    """The state's arrays, and what is particular to a function of a whole window."""
    arrays, sizes = dict(program.states), (program.channels, program.horizon, program.out_size)
    channels, horizon, targets = sizes
    parameters, usage, more, moment, code = "", "", "", [], ""
    skip = [f"samples += (steps - {window.past}) * {channels};"]
    if window.clock is not None:
        clock = window.clock
        arrays["moment"] = clock.size
        moment = [f"{name}_moment(state->moment, times[n]);"]
        skip.append(f"times += steps - {window.past};")
        parameters, usage = ", const double *times", ", times"
        more = _TIMES.format(horizon=horizon, unit=clock.unit)
        code = _MOMENT.format(
            name=name,
            frequencies=", ".join(f"{x:.17g}" for x in clock.frequencies) or "0",
            start=f"{clock.start:.17g}",
            span=f"{clock.span:.17g}",
            size=len(clock.frequencies),
        )
    future, begin = f"future + h * {channels}", []
    if program.known:
        parameters, usage = f"{parameters}, const float *future", f"{usage}, future"
        more += _FUTURE
    else:
        arrays["unknown"], future = channels, "state->unknown"
        begin = [_loop(channels, "state->unknown[i] = NAN;")]
    if window.survey is not None:
        arrays |= {key: term.size for key, term in window.survey.outputs.items()}
        begin += [
            "for (int n = 0; n < steps; ++n) {",
            f"    const float *sample = samples + n * {channels};",
            *(f"    {line}" for line in moment + _Writer(window.survey, constants, work).lines()),
            "}",
        ]
    seen, first = _linear(window, arrays, constants, targets)
    outputs = ["answer", *(key for key in program.answer.outputs if key != "answer")]
    places = {key: f"(answers + {i * targets})" for i, key in enumerate(outputs)}
    tables = {
        key: f"({constants.floats(x)} + h * {x.shape[1]})" for key, x in window.tables.items()
    }
    forwards = moment + _Writer(program.forwards, constants, work).lines()
    answer = first + _Writer(program.answer, constants, work, tables).lines(places)
    answer.append(f"answers += {name}_ANSWERS;")
    text = _FORECAST.format(
        name=name, parameters=parameters, past=window.past, horizon=horizon, channels=channels,
        future=future, skip=_indented(skip, 2), survey=_indented(begin, 1),
        forwards=_indented(forwards, 2), seen=_indented(seen, 3), answer=_indented(answer, 2),
    )  # fmt: skip
    order = ", ".join(["forecast", *outputs[1:]])
    return arrays, {
        "more": 0 if window.clock is None else 8 * len(window.clock.frequencies),
        "what": "whole windows",
        "usage": _FORECAST_USAGE.format(
            name=name, usage=usage, past=window.past, more=more, order=order
        ),
        "answers": targets * len(outputs),
        "defined": f"#define {name}_HORIZON {horizon}\n",
        "code": code + text,
    }


def _linear(
    window: WholeWindow, arrays: dict[str, int], constants: "_Constants", targets: int
) -> tuple[list[str], list[str]]:
    """Lines that gather the features of a linear answer, and that make it."""
    count = len(window.direct)
    if not count:
        return [], []
    arrays |= {"means": count, "first": targets}
    lengths = np.bincount(window.blocks)
    block, share = constants.indices(window.blocks), constants.floats(1 / lengths[window.blocks])
    weights = constants.floats(window.direct.T)
    seen = [
        "const int lag = steps - 1 - n;",
        f"for (int i = 0; i < {targets}; ++i)",
        f"    state->means[{block}[lag] * {targets} + i] += state->relative[i] * {share}[lag];",
    ]
    first = [
        f"for (int i = 0; i < {targets}; ++i) {{",
        "    state->first[i] = 0.0f;",
        f"    for (int j = 0; j < {count}; ++j)",
        f"        state->first[i] += state->means[j]"
        f" * {weights}[(h * {targets} + i) * {count} + j];",
        "}",
    ]
    return seen, first


def _indented(lines: Iterable[str], depth: int) -> str:
    return "".join(f"{'    ' * depth}{line}\n" for line in lines)


# ---- Constants, places and lines ----


class _Constants:
    """Numbers of the file of weights: one array of floats, and with int8 one of bytes."""

    def __init__(self, name: str, int8: bool):
        self._name, self.int8 = name, int8
        self._floats: list[np.ndarray] = []
        self._bytes: list[np.ndarray] = []
        self._indices: list[np.ndarray] = []
        self._known: dict[Any, str] = {}

    def _keep(self, arrays: list[np.ndarray], suffix: str, array: np.ndarray) -> str:
        key = (suffix, array.tobytes())
        if key not in self._known:
            self._known[key] = f"({self._name}_{suffix} + {sum(a.size for a in arrays)})"
            arrays.append(array)
        return self._known[key]

    def floats(self, array: np.ndarray) -> str:
        return self._keep(self._floats, "weights", array.astype(np.float32).ravel())

    def rounded(self, matrix: np.ndarray) -> tuple[str, str]:
        """A matrix as bytes, and what each row is multiplied by."""
        scale = np.abs(matrix).max(axis=1) / 127
        scale = np.where(scale > 0, scale, 1.0)
        levels = np.rint(matrix / scale[:, None]).astype(np.int8)
        return self._keep(self._bytes, "levels", levels.ravel()), self.floats(scale)

    def indices(self, array: np.ndarray) -> str:
        return self._keep(self._indices, "places", array.astype(np.uint16))

    @property
    def _arrays(self) -> list[tuple[str, str, np.ndarray]]:
        kinds = (("float", "weights", self._floats), ("int8_t", "levels", self._bytes))
        kinds += (("uint16_t", "places", self._indices),)
        return [(kind, suffix, np.concatenate(a)) for kind, suffix, a in kinds if a]

    @property
    def bytes(self) -> int:
        return sum(array.nbytes for _, _, array in self._arrays)

    @property
    def declarations(self) -> str:
        return "".join(
            f"extern const {kind} {self._name}_{suffix}[{array.size}];\n"
            for kind, suffix, array in self._arrays
        )

    @property
    def definitions(self) -> str:
        found = []
        for kind, suffix, array in self._arrays:
            texts = [_number(x) if kind == "float" else str(x) for x in array.tolist()]
            rows = [", ".join(texts[i : i + 8]) for i in range(0, len(texts), 8)]
            body = ",\n    ".join(rows)
            found.append(
                f"const {kind} {self._name}_{suffix}[{array.size}] = {{\n    {body}\n}};\n"
            )
        return "\n".join(found)


class _Work:
    """Places in `work`, given to terms and taken back."""

    def __init__(self) -> None:
        self.size = 0
        self._free: list[tuple[int, int]] = []

    def take(self, size: int) -> int:
        """The first free place that is large enough."""
        for i, (start, room) in enumerate(self._free):
            if room >= size:
                self._free[i] = (start + size, room - size)
                return start
        start = self.size
        if self._free and sum(self._free[-1]) == self.size:
            start = self._free.pop()[0]
        self.size = max(self.size, start + size)
        return start

    def give(self, start: int, size: int) -> None:
        """Free a place, joined with its neighbours."""
        joined: list[tuple[int, int]] = []
        for begin, room in sorted([*self._free, (start, size)]):
            if joined and sum(joined[-1]) == begin:
                joined[-1] = (joined[-1][0], joined[-1][1] + room)
            elif room:
                joined.append((begin, room))
        self._free = joined


class _Writer:
    """Writes the lines of a part."""

    def __init__(
        self,
        part: Part,
        constants: _Constants,
        work: _Work,
        places: Mapping[str, str] | None = None,
    ):
        self._part, self._constants, self._work = part, constants, work
        self._places = {name: f"state->{name}" for name in part.inputs}
        self._places |= {"sample": "sample", "ahead": "&ahead", **(places or {})}
        self._held: dict[str, int] = {}
        self._last: dict[str, int] = {}
        for i, node in enumerate(part.nodes):
            self._last |= {term.name: i for term in node.inputs}
        self._last |= {term.name: len(part.nodes) for term in part.outputs.values()}

    def lines(self, targets: Mapping[str, str] | None = None) -> list[str]:
        """All nodes, and where their outputs go; by default to states of their names."""
        found = []
        for i, node in enumerate(self._part.nodes):
            output, single = node.output, node.operation in OPERATIONS
            ending = [x for x in node.inputs if self._last[x.name] == i]
            if single:  # number by number: a term of the same size may be overwritten
                self._free(x for x in ending if x.size == output.size)
            self._held[output.name] = start = self._work.take(output.size)
            self._places[output.name] = f"(w + {start})"
            found += self._single(node) if single else self._vector(node)
            self._free(ending)
        for name, term in self._part.outputs.items():
            target = f"state->{name}" if targets is None else targets[name]
            found.append(f"memcpy({target}, {self._at(term)}, {term.size} * sizeof(float));")
        self._free(node.output for node in self._part.nodes)
        return found

    def _free(self, terms: Iterable[Term]) -> None:
        for term in terms:
            if term.name in self._held:
                self._work.give(self._held.pop(term.name), term.size)

    def _at(self, term: Term) -> str:
        return self._places[term.name] if term.array is None else self._constants.floats(term.array)

    def _number_of(self, term: Term) -> str:
        """The number at place i."""
        if term.array is not None and np.all(term.array == term.array[0]):
            return _number(float(np.float32(term.array[0])))
        return f"{self._at(term)}[i]" if term.size > 1 else f"*{self._at(term)}"

    def _single(self, node: Node) -> list[str]:
        numbers = [self._number_of(term) for term in node.inputs]
        text = OPERATIONS[node.operation].c.format(*numbers)
        return [_loop(node.output.size, f"{self._number_of(node.output)} = {text};")]

    def _vector(self, node: Node) -> list[str]:
        y, n = self._at(node.output), node.output.size
        x, size = self._at(node.inputs[0]), node.inputs[0].size
        if node.operation == "matmul":
            return self._matmul(x, y, **node.details)
        if node.operation == "sum":
            return [f"*{y} = 0.0f;", _loop(size, f"*{y} += {x}[i];")]
        if node.operation == "softmax":
            return [
                "{",
                f"    float most = {x}[0], total = 0.0f;",
                "    " + _loop(n, f"most = fmaxf(most, {x}[i]);"),
                "    " + _loop(n, f"total += {y}[i] = expf({x}[i] - most);"),
                "    " + _loop(n, f"{y}[i] /= total;"),
                "}",
            ]
        if node.operation == "take":
            places = self._constants.indices(node.details["places"])
            return [_loop(n, f"{y}[i] = {x}[{places}[i]];")]
        if node.operation == "slice":
            return [_loop(n, f"{y}[i] = {x}[{node.details['start']} + i];")]
        lines, start = [], 0
        for term in node.inputs:
            number = self._number_of(term)
            lines.append(f"for (int i = 0; i < {term.size}; ++i) {y}[{start} + i] = {number};")
            start += term.size
        return lines

    def _matmul(self, x: str, y: str, weight: np.ndarray, exact: bool) -> list[str]:
        rows, columns = weight.shape
        if self._constants.int8 and not exact:
            levels, scale = self._constants.rounded(weight)
            matrix, factor = levels, f" * {scale}[i]"
        else:
            matrix, factor = self._constants.floats(weight), ""
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
    """A float literal."""
    text = f"{value:.9g}"
    return f"{text}f" if set(text) & set(".e") else f"{text}.0f"


def _quoted(label: Any) -> str:
    """A string literal of ASCII letters; others by their bytes."""
    plain = "".join(
        chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else f"\\{b:03o}"
        for b in str(label).encode()
    )
    return f'"{plain}"'
