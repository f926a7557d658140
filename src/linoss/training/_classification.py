"""The objective of classification."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from linoss import _checks
from linoss.nn import LinOSSConfig
from linoss.training._inputs import AnyBatch, Cases
from linoss.training._loss import Loss, case_weights, check_sizes, labels_of

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
        found = np.asarray(labels)
        _checks.shape(name, found, ("cases",))
        try:
            return np.array([self._places[label] for label in found.tolist()], np.int32)
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
        self, answers: np.ndarray, targets: np.ndarray, weights: np.ndarray
    ) -> tuple[float, float]:
        """The number of correct predictions, and of predictions; NaN is never correct."""
        right = (np.argmax(answers, axis=-1) == targets) & ~np.isnan(answers).any(axis=-1)
        return float(np.sum(right)), float(len(targets))

    def decode(self, answers: np.ndarray) -> np.ndarray:
        """Probabilities, in double precision."""
        logits = answers.astype(np.float64)
        with np.errstate(invalid="ignore"):  # infinite logits give NaN
            odds = np.exp(logits - logits.max(axis=-1, keepdims=True))
            return odds / odds.sum(axis=-1, keepdims=True)

    def check(self, config: LinOSSConfig, cases: Cases, name: str = "cases") -> None:
        """Raise if the model or the cases do not fit the objective."""
        check_sizes(config, self.task, self.out_size)
        self.encode(labels_of(cases, name), f"{name}.labels")

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values, for JSON."""
        weights = self.class_weights
        return {
            "task": self.task,
            "classes": list(self.classes),
            "class_weights": None if weights is None else list(weights),
            "smoothing": self.smoothing,
            "floor": self.floor,
        }
