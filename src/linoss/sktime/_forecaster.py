"""The forecaster of sktime, which wraps the estimator of the same name.

sktime's base class validates its arguments and handles the index; the wrapped estimator gets only
numbers. It forecasts all variables of y, and those of X are known in advance.
"""

from typing import Any, ClassVar

import numpy as np
import pandas as pd
from sktime.datatypes import update_data
from sktime.forecasting.base import BaseForecaster, ForecastingHorizon

from linoss import forecasting
from linoss._adapters import adapter


@adapter
class LinOSSForecaster(BaseForecaster):
    """[`linoss.LinOSSForecaster`][] as a forecaster of sktime; `estimator_` is the wrapped one.

    The variables of X are known in advance, and `known_in_advance` is not used. A forecast of more
    than `horizon` steps uses its own forecasts as inputs. `update` trains again on all data; with
    `update_params=False`, the weights do not change.

    ```python
    >>> from sktime.datasets import load_airline
    >>> from linoss.sktime import LinOSSForecaster
    >>> forecaster = LinOSSForecaster(
    ...     horizon=6, steps=20, hidden_size=16, state_size=16, random_state=0
    ... )
    >>> forecaster.fit(load_airline()).predict(fh=[1, 2, 6]).index.astype(str).tolist()
    ['1961-01', '1961-02', '1961-06']

    ```
    """

    wrapped = forecasting.LinOSSForecaster
    _tags: ClassVar[dict[str, Any]] = {
        "authors": "The linoss developers",
        "maintainers": "The linoss developers",
        "y_inner_mtype": "pd.DataFrame",
        "X_inner_mtype": "pd.DataFrame",
        "requires-fh-in-fit": False,
        "capability:multivariate": True,
        "capability:missing_values": True,
        "capability:update": True,
        "capability:insample": False,
        "capability:pred_int": True,
        "capability:pred_int:insample": False,
        "capability:non_contiguous_X": False,
        "capability:categorical_in_X": False,
        "capability:random_state": True,
    }

    _config: ClassVar = {"remember_data": False}  # the required data are stored below
    _y = _X = None

    def _fit(self, y: Any, X: Any = None, fh: Any = None) -> Any:
        self._cur_y, self._cur_X = y, X
        data = self._data()
        known = tuple(range(y.shape[1], data.shape[1]))
        settings = {**self.get_params(deep=False), "known_in_advance": known}
        self.estimator_ = self.wrapped(**settings).fit(data)
        return self

    def _update(self, y: Any, X: Any = None, update_params: bool = True) -> Any:
        y, X = update_data(self._cur_y, y), update_data(self._cur_X, X)
        if update_params:
            return self._fit(y, X)
        self._cur_y, self._cur_X = y, X
        return self

    def _predict(self, fh: Any, X: Any = None) -> pd.DataFrame:
        return self._frame(fh, self._ahead(fh, X), self._get_columns())

    def _predict_quantiles(self, fh: Any, X: Any, alpha: Any) -> pd.DataFrame:  # pyright: ignore[reportIncompatibleMethodOverride]
        shares = np.array(alpha)  # quantile levels: ends of central intervals
        intervals = self._ahead(fh, X, level=100 * np.maximum(np.abs(2 * shares - 1), 1e-9))
        ends = intervals[..., 1 + 2 * np.arange(len(shares)) + (shares >= 0.5)]
        columns = self._get_columns(method="predict_quantiles", alpha=alpha)
        return self._frame(fh, ends.reshape(len(ends), -1), columns)

    def _ahead(self, fh: Any, X: Any, level: Any = None) -> np.ndarray:
        """The forecast at the steps of fh, `(steps, variables)`, optionally with the ends of
        intervals."""
        steps = np.asarray(fh.to_relative(self.cutoff).to_pandas(), int)
        whole = ForecastingHorizon(np.arange(1, steps.max() + 1))
        future = None if X is None else X.loc[whole.to_absolute_index(self.cutoff)].to_numpy(float)
        options = {"data": self._data(), "future": future, "level": level}
        return self.estimator_.predict(int(steps.max()), **options)[steps - 1]

    def _frame(self, fh: Any, values: np.ndarray, columns: Any) -> pd.DataFrame:
        return pd.DataFrame(values, index=fh.to_absolute_index(self.cutoff), columns=columns)

    def _data(self) -> np.ndarray:
        """The forecast variables and those known in advance, `(time, variables)`."""
        parts = [self._cur_y] if self._cur_X is None else [self._cur_y, self._cur_X]
        return np.hstack([part.to_numpy(float) for part in parts])

    @classmethod
    def small(cls) -> dict[str, Any]:
        """Small settings, for checks."""
        sizes = {"hidden_size": 8, "state_size": 8, "num_blocks": 1, "horizon": 5, "past": 8}
        return {**sizes, "steps": 2, "batch_size": 4}

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> Any:
        """Settings for sktime's checks, which need two."""
        return [cls.small(), {**cls.small(), "random_state": 1}]
