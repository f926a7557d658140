"""Batched predictions; the prediction of a case does not depend on other cases."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from jax.sharding import Mesh

from linoss import _checks, _programs
from linoss.nn import LinOSS
from linoss.scan import resolve_engine
from linoss.training._batches import evaluation_batches
from linoss.training._devices import Devices
from linoss.training._inputs import Cases, Inputs
from linoss.training._objectives import Objective
from linoss.training._step import answer, answer_quickly


@_programs.kept_programs()
def predict(
    model: LinOSS, inputs: Inputs, cases: Cases, *, batch_size: int | None = None
) -> np.ndarray | list[np.ndarray]:
    """The model's outputs for cases of any length, in their order.

    Batches have a constant size, and the padded length of a case depends only on that case, so its
    outputs are bitwise identical whatever the other cases are.

    **Arguments:**

    - `model`, `inputs`: a trained model and its inputs.
    - `cases`: [`linoss.data.Sequences`][] or [`linoss.training.Windows`][].
    - `batch_size`: cases in a batch; by default 32, or fewer if they are long.

    **Returns:** `(cases, out_size)`, or `(cases, outputs, out_size)` for forecasts and for outputs
    at every k-th step, in the latter case a list if their numbers differ. They are logits, or on
    the scale of the targets; the objective's `decode` converts them to probabilities or values.

    ```python
    >>> import jax, linoss, numpy as np
    >>> import linoss.data
    >>> from linoss.training import Inputs, predict
    >>> cases = linoss.data.sequences([np.ones((2, 50)), np.ones((2, 70))])
    >>> inputs = Inputs.from_sequences(cases)
    >>> config = linoss.LinOSSConfig(in_size=2, out_size=3, hidden_size=8, state_size=8)
    >>> predict(linoss.LinOSS(config, key=jax.random.key(0)), inputs, cases).shape
    (2, 3)

    ```
    """
    check_model(model, inputs)
    every, config = model.config.every, model.config
    answers: list[Any] = [None] * len(cases)
    for chosen, _, _, found in _batches(model, inputs, cases, batch_size, Devices()):
        for place, case in enumerate(chosen):
            count = None if every is None else int(cases.lengths[case]) // every
            answers[case] = found[place, :count] if every is not None else found[place]
    if not answers:
        inner = () if config.horizon is None else (config.horizon,)
        return np.zeros((0, *inner, config.out_size), model.encoder.weight.dtype)
    if len({a.shape for a in answers}) > 1:
        return answers
    return np.stack(answers)


def evaluate(
    model: LinOSS,
    inputs: Inputs,
    objective: Objective,
    cases: Cases,
    *,
    batch_size: int | None = None,
    mesh: Mesh | None = None,
) -> float:
    """The objective's metric on labelled cases; with a `mesh`, on its devices.

    ```python
    >>> import jax, linoss, numpy as np
    >>> import linoss.data
    >>> from linoss.training import Classification, Inputs, evaluate
    >>> cases = linoss.data.sequences(np.ones((4, 2, 50)), y=["a", "b", "a", "b"])
    >>> inputs = Inputs.from_sequences(cases)
    >>> config = linoss.LinOSSConfig(in_size=2, out_size=2, hidden_size=8, state_size=8)
    >>> model = linoss.LinOSS(config, key=jax.random.key(0))
    >>> evaluate(model, inputs, Classification.from_labels(cases.labels), cases)
    0.5

    ```
    """
    check_model(model, inputs)
    objective.check(model.config, cases)
    devices, total, count = Devices(mesh), 0.0, 0.0
    for chosen, rows, batch, found in _batches(model, inputs, cases, batch_size, devices):
        own = np.isin(rows, devices.own_rows(len(found))) & (rows < len(chosen))
        if own.any():
            targets, weights = objective.targets(batch, found.dtype)
            added, number = objective.score(found[rows[own]], targets[own], weights[own])
            total, count = total + added, count + number
    total, count = devices.total(total, count)
    return total / count if count else float("nan")


def check_model(model: LinOSS, inputs: Inputs) -> None:
    """Raise if the model does not fit the inputs."""
    if model.config.in_size != inputs.in_size:
        raise ValueError(
            f"the model's in_size is {model.config.in_size}, expected {inputs.in_size}, "
            "the in_size of inputs"
        )


def _batches(
    model: LinOSS, inputs: Inputs, cases: Cases, batch_size: int | None, devices: Devices
) -> Iterator[tuple[np.ndarray, np.ndarray, Any, np.ndarray]]:
    """Yield (cases, rows of the batch in this process, batch of these rows, outputs of all rows).

    The rows of a batch are the cases, followed by copies that fill it.
    """
    if batch_size is not None:
        _checks.positive_integer("batch_size", batch_size)
    engine, dtype = resolve_engine("auto"), model.encoder.weight.dtype
    ask = answer_quickly() if engine == "native" else answer

    def pad(length: int) -> int:
        return devices.padded(inputs.padded_length(length), model.config)

    parts = evaluation_batches(cases, pad, batch_size, devices.along_batch)
    for chosen, filled, length in parts:
        count, rows = len(filled), devices.rows(len(filled))
        batch = cases.batch(filled[rows], length)
        wants_mask = inputs.masked(batch)
        if devices.several_processes:  # all processes run the same program
            wants_mask[:] = devices.any_of(bool(wants_mask.any()))
        found: Any = None
        for masked in (False, True):
            if (wants_mask == masked).any():
                arguments = inputs(batch, masked=masked, dtype=dtype)
                arguments = devices.place_arguments(arguments, rows, count)
                answers = np.asarray(ask(model, arguments, engine=engine, mesh=devices.mesh))
                if found is None:
                    found = answers
                else:
                    shape = (-1, *[1] * (answers.ndim - 1))
                    found = np.where(wants_mask.reshape(shape), answers, found)
        yield chosen, rows, batch, found
