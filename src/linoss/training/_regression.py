"""The objective of regression: one or several numbers for each case, or at every k-th step."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from linoss import _checks
from linoss.nn import LinOSSConfig
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
                answers = int(batch.lengths[row]) // self.every
                targets[row, :answers] = _columns("labels", label)
        scaled, there = scaled_targets(targets, self.scaling, dtype)
        return scaled, case_weights(batch, there).astype(dtype)

    def score(
        self, answers: np.ndarray, targets: np.ndarray, weights: np.ndarray
    ) -> tuple[float, float]:
        """The sum of squared errors, and their number."""
        return sum_of_errors((answers.astype(np.float64) - targets) ** 2, weights)

    def decode(self, answers: np.ndarray) -> np.ndarray:
        """Predictions in the units of the labels, in double precision."""
        answers = answers.astype(np.float64)
        return answers if self.scaling is None else self.scaling.undo(answers)

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

    def _check_labels(self, name: str, labels: Any, answers: int) -> None:
        numbers = _columns(name, labels)
        _checks.shape(name, numbers, (answers, self.out_size))
        if np.isinf(numbers).any():
            raise ValueError(f"{name} has infinite entries, expected numbers, or NaN if unknown")

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values, for JSON."""
        scaling = None if self.scaling is None else self.scaling.to_dict()
        return {
            "task": self.task,
            "out_size": self.out_size,
            "every": self.every,
            "scaling": scaling,
        }


def _columns(name: str, labels: Any) -> np.ndarray:
    """Labels as (steps, outputs); the axis of a single output may be missing."""
    try:
        numbers = np.asarray(labels, np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} cannot be read as numbers in a regular array, expected (answers, outputs)"
        ) from None
    if numbers.ndim == 1:
        numbers = numbers[:, None]
    _checks.shape(name, numbers, ("answers", "outputs"))
    return numbers
