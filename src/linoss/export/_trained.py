"""A trained model as part of a program: inputs, encoder, blocks, head."""

from typing import Any

import numpy as np

from linoss.export._program import Part, Term
from linoss.nn import LinOSS
from linoss.training import Inputs


def add_trained(forwards: Part, answer: Part, estimator: Any, model: LinOSS, label: str) -> Term:
    """Add a model of a fitted classifier, regressor or forecaster; returns its answer."""
    refuse(estimator)
    u, present = _inputs(forwards, estimator.inputs_, label, ahead=model.head.horizon is not None)
    hidden = forwards.affine(model.encoder.weight, u, model.encoder.bias)
    for i, block in enumerate(model.blocks, 1):
        hidden = _block(forwards, block, hidden, present, f"{label}block{i}")
    decoder, pooling, squash = model.head.on_a_stream
    pooled = _pooled(forwards, answer, pooling, hidden, present, label)
    found = answer.affine(decoder.weight, pooled, decoder.bias)
    found = answer.apply("tanh", found) if squash else found
    objective = estimator.objective_
    if objective.task == "classification":
        return answer.softmax(found)
    scaling = objective.scaling
    return found if scaling is None else found * scaling.deviation + scaling.mean


def refuse(estimator: Any) -> None:
    """Raise for a model that has no such form."""
    config = estimator.model_.config
    if estimator.timed_:
        raise ValueError(
            "the model reads irregular times, whose steps differ from sample to sample; only "
            "models of regular samples are exported"
        )
    if estimator.inputs_.patch > 1:
        raise ValueError(
            f"the model reads {estimator.inputs_.patch} samples as one; only models that read one "
            "at a time are exported: fit with patch=1"
        )
    if config.bidirectional:
        raise ValueError(
            "bidirectional is True, expected False: a model that reads backwards is not exported"
        )
    if estimator.model_.blocks[0].weights().recurrence is None:
        raise ValueError(
            f"mixer is {config.mixer!r}, which is no linear recurrence with a constant step; "
            "exported are 'linoss', 'lru' and 's5'"
        )


def _inputs(part: Part, inputs: Inputs, label: str, *, ahead: bool) -> tuple[Term, Term]:
    """The model's channels, and whether there is a sample."""
    sample = part.input("sample", inputs.channels)
    missing = part.apply("isnan", sample)
    scaling = inputs.scaling
    scaled = sample if scaling is None else (sample - scaling.mean) / scaling.deviation
    present = part.sum(part.apply("where", missing, 0.0, 1.0)) > 0.0
    if ahead:
        present = part.apply("either", present, part.input("ahead", 1) > 0.0)
    channels = [part.apply("where", missing, 0.0, scaled)]
    if inputs.time_channel:
        steps = part.input(f"{label}steps", 1)
        part.outputs[f"{label}steps"] = steps + 1.0
        channels.insert(0, steps / float(inputs.lengths[1]))
    if inputs.indicators:
        channels.append(part.apply("where", missing, 1.0, 0.0))
    return part.apply("where", present, part.join(channels), 0.0), present


def _block(part: Part, block: Any, u: Term, present: Term, label: str) -> Term:
    """u + GLU(GELU(mixer(norm(u))))."""
    weights = block.weights()
    recurrence = weights.recurrence
    mean, scale = (np.asarray(x, np.float64) for x in (weights.mean, weights.scale))
    epsilon = block.norm.epsilon_over_channels
    if epsilon:
        away = u - part.sum(u) / float(u.size)
        deviation = part.apply("sqrt", part.sum(away * away) / float(u.size) + epsilon)
        x = away / deviation * scale + mean
    else:
        x = u * scale - mean * scale
    y = part.apply("erf", (z := _mixed(part, recurrence, x, present, label)) * 0.5**0.5)
    both = part.affine(weights.glu_weight, z * 0.5 * (y + 1.0), weights.glu_bias)
    gate, value = both[: u.size], both[u.size :]
    return u + part.apply("sigmoid", gate) * value


def _mixed(part: Part, recurrence: Any, u: Term, present: Term, label: str) -> Term:
    """C x_n + D u_n, and the new states z and y."""
    names = (f"{label}_velocity", f"{label}_position")
    size = recurrence.matrix.shape[1]
    z, y = (part.input(name, size) for name in names)
    force = part.affine(recurrence.input_weight, u, recurrence.bias)
    if recurrence.first_weight != 1:
        seen = f"{label}_seen"
        begun = part.input(seen, 1)
        force = force * part.apply("where", begun > 0.0, 1.0, recurrence.first_weight)
        part.outputs[seen] = part.apply("where", present, 1.0, begun)
    zz, zy, yz, yy = np.asarray(recurrence.matrix)
    fz, fy = np.asarray(recurrence.forcing)
    after = (
        z * zz + y * zy + force[:size] * fz,
        z * yz + y * yy + force[force.size - size :] * fy,
    )
    z, y = (part.apply("where", present, new, old) for new, old in zip(after, (z, y), strict=True))
    part.outputs |= dict(zip(names, (z, y), strict=True))
    read = y if recurrence.output_weight.shape[1] == size else part.join([z, y])
    through = np.asarray(recurrence.feedthrough)
    direct = u * through if through.ndim == 1 else part.matmul(through, u)
    return part.matmul(recurrence.output_weight, read) + direct


def _pooled(
    part: Part, answer: Part, pooling: str, hidden: Term, present: Term, label: str
) -> Term:
    """The features that the decoder reads."""
    name, size = f"{label}features", hidden.size
    if not pooling:
        part.outputs[name] = hidden
        return answer.input(name, size)
    before = part.input(name, size)
    if pooling == "last":
        part.outputs[name] = part.apply("where", present, hidden, before)
        return answer.input(name, size)
    if pooling != "mean":
        raise ValueError(f"pooling is {pooling!r}, expected 'mean' or 'last' for an export")
    counted, count = f"{label}samples", part.input(f"{label}samples", 1)
    part.outputs[name] = part.apply("where", present, before + hidden, before)
    part.outputs[counted] = count + part.apply("where", present, 1.0, 0.0)
    number = answer.apply("maximum", answer.input(counted, 1), 1.0)
    return answer.input(name, size) / number
