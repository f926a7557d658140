"""Objectives: from labels to targets and weights, from outputs to predictions and a metric."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from linoss import _checks
from linoss._plain import plain
from linoss.nn import LinOSSConfig
from linoss.training._forecasting import Forecasting
from linoss.training._inputs import AnyBatch, Cases
from linoss.training._loss import (
    Loss,
    case_weights,
    check_sizes,
    labels_of,
    scaled_targets,
    sum_of_errors,
)
from linoss.training._scaling import Scaling

Label = str | int | float | bool


@dataclass(frozen=True, kw_only=True)
class Classification:
    """Cross-entropy; the metric is the accuracy.

    ```python
    >>> from linoss.training import Classification
    >>> Classification.from_labels(["up", "down", "up"], balanced=True)
    Classification(classes=('down', 'up'), class_weights=(1.5, 0.75), smoothing=0.0, floor=0.0)

    ```
    """

    task: ClassVar[str] = "classification"
    metric: ClassVar[str] = "accuracy"
    higher_is_better: ClassVar[bool] = True

    classes: tuple[Label, ...]
    """The labels, in the order of the model's outputs."""
    class_weights: tuple[int | float, ...] | None = None
    """The weight of each class in the loss."""
    smoothing: int | float = 0.0
    """Label smoothing: this fraction of the target is spread over all classes."""
    floor: int | float = 0.0
    """Added to each probability p before its logarithm: the loss is -log(p + floor), whose gradient
    is reduced by p / (p + floor) for very wrong predictions. The published runs use 1e-8."""

    def __post_init__(self) -> None:
        if len(set(self.classes)) != len(self.classes) or not self.classes:
            raise ValueError(f"classes is {self.classes!r}, expected labels, each of them once")
        if self.class_weights is not None:
            _checks.shape("class_weights", self.class_weights, (len(self.classes),))
            for i, weight in enumerate(self.class_weights):
                _checks.positive_number(f"class_weights[{i}]", weight)
        for name in ("smoothing", "floor"):
            _checks.number(name, getattr(self, name), "a number in [0, 1)", lambda x: 0 <= x < 1)

    @classmethod
    def from_labels(
        cls,
        labels: Any,
        *,
        balanced: bool = False,
        smoothing: int | float = 0.0,
        floor: int | float = 0.0,
    ) -> "Classification":
        """The objective for the sorted classes of `labels`; `balanced` gives them equal total
        weight."""
        classes, counts = np.unique(np.asarray(labels), return_counts=True)
        weights = counts.sum() / (len(classes) * counts)
        return cls(
            classes=tuple(classes.tolist()),
            class_weights=tuple(weights.tolist()) if balanced else None,
            smoothing=smoothing,
            floor=floor,
        )

    @property
    def loss(self) -> Loss:
        """The compiled loss."""
        return Loss("cross-entropy", float(self.smoothing), float(self.floor))

    @property
    def constant_loss(self) -> float | None:
        """The loss of a uniform prediction."""
        return math.log(len(self.classes)) or None

    @property
    def out_size(self) -> int:
        """Number of outputs of the model."""
        return len(self.classes)

    @cached_property
    def _places(self) -> dict[Label, int]:
        return {label: i for i, label in enumerate(self.classes)}

    def encode(self, labels: Any, name: str = "labels") -> np.ndarray:
        """Convert labels to indices of the classes."""
        values = np.asarray(labels)
        _checks.shape(name, values, ("cases",))
        try:
            return np.array([self._places[label] for label in values.tolist()], np.int32)
        except KeyError as error:
            known = ", ".join(repr(label) for label in self.classes[:10])
            raise ValueError(
                f"{name} has {error.args[0]!r}, expected one of the classes {known}"
            ) from None

    def targets(self, batch: AnyBatch, dtype: Any = np.float32) -> tuple[np.ndarray, np.ndarray]:
        """Targets and weights of a batch."""
        places, weights = self.encode(batch.labels), np.ones(len(batch.lengths))
        if self.class_weights is not None:
            weights *= np.asarray(self.class_weights)[places]
        return places, case_weights(batch, weights).astype(dtype)

    def score(
        self, outputs: np.ndarray, targets: np.ndarray, weights: np.ndarray
    ) -> tuple[float, float]:
        """The number of correct predictions, and of predictions; NaN is never correct."""
        right = (np.argmax(outputs, axis=-1) == targets) & ~np.isnan(outputs).any(axis=-1)
        return float(np.sum(right)), float(len(targets))

    def decode(self, outputs: np.ndarray) -> np.ndarray:
        """Probabilities, in double precision."""
        logits = outputs.astype(np.float64)
        with np.errstate(invalid="ignore"):  # infinite logits give NaN
            odds = np.exp(logits - logits.max(axis=-1, keepdims=True))
            return odds / odds.sum(axis=-1, keepdims=True)

    def check(self, config: LinOSSConfig, cases: Cases, name: str = "cases") -> None:
        """Raise if the model or the cases do not fit the objective."""
        check_sizes(config, self.task, self.out_size)
        self.encode(labels_of(cases, name), f"{name}.labels")

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values, for JSON."""
        return {"task": self.task, **plain(self)}


@dataclass(frozen=True, kw_only=True, eq=False)
class Regression:
    """The mean squared error of scaled targets, as loss and as metric.

    There is one output for each case, `(out_size,)`; or, with `every`, one at every k-th step, and
    the labels of a case are `(its length // every, out_size)`. Labels that are NaN are ignored.

    ```python
    >>> import numpy as np
    >>> from linoss.training import Regression
    >>> objective = Regression.from_labels(np.array([1.0, 2.0, 3.0]))
    >>> objective.decode(np.zeros((1, 1)))
    array([[2.]])

    ```
    """

    task: ClassVar[str] = "regression"
    metric: ClassVar[str] = "mse"
    higher_is_better: ClassVar[bool] = False

    out_size: int = 1
    """Number of targets in an output."""
    every: int | None = None
    """Outputs at every k-th step; None for one output for each case."""
    scaling: Scaling | None = None
    """The scaling of each target; None for unscaled targets."""

    def __post_init__(self) -> None:
        _checks.positive_integer("out_size", self.out_size)
        if self.every is not None:
            _checks.positive_integer("every", self.every)
        if self.scaling is not None:
            _checks.shape("scaling.mean", self.scaling.mean, (self.out_size,))

    @classmethod
    def from_labels(
        cls, labels: Any, *, every: int | None = None, scale: bool = True
    ) -> "Regression":
        """The objective for labels: `(cases,)`, `(cases, outputs)` or, with `every`, a list."""
        if every is None:
            columns = [_columns("labels", labels)]
        else:
            columns = [_columns(f"labels[{i}]", label) for i, label in enumerate(labels)]
        scaling = Scaling.from_sequences(columns, kind="target") if scale else None
        return cls(out_size=columns[0].shape[-1], every=every, scaling=scaling)

    @property
    def loss(self) -> Loss:
        """The compiled loss."""
        return Loss("squared")

    @property
    def constant_loss(self) -> float | None:
        """An upper bound of the loss of predicting the mean; None if targets are not scaled."""
        return None if self.scaling is None else 1.0

    def targets(self, batch: AnyBatch, dtype: Any = np.float32) -> tuple[np.ndarray, np.ndarray]:
        """Targets and weights of a batch."""
        if self.every is None:
            targets = _columns("labels", batch.labels)
        else:
            assert batch.labels is not None
            shape = (len(batch.lengths), batch.values.shape[1] // self.every, self.out_size)
            targets = np.full(shape, np.nan)
            for row, label in enumerate(batch.labels):
                count = int(batch.lengths[row]) // self.every
                targets[row, :count] = _columns("labels", label)
        scaled, is_known = scaled_targets(targets, self.scaling, dtype)
        return scaled, case_weights(batch, is_known).astype(dtype)

    def score(
        self, outputs: np.ndarray, targets: np.ndarray, weights: np.ndarray
    ) -> tuple[float, float]:
        """The sum of squared errors, and their number."""
        return sum_of_errors((outputs.astype(np.float64) - targets) ** 2, weights)

    def decode(self, outputs: np.ndarray) -> np.ndarray:
        """Predictions in the units of the labels, in double precision."""
        outputs = outputs.astype(np.float64)
        return outputs if self.scaling is None else self.scaling.undo(outputs)

    def check(self, config: LinOSSConfig, cases: Cases, name: str = "cases") -> None:
        """Raise if the model or the cases do not fit the objective."""
        check_sizes(config, self.task, self.out_size)
        if config.every != self.every:
            raise ValueError(f"every is {self.every}, but the model's is {config.every}")
        labels = labels_of(cases, name)
        if self.every is None:
            self._check_labels(f"{name}.labels", labels, len(cases))
        else:
            for i, length in enumerate(cases.lengths):
                self._check_labels(f"{name}.labels[{i}]", labels[i], int(length) // self.every)

    def _check_labels(self, name: str, labels: Any, steps: int) -> None:
        numbers = _columns(name, labels)
        _checks.shape(name, numbers, (steps, self.out_size))
        if np.isinf(numbers).any():
            raise ValueError(f"{name} has infinite entries, expected numbers, or NaN if unknown")

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values, for JSON."""
        return {"task": self.task, **plain(self)}


def _columns(name: str, labels: Any) -> np.ndarray:
    """Labels as (steps, outputs); the axis of a single output may be missing."""
    try:
        numbers = np.asarray(labels, np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} cannot be read as numbers in a regular array, expected (steps, outputs)"
        ) from None
    if numbers.ndim == 1:
        numbers = numbers[:, None]
    _checks.shape(name, numbers, ("steps", "outputs"))
    return numbers


Objective = Classification | Regression | Forecasting


def objective_from_dict(record: dict[str, Any]) -> Objective:
    """The objective whose `to_dict` returned `record`."""
    kinds = {kind.task: kind for kind in (Classification, Regression, Forecasting)}
    _checks.one_of("task", record.get("task"), kinds)
    settings = {name: value for name, value in record.items() if name != "task"}
    if settings.get("scaling") is not None:
        settings["scaling"] = Scaling.from_dict(settings["scaling"])
    for name in ("classes", "class_weights", "levels"):
        if settings.get(name) is not None:
            settings[name] = tuple(settings[name])
    return kinds[record["task"]](**settings)
