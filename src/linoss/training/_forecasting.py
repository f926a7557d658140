"""The objective of forecasting."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from linoss import _checks
from linoss._plain import plain
from linoss.nn import LinOSSConfig
from linoss.training._inputs import AnyBatch, Cases, Inputs
from linoss.training._loss import Loss, check_sizes, quantiles, scaled_targets, sum_of_errors
from linoss.training._scaling import Scaling
from linoss.training._windows import Windows

_LEAST = 0.01  # minimum scale, relative to a variable's deviation


@dataclass(frozen=True, kw_only=True, eq=False)
class Forecasting:
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

    @property
    def constant_loss(self) -> float | None:
        """An upper bound of the loss of predicting the mean; None if targets are not scaled."""
        return None if self.scaling is None or len(self.levels) > 1 else 1.0

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
        check_sizes(config, self.task, self.out_size)
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

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values, for JSON."""
        return {"task": self.task, **plain(self)}
