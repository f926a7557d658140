"""The parts of a program as lines of C: constants, memory of terms, and operations.

Terms with disjoint lifetimes share memory in the state's field `work`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from linoss.export._program import OPERATIONS, Node, Part, Term


class Constants:
    """The constants in the file of weights: one array of floats, and with int8 one of bytes."""

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
        """A matrix as bytes, and the scale of each row."""
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
        arrays = []
        for kind, suffix, array in self._arrays:
            texts = [_number(x) if kind == "float" else str(x) for x in array.tolist()]
            rows = [", ".join(texts[i : i + 8]) for i in range(0, len(texts), 8)]
            body = ",\n    ".join(rows)
            arrays.append(
                f"const {kind} {self._name}_{suffix}[{array.size}] = {{\n    {body}\n}};\n"
            )
        return "\n".join(arrays)


class Work:
    """An allocator of ranges in `work`."""

    def __init__(self) -> None:
        self.size = 0
        self._free: list[tuple[int, int]] = []

    def take(self, size: int) -> int:
        """Allocate the first free range that is large enough."""
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
        """Free a range, and merge it with its neighbours."""
        joined: list[tuple[int, int]] = []
        for begin, room in sorted([*self._free, (start, size)]):
            if joined and sum(joined[-1]) == begin:
                joined[-1] = (joined[-1][0], joined[-1][1] + room)
            elif room:
                joined.append((begin, room))
        self._free = joined


class PartWriter:
    """Writes the lines of a part."""

    def __init__(
        self,
        part: Part,
        constants: Constants,
        work: Work,
        places: Mapping[str, str] | None = None,
    ):
        self._part, self._constants, self._work = part, constants, work
        self._places = {name: f"state->{name}" for name in part.inputs}
        self._places |= {"sample": "sample", "ahead": "&ahead", "interval": "&interval"}
        self._places |= places or {}
        self._held: dict[str, int] = {}
        self._last: dict[str, int] = {}
        for i, node in enumerate(part.nodes):
            self._last |= {term.name: i for term in node.inputs}
        self._last |= {term.name: len(part.nodes) for term in part.outputs.values()}

    def lines(self, targets: Mapping[str, str] | None = None) -> list[str]:
        """The lines of all nodes; outputs are written to `targets`, by default states of their
        names."""
        written = []
        for i, node in enumerate(self._part.nodes):
            output, single = node.output, node.operation in OPERATIONS
            ending = [x for x in node.inputs if self._last[x.name] == i]
            if single:  # elementwise: a term of the same size may be overwritten
                self._free(x for x in ending if x.size == output.size)
            self._held[output.name] = start = self._work.take(output.size)
            self._places[output.name] = f"(w + {start})"
            written += self._single(node) if single else self._vector(node)
            self._free(ending)
        for name, term in self._part.outputs.items():
            target = f"state->{name}" if targets is None else targets[name]
            written.append(f"memcpy({target}, {self._at(term)}, {term.size} * sizeof(float));")
        self._free(node.output for node in self._part.nodes)
        return written

    def _free(self, terms: Iterable[Term]) -> None:
        for term in terms:
            if term.name in self._held:
                self._work.give(self._held.pop(term.name), term.size)

    def _at(self, term: Term) -> str:
        return self._places[term.name] if term.array is None else self._constants.floats(term.array)

    def _number_of(self, term: Term) -> str:
        """The element at index i."""
        if term.array is not None and np.all(term.array == term.array[0]):
            return _number(float(np.float32(term.array[0])))
        return f"{self._at(term)}[i]" if term.size > 1 else f"*{self._at(term)}"

    def _single(self, node: Node) -> list[str]:
        numbers = [self._number_of(term) for term in node.inputs]
        text = OPERATIONS[node.operation].c.format(*numbers)
        return [loop(node.output.size, f"{self._number_of(node.output)} = {text};")]

    def _vector(self, node: Node) -> list[str]:
        y, n = self._at(node.output), node.output.size
        x, size = self._at(node.inputs[0]), node.inputs[0].size
        if node.operation == "matmul":
            return self._matmul(x, y, **node.details)
        if node.operation == "sum":
            return [f"*{y} = 0.0f;", loop(size, f"*{y} += {x}[i];")]
        if node.operation == "softmax":
            return [
                "{",
                f"    float most = {x}[0], total = 0.0f;",
                "    " + loop(n, f"most = fmaxf(most, {x}[i]);"),
                "    " + loop(n, f"total += {y}[i] = expf({x}[i] - most);"),
                "    " + loop(n, f"{y}[i] /= total;"),
                "}",
            ]
        if node.operation == "take":
            places = self._constants.indices(node.details["places"])
            return [loop(n, f"{y}[i] = {x}[{places}[i]];")]
        if node.operation == "slice":
            return [loop(n, f"{y}[i] = {x}[{node.details['start']} + i];")]
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


def loop(size: int, text: str) -> str:
    return f"for (int i = 0; i < {size}; ++i) {text}" if "[i]" in text else text


def _number(value: float) -> str:
    """A float literal."""
    text = f"{value:.9g}"
    return f"{text}f" if set(text) & set(".e") else f"{text}.0f"


def quoted(label: Any) -> str:
    """A string literal in ASCII, with other characters escaped."""
    plain = "".join(
        chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else f"\\{b:03o}"
        for b in str(label).encode()
    )
    return f'"{plain}"'


def indented(lines: Iterable[str], depth: int) -> str:
    return "".join(f"{'    ' * depth}{line}\n" for line in lines)
