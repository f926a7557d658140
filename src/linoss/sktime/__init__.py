"""Estimators of sktime, each of which wraps that of the same name; needs the extra `sktime`.

sktime's base classes validate and convert their arguments and handle the index; the wrapped
estimator gets only numbers. Parameters follow from the same settings. Sampling times are not used.
"""

from typing import Any, ClassVar

import numpy as np
import pandas as pd

from linoss import estimators, forecasting
from linoss._adapters import Adapter, PredictingAdapter
from linoss._extras import optional

optional("sktime", "linoss.sktime", "sktime")

from sktime.classification.base import BaseClassifier  # noqa: E402
from sktime.datatypes import update_data  # noqa: E402
from sktime.forecasting.base import BaseForecaster, ForecastingHorizon  # noqa: E402

__all__ = ["LinOSSClassifier", "LinOSSForecaster", "OscillatorClassifier"]


class SktimeAdapter(Adapter):
    """Attributes that sktime requires."""

    _tags: ClassVar[dict[str, Any]] = {
        "authors": "The linoss developers",
        "maintainers": "The linoss developers",
        "capability:multivariate": True,
        "capability:missing_values": True,
        "capability:categorical_in_X": False,
        "capability:random_state": True,
    }

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> Any:
        """Settings for sktime's checks, which need two."""
        return [cls.small(), {**cls.small(), "random_state": 1}]


class SktimeClassifier(SktimeAdapter, PredictingAdapter):
    """A classifier of frames `(time, channels)`."""

    _tags: ClassVar[dict[str, Any]] = {
        "X_inner_mtype": "df-list",
        "capability:unequal_length": True,
        "capability:predict_proba": True,
    }

    def _arrays(self, X: Any) -> list[Any]:
        return [frame.to_numpy(float).T for frame in X]


class LinOSSClassifier(SktimeClassifier, BaseClassifier, wrapped=estimators.LinOSSClassifier):
    """[`linoss.LinOSSClassifier`][] as a classifier of sktime, in `estimator_`.

    ```python
    >>> from sktime.datasets import load_unit_test
    >>> from linoss.sktime import LinOSSClassifier
    >>> classifier = LinOSSClassifier(steps=100, hidden_size=16, n_models=1, random_state=0)
    >>> classifier.fit(*load_unit_test("train")).score(*load_unit_test("test")) > 0.7
    True

    ```
    """


class OscillatorClassifier(
    SktimeClassifier, BaseClassifier, wrapped=estimators.OscillatorClassifier
):
    """[`linoss.OscillatorClassifier`][] as a classifier of sktime, in `estimator_`.

    ```python
    >>> from sktime.datasets import load_unit_test
    >>> from linoss.sktime import OscillatorClassifier
    >>> classifier = OscillatorClassifier(n_oscillators=512, random_state=0)
    >>> classifier.fit(*load_unit_test("train")).score(*load_unit_test("test")) > 0.8
    True

    ```
    """


class LinOSSForecaster(SktimeAdapter, BaseForecaster, wrapped=forecasting.LinOSSForecaster):
    """[`linoss.LinOSSForecaster`][] as a forecaster of sktime, in `estimator_`.

    The variables of X are known in advance, and `known_in_advance` is not used. A forecast of more
    than `horizon` steps uses its own forecasts as inputs. `update` trains again on all data; with
    `update_params=False`, the weights do not change.

    ```python
    >>> from sktime.datasets import load_airline
    >>> from linoss.sktime import LinOSSForecaster
    >>> forecaster = LinOSSForecaster(horizon=6, steps=20, hidden_size=16, state_size=16)
    >>> forecaster.fit(load_airline()).predict(fh=[1, 2, 6]).index.astype(str).tolist()
    ['1961-01', '1961-02', '1961-06']

    ```
    """

    _tags: ClassVar[dict[str, Any]] = {
        "y_inner_mtype": "pd.DataFrame",
        "X_inner_mtype": "pd.DataFrame",
        "requires-fh-in-fit": False,
        "capability:update": True,
        "capability:insample": False,
        "capability:pred_int": True,
        "capability:pred_int:insample": False,
        "capability:non_contiguous_X": False,
    }

    _config: ClassVar = {"remember_data": False}  # the required data are stored below
    _y = _X = None
    _cur_y: Any
    _cur_X: Any

    def _fit(self, y: Any, X: Any = None, fh: Any = None) -> Any:
        self._cur_y, self._cur_X = y, X
        data = self._data()
        known = tuple(range(y.shape[1], data.shape[1]))
        settings = {**self.get_params(deep=False), "known_in_advance": known}
        self.estimator_ = self.wrapped(**settings).fit(data)
        return self

    def _update(self, y: Any, X: Any = None, update_params: bool = True) -> Any:
        self._cur_y, self._cur_X = update_data(self._cur_y, y), update_data(self._cur_X, X)
        return self._fit(self._cur_y, self._cur_X) if update_params else self

    def _predict(self, fh: Any, X: Any = None) -> pd.DataFrame:
        index = fh.to_absolute_index(self.cutoff)
        return pd.DataFrame(self._ahead(fh, X), index, self._get_columns())

    def _predict_quantiles(self, fh: Any, X: Any, alpha: Any) -> pd.DataFrame:  # pyright: ignore[reportIncompatibleMethodOverride]
        shares = np.array(alpha)  # quantile levels: ends of central intervals
        intervals = self._ahead(fh, X, level=100 * np.maximum(np.abs(2 * shares - 1), 1e-9))
        ends = intervals[..., 1 + 2 * np.arange(len(shares)) + (shares >= 0.5)]
        columns = self._get_columns(method="predict_quantiles", alpha=alpha)
        return pd.DataFrame(ends.reshape(len(ends), -1), fh.to_absolute_index(self.cutoff), columns)

    def _ahead(self, fh: Any, X: Any, level: Any = None) -> np.ndarray:
        """The forecast at the steps of fh, `(steps, variables)`, optionally with the ends of
        intervals."""
        steps = np.asarray(fh.to_relative(self.cutoff).to_pandas(), int)
        whole = ForecastingHorizon(np.arange(1, steps.max() + 1))
        future = None if X is None else X.loc[whole.to_absolute_index(self.cutoff)].to_numpy(float)
        options = {"data": self._data(), "future": future, "level": level}
        return self.estimator_.predict(int(steps.max()), **options)[steps - 1]

    def _data(self) -> np.ndarray:
        """The forecast variables and those known in advance, `(time, variables)`."""
        parts = (part for part in (self._cur_y, self._cur_X) if part is not None)
        return np.hstack([part.to_numpy(float) for part in parts])
