"""Batches of cases padded to the same length: their order in training, and predictions of them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax.sharding import Mesh

from linoss import _checks, _programs
from linoss.nn import LinOSS
from linoss.scan import resolve_engine
from linoss.training._devices import Devices
from linoss.training._inputs import Cases, Inputs
from linoss.training._objectives import Objective
from linoss.training._step import predict_batch, predict_batch_quickly

_STEPS_AT_ONCE = 65_536  # of an evaluation batch
_CASES_AT_ONCE = 32


@dataclass(frozen=True, eq=False)
class Bucket:
    """Cases that are padded to the same length."""

    length: int
    cases: np.ndarray


Pad = Callable[[int], int]
"""The padded length of a case, from its length."""


def make_buckets(lengths: np.ndarray, pad: Pad) -> list[Bucket]:
    """Group cases by padded length, shortest first."""
    unique, inverse = np.unique(lengths, return_inverse=True)
    padded = np.array([pad(int(n)) for n in unique])[inverse]
    return [Bucket(int(n), np.flatnonzero(padded == n)) for n in np.unique(padded)]


def merge_small(buckets: list[Bucket], least: int) -> list[Bucket]:
    """Merge buckets with fewer than `least` cases into the next longer one, and the last into the
    previous one, because a batch of two cases would have the weight of one of thirty-two."""
    merged: list[Bucket] = []
    for bucket in buckets:
        if merged and len(merged[-1].cases) < least:
            bucket = _join(merged.pop(), bucket)
        merged.append(bucket)
    if len(merged) > 1 and len(merged[-1].cases) < least:
        last = merged.pop()
        merged.append(_join(merged.pop(), last))
    return merged


def _join(shorter: Bucket, longer: Bucket) -> Bucket:
    return Bucket(longer.length, np.sort(np.concatenate([shorter.cases, longer.cases])))


@dataclass(frozen=True, eq=False)
class Order:
    """The order of training batches: a function of the seed, the step and the lengths only."""

    buckets: list[Bucket]
    batch_size: int
    seed: int

    @classmethod
    def of(cls, cases: Cases, pad: Pad, batch_size: int, seed: int) -> "Order":
        """The order for some cases."""
        buckets = merge_small(make_buckets(np.asarray(cases.lengths), pad), batch_size)
        return cls(buckets, batch_size, seed)

    @property
    def sizes(self) -> set[int]:
        """The sizes of the batches."""
        return {self._size(bucket) for bucket in self.buckets}

    @property
    def batches_per_epoch(self) -> int:
        """Number of batches in an epoch, in which every case is drawn at most once."""
        return sum(len(b.cases) // self._size(b) for b in self.buckets)

    def _size(self, bucket: Bucket) -> int:
        return min(self.batch_size, len(bucket.cases))

    def epoch(self, number: int) -> list[tuple[np.ndarray, int]]:
        """(cases, padded length) of each batch of an epoch. Incomplete batches are dropped."""
        random = np.random.default_rng([self.seed, number])
        batches = []
        for bucket in self.buckets:
            size = self._size(bucket)
            drawn = random.permutation(bucket.cases)[: len(bucket.cases) // size * size]
            batches += [(chosen, bucket.length) for chosen in drawn.reshape(-1, size)]
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
    for bucket in make_buckets(np.asarray(cases.lengths), pad):
        size = batch_size
        if size is None:
            size = min(max(_STEPS_AT_ONCE // bucket.length, 2), _CASES_AT_ONCE)
        size = -(-size // multiple) * multiple
        for start in range(0, len(bucket.cases), size):
            chosen = bucket.cases[start : start + size]
            copies = np.full(size - len(chosen), chosen[0])
            yield chosen, np.concatenate([chosen, copies]), bucket.length


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
    for chosen, _, _, outputs in _batches(model, inputs, cases, batch_size, Devices()):
        for place, case in enumerate(chosen):
            count = None if every is None else int(cases.lengths[case]) // every
            predictions[case] = outputs[place, :count] if every is not None else outputs[place]
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
    check_model(model, inputs)
    objective.check(model.config, cases)
    devices, total, count = Devices(mesh), 0.0, 0.0
    for chosen, rows, batch, outputs in _batches(model, inputs, cases, batch_size, devices):
        own = np.isin(rows, devices.rows(len(outputs), first_shard=True)) & (rows < len(chosen))
        if own.any():
            targets, weights = objective.targets(batch, outputs.dtype)
            added, number = objective.score(outputs[rows[own]], targets[own], weights[own])
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
    program = predict_batch_quickly() if engine == "native" else predict_batch

    def pad(length: int) -> int:
        return devices.padded(inputs.padded_length(length), model.config)

    parts = evaluation_batches(cases, pad, batch_size, devices.along_batch)
    for chosen, filled, length in parts:
        count, rows = len(filled), devices.rows(len(filled))
        batch = cases.batch(filled[rows], length)
        wants_mask = inputs.masked(batch)
        if devices.several_processes:  # all processes run the same program
            wants_mask[:] = devices.any_of(bool(wants_mask.any()))
        outputs: Any = None
        for masked in (False, True):
            if (wants_mask == masked).any():
                arguments = inputs(batch, masked=masked, dtype=dtype)
                arguments = devices.place_arguments(arguments, rows, count)
                some = np.asarray(program(model, arguments, engine=engine, mesh=devices.mesh))
                if outputs is None:
                    outputs = some
                else:
                    shape = (-1, *[1] * (some.ndim - 1))
                    outputs = np.where(wants_mask.reshape(shape), some, outputs)
        yield chosen, rows, batch, outputs
