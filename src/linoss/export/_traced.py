"""Formulas of the library as terms: what JAX traces of a function, operation by operation."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from linoss.export._program import Part, Term

_NAMES = {
    "add": "add", "sub": "subtract", "mul": "multiply", "div": "divide", "max": "maximum",
    "gt": "greater", "or": "either", "and": "both", "not": "not", "exp": "exp", "log": "log",
    "sqrt": "sqrt", "sin": "sin", "cos": "cos",
}  # fmt: skip
_OTHERS: dict[str, Callable[..., Term]] = {
    "neg": lambda x: x * -1.0,
    "square": lambda x: x * x,
    "expm1": lambda x: x.part.apply("exp", x) - 1.0,
    "lt": lambda x, y: x.part.apply("greater", y, x),
    "ge": lambda x, y: x.part.apply("not", x.part.apply("greater", y, x)),
    "le": lambda x, y: x.part.apply("not", x > y),
    "min": lambda x, y: x.part.apply("where", x > y, y, x),
    "select_n": lambda which, no, yes: which.part.apply("where", which, yes, no),
}
_SHAPES = ("broadcast_in_dim", "reshape", "squeeze", "convert_element_type", "copy")


def traced(part: Part, function: Callable[..., Any], *terms: Term) -> list[Term]:
    """What a function of single numbers, by operations on vectors, makes of terms."""
    program = jax.make_jaxpr(function)(*(jnp.ones(()) for _ in terms))
    return _run(part, program, [part.here(term) for term in terms])


def _run(part: Part, program: Any, terms: Sequence[Term]) -> list[Term]:
    known = dict(zip(program.jaxpr.invars, terms, strict=True))
    known |= {
        variable: part.constant(jnp.ravel(value))
        for variable, value in zip(program.jaxpr.constvars, program.consts, strict=True)
    }

    def term(x: Any) -> Term:
        return part.constant(x.val) if hasattr(x, "val") else known[x]

    for equation in program.jaxpr.eqns:
        name, given = equation.primitive.name, [term(x) for x in equation.invars]
        inner = equation.params.get("jaxpr")
        if inner is not None:
            found = _run(part, inner, given)
        elif name in _SHAPES:  # a term of one number is the same at all places
            found = given[:1]
        elif name == "integer_pow":
            found = given[:1]
            for _ in range(equation.params["y"] - 1):
                found = [found[0] * given[0]]
        elif name in _NAMES:
            found = [part.apply(_NAMES[name], *given)]
        else:
            found = [_OTHERS[name](*given)]
        known |= dict(zip(equation.outvars, found, strict=True))
    return [term(x) for x in program.jaxpr.outvars]
