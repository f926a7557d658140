"""Loading an estimator of any kind from a directory."""

import os
from typing import Any, get_args

from linoss.estimators._auto import AutoClassifier, AutoRegressor
from linoss.estimators._classifier import LinOSSClassifier
from linoss.estimators._forecaster import LinOSSForecaster
from linoss.estimators._oscillators import OscillatorClassifier, OscillatorRegressor
from linoss.estimators._regressor import LinOSSRegressor
from linoss.training import read_extra

Estimator = (
    LinOSSClassifier
    | LinOSSRegressor
    | LinOSSForecaster
    | OscillatorClassifier
    | OscillatorRegressor
    | AutoClassifier
    | AutoRegressor
)
_ESTIMATORS: dict[str, Any] = {kind.__name__: kind for kind in get_args(Estimator)}


def load(directory: str | os.PathLike[str]) -> Estimator:
    """Load an estimator that was saved to a directory, or trained there.

    ```python
    >>> import numpy as np, tempfile
    >>> from linoss import OscillatorRegressor
    >>> from linoss.estimators import load
    >>> folder = tempfile.mkdtemp()
    >>> regressor = OscillatorRegressor(n_oscillators=64, random_state=0)
    >>> regressor.fit(np.random.default_rng(0).normal(size=(20, 30)), np.arange(20.0)).save(folder)
    >>> load(folder).n_oscillators
    64

    ```
    """
    kind = read_extra(directory).get("estimator")
    if not isinstance(kind, str) or kind not in _ESTIMATORS:
        raise ValueError(f"{os.fspath(directory)} holds a model, but no estimator")
    return _ESTIMATORS[kind].load(directory)
