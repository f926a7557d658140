"""A trained model as part of a program: inputs, encoder, blocks, head."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from linoss.dynamics import VaryingTransition
from linoss.export._program import Part, Term, another
from linoss.export._windows import forecasts, read
from linoss.forecasting import FittedForecaster
from linoss.kernels import BlockArrays, LinearRecurrence
from linoss.nn import LinOSS
from linoss.training import Classification, Forecasting, Inputs, Objective


class _Walk(NamedTuple):
    """Terms of a step that all parts of a model use."""

    parts: list[Part]
    part: Part
    label: str
    present: Term
    """Whether the sample, or a sample of the patch, is present."""
    whole: Term | None
    """Whether a patch is complete; before that, advanced states are used for an output and
    discarded."""
    moves: bool
    """Whether mixers advance without forcing at a missing sample."""
    intervals: tuple[Term | None, Term | None] = (None, None)
    """Irregular times: since the previous sample, and until the next one."""

    def then(self, *, backwards: bool) -> "_Walk":
        """Another pass over the samples."""
        return self._replace(part=another(self.parts, backwards=backwards))

    def state(self, name: str, size: int) -> Term:
        """A state before the sample."""
        return self.part.input(self.label + name, size)

    def chosen(self, condition: Term, yes: Any, no: Any) -> Term:
        """Select one of two terms."""
        return self.part.apply("where", condition, yes, no)

    def move(self, name: str, after: Term, *, always: bool = False) -> Term:
        """Advance a state if the sample is present; returns the state for the current output."""
        before = self.state(name, after.size)
        after = after if always else self.chosen(self.present, after, before)
        kept = after if self.whole is None else self.chosen(self.whole, after, before)
        self.part.outputs[self.label + name] = kept
        return after


def add_trained(
    parts: list[Part],
    answer: Part,
    model: LinOSS,
    label: str,
    inputs: Inputs,
    objective: Objective,
    forecaster: FittedForecaster | None = None,
) -> Term:
    """Add a model of a fitted classifier, regressor or forecaster; returns its output."""
    refuse(model, inputs)
    forwards = parts[0]
    head: Any = model.head
    ahead = head.horizon is not None
    if forecaster is None:
        sample = forwards.input("sample", inputs.channels)
    else:
        sample = read(forwards, forecaster.components)
    u, present, whole = _inputs(sample, inputs, label, ahead=ahead)
    moves = model.config.gaps == "move" and inputs.interval is None
    walk = _Walk(parts, forwards, label, present, whole, moves)
    if inputs.interval is not None:
        is_bidirectional, usual = model.config.bidirectional, inputs.interval
        until = _interval(walk.then(backwards=True), usual) if is_bidirectional else None
        walk = walk._replace(intervals=(_interval(walk, usual), until))
    elif whole is not None and model.config.bidirectional:
        walk = walk._replace(whole=_whole_or_last(walk, whole)).then(backwards=False)
    hidden = walk.part.affine(model.encoder.weight, u, model.encoder.bias)
    arrays = model.native()
    for i, block in enumerate(arrays.blocks, 1):
        walk, hidden = _block(walk, block, hidden, f"block{i}")
    decoder, pooling, squash = arrays.head
    if pooling:
        ways, hand = pooling.split("+"), _handed(walk, answer)
        pools = zip(ways, head.poolings, strict=True)
        pooled = answer.join([_POOLINGS[way](walk, hand, pool, hidden) for way, pool in pools])
    else:
        walk.part.outputs[f"{label}features"] = hidden
        pooled = answer.input(f"{label}features", hidden.size)
    output = answer.affine(decoder.weight, pooled, decoder.bias)
    output = answer.apply("tanh", output) if squash else output
    if isinstance(objective, Classification):
        return answer.softmax(output)
    if isinstance(objective, Forecasting):
        assert forecaster is not None
        return forecasts(answer, forecaster, objective, output)
    scaling = objective.scaling
    return output if scaling is None else output * scaling.deviation + scaling.mean


def refuse(model: LinOSS, inputs: Inputs) -> None:
    """Raise for a model that cannot be exported."""
    config, mixers = model.config, model.blocks[0].native().mixers
    if not mixers:
        raise ValueError(
            f"mixer is {config.mixer!r}, which is not a linear recurrence with a constant step; "
            "supported mixers are 'linoss', 'lru' and 's5'"
        )
    if inputs.interval is None:
        return
    if config.task == "forecasting" or not isinstance(mixers[0].step, VaryingTransition):
        what = "a forecaster" if config.task == "forecasting" else f"mixer {config.mixer!r}"
        raise ValueError(
            f"the times of the data are irregular, and {what} of irregular times is not "
            "exported; classifiers and regressors with mixer 'linoss' are"
        )


def _inputs(
    sample: Term, inputs: Inputs, label: str, *, ahead: bool
) -> tuple[Term, Term, Term | None]:
    """The model's input, whether any of it is present, and whether a patch is complete."""
    part = sample.part
    missing = part.apply("isnan", sample)
    scaling = inputs.scaling
    scaled = sample if scaling is None else (sample - scaling.mean) / scaling.deviation
    present = part.sum(part.apply("where", missing, 0.0, 1.0)) > 0.0
    if ahead:
        present = part.apply("either", present, part.input("ahead", 1) > 0.0)
    channels = [part.apply("where", missing, 0.0, scaled)]
    if inputs.time_channel:
        steps = part.input(f"{label}steps", 1)
        if inputs.interval is None:
            now, after = steps, steps + 1.0
        else:
            since = part.input("interval", 1) / float(inputs.interval)
            begun = part.input(f"{label}started", 1)
            now = after = part.apply("where", begun > 0.0, steps + since, 0.0)
            part.outputs[f"{label}started"] = part.apply("maximum", begun, 1.0)
        part.outputs[f"{label}steps"] = after
        channels.insert(0, now / float(inputs.lengths[1]))
    if inputs.indicators:
        channels.append(part.apply("where", missing, 1.0, 0.0))
    u, whole = part.join(channels), None
    if inputs.patch > 1:
        u, present, whole = _patched(part, u, present, inputs.patch, label)
    return part.apply("where", present, u, 0.0), present, whole


