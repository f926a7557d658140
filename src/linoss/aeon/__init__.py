"""Estimators of aeon, each of which wraps the estimator of the same name; needs the extra `data`.

aeon's base classes validate and convert their arguments; the wrapped estimator does the rest.
Parameters follow from the same settings. aeon has no sampling times.

```python
>>> import numpy as np
>>> from aeon.datasets import load_unit_test
>>> from linoss.aeon import LinOSSClassifier, OscillatorFeatures, OscillatorRegressor
>>> train, test = load_unit_test("train"), load_unit_test("test")
>>> classifier = LinOSSClassifier(steps=100, hidden_size=16, n_models=1, random_state=0)
>>> classifier.fit(*train).score(*test) > 0.7
True
>>> OscillatorFeatures(n_oscillators=64, random_state=0).fit_transform(train[0]).shape
(20, 256)
>>> speed = np.random.default_rng(0).uniform(0.5, 1.5, 60)
>>> waves = np.sin(np.outer(speed, np.arange(50)) / 3)
>>> regressor = OscillatorRegressor(n_oscillators=512, random_state=0).fit(waves[:40], speed[:40])
>>> bool(regressor.score(waves[40:], speed[40:]) > 0.9)
True

```
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
    """[`linoss.LinOSSClassifier`][] as a classifier of aeon, in `estimator_`."""


class LinOSSRegressor(AeonAdapter, BaseRegressor, wrapped=estimators.LinOSSRegressor):
    """[`linoss.LinOSSRegressor`][] as a regressor of aeon, in `estimator_`."""


class OscillatorClassifier(AeonAdapter, BaseClassifier, wrapped=estimators.OscillatorClassifier):
    """[`linoss.OscillatorClassifier`][] as a classifier of aeon, in `estimator_`."""


class OscillatorRegressor(AeonAdapter, BaseRegressor, wrapped=estimators.OscillatorRegressor):
    """[`linoss.OscillatorRegressor`][] as a regressor of aeon, in `estimator_`."""


class OscillatorFeatures(
    AeonAdapter, BaseCollectionTransformer, wrapped=features.OscillatorFeatures
):
    """[`linoss.OscillatorFeatures`][] as a transformer of aeon, from collections to a table."""

    _tags: ClassVar = {"output_data_type": "Tabular"}

    def _transform(self, X: Any, y: Any = None) -> Any:
        return self.estimator_.transform(X)
