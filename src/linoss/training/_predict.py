"""Batches of cases padded to the same length: their order in training, and predictions of them."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import Array
from jax.sharding import Mesh

from linoss import _checks, _programs
from linoss.nn import LinOSS
from linoss.scan import resolve_engine
from linoss.training._devices import Devices
from linoss.training._inputs import Cases, Inputs
from linoss.training._objectives import Loss, Objective
from linoss.training._step import compiled, predict_batch

_STEPS_AT_ONCE = 65_536  # of an evaluation batch
_CASES_AT_ONCE = 32


Pad = Callable[[int], int]
"""The padded length of a case, from its length."""


def make_buckets(lengths: np.ndarray, pad: Pad, least: int = 1) -> list[tuple[int, np.ndarray]]:
    """Group cases by padded length, shortest first: (padded length, cases).

    Groups with fewer than `least` cases are merged into the next longer one, and the last into the
    previous one, because a batch of two cases would have the weight of one of thirty-two.
    """
    unique, inverse = np.unique(lengths, return_inverse=True)
    padded = np.array([pad(int(n)) for n in unique])[inverse]
    merged: list[tuple[int, np.ndarray]] = []
    for length in np.unique(padded).tolist():
        cases = np.flatnonzero(padded == length)
        if merged and len(merged[-1][1]) < least:
            cases = np.union1d(merged.pop()[1], cases)
        merged.append((length, cases))
    if len(merged) > 1 and len(merged[-1][1]) < least:
        length, cases = merged.pop()
        merged.append((length, np.union1d(merged.pop()[1], cases)))
    return merged


class Order:
    """The order of training batches: a function of the seed, the step and the lengths only."""

    def __init__(self, lengths: np.ndarray, pad: Pad, batch_size: int, seed: int):
        buckets = make_buckets(np.asarray(lengths), pad, batch_size)
        self._buckets = [(*bucket, min(batch_size, len(bucket[1]))) for bucket in buckets]
        self._seed = seed
        self.sizes = {size for *_, size in self._buckets}
        self.batches_per_epoch = sum(len(cases) // size for _, cases, size in self._buckets)

    def epoch(self, number: int) -> list[tuple[np.ndarray, int]]:
        """(cases, padded length) of each batch of an epoch, in which every case is drawn at most
        once. Incomplete batches are dropped."""
        random = np.random.default_rng([self._seed, number])
        batches = []
        for length, cases, size in self._buckets:
            drawn = random.permutation(cases)[: len(cases) // size * size]
            batches += [(chosen, length) for chosen in drawn.reshape(-1, size)]
        return [batches[i] for i in random.permutation(len(batches))]

    def from_step(self, step: int) -> Iterator[tuple[np.ndarray, int]]:
        """Yield the batches from update `step` on, indefinitely."""
        epoch, first = divmod(step, self.batches_per_epoch)
        while True:
            yield from self.epoch(epoch)[first:]
            epoch, first = epoch + 1, 0


def evaluation_batches(
    cases: Cases, pad: Pad, batch_size: int | None, multiple: int = 1
) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
    """Batches that cover all cases once: (cases, filled cases, padded length).

    Copies of the first case fill a batch up to its size, a multiple of `multiple`.
    """
    for length, members in make_buckets(np.asarray(cases.lengths), pad):
        size = batch_size or min(max(_STEPS_AT_ONCE // length, 2), _CASES_AT_ONCE)
        size = -(-size // multiple) * multiple
        for start in range(0, len(members), size):
            chosen = members[start : start + size]
            copies = np.full(size - len(chosen), chosen[0])
            yield chosen, np.concatenate([chosen, copies]), length


# ---- Predictions ----


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
    predictions: list[Any] = [None] * len(cases)
    for chosen, _, outputs in _batches(model, inputs, cases, batch_size, Devices()):
        for case, output in zip(chosen, outputs, strict=False):  # outputs of copies follow
            count = None if every is None else int(cases.lengths[case]) // every
            predictions[case] = output[:count]
    if not predictions:
        inner = () if config.horizon is None else (config.horizon,)
        return np.zeros((0, *inner, config.out_size), model.encoder.weight.dtype)
    if len({a.shape for a in predictions}) > 1:
        return predictions
    return np.stack(predictions)


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
    return metric_and_loss(model, inputs, objective, cases, batch_size, mesh)[0]


def metric_and_loss(
    model: LinOSS,
    inputs: Inputs,
    objective: Objective,
    cases: Cases,
    batch_size: int | None = None,
    mesh: Mesh | None = None,
) -> tuple[float, float]:
    """The objective's metric, and its loss without dropout; NaN if there are no targets."""
    check_model(model, inputs)
    objective.check(model.config, cases)
    metric, loss = np.zeros(2), np.zeros(2)  # sum, and number or weight
    for chosen, batch, outputs in _batches(model, inputs, cases, batch_size, Devices(mesh)):
        targets, weights = objective.targets(batch, outputs.dtype)
        own = slice(len(chosen))
        metric += objective.score(outputs[own], targets[own], weights[own])
        weights[len(chosen) :] = 0  # of copies
        total = np.sum(weights, dtype=np.float64)
        loss += total * float(_loss(objective.loss, outputs, targets, weights)), total
    with np.errstate(invalid="ignore"):
        return float(metric[0] / metric[1]), float(loss[0] / loss[1])


@partial(jax.jit, static_argnums=0)
def _loss(loss: Loss, outputs: Array, targets: Array, weights: Array) -> Array:
    return loss(outputs, targets, weights)


def check_model(model: LinOSS, inputs: Inputs) -> None:
    """Raise if the model does not fit the inputs."""
    if model.config.in_size != inputs.in_size:
        raise ValueError(
            f"the model's in_size is {model.config.in_size}, expected {inputs.in_size}, "
            "the in_size of inputs"
        )


def _batches(
    model: LinOSS, inputs: Inputs, cases: Cases, batch_size: int | None, devices: Devices
) -> Iterator[tuple[np.ndarray, Any, np.ndarray]]:
    """Yield (cases, batch, outputs); batch and outputs also have copies that fill the batch."""
    if batch_size is not None:
        _checks.positive_integer("batch_size", batch_size)
    engine, dtype = resolve_engine("auto"), model.encoder.weight.dtype
    program = compiled(predict_batch, engine)

    def pad(length: int) -> int:
        return devices.padded(inputs.padded_length(length), model.config)

    for chosen, filled, length in evaluation_batches(cases, pad, batch_size, devices.along_batch):
        batch = cases.batch(filled, length)
        wants_mask, outputs = inputs.masked(batch), None
        for masked in np.unique(wants_mask):
            arguments = devices.place_arguments(inputs(batch, masked=bool(masked), dtype=dtype))
            some = np.asarray(program(model, arguments, engine=engine, mesh=devices.mesh))
            which = (wants_mask == masked).reshape(-1, *[1] * (some.ndim - 1))
            outputs = some if outputs is None else np.where(which, some, outputs)
        assert outputs is not None
        yield chosen, batch, outputs
