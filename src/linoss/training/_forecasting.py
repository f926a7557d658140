"""The objective of forecasting."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from linoss import _checks
from linoss.nn import LinOSSConfig
from linoss.training._inputs import AnyBatch, Cases, Inputs
from linoss.training._loss import Loss, check_sizes, scaled_targets, sum_of_errors
from linoss.training._scaling import Scaling
from linoss.training._windows import Windows


@dataclass(frozen=True, kw_only=True, eq=False)
class Forecasting:
    """The mean absolute error over all variables and steps ahead, on the scale of the inputs.

    ```python
    >>> import numpy as np
    >>> from linoss.training import Forecasting, Inputs, Windows
    >>> windows = Windows([np.random.default_rng(0).normal(size=(100, 3))], past=24, horizon=6)
    >>> Forecasting.from_windows(windows, Inputs.from_sequences(windows)).out_size
    3

    ```
    """

    task: ClassVar[str] = "forecasting"
    metric: ClassVar[str] = "mae"
    higher_is_better: ClassVar[bool] = False

    out_size: int
    """Variables."""
    horizon: int
    """Steps ahead."""
    scaling: Scaling | None = None
    """Of each variable; None to take targets as they are."""

    def __post_init__(self) -> None:
        _checks.positive_integer("out_size", self.out_size)
        _checks.positive_integer("horizon", self.horizon)
        if self.scaling is not None:
            _checks.shape("scaling.mean", self.scaling.mean, (self.out_size,))

    @classmethod
    def from_windows(cls, windows: Windows, inputs: Inputs) -> "Forecasting":
        """The objective for the target columns of windows, scaled as in the inputs."""
        columns = windows.target_columns
        scaling = None if inputs.scaling is None else inputs.scaling.pick(columns)
        return cls(out_size=len(columns), horizon=windows.horizon, scaling=scaling)

    @property
    def loss(self) -> Loss:
        """The compiled part."""
        return Loss("absolute")

    @property
    def constant_loss(self) -> float | None:
        """The loss, at most, of the mean as the answer; None if targets are not scaled."""
        return None if self.scaling is None else 1.0

    def targets(self, batch: AnyBatch, dtype: Any = np.float32) -> tuple[np.ndarray, np.ndarray]:
        """Targets and weights of a batch."""
        return scaled_targets(np.asarray(batch.labels), self.scaling, dtype)

    def score(
        self, answers: np.ndarray, targets: np.ndarray, weights: np.ndarray
    ) -> tuple[float, float]:
        """The sum of absolute errors, and how many there are."""
        return sum_of_errors(np.abs(answers.astype(np.float64) - targets), weights)

    def decode(self, answers: np.ndarray) -> np.ndarray:
        """Forecasts in the units of the data, in double precision."""
        answers = answers.astype(np.float64)
        return answers if self.scaling is None else self.scaling.undo(answers)

    def check(self, config: LinOSSConfig, cases: Cases, name: str = "cases") -> None:
        """Refuse a model or cases that do not fit."""
        check_sizes(config, self.task, self.out_size)
        if config.horizon != self.horizon:
            raise ValueError(f"horizon is {self.horizon}, but the model's is {config.horizon}")
        if not isinstance(cases, Windows):
            raise ValueError(f"{name} is a {type(cases).__name__}, expected Windows to forecast")
        found = (cases.horizon, len(cases.target_columns))
        if found != (self.horizon, self.out_size):
            raise ValueError(
                f"{name} has (steps ahead, targets) {found}, expected "
                f"{(self.horizon, self.out_size)}"
            )
        columns = list(cases.target_columns)
        if all(np.isnan(array[:, columns]).all() for array in cases.series):
            raise ValueError(f"{name} has no value of any target, expected some to learn from")

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        scaling = None if self.scaling is None else self.scaling.to_dict()
        return {
            "task": self.task,
            "out_size": self.out_size,
            "horizon": self.horizon,
            "scaling": scaling,
        }
