"""Objectives: from labels to targets and weights, from outputs to predictions and a metric.

An objective converts labels to arrays of targets and weights on the host. The compiled loss depends
only on these, so that runs with other classes and scales share a compiled program.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from jaxtyping import Float

from linoss import _checks
from linoss._plain import plain
from linoss.nn import LinOSSConfig
from linoss.training._inputs import AnyBatch, Cases, Inputs
from linoss.training._scaling import Scaling
from linoss.training._windows import Windows

Label = str | int | float | bool
_LEAST = 0.01  # minimum scale, relative to a variable's deviation


@dataclass(frozen=True)
class Loss:
    """The compiled part of an objective: a weighted mean over all targets."""

    kind: Literal["cross-entropy", "squared", "pinball"]
    smoothing: float = 0.0
    floor: float = 0.0
    """Added to each probability before its logarithm."""
    levels: tuple[float, ...] = (0.5,)
    """The levels of quantiles, with 0.5 in the middle."""

    def __call__(
        self, outputs: Float[Array, "..."], targets: Array, weights: Float[Array, "..."]
    ) -> Float[Array, ""]:
        """sum(weights * errors) / sum(weights)."""
        if self.kind == "cross-entropy":
            classes = jax.nn.one_hot(targets, outputs.shape[-1], dtype=outputs.dtype)
            logs = jax.nn.log_softmax(outputs)
            if self.floor:  # log(p + floor), accurate for p near 1
                logs = jnp.logaddexp(logs, math.log(self.floor))
            errors = -jnp.sum(optax.smooth_labels(classes, self.smoothing) * logs, axis=-1)
        elif self.kind == "squared":
            errors = (outputs - targets) ** 2
        else:
            errors = _pinball(outputs, targets, self.levels)
        total = jnp.sum(weights)
        return jnp.sum(weights * errors) / jnp.where(total > 0, total, 1)


def _pinball(outputs: Array, targets: Array, levels: tuple[float, ...]) -> Array:
    """Twice the pinball loss, averaged over levels; for the median alone, the absolute error."""
    short = targets[..., None] - quantiles(outputs, len(levels), jnp)
    share = jnp.asarray(levels, short.dtype).reshape((1,) * (short.ndim - 1) + (-1,))
    return jnp.mean(2 * jnp.maximum(share * short, (share - 1) * short), axis=-1)


def quantiles(outputs: Any, count: int, numbers: Any = np) -> Any:
    """Quantiles `(..., variables, count)` from outputs `(..., variables * count)`; they never
    cross.

    The output in the middle is the median. Going outwards, the distance to the next quantile is the
    softplus of its output. `numbers` is NumPy or jax.numpy.
    """
    parts = outputs.reshape((*outputs.shape[:-1], -1, count))
    middle = count // 2
    distance = numbers.logaddexp(parts, 0)
    median = parts[..., middle : middle + 1]
    below = median - numbers.cumsum(distance[..., middle - 1 :: -1], axis=-1)[..., ::-1]
    above = median + numbers.cumsum(distance[..., middle + 1 :], axis=-1)
    return numbers.concatenate([below, median, above] if middle else [median], axis=-1)


def labels_of(cases: Cases, name: str) -> Any:
    """The labels of cases. Raises if there are none."""
    labels = getattr(cases, "labels", None)
    if labels is None:
        raise ValueError(f"{name} has no labels, expected a label a case")
    return labels


def scaled_targets(
    targets: np.ndarray, scaling: Scaling | None, dtype: Any
) -> tuple[np.ndarray, np.ndarray]:
    is_known = ~np.isnan(targets)
    scaled = targets if scaling is None else scaling.apply(targets)
    return np.where(is_known, scaled, 0).astype(dtype), is_known.astype(dtype)


def case_weights(batch: AnyBatch, weights: np.ndarray) -> np.ndarray:
    """Weights of targets `(cases, ...)`, multiplied by those of the cases."""
    own = getattr(batch, "weights", None)
    return weights if own is None else weights * own.reshape(-1, *[1] * (weights.ndim - 1))


def sum_of_errors(errors: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    counts = weights > 0
    return float(np.sum(errors, where=counts)), float(np.count_nonzero(counts))


class _Task:
    task: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values, for JSON."""
        return {"task": self.task, **plain(self)}

    def check_sizes(self: Any, config: LinOSSConfig) -> None:
        """Raise if the task or the number of outputs of a model differs."""
        _checks.one_of("the model's task", config.task, (self.task,))
        if config.out_size != self.out_size:
            raise ValueError(f"the model's out_size is {config.out_size}, expected {self.out_size}")


@dataclass(frozen=True, kw_only=True)
class Classification(_Task):
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
        self.check_sizes(config)
        self.encode(labels_of(cases, name), f"{name}.labels")


@dataclass(frozen=True, kw_only=True, eq=False)
class Regression(_Task):
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
        self.check_sizes(config)
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


