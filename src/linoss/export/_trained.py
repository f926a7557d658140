"""A trained model as part of a function of one sample: inputs, encoder, blocks, head."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from linoss.dynamics import VaryingTransition
from linoss.export._program import Recording, added
from linoss.export._windows import forecasts, read
from linoss.forecasting import FittedForecaster
from linoss.kernels import BlockArrays, LinearRecurrence
from linoss.nn import LinOSS
from linoss.training import Classification, Forecasting, Inputs, Objective


class _Walk(NamedTuple):
    """What all parts of a model use."""

    record: Recording
    label: str
    present: Array
    """Whether the sample, or a sample of the patch, is present."""
    whole: Array | None
    """Whether a patch is complete; before that, advanced states are used for an output and
    discarded."""
    moves: bool
    """Whether mixers advance without forcing at a missing sample."""
    level: int = 0
    """The pass over the samples."""
    intervals: tuple[Array | None, Array | None] = (None, None)
    """Irregular times: since the previous sample, and until the next one."""

    @property
    def backwards(self) -> bool:
        return self.record.backwards[self.level]

    def then(self, *, backwards: bool) -> "_Walk":
        """Another pass over the samples."""
        return self._replace(level=self.record.another(backwards=backwards))

    def state(self, name: str, size: int) -> Array:
        """A state before the sample."""
        return self.record.input(self.label + name, size, self.level)

    def keep(self, name: str, after: Array) -> None:
        """A state after the sample."""
        self.record.keep(self.label + name, after, self.level)

    def move(self, name: str, after: Array, *, always: bool = False) -> Array:
        """Advance a state if the sample is present; returns the state for the current output."""
        before = self.state(name, after.size)
        after = after if always else jnp.where(self.present, after, before)
        self.keep(name, after if self.whole is None else jnp.where(self.whole, after, before))
        return after

    def add(self, name: str, more: Array, scale: Array | float = 1.0) -> Array:
        """Advance a running sum, and pass it to the answer."""
        total, left = added(self.state, name, more, scale).values()
        self.move(f"{name}_left", left)
        return self.show(name, total)

    def show(self, name: str, after: Array) -> Array:
        """Advance a state, and pass it to the answer."""
        now = self.move(name, after)
        if self.whole is not None:  # the stored state may be that of the previous patch
            name = f"{name}_shown"
            self.keep(name, now)
        return self.record.final(self.label + name, after.size)


def add_trained(
    record: Recording,
    model: LinOSS,
    label: str,
    inputs: Inputs,
    objective: Objective,
    forecaster: FittedForecaster | None = None,
) -> Array:
    """The output of a model of a fitted classifier, regressor or forecaster."""
    with jax.ensure_compile_time_eval():
        refuse(model, inputs)
        arrays = model.native()
    head: Any = model.head
    if forecaster is None:
        sample = record.input("sample", inputs.channels)
    else:
        sample = read(record, forecaster.components)
    u, present, whole = _inputs(record, sample, inputs, label, ahead=head.horizon is not None)
    moves = model.config.gaps == "move" and inputs.interval is None
    walk = _Walk(record, label, present, whole, moves)
    if inputs.interval is not None:
        is_bidirectional, usual = model.config.bidirectional, inputs.interval
        until = _interval(walk.then(backwards=True), usual) if is_bidirectional else None
        walk = walk._replace(intervals=(_interval(walk, usual), until))
    elif whole is not None and model.config.bidirectional:
        walk = walk._replace(whole=whole | _is_last(walk)).then(backwards=False)
    hidden = arrays.encoder.weight @ u + arrays.encoder.bias
    for i, block in enumerate(arrays.blocks, 1):
        walk, hidden = _block(walk, block, hidden, f"block{i}")
    decoder, pooling, squash = arrays.head
    if pooling:
        pooled = jnp.concatenate([_POOLINGS[way](walk, hidden) for way in pooling.split("+")])
    else:
        walk.keep("features", hidden)
        pooled = record.final(f"{label}features", hidden.size)
    output = decoder.weight @ pooled + decoder.bias
    output = jnp.tanh(output) if squash else output
    if isinstance(objective, Classification):
        return jax.nn.softmax(output)
    if isinstance(objective, Forecasting):
        assert forecaster is not None
        return forecasts(record, forecaster, objective, output)
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
    record: Recording, sample: Array, inputs: Inputs, label: str, *, ahead: bool
) -> tuple[Array, Array, Array | None]:
    """The model's input, whether any of it is present, and whether a patch is complete."""
    missing, scaling = jnp.isnan(sample), inputs.scaling
    scaled = sample if scaling is None else (sample - scaling.mean) / scaling.deviation
    present = jnp.sum(jnp.where(missing, 0.0, 1.0), keepdims=True) > 0
    if ahead:
        present = present | (record.input("ahead", 1) > 0)
    channels = [jnp.where(missing, 0.0, scaled)]
    if inputs.time_channel:
        state, keep = record.named(label, 0)
        now, more = state("steps", 1), jnp.ones(1)
        if inputs.interval is not None:
            begun = state("started", 1)
            more = jnp.where(begun > 0, record.input("interval", 1) / inputs.interval, 0.0)
            keep("started", jnp.maximum(begun, 1.0))
        after = added(state, "steps", more)
        for name, value in after.items():
            keep(name, value)
        now = now if inputs.interval is None else after["steps"]
        channels.insert(0, now / inputs.lengths[1])
    if inputs.indicators:
        channels.append(jnp.where(missing, 1.0, 0.0))
    u, whole = jnp.concatenate(channels), None
    if inputs.patch > 1:
        u, present, whole = _patched(record, u, present, inputs.patch, label)
    return jnp.where(present, u, 0.0), present, whole


