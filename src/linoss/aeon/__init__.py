"""Estimators of aeon, each of which wraps the estimator of the same name; needs the extra `data`.

aeon's base classes validate and convert their arguments; the wrapped estimator does the rest.
Parameters follow from the same settings. aeon has no sampling times.
"""

from typing import Any, ClassVar

from linoss import estimators, features
from linoss._adapters import PredictingAdapter
from linoss._extras import optional

optional("aeon", "linoss.aeon", "data")

from aeon.classification import BaseClassifier  # noqa: E402
from aeon.regression import BaseRegressor  # noqa: E402
from aeon.transformations.collection import BaseCollectionTransformer  # noqa: E402

__all__ = [
    "LinOSSClassifier",
    "LinOSSRegressor",
    "OscillatorClassifier",
    "OscillatorFeatures",
    "OscillatorRegressor",
]


class AeonAdapter(PredictingAdapter):
    """Attributes that aeon requires."""

    _tags: ClassVar[dict[str, Any]] = {
        "X_inner_type": ["np-list", "numpy3D"],
        "capability:multivariate": True,
        "capability:unequal_length": True,
        "capability:missing_values": True,
    }

    @classmethod
    def _get_test_params(cls, parameter_set: str = "default") -> dict[str, Any]:
        return cls.small()


class LinOSSClassifier(AeonAdapter, BaseClassifier, wrapped=estimators.LinOSSClassifier):
    """[`linoss.LinOSSClassifier`][] as a classifier of aeon; `estimator_` is the wrapped one.

    ```python
    >>> from aeon.datasets import load_unit_test
    >>> from linoss.aeon import LinOSSClassifier
    >>> classifier = LinOSSClassifier(steps=100, hidden_size=16, n_models=1, random_state=0)
    >>> classifier.fit(*load_unit_test("train")).score(*load_unit_test("test")) > 0.7
    True

    ```
    """


class LinOSSRegressor(AeonAdapter, BaseRegressor, wrapped=estimators.LinOSSRegressor):
    """[`linoss.LinOSSRegressor`][] as a regressor of aeon; `estimator_` is the wrapped one.

    ```python
    >>> import numpy as np
    >>> from linoss.aeon import LinOSSRegressor
    >>> speed = np.random.default_rng(0).uniform(0.5, 1.5, 60)
    >>> waves = np.sin(np.outer(speed, np.arange(50)) / 3)
    >>> regressor = LinOSSRegressor(steps=100, hidden_size=16, n_models=1, random_state=0)
    >>> bool(regressor.fit(waves[:40], speed[:40]).score(waves[40:], speed[40:]) > 0.9)
    True

    ```
    """


class OscillatorClassifier(AeonAdapter, BaseClassifier, wrapped=estimators.OscillatorClassifier):
    """[`linoss.OscillatorClassifier`][] as a classifier of aeon; `estimator_` is the wrapped one.

    ```python
    >>> from aeon.datasets import load_unit_test
    >>> from linoss.aeon import OscillatorClassifier
    >>> classifier = OscillatorClassifier(n_oscillators=512, random_state=0)
    >>> classifier.fit(*load_unit_test("train")).score(*load_unit_test("test")) > 0.8
    True

    ```
    """


class OscillatorRegressor(AeonAdapter, BaseRegressor, wrapped=estimators.OscillatorRegressor):
    """[`linoss.OscillatorRegressor`][] as a regressor of aeon; `estimator_` is the wrapped one.

    ```python
    >>> import numpy as np
    >>> from linoss.aeon import OscillatorRegressor
    >>> speed = np.random.default_rng(0).uniform(0.5, 1.5, 60)
    >>> waves = np.sin(np.outer(speed, np.arange(50)) / 3)
    >>> regressor = OscillatorRegressor(n_oscillators=512, random_state=0)
    >>> bool(regressor.fit(waves[:40], speed[:40]).score(waves[40:], speed[40:]) > 0.9)
    True

    ```
    """


class OscillatorFeatures(
    AeonAdapter, BaseCollectionTransformer, wrapped=features.OscillatorFeatures
):
    """[`linoss.OscillatorFeatures`][] as a transformer of aeon, from collections to a table.

    ```python
    >>> from aeon.datasets import load_unit_test
    >>> from linoss.aeon import OscillatorFeatures
    >>> X, y = load_unit_test("train")
    >>> OscillatorFeatures(n_oscillators=64, random_state=0).fit_transform(X).shape
    (20, 256)

    ```
    """

    _tags: ClassVar = {"output_data_type": "Tabular"}

    def _transform(self, X: Any, y: Any = None) -> Any:
        return self.estimator_.transform(X)
