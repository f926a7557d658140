"""Classifiers of sktime, each of which wraps the estimator of the same name.

sktime's base class validates and converts its arguments; the wrapped estimator does the rest.
Parameters follow from the same settings. Sampling times are not used.
"""

from typing import Any, ClassVar

from sktime.classification.base import BaseClassifier

from linoss import estimators
from linoss._adapters import Adapter, adapter


class SktimeClassifier(Adapter):
    """Attributes that sktime requires."""

    _tags: ClassVar[dict[str, Any]] = {
        "authors": "The linoss developers",
        "maintainers": "The linoss developers",
        "X_inner_mtype": "df-list",
        "capability:multivariate": True,
        "capability:unequal_length": True,
        "capability:missing_values": True,
        "capability:categorical_in_X": False,
        "capability:predict_proba": True,
        "capability:random_state": True,
    }

    def _fit(self, X: Any, y: Any = None) -> Any:
        return super()._fit(_arrays(X), y)

    def _predict(self, X: Any) -> Any:
        return super()._predict(_arrays(X))

    def _predict_proba(self, X: Any) -> Any:
        return super()._predict_proba(_arrays(X))

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> Any:
        """Settings for sktime's checks, which need two."""
        return [cls.small(), {**cls.small(), "random_state": 1}]


def _arrays(frames: Any) -> list[Any]:
    """Convert frames `(time, channels)` to arrays `(channels, time)`."""
    return [frame.to_numpy(float).T for frame in frames]


@adapter
class LinOSSClassifier(SktimeClassifier, BaseClassifier):
    """[`linoss.LinOSSClassifier`][] as a classifier of sktime; `estimator_` is the wrapped one.

    ```python
    >>> from sktime.datasets import load_unit_test
    >>> from linoss.sktime import LinOSSClassifier
    >>> small = {"hidden_size": 16, "state_size": 16, "n_models": 1}
    >>> classifier = LinOSSClassifier(steps=100, **small, random_state=0)
    >>> classifier.fit(*load_unit_test("train")).score(*load_unit_test("test")) > 0.7
    True

    ```
    """

    wrapped = estimators.LinOSSClassifier


@adapter
class OscillatorClassifier(SktimeClassifier, BaseClassifier):
    """[`linoss.OscillatorClassifier`][] as a classifier of sktime; `estimator_` is the wrapped one.

    ```python
    >>> from sktime.datasets import load_unit_test
    >>> from linoss.sktime import OscillatorClassifier
    >>> classifier = OscillatorClassifier(n_oscillators=512, random_state=0)
    >>> classifier.fit(*load_unit_test("train")).score(*load_unit_test("test")) > 0.8
    True

    ```
    """

    wrapped = estimators.OscillatorClassifier
