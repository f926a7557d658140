"""A fitted thing as functions of one sample, for export.

`record` runs such a function once and divides its operations, as JAX lists them, into parts. A part
is a pass over the sequence, forwards or backwards, and may use what the passes before it computed
at each sample; the last part, the answer, follows from the states after all passes. All terms are
vectors, and all states are initially 0. A program of a single forward pass supports streaming.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

OPERATIONS = {
    "add": ("Add", "{0} + {1}"),
    "sub": ("Sub", "{0} - {1}"),
    "mul": ("Mul", "{0} * {1}"),
    "div": ("Div", "{0} / {1}"),
    "max": ("Max", "fmaxf({0}, {1})"),
    "min": ("Min", "fminf({0}, {1})"),
    "square": ("Mul", "{0} * {0}"),
    "integer_pow": ("Mul", "{0} * {0}"),
    "neg": ("Neg", "-{0}"),
    "abs": ("Abs", "fabsf({0})"),
    "floor": ("Floor", "floorf({0})"),
    "exp": ("Exp", "expf({0})"),
    "expm1": ("Sub", "expm1f({0})"),
    "log": ("Log", "logf({0})"),
    "sqrt": ("Sqrt", "sqrtf({0})"),
    "sin": ("Sin", "sinf({0})"),
    "cos": ("Cos", "cosf({0})"),
    "tanh": ("Tanh", "tanhf({0})"),
    "erf": ("Erf", "erff({0})"),
    "logistic": ("Sigmoid", "1.0f / (1.0f + expf(-{0}))"),
    "gt": ("Greater", "{0} > {1}"),
    "ge": ("GreaterOrEqual", "{0} >= {1}"),
    "lt": ("Less", "{0} < {1}"),
    "le": ("LessOrEqual", "{0} <= {1}"),
    "ne": ("IsNaN", "isnan({0})"),
    "and": ("And", "{0} && {1}"),
    "or": ("Or", "{0} || {1}"),
    "not": ("Not", "!{0}"),
    "select_n": ("Where", "{0} ? {2} : {1}"),
    "convert_element_type": ("Where", "{0}"),
}
"""Elementwise operations of JAX in ONNX and in C. `ne` is x != x, and every power is a square."""
_GIVEN, _ANSWER = -1, 1_000_000  # levels: of inputs that all parts know, and of the answer
_SAME = ("broadcast_in_dim", "reshape", "squeeze", "stop_gradient", "copy")
_NEUTRAL = {"add": 0.0, "sub": 0.0, "mul": 1.0, "div": 1.0, "max": -np.inf}


@dataclass(frozen=True, eq=False)
class Term:
    """A vector, given or computed. A term of one number stands for a vector of equal ones."""

    name: str
    size: int
    level: int
    """The part that computes it."""
    array: Any = None
    """Its value, if it is constant."""
    truth: bool = False
    """Whether it is boolean."""


class Node(NamedTuple):
    """One operation of JAX."""

    primitive: Any
    inputs: tuple[Term, ...]
    shapes: tuple[tuple[int, ...], ...]
    """Those of the inputs in JAX."""
    output: Term
    details: dict[str, Any]


@dataclass(eq=False)
class Part:
    """Nodes in the order of computation, from named inputs to named outputs."""

    backwards: bool
    dtype: Any
    inputs: dict[str, int] = field(default_factory=dict)
    """Their sizes."""
    nodes: list[Node] = field(default_factory=list)
    outputs: dict[str, Term] = field(default_factory=dict)

    def only(self, names: Sequence[str]) -> "Part":
        """The nodes needed for some of the outputs."""
        outputs, nodes = {name: self.outputs[name] for name in names}, []
        needed = {term.name for term in outputs.values()}
        for node in reversed(self.nodes):
            if node.output.name in needed:
                needed |= {term.name for term in node.inputs}
                nodes.insert(0, node)
        inputs = {name: size for name, size in self.inputs.items() if name in needed}
        return Part(self.backwards, self.dtype, inputs, nodes, outputs)


class Recording:
    """What a function of one sample reads and leaves."""

    def __init__(self, given: Mapping[str, Array] | None = None):
        self._given = given  # None while names and sizes are still unknown
        self.read: dict[str, Term] = {}
        self.backwards = [False]
        """The direction of each pass."""
        self.states: dict[str, Array] = {}
        """The states after the sample."""
        self.levels: dict[str, int] = {}
        """The pass of each state."""
        self.outputs: dict[str, Array] = {}
        """The answer, and what else follows from the states."""

    def input(self, name: str, size: int, level: int = _GIVEN) -> Array:
        """What comes with each sample or is the same for all; with `level`, a state of a pass
        before the sample."""
        key = f"{name} of {level}"
        self.read[key] = Term(name, size, level)
        return jnp.zeros(size) if self._given is None else self._given[key]

    def another(self, *, backwards: bool) -> int:
        """One more pass, after all others."""
        self.backwards.append(backwards)
        return len(self.backwards) - 1

    def keep(self, name: str, value: Array, level: int = 0) -> None:
        """Set a state after the sample."""
        self.states[name], self.levels[name] = value, level

    def named(self, label: str, level: int) -> tuple[Callable[..., Array], Callable[..., None]]:
        """`input` and `keep` for states of a pass whose names begin with a label."""
        return (
            lambda name, size: self.input(label + name, size, level),
            lambda name, value: self.keep(label + name, value, level),
        )

    def final(self, name: str, size: int) -> Array:
        """An input of the answer: a state after the sequence, or a number of the forecast step."""
        return self.input(name, size, _ANSWER)


def added(
    state: Callable[..., Array], name: str, more: Array, scale: Array | float = 1.0
) -> dict[str, Array]:
    """A running sum, `scale` times itself plus `more`, after a sample, and what rounding left out.

    So its error does not grow with the number of samples, and a count goes on beyond 2^24.
    """
    before, left = state(name, more.size) * scale, state(f"{name}_left", more.size) * scale + more
    total = before + left
    return {name: total, f"{name}_left": left - (total - before)}


def record(
    function: Callable[[Recording], None], *, double: bool = False
) -> tuple[tuple[Part, ...], Part]:
    """The passes and the answer of a function of one sample."""
    with jax.enable_x64(double):
        draft = Recording()
        jax.eval_shape(lambda: function(draft))

        def run(given: Mapping[str, Array]) -> tuple[dict[str, Array], dict[str, Array]]:
            recording = Recording(given)
            function(recording)
            return recording.states, recording.outputs

        dtype = np.float64 if double else np.float32
        shapes = {key: jax.ShapeDtypeStruct((x.size,), dtype) for key, x in draft.read.items()}
        jaxpr, results = jax.make_jaxpr(run, return_shape=True)(shapes)
        division = _Division(draft.backwards, dtype)
        terms = division.run(jaxpr, [division.given(draft.read[key]) for key in sorted(shapes)])
        left = [(name, x.size) for each in results for name, x in sorted(each.items())]
        for (name, size), term in zip(left, terms, strict=True):
            division.leave(name, term, size, draft.levels.get(name, _ANSWER))
    *parts, answer = (part.only([*part.outputs]) for part in division.parts.values())
    return tuple(part for part in parts if part.outputs), answer


class _Division:
    """The division of a jaxpr into parts: an operation belongs to the latest part of its inputs."""

    def __init__(self, backwards: Sequence[bool], dtype: Any):
        self.parts = {level: Part(each, dtype) for level, each in enumerate(backwards)}
        self.parts[_ANSWER] = Part(False, dtype)
        self._count, self._dtype = 0, dtype

    def given(self, term: Term) -> Term:
        """An input; those of all parts become inputs where they are used."""
        if term.level != _GIVEN:
            self.parts[term.level].inputs[term.name] = term.size
        return term

    def run(self, closed: Any, terms: Sequence[Term]) -> list[Term]:
        """The results of a jaxpr."""
        jaxpr, constants = getattr(closed, "jaxpr", closed), getattr(closed, "consts", ())
        known = dict(zip(jaxpr.constvars, map(self._constant, constants), strict=True))
        known |= dict(zip(jaxpr.invars, terms, strict=True))

        def term(x: Any) -> Term:
            return self._constant(x.val) if hasattr(x, "val") else known[x]

        for equation in jaxpr.eqns:
            inputs = [term(x) for x in equation.invars]
            inner = equation.params.get("jaxpr") or equation.params.get("call_jaxpr")
            results = [self._result(equation, inputs)] if inner is None else self.run(inner, inputs)
            known |= dict(zip(equation.outvars, results, strict=True))
        return [term(x) for x in jaxpr.outvars]

    def _result(self, equation: Any, inputs: list[Term]) -> Term:
        primitive, result = equation.primitive, equation.outvars[0].aval
        name = primitive.name
        shapes = tuple(x.aval.shape for x in equation.invars)
        if all(x.array is not None for x in inputs):
            arrays = (np.reshape(x.array, s) for x, s in zip(inputs, shapes, strict=True))
            return self._constant(primitive.bind(*arrays, **equation.params))
        is_truth = np.dtype(result.dtype).kind == "b"
        if name in _SAME or (name == "convert_element_type" and inputs[0].truth == is_truth):
            return inputs[0]
        for one, other in ((1, 0), (0, 1)):  # x + 0, x 1, x / 1
            if name in _NEUTRAL and (one == 1 or name not in ("sub", "div")):
                array = inputs[one].array
                if array is not None and np.all(array == _NEUTRAL[name]):
                    return inputs[other]
        size = max(x.size for x in inputs)
        if name not in OPERATIONS:
            size, sizes = int(np.prod(result.shape)), map(int, map(np.prod, shapes))
            inputs = [self._whole(x, n) for x, n in zip(inputs, sizes, strict=True)]
        if name == "concatenate":
            there = [i for i, shape in enumerate(shapes) if shape != (0,)]
            inputs, shapes = [inputs[i] for i in there], tuple(shapes[i] for i in there)
        return self._node(primitive, inputs, shapes, size, result.dtype, equation.params)

    def _node(
        self, primitive: Any, inputs: Sequence[Term], shapes: Any, size: int, dtype: Any, about: Any
    ) -> Term:
        level = max(0, *(x.level for x in inputs))
        here = tuple(self._here(x, level) for x in inputs)
        self._count += 1
        output = Term(f"v{self._count}", size, level, truth=np.dtype(dtype).kind == "b")
        self.parts[level].nodes.append(Node(primitive, here, tuple(shapes), output, dict(about)))
        return output

    def _here(self, term: Term, level: int) -> Term:
        """A term in a part. That of an earlier one becomes an output of it, and an input."""
        part = self.parts[level]
        if term.array is not None or term.level == level:
            return term
        if term.level == _GIVEN:
            part.inputs[term.name] = term.size
            return term
        row = f"{term.name}_row"
        if row not in self.parts[term.level].outputs:
            self.parts[term.level].outputs[row] = self._number(term)
        part.inputs[row] = term.size
        given = Term(row, term.size, level)
        if not term.truth:
            return given
        half, shape = self._constant(0.5), (term.size,)
        return self._node(jax.lax.gt_p, (given, half), (shape, shape), term.size, bool, {})

    def _number(self, term: Term) -> Term:
        if not term.truth:
            return term
        about = {"new_dtype": np.dtype(self._dtype), "weak_type": False, "sharding": None}
        convert, shape = jax.lax.convert_element_type_p, (term.size,)
        return self._node(convert, (term,), (shape,), term.size, self._dtype, about)

    def _whole(self, term: Term, size: int) -> Term:
        """A vector of that size, if the term is a single number."""
        if term.size == size or term.array is not None:
            return term
        both, shapes = (term, self._constant(np.zeros(size))), ((size,), (size,))
        return self._node(jax.lax.add_p, both, shapes, size, self._dtype, {})

    def leave(self, name: str, term: Term, size: int, level: int) -> None:
        """Make a term an output of a part."""
        self.parts[level].outputs[name] = self._here(self._whole(self._number(term), size), level)

    def _constant(self, value: Any) -> Term:
        array = np.asarray(value)
        array = array.astype(self._dtype) if array.dtype.kind == "f" else array
        return Term("", array.size, _GIVEN, array)


@dataclass(frozen=True, eq=False)
class WholeWindow:
    """The computations of a forecaster on a whole window, outside its model."""

    past: int
    """Maximum number of input steps."""
    clock: Part | None
    """From `time` to `moment`, in double precision; None if no part needs it."""
    survey: Part | None
    """From `sample`, `moment` and states to states. It runs over the window first; its states are
    inputs of other parts."""
    linear: np.ndarray
    """(targets, past, horizon): from `relative` to `first`, an input of the answer; (1, past,
    horizon) for all targets, empty for none."""
    tables: dict[str, np.ndarray]
    """(horizon, size): inputs of the answer that depend on the forecast step."""


@dataclass(frozen=True, eq=False)
class Program:
    """A fitted thing as a program over samples."""

    task: str
    channels: int
    parts: tuple[Part, ...]
    """From `sample`, `ahead` in forecasting or `interval` for irregular times, and the states to
    the next states."""
    answer: Part
    """From the states to `answer`."""
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
    def dtype(self) -> Any:
        """The precision, double for oscillators, whose outputs are compared with thresholds."""
        return self.answer.dtype

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

    def refuse_unknown_weights(self) -> None:
        """Raise for weights that are NaN, or infinite in single precision."""
        window = self.window
        parts, arrays = [*self.parts, self.answer], []
        if window is not None:
            parts += [] if window.survey is None else [window.survey]
            arrays += [window.linear, *window.tables.values()]
        arrays += [x.array for part in parts for node in part.nodes for x in node.inputs]
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
        (part,), answer = self.parts, self.answer.only(["answer"])
        if not {*part.inputs, *answer.inputs} <= {*self.states, "sample", "ahead", "interval"}:
            raise ValueError(
                "the forecaster uses trend, seasons and a linear forecast, which need whole "
                "windows; fit with base=False, or write ONNX or StableHLO"
            )

    @property
    def out_size(self) -> int:
        """The size of an output."""
        return self.answer.outputs["answer"].size