def _patched(
    record: Recording, u: Array, present: Array, size: int, label: str
) -> tuple[Array, Array, Array]:
    """The patch so far, padded with zeros; whether any of its samples is present; whether it is
    complete."""
    filled, seen = (record.input(label + name, 1, 0) for name in ("filled", "seen"))
    patch = record.input(f"{label}patch", size * u.size, 0)
    place = np.repeat(np.arange(size), u.size).astype(np.float32)
    patch = jnp.where(filled < place + 0.5, jnp.concatenate([u] * size), patch)
    patch = jnp.where(filled < place - 0.5, 0.0, patch)
    has_any, whole = present | (seen > 0), filled > size - 1.5
    record.keep(f"{label}patch", patch)
    record.keep(f"{label}filled", jnp.where(whole, 0.0, filled + 1))
    record.keep(f"{label}seen", jnp.where(has_any & ~whole, 1.0, 0.0))
    return patch, has_any, whole


def _is_last(walk: _Walk) -> Array:
    """Whether a sample is the last one, seen from the end."""
    back = walk.then(backwards=True)
    begun = back.state("begun_at_end", 1)
    back.keep("begun_at_end", jnp.maximum(begun, 1.0))
    return begun < 0.5


def _interval(walk: _Walk, usual: float) -> Array:
    """The time since the last sample that was there, or until the next; 1 if there is none."""
    name = "until" if walk.backwards else "since"
    waited, seen = walk.state(name, 1), walk.state(f"{name}_seen", 1)
    elapsed = walk.record.input("interval", 1) / usual
    time = waited if walk.backwards else waited + elapsed
    waiting = jnp.where(walk.present, 0.0, time)
    walk.keep(name, waiting + elapsed if walk.backwards else waiting)
    walk.keep(f"{name}_seen", jnp.where(walk.present, 1.0, seen))
    return jnp.where(seen > 0, time, 1.0)


def _block(walk: _Walk, block: BlockArrays, u: Array, label: str) -> tuple[_Walk, Array]:
    """u + GLU(GELU(mixer(norm(u)))), and the pass that has it."""
    mean, scale, epsilon = block.norm
    if epsilon:
        away = u - jnp.sum(u, keepdims=True) / u.size
        variance = jnp.sum(away * away, keepdims=True) / u.size
        x = away / jnp.sqrt(variance + epsilon) * scale + mean
    else:
        x = (u - mean) * scale
    y = _mixed(walk, block.mixers[0], x, label)
    if len(block.mixers) == 2:
        y = y + _mixed(walk.then(backwards=True), block.mixers[1], x, f"{label}_back")
        walk = walk.then(backwards=False)
    bent = (y + 0.044715 * y * y * y) * (2 / jnp.pi) ** 0.5
    gelu = y * 0.5 * ((jnp.tanh(bent) if block.approximate else jax.lax.erf(y * 0.5**0.5)) + 1)
    products = block.glu.weight @ gelu + block.glu.bias
    return walk, jax.nn.sigmoid(products[: u.size]) * products[u.size :] + u


def _mixed(walk: _Walk, recurrence: LinearRecurrence, u: Array, label: str) -> Array:
    """C x_n + D u_n, and the new states z and y."""
    size, interval = recurrence.step.state_size, walk.intervals[walk.backwards]
    with jax.ensure_compile_time_eval():
        step, weigh = recurrence.regular_step.step, recurrence.step.weigh
    force = recurrence.input_weight @ u + recurrence.bias
    if walk.moves:
        force = jnp.where(walk.present, force, 0.0)
    if interval is not None:
        assert isinstance(recurrence.step, VaryingTransition)
        step = replace(recurrence.step, intervals=interval[None]).step
    if weigh is not None and interval is not None:
        force = force * weigh(walk.state(f"{label}_interval", 1), interval)
        walk.move(f"{label}_interval", interval)
    elif weigh is not None:
        begun, always = walk.state(f"{label}_begun", 1), walk.moves and not walk.backwards
        force = force * jnp.where(begun > 0, 1.0, weigh(jnp.zeros(1), jnp.ones(1)))
        # from the end, padding comes first
        walk.move(f"{label}_begun", jnp.maximum(begun, 1.0), always=always)
    z, y = (walk.state(f"{label}_{name}", size) for name in ("velocity", "position"))
    (zz, zy), (yz, yy), fz, fy = *(map(jnp.ravel, row) for row in step.matrix), *step.forcing
    new_z = zz * z + zy * y + jnp.ravel(fz) * force[:size]
    new_y = yz * z + yy * y + jnp.ravel(fy) * force[-size:]
    z = walk.move(f"{label}_velocity", new_z, always=walk.moves)
    y = walk.move(f"{label}_position", new_y, always=walk.moves)
    read = jnp.concatenate([z, y]) if recurrence.is_paired else y
    through = recurrence.feedthrough
    direct = through @ u if through.ndim == 2 else through * u
    return recurrence.output_weight @ read + direct


# ---- Pooling: advances states, and reads them in the answer ----


def _mean(walk: _Walk, x: Array) -> Array:
    total, count = walk.add("sum", x), walk.add("samples", jnp.ones(1))
    return total / jnp.maximum(count, 1.0)


def _last(walk: _Walk, x: Array) -> Array:
    return walk.show("last", x)


def _max(walk: _Walk, x: Array) -> Array:
    begun = walk.state("begun", 1) > 0
    walk.move("begun", jnp.ones(1))
    before = jnp.where(begun, walk.state("largest", x.size), x)
    return walk.show("largest", jnp.maximum(x, before))


_POOLINGS: dict[str, Callable[[_Walk, Array], Array]] = {
    "mean": _mean,
    "last": _last,
    "max": _max,
}
"""The poolings by name."""