def _patched(part: Part, u: Term, present: Term, size: int, label: str) -> tuple[Term, Term, Term]:
    """The patch so far, padded with zeros; whether any of its samples is present; whether it is
    complete."""
    filled, seen = part.input(f"{label}filled", 1), part.input(f"{label}seen", 1)
    patch = part.input(f"{label}patch", size * u.size)
    place = part.constant(np.repeat(np.arange(size), u.size))
    here = part.take(u, np.tile(np.arange(u.size), size))
    patch = part.apply("where", place > filled - 0.5, here, patch)
    patch = part.apply("where", place > filled + 0.5, 0.0, patch)
    seen, whole = part.apply("either", present, seen > 0.0), filled > size - 1.5
    part.outputs[f"{label}patch"] = patch
    part.outputs[f"{label}filled"] = part.apply("where", whole, 0.0, filled + 1.0)
    now = part.apply("where", seen, 1.0, 0.0)
    part.outputs[f"{label}seen"] = part.apply("where", whole, 0.0, now)
    return patch, seen, whole


def _whole_or_last(walk: _Walk, whole: Term) -> Term:
    """Whether a patch is whole, or the last, which may be in part; seen from the end."""
    back = walk.then(backwards=True)
    begun = back.state("begun_at_end", 1)
    back.part.outputs[f"{walk.label}begun_at_end"] = back.part.apply("maximum", begun, 1.0)
    return back.part.apply("either", whole, back.part.apply("not", begun > 0.0))


def _interval(walk: _Walk, usual: float) -> Term:
    """The time since the last sample that was there, or until the next; 1 if there is none."""
    part, name = walk.part, "until" if walk.part.backwards else "since"
    waited, seen = walk.state(name, 1), walk.state(f"{name}_seen", 1)
    elapsed = part.input("interval", 1) / float(usual)
    time = waited if part.backwards else waited + elapsed
    waiting = walk.chosen(walk.present, 0.0, time)
    part.outputs[f"{walk.label}{name}"] = waiting + elapsed if part.backwards else waiting
    part.outputs[f"{walk.label}{name}_seen"] = walk.chosen(walk.present, 1.0, seen)
    return walk.chosen(seen > 0.0, time, 1.0)


def _block(walk: _Walk, block: BlockArrays, u: Term, label: str) -> tuple[_Walk, Term]:
    """u + GLU(GELU(mixer(norm(u)))), and the pass that has it."""
    part, (mean, scale, epsilon) = walk.part, block.norm
    mean, scale = (np.broadcast_to(np.asarray(x, np.float64), u.size) for x in (mean, scale))
    if epsilon:
        away = u - part.sum(u) / float(u.size)
        deviation = part.apply("sqrt", part.sum(away * away) / float(u.size) + epsilon)
        x = away / deviation * scale + mean
    else:
        x = u * scale - mean * scale
    y = _mixed(walk, block.mixers[0], x, label)
    if len(block.mixers) == 2:
        back = walk.then(backwards=True)
        other = _mixed(back, block.mixers[1], x, f"{label}_back")
        walk = walk.then(backwards=False)
        part = walk.part
        y = part.apply("add", y, other)
    gelu = y * 0.5 * (part.apply("erf", y * 0.5**0.5) + 1.0)
    products = part.affine(block.glu.weight, gelu, block.glu.bias)
    gate, value = products[: u.size], products[u.size :]
    return walk, part.apply("sigmoid", gate) * value + u


