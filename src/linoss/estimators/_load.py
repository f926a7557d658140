"""Reading an estimator of any kind from a directory."""

import os

import jax

from linoss.estimators._classifier import LinOSSClassifier
from linoss.estimators._forecaster import LinOSSForecaster
from linoss.estimators._regressor import LinOSSRegressor
from linoss.training import load_model

_ESTIMATORS = {
    kind.__name__: kind for kind in (LinOSSClassifier, LinOSSRegressor, LinOSSForecaster)
}


def load(
    directory: str | os.PathLike[str],
) -> LinOSSClassifier | LinOSSRegressor | LinOSSForecaster:
    """Read the estimator that was saved in a directory, or trained there.

    ```python
    >>> import numpy as np, tempfile
    >>> from linoss import LinOSSRegressor
    >>> from linoss.estimators import load
    >>> folder = tempfile.mkdtemp()
    >>> regressor = LinOSSRegressor(steps=5, hidden_size=8, state_size=8, random_state=0)
    >>> regressor.fit(np.random.default_rng(0).normal(size=(20, 30)), np.arange(20.0)).save(folder)
    >>> load(folder).steps
    5

    ```
    """
    with jax.enable_x64(False):
        saved = load_model(directory)
    kind = saved.extra.get("estimator")
    if not isinstance(kind, str) or kind not in _ESTIMATORS:
        raise ValueError(f"{os.fspath(directory)} holds a model, but no estimator")
    return _ESTIMATORS[kind].of(saved, directory)
