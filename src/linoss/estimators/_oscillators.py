"""Classifier and regressor of untrained oscillators: a random bank, and a ridge readout."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from linoss._declare import documented, setting
from linoss.estimators._estimator import SequenceEstimator
from linoss.fitted import OscillatorSettings, fit_oscillators

Kind = TypeVar("Kind", bound="OscillatorClassifier | OscillatorRegressor")


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class OscillatorClassifier(SequenceEstimator, ClassifierMixin, OscillatorSettings, BaseEstimator):
    """A scikit-learn classifier of sequences with untrained oscillators, fitted in seconds.

    A ridge classifier on standardised [`linoss.OscillatorFeatures`][], with the penalty selected by
    leave-one-out cross-validation. The leave-one-out predictions also give the accuracy
    `held_out_score_` and calibrate the probabilities.

    ```python
    >>> import numpy as np
    >>> from linoss import OscillatorClassifier
    >>> labels = np.arange(60) % 2
    >>> waves = np.sin(np.outer(1 + labels, np.arange(50)) / 5)
    >>> waves += 0.3 * np.random.default_rng(0).normal(size=waves.shape)
    >>> classifier = OscillatorClassifier(n_oscillators=256, random_state=0)
    >>> classifier.fit(waves[:40], labels[:40]).score(waves[40:], labels[40:])
    1.0
    >>> classifier.held_out_score_
    1.0

    ```
    """

    task = "classification"
    class_weight: Literal["balanced"] | Mapping[Any, Any] | None = setting(
        None,
        "Weights of the classes in the loss; balanced gives all classes the same total weight.",
        other="a dict from class to weight",
    )

    def fit(
        self: Kind, X: Any, y: Any = None, *, times: Any = None, sample_weight: Any = None
    ) -> Kind:
        """Fit to labelled sequences.

        **Arguments:**

        - `X`: `(cases, channels, time)`, `(cases, time)`, a list of `(channels, length)` arrays of
          unequal length, or [`linoss.data.Sequences`][]. NaN marks a missing value.
        - `y`: a class for each case, or, for a regressor, `(cases,)` or `(cases, n)` numbers; None
          for the labels of [`linoss.data.Sequences`][].
        - `times`: sampling times, for irregular sampling: `(time,)`, `(cases, time)` or a list of
          `(length,)` arrays.
        - `sample_weight`: a weight for each case; cases of weight 0 are ignored.
        """
        cases, outputs = self._validated(X, y, times, sample_weight)
        run = self._begin(outputs)
        fitted = fit_oscillators(
            cases,
            outputs,
            n_oscillators=self.n_oscillators,
            causal=self.causal,
            seed=run.seed,
            class_weight=getattr(self, "class_weight", None),
        )
        return self._end(fitted, run)

    def decision_function(self, X: Any, *, times: Any = None) -> np.ndarray:
        """Decision values, about 1 for a class and -1 for the others.

        `(cases, classes)`, or `(cases,)` for two classes, positive for the second.
        """
        cases = self._cases(X, times)
        cases = self.fitted_.aligned(cases)
        assert self.fitted_.oscillators is not None
        decisions = self.fitted_.oscillators.decide(cases)
        return decisions[:, 0] if decisions.shape[1] == 1 else decisions


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class OscillatorRegressor(SequenceEstimator, RegressorMixin, OscillatorSettings, BaseEstimator):
    """A scikit-learn regressor of sequences with untrained oscillators, fitted in seconds.

    A ridge regression on standardised [`linoss.OscillatorFeatures`][], with the penalty selected by
    leave-one-out cross-validation. `held_out_score_` is the leave-one-out R².

    ```python
    >>> import numpy as np
    >>> from linoss import OscillatorRegressor
    >>> speed = np.random.default_rng(0).uniform(0.5, 1.5, 60)
    >>> waves = np.sin(np.outer(speed, np.arange(50)) / 3)
    >>> regressor = OscillatorRegressor(n_oscillators=256, random_state=0)
    >>> bool(regressor.fit(waves[:40], speed[:40]).score(waves[40:], speed[40:]) > 0.9)
    True

    ```
    """

    task = "regression"

    fit = OscillatorClassifier.fit
