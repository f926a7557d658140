"""Answers for data, batch by batch; those of a case depend on nothing but the case."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from linoss import _checks
from linoss.nn import LinOSS
from linoss.scan import resolve_engine
from linoss.training._batches import evaluation_batches
from linoss.training._inputs import Cases, Inputs
from linoss.training._objectives import Objective
from linoss.training._step import answer


def predict(
    model: LinOSS, inputs: Inputs, cases: Cases, *, batch_size: int | None = None
) -> np.ndarray | list[np.ndarray]:
    """The model's answers for cases of any length, in their order.

    A batch is filled up to a constant number of cases, and a case is padded to a length that it
    alone decides, so its answers are the same, bit for bit, whatever else is asked.

    **Arguments:**

    - `model`, `inputs`: what was trained.
    - `cases`: [`linoss.data.Sequences`][] or [`linoss.training.Windows`][].
    - `batch_size`: cases in a batch; by default 32, fewer if they are long.

    **Returns:** `(cases, out_size)`, or `(cases, answers, out_size)` for forecasts and for answers
    at every k-th step, then a list where the numbers of answers differ. They are logits, or on the
    scale of the targets; the objective's `decode` makes probabilities or values of them.

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
    for chosen, _, found in _batches(model, inputs, cases, batch_size):
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
) -> float:
    """The objective's metric on labelled cases.

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
    total, count = 0.0, 0.0
    for chosen, batch, found in _batches(model, inputs, cases, batch_size):
        targets, weights = objective.targets(batch, found.dtype)
        real = slice(len(chosen))
        added, number = objective.score(found[real], targets[real], weights[real])
        total, count = total + added, count + number
    return total / count if count else float("nan")


def check_model(model: LinOSS, inputs: Inputs) -> None:
    """Refuse a model that does not fit the inputs."""
    if model.config.in_size != inputs.in_size:
        raise ValueError(
            f"the model's in_size is {model.config.in_size}, expected {inputs.in_size}, "
            "the in_size of inputs"
        )


def _batches(
    model: LinOSS, inputs: Inputs, cases: Cases, batch_size: int | None
) -> Iterator[tuple[np.ndarray, Any, np.ndarray]]:
    """(cases, their batch with copies at its end, answers for all of the batch)."""
    if batch_size is not None:
        _checks.positive_integer("batch_size", batch_size)
    engine, dtype = resolve_engine("auto"), model.encoder.weight.dtype
    for chosen, filled, length in evaluation_batches(cases, inputs, batch_size):
        batch = cases.batch(filled, length)
        rows = inputs.masked(batch)
        found: Any = None
        for masked in (False, True):
            if (rows == masked).any():
                arguments = inputs(batch, masked=masked, dtype=dtype)
                answers = np.asarray(answer(model, arguments, engine=engine))
                if found is None:
                    found = answers
                else:
                    found = np.where(rows.reshape(-1, *[1] * (answers.ndim - 1)), answers, found)
        yield chosen, batch, found