def _mixed(walk: _Walk, recurrence: LinearRecurrence, u: Term, label: str) -> Term:
    """C x_n + D u_n, and the new states z and y."""
    part, size = walk.part, recurrence.step.state_size
    first_weight = _weight(recurrence, jnp.zeros(()), jnp.ones(()))
    interval = walk.intervals[part.backwards]
    z, y = (walk.state(f"{label}_{name}", size) for name in ("velocity", "position"))
    force = part.affine(recurrence.input_weight, u, recurrence.bias)
    if walk.moves:
        force = walk.chosen(walk.present, force, 0.0)
    if interval is not None:
        weighs, before = first_weight != 1, part.constant(0.0)
        if weighs:
            before = walk.state(f"{label}_interval", 1)
            walk.move(f"{label}_interval", interval)
        *step, weight = _traced(part, partial(_varying, recurrence), before, interval)
        force = force * weight if weighs else force
    else:
        step = [part.constant(row) for row in jax.tree.leaves(recurrence.regular_step.step)]
        if first_weight != 1:
            begun = walk.state(f"{label}_begun", 1)
            force = force * walk.chosen(begun > 0.0, 1.0, float(first_weight))
            always = walk.moves and not part.backwards  # from the end, padding comes first
            walk.move(f"{label}_begun", part.apply("maximum", begun, 1.0), always=always)
    zz, zy, yz, yy, fz, fy = step
    new_z = z * zz + y * zy + force[:size] * fz
    new_y = z * yz + y * yy + force[force.size - size :] * fy
    z = walk.move(f"{label}_velocity", new_z, always=walk.moves)
    y = walk.move(f"{label}_position", new_y, always=walk.moves)
    read = y if recurrence.output_weight.shape[1] == size else part.join([z, y])
    through = np.asarray(recurrence.feedthrough)
    direct = u * through if through.ndim == 1 else part.matmul(through, u)
    return part.matmul(recurrence.output_weight, read) + direct


def _weight(recurrence: LinearRecurrence, previous: Array, interval: Array) -> Array:
    """The weight of a force, from the interval before the sample before and the sample's own."""
    weigh = recurrence.step.weigh
    return jnp.ones(()) if weigh is None else weigh(previous, interval)


def _varying(recurrence: LinearRecurrence, previous: Array, interval: Array) -> tuple[Array, ...]:
    """M and F of a sample, entry by entry, and the weight of its force."""
    assert isinstance(recurrence.step, VaryingTransition)
    step = replace(recurrence.step, intervals=interval.reshape(1, 1)).step
    return (*jax.tree.leaves(step), _weight(recurrence, previous, interval))


# ---- Pooling ----

_Handed = Callable[[str, Term], Term]
"""Advances a state of the step, and passes it to the output."""


def _handed(walk: _Walk, answer: Part) -> _Handed:
    def hand(name: str, after: Term) -> Term:
        now, name = walk.move(name, after), walk.label + name
        if walk.whole is not None:  # the stored state may be that of the previous patch
            name = f"{name}_shown"
            walk.part.outputs[name] = now
        return answer.input(name, after.size)

    return hand


def _mean(walk: _Walk, hand: _Handed, pool: Any, x: Term) -> Term:
    total = hand("sum", walk.state("sum", x.size) + x)
    count = hand("samples", walk.state("samples", 1) + 1.0)
    return total / count.part.apply("maximum", count, 1.0)


def _last(walk: _Walk, hand: _Handed, pool: Any, x: Term) -> Term:
    return hand("last", x)


def _max(walk: _Walk, hand: _Handed, pool: Any, x: Term) -> Term:
    """The running maximum."""
    begun = walk.state("begun", 1) > 0.0
    walk.move("begun", walk.part.constant(1.0))
    before = walk.chosen(begun, walk.state("largest", x.size), x)
    return hand("largest", walk.part.apply("maximum", x, before))


def _attention(walk: _Walk, hand: _Handed, pool: Any, x: Term) -> Term:
    """Sums of exp(w.x - t) and exp(w.x - t) x, where t is the largest w.x so far."""
    part, total = walk.part, walk.state("total", 1)
    score, top = part.matmul(pool.query[None], x), walk.state("top", 1)
    highest = walk.chosen(total > 0.0, part.apply("maximum", top, score), score)
    less = walk.chosen(total > 0.0, part.apply("exp", top - highest), 0.0)
    share = part.apply("exp", score - highest)
    walk.move("top", highest)
    shares = hand("total", total * less + share)
    attended = hand("attended", walk.state("attended", x.size) * less + x * share)
    return attended / shares.part.apply("where", shares > 0.0, shares, 1.0)


_POOLINGS: dict[str, Callable[[_Walk, _Handed, Any, Term], Term]] = {
    "mean": _mean,
    "last": _last,
    "max": _max,
    "attention": _attention,
}
"""The poolings by name."""


# ---- Formulas of the library: what JAX traces of a function, operation by operation ----

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


def _traced(part: Part, function: Callable[..., Any], *terms: Term) -> list[Term]:
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
            results = _run(part, inner, given)
        elif name in _SHAPES:  # a term of one number is the same at all places
            results = given[:1]
        elif name == "integer_pow":
            results = given[:1]
            for _ in range(equation.params["y"] - 1):
                results = [results[0] * given[0]]
        elif name in _NAMES:
            results = [part.apply(_NAMES[name], *given)]
        else:
            results = [_OTHERS[name](*given)]
        known |= dict(zip(equation.outvars, results, strict=True))
    return [term(x) for x in program.jaxpr.outvars]
