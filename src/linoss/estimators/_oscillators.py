"""Classifier and regressor of untrained oscillators: a random bank, and a ridge readout."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from linoss._declare import documented, setting
from linoss.estimators._estimator import SequenceEstimator
from linoss.fitted import Learner, OscillatorSettings, fit_oscillators

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
    _learner: ClassVar[Learner | None] = None
    class_weight: Literal["balanced"] | Mapping[Any, Any] | None = setting(
        None,
        "Weights of the classes in the loss; balanced gives all classes the same total weight.",
        other="a dict from class to weight",
    )

    def fit(
        self: Kind,
        X: Any,
        y: Any = None,
        *,
        times: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
    ) -> Kind:
        """Fit to labelled sequences.

        **Arguments:**

        - `X`: `(cases, channels, time)`, `(cases, time)`, a list of `(channels, length)` arrays of
          unequal length, [`linoss.data.Sequences`][], or a long pandas frame, with a row for each
          sample and columns as in [`linoss.data.read`][]. NaN marks a missing value.
        - `y`: a class for each case, or, for a regressor, `(cases,)` or `(cases, n)` numbers; None
          for the labels of X.
        - `times`: sampling times, for irregular sampling: `(time,)`, `(cases, time)` or a list of
          `(length,)` arrays.
        - `sample_weight`: a weight for each case; cases of weight 0 are ignored.
        - `groups`: the group of each case, such as its subject: cases of a group are held out
          together. By default those of [`linoss.data.Sequences`][].
        """
        cases, outputs = self._validated(X, y, times, sample_weight, groups)
        run = self._begin(outputs)
        vars(self).pop("_learner", None)
        weight = getattr(self, "class_weight", None)
        fitted = fit_oscillators(cases, outputs, class_weight=weight, **self._bank(run.seed))
        return self._end(fitted, run)

    def _bank(self, seed: int) -> dict[str, Any]:
        return {"n_oscillators": self.n_oscillators, "causal": self.causal, "seed": seed}

    def partial_fit(
        self: Kind,
        X: Any,
        y: Any = None,
        classes: Any = None,
        *,
        times: Any = None,
        ids: Any = None,
        solve: bool = True,
    ) -> Kind:
        """Learn further cases. The readout and `held_out_score_` are those of a fit to all cases.

        The first call draws the bank, whose thresholds, scaling and windows do not change later, so
        that its cases should be like those to come, with two classes at least. Later ones may bring
        new classes. `n_oscillators="auto"` is 1024. Memory does not grow with the number of cases:
        samples are kept up to 256 MB; of more cases than features, sums over cases do the rest.

        **Arguments:**

        - `X`, `y`, `times`: as in `fit`.
        - `classes`: not needed, since new ones may come in any call.
        - `ids`: a name for each case, for `forget`; by default 0, 1, 2, ... in the order of calls.
        - `solve`: False to leave predictions as they are until a later call, which is faster.

        ```python
        >>> import numpy as np
        >>> from linoss import OscillatorClassifier
        >>> labels = np.arange(60) % 2
        >>> waves = np.sin(np.outer(1 + labels, np.arange(50)) / 5)
        >>> waves += 0.3 * np.random.default_rng(0).normal(size=waves.shape)
        >>> classifier = OscillatorClassifier(n_oscillators=64, random_state=0)
        >>> for batch in np.split(np.arange(60), 3):
        ...     classifier = classifier.partial_fit(waves[batch], labels[batch])
        >>> classifier.forget([3, 4]).predict(waves[:2])
        array([0, 1])

        ```
        """
        learner = self._learner
        if learner is None and hasattr(self, "fitted_"):
            warnings.warn(
                "fit or load keep no cases, so that partial_fit begins anew", stacklevel=2
            )
        if getattr(self, "class_weight", None) is not None:
            raise ValueError(f"class_weight is {self.class_weight!r}, expected None in partial_fit")  # pyright: ignore[reportAttributeAccessIssue]
        learned = None if learner is None else learner.fitted
        cases, outputs = self._validated(X, y, times, None, learned=learned)
        run = self._begin(outputs) if learner is None else self._description
        learner = learner or Learner(self._bank(run.seed))
        learner.add(cases, outputs, ids, solve=solve)
        self._learner = learner  # pyright: ignore[reportAttributeAccessIssue]
        return self._end(learner.fitted, run)

    def forget(self: Kind, ids: Any, *, redraw: bool = False) -> Kind:
        """Take cases of `partial_fit` away: the readout is that of a fit without them.

        What the first call drew from its cases, thresholds, scaling of channels and choice of
        windows, stays, unless `redraw`: then the bank is drawn anew from the remaining cases.
        """
        if self._learner is None:
            raise ValueError("nothing was learned by partial_fit, expected a call before forget")
        self._learner.forget(ids, redraw=redraw)
        return self._end(self._learner.fitted, self._description)

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
    _learner: ClassVar[Learner | None] = None

    fit = OscillatorClassifier.fit
    _bank = OscillatorClassifier._bank
    partial_fit = OscillatorClassifier.partial_fit
    forget = OscillatorClassifier.forget
