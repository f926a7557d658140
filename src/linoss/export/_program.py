"""An intermediate representation of fitted estimators for export.

All terms are vectors. A part is a list of nodes, each of which computes a term from others;
`OPERATIONS` defines each operation in ONNX, C and JAX. A program has one or more parts that advance
its states by one sample, and one from states to an output. All states are initially 0. Each part is
a pass over the sequence, forwards or backwards, and may use terms of the passes before it. A
program of a single forward pass supports streaming.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class Operation(NamedTuple):
    """An elementwise operation."""

    onnx: str
    c: str
    jax: Callable[..., Any]


OPERATIONS = {
    "add": Operation("Add", "{0} + {1}", jnp.add),
    "subtract": Operation("Sub", "{0} - {1}", jnp.subtract),
    "multiply": Operation("Mul", "{0} * {1}", jnp.multiply),
    "divide": Operation("Div", "{0} / {1}", jnp.divide),
    "maximum": Operation("Max", "fmaxf({0}, {1})", jnp.maximum),
    "greater": Operation("Greater", "{0} > {1}", jnp.greater),
    "either": Operation("Or", "{0} || {1}", jnp.logical_or),
    "both": Operation("And", "{0} && {1}", jnp.logical_and),
    "not": Operation("Not", "!{0}", jnp.logical_not),
    "where": Operation("Where", "{0} ? {1} : {2}", jnp.where),
    "isnan": Operation("IsNaN", "isnan({0})", jnp.isnan),
    "exp": Operation("Exp", "expf({0})", jnp.exp),
    "log": Operation("Log", "logf({0})", jnp.log),
    "sqrt": Operation("Sqrt", "sqrtf({0})", jnp.sqrt),
    "sin": Operation("Sin", "sinf({0})", jnp.sin),
    "cos": Operation("Cos", "cosf({0})", jnp.cos),
    "tanh": Operation("Tanh", "tanhf({0})", jnp.tanh),
    "erf": Operation("Erf", "erff({0})", jax.lax.erf),
    "sigmoid": Operation("Sigmoid", "1.0f / (1.0f + expf(-{0}))", jax.nn.sigmoid),
}
"""The elementwise operations. A term of one number is broadcast."""
_TRUTHS = ("greater", "either", "both", "not", "isnan")


@dataclass(frozen=True, eq=False)
class Term:
    """A vector, given or computed."""

    part: "Part" = field(repr=False)
    name: str
    size: int
    array: np.ndarray | None = None
    """Its value, if it is constant."""
    truth: bool = False
    """Whether it is boolean."""

    def __add__(self, other: Any) -> "Term":
        return self.part.apply("add", self, other)

    def __sub__(self, other: Any) -> "Term":
        return self.part.apply("subtract", self, other)

    def __mul__(self, other: Any) -> "Term":
        return self.part.apply("multiply", self, other)

    def __truediv__(self, other: Any) -> "Term":
        return self.part.apply("divide", self, other)

    def __gt__(self, other: Any) -> "Term":
        return self.part.apply("greater", self, other)

    def __getitem__(self, places: slice) -> "Term":
        start, stop, _ = places.indices(self.size)
        if (start, stop) == (0, self.size):
            return self
        return self.part.node("slice", (self,), stop - start, start=start, stop=stop)


class Node(NamedTuple):
    """One operation."""

    operation: str
    inputs: tuple[Term, ...]
    output: Term
    details: dict[str, Any]


class Part:
    """Nodes in the order of computation, from named inputs to named outputs."""

    def __init__(self, label: str, *, backwards: bool = False):
        self.label, self.backwards = label, backwards
        self._handed: dict[str, Term] = {}
        self.inputs: dict[str, Term] = {}
        self.nodes: list[Node] = []
        self.outputs: dict[str, Term] = {}

    def input(self, name: str, size: int) -> Term:
        """Add an input."""
        return self.inputs.setdefault(name, Term(self, name, size))

    def constant(self, value: Any) -> Term:
        """A constant vector."""
        array = np.atleast_1d(np.asarray(value, np.float64))
        assert array.ndim == 1
        return Term(self, "", len(array), array)

    def apply(self, operation: str, *operands: Any) -> Term:
        """Add an elementwise operation. Identities are omitted."""
        terms = tuple(x if isinstance(x, Term) else self.constant(x) for x in operands)
        neutral = {"add": 0.0, "subtract": 0.0, "multiply": 1.0, "divide": 1.0}.get(operation)
        known = terms[-1].array
        if neutral is not None and known is not None and np.all(known == neutral):
            return terms[0]
        return self.node(operation, terms, max(term.size for term in terms))

    def node(self, operation: str, inputs: Sequence[Term], size: int, **details: Any) -> Term:
        """Add a node for any operation."""
        here = tuple(self.here(term) for term in inputs)
        output = Term(self, f"{self.label}_{len(self.nodes)}", size, truth=operation in _TRUTHS)
        self.nodes.append(Node(operation, here, output, details))
        return output

    def here(self, term: Term) -> Term:
        """A term of this part. That of an earlier one becomes an output of it, and an input."""
        if term.part is self or term.array is not None:
            return term
        if term.name not in self._handed:
            number = term.part.apply("where", term, 1.0, 0.0) if term.truth else term
            term.part.outputs[f"{number.name}_row"] = number
            given = self.input(f"{number.name}_row", number.size)
            self._handed[term.name] = given > 0.0 if term.truth else given
        return self._handed[term.name]

    def matmul(self, weight: Any, x: Term, *, exact: bool = False) -> Term:
        """W x; `exact` if W must not be quantised."""
        weight = np.asarray(weight, np.float64)
        return self.node("matmul", (x,), len(weight), weight=weight, exact=exact)

    def affine(self, weight: Any, x: Term, bias: Any) -> Term:
        """W x + b."""
        return self.matmul(weight, x) + bias

    def sum(self, x: Term) -> Term:
        """The sum of a term."""
        return self.node("sum", (x,), 1)

    def softmax(self, x: Term) -> Term:
        """exp(x), divided by its sum."""
        return self.node("softmax", (x,), x.size)

    def join(self, terms: Sequence[Term]) -> Term:
        """Concatenate terms."""
        terms = tuple(terms)
        if len(terms) == 1:
            return terms[0]
        return self.node("join", terms, sum(term.size for term in terms))

    def take(self, x: Term, places: np.ndarray) -> Term:
        """Elements of a term at some indices."""
        return self.node("take", (x,), len(places), places=np.asarray(places, np.int64))

    def only(self, *names: str) -> "Part":
        """The nodes needed for some of the outputs."""
        part = Part(self.label)
        part.outputs = {name: self.outputs[name] for name in names}
        needed = {term.name for term in part.outputs.values()}
        for node in reversed(self.nodes):
            if node.output.name in needed:
                needed |= {term.name for term in node.inputs}
                part.nodes.insert(0, node)
        part.inputs = {name: term for name, term in self.inputs.items() if name in needed}
        return part


def another(parts: list[Part], *, backwards: bool) -> Part:
    """One more part, after all others."""
    parts.append(Part(f"p{len(parts)}", backwards=backwards))
    return parts[-1]


@dataclass(frozen=True, eq=False)
class Moments:
    """Conversion of a time to a `moment`: its position in the data of the fit, 0 to 1, and phases.

    A phase is the fraction of a cycle at some frequency. Times need double precision.
    """

    unit: str
    """The unit of times, as text."""
    start: float
    span: float
    frequencies: np.ndarray

    @property
    def size(self) -> int:
        """The size of a moment."""
        return 1 + len(self.frequencies)


@dataclass(frozen=True, eq=False)
class WholeWindow:
    """The computations of a forecaster on a whole window, outside its model."""

    past: int
    """Maximum number of input steps."""
    clock: Moments | None
    """Converts a time to `moment`; None if no part needs it."""
    survey: Part | None
    """From `sample`, `moment` and states to states. It runs over the window first; its states are
    inputs of other parts."""
    blocks: np.ndarray
    """(past,): the block of each lag; the mean of `relative` over each block is a feature."""
    direct: np.ndarray
    """(blocks * targets, horizon * targets): from features to `first`, an input of the answer."""
    tables: dict[str, np.ndarray]
    """(horizon, size): inputs of the answer that depend on the forecast step."""

    @property
    def lags(self) -> np.ndarray:
        """(blocks, past): the weight of each row of a window in each feature."""
        share = (np.arange(self.blocks.max(initial=-1) + 1)[:, None] == self.blocks).astype(float)
        return share[:, ::-1] / share.sum(axis=1, keepdims=True)


@dataclass(frozen=True, eq=False)
class Program:
    """A fitted estimator as a program over samples."""

    task: str
    channels: int
    parts: tuple[Part, ...]
    """From `sample`, `ahead` in forecasting or `interval` for irregular times, and the states to
    the next states."""
    answer: Part
    """From the states to `answer`."""
    precise: bool = False
    """Whether comparisons need double precision, if the format supports it."""
    steps: tuple[str, ...] = ()
    """The states needed for an output at each step; empty for one output for each sequence."""
    every: int = 1
    """Steps between outputs."""
    horizon: int = 0
    """The forecast horizon."""
    known: tuple[int, ...] = ()
    """Channels known in advance."""
    classes: tuple[Any, ...] = ()
    """Labels, in the order of the probabilities."""
    names: tuple[str, ...] = ()
    """Names of the channels."""
    window: WholeWindow | None = None
    """The computations on a whole window, for forecasting."""

    @property
    def states(self) -> dict[str, int]:
        """Their sizes."""
        return {name: term.size for part in self.parts for name, term in part.outputs.items()}

    @property
    def irregular(self) -> bool:
        """Whether a sample comes with the time since the one before."""
        return any("interval" in part.inputs for part in self.parts)

    def each(self, part: Part) -> tuple[str, ...]:
        """The outputs of a part that are needed of all samples, not only of the last."""
        needed = {name for other in self.parts if other is not part for name in other.inputs}
        return tuple(name for name in part.outputs if name in {*needed, *self.steps})

    @property
    def streams(self) -> bool:
        """Whether an output needs only states and one sample at a time."""
        needed = {*self.parts[0].inputs, *self.answer.only("answer").inputs}
        given = {*self.states, "sample", "ahead", "interval"}
        return len(self.parts) == 1 and not self.parts[0].backwards and needed <= given

    def refuse_unknown_weights(self) -> None:
        """Raise for weights that are NaN, or infinite in single precision."""
        window = self.window
        parts = [*self.parts, self.answer]
        arrays: list[Any] = []
        if window is not None:
            parts += [window.survey] if window.survey is not None else []
            arrays += [window.direct, *window.tables.values()]
        for part in parts:
            arrays += [term.array for node in part.nodes for term in node.inputs]
            arrays += [node.details.get("weight") for node in part.nodes]
        with np.errstate(over="ignore"):
            known = all(np.isfinite(np.float32(x)).all() for x in arrays if x is not None)
        if not known:
            raise ValueError("some weights are NaN or infinite, expected numbers; fit again")

    def refuse_step(self) -> None:
        """Raise if it does not support streaming."""
        if any(part.backwards for part in self.parts):
            raise ValueError(
                "some oscillators read sequences backwards, which a step cannot do; fit with "
                "causal=True and with bidirectional=False"
            )
        if not self.streams:
            raise ValueError(
                "the forecaster uses trend, seasons and a linear forecast, which need whole "
                "windows; fit with base=False"
            )

    @property
    def out_size(self) -> int:
        """The size of an output."""
        return self.answer.outputs["answer"].size