@dataclass(frozen=True, kw_only=True, eq=False)
class Forecasting(_Task):
    """Quantiles of all variables over the forecast horizon, by the pinball loss.

    The metric is the mean absolute error of the median. Both are on the scale of the targets, on
    which each variable has a standard deviation of about 1.

    ```python
    >>> import numpy as np
    >>> from linoss.training import Forecasting, Inputs, Windows
    >>> windows = Windows([np.random.default_rng(0).normal(size=(100, 3))], past=24, horizon=6)
    >>> Forecasting.from_windows(windows, Inputs.from_sequences(windows)).out_size
    3

    ```
    """

    task: ClassVar[str] = "forecasting"
    metric: ClassVar[str] = "scaled mae"
    higher_is_better: ClassVar[bool] = False

    out_size: int
    """Number of outputs at a step: a quantile of each level for each variable."""
    horizon: int
    """The forecast horizon, in steps."""
    scaling: Scaling | None = None
    """The scaling of each variable; None for unscaled targets."""
    levels: tuple[float, ...] = (0.5,)
    """The levels of the quantiles, increasing, with the median in the middle."""

    def __post_init__(self) -> None:
        _checks.positive_integer("out_size", self.out_size)
        _checks.positive_integer("horizon", self.horizon)
        inside = np.all(np.diff([0.0, *self.levels, 1.0]) > 0)
        if len(self.levels) % 2 == 0 or self.levels[len(self.levels) // 2] != 0.5 or not inside:
            raise ValueError(
                f"levels is {self.levels!r}, expected increasing numbers between 0 and 1, with 0.5 "
                "in the middle"
            )
        if self.out_size % len(self.levels):
            raise ValueError(
                f"out_size is {self.out_size}, expected a multiple of the {len(self.levels)} levels"
            )
        if self.scaling is not None:
            _checks.shape("scaling.mean", self.scaling.mean, (self.variables,))

    @classmethod
    def from_windows(
        cls, windows: Windows, inputs: Inputs, levels: tuple[float, ...] = (0.5,)
    ) -> "Forecasting":
        """The objective for the target columns of windows.

        Targets are scaled as in the inputs, or, if windows normalise them, by their own deviation.
        """
        columns = windows.target_columns
        scaling = None if inputs.scaling is None else inputs.scaling.pick(columns)
        if scaling is not None and windows.relative:
            of_labels = np.nan_to_num(windows.some_labels()).std(axis=0)
            deviation = np.maximum(of_labels, _LEAST * scaling.deviation)
            scaling = Scaling(np.zeros(len(columns)), deviation)
        size = len(columns) * len(levels)
        return cls(out_size=size, horizon=windows.horizon, scaling=scaling, levels=levels)

    @property
    def variables(self) -> int:
        """Number of forecast variables."""
        return self.out_size // len(self.levels)

    @property
    def loss(self) -> Loss:
        """The compiled loss."""
        return Loss("pinball", levels=self.levels)

    def targets(self, batch: AnyBatch, dtype: Any = np.float32) -> tuple[np.ndarray, np.ndarray]:
        """Targets and weights of a batch."""
        return scaled_targets(np.asarray(batch.labels), self.scaling, dtype)

    def score(
        self, outputs: np.ndarray, targets: np.ndarray, weights: np.ndarray
    ) -> tuple[float, float]:
        """The sum of absolute errors, and their number."""
        median = outputs[..., len(self.levels) // 2 :: len(self.levels)]
        return sum_of_errors(np.abs(median.astype(np.float64) - targets), weights)

    def decode(self, outputs: np.ndarray) -> np.ndarray:
        """Medians `(..., variables)` in the units of the data, in double precision."""
        return self.quantiles(outputs)[..., len(self.levels) // 2]

    def quantiles(self, outputs: np.ndarray) -> np.ndarray:
        """Quantiles `(..., variables, levels)` in the units of the data; they never cross."""
        values = quantiles(outputs.astype(np.float64), len(self.levels))
        if self.scaling is None:
            return values
        return values * self.scaling.deviation[:, None] + self.scaling.mean[:, None]

    def check(self, config: LinOSSConfig, cases: Cases, name: str = "cases") -> None:
        """Raise if the model or the cases do not fit the objective."""
        self.check_sizes(config)
        if config.horizon != self.horizon:
            raise ValueError(f"horizon is {self.horizon}, but the model's is {config.horizon}")
        if not isinstance(cases, Windows):
            raise ValueError(f"{name} is a {type(cases).__name__}, expected Windows to forecast")
        sizes = (cases.horizon, len(cases.target_columns))
        if sizes != (self.horizon, self.variables):
            raise ValueError(
                f"{name} has (steps ahead, targets) {sizes}, expected "
                f"{(self.horizon, self.variables)}"
            )
        columns = list(cases.target_columns)
        if all(np.isnan(array[:, columns]).all() for array in cases.series):
            raise ValueError(f"{name} has no value of any target, expected some values")


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
