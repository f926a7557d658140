"""Classifier and regressor with untrained oscillators: features, and a ridge readout."""

import os
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import _check_sample_weight as check_sample_weight
from sklearn.utils.validation import check_is_fitted

from linoss import _checks
from linoss._declare import check_settings, documented
from linoss._settings import ModelName, OscillatorClassifierSettings, OscillatorSettings
from linoss.data import Sequences, as_sequences
from linoss.estimators._described import describe, described, saved_into, understanding
from linoss.estimators._evidence import Evidence, find_evidence
from linoss.estimators._listener import FunctionListener
from linoss.estimators._ridge import Ridge, fit_ridge
from linoss.estimators._stack import fit_pool, pool
from linoss.estimators._truth import class_labels, classes_of, labelled_cases
from linoss.features import STATISTICS, OscillatorFeatures
from linoss.training import Scaling, load_arrays, save_arrays

Kind = TypeVar("Kind", bound="OscillatorEstimator")

_RIDGE = ("mean", "scale", "coefficients", "intercept")
_IMPORTANCE = {"lateness": 0.5}  # the beginning of many recordings is arbitrary
_AT_ONCE = 512  # cases whose features are converted to double precision at a time


def checked_weights(X: Any, sample_weight: Any) -> np.ndarray:
    """A weight for each case, at least one of them above 0."""
    weights = check_sample_weight(sample_weight, X, dtype=np.float64)
    if not ((weights >= 0).all() and (weights < 1e150).all() and weights.any()):
        raise ValueError(
            "sample_weight has entries that are not finite, >= 0 and < 1e150, or all are 0"
        )
    return weights


class OscillatorEstimator(OscillatorSettings, BaseEstimator):
    """Base class of both: features and a ridge readout."""

    features_: OscillatorFeatures
    ridge_: Ridge
    left_out_: tuple[np.ndarray, np.ndarray]
    """After `fit`: cases, a subset if there are very many, and their leave-one-out predictions."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = True
        return tags

    def _weighted(
        self, X: Any, cases: Sequences, y: np.ndarray, sample_weight: Any
    ) -> tuple[Sequences, np.ndarray, np.ndarray | None]:
        """Cases, labels and weights, without cases of weight 0."""
        if sample_weight is not None:
            weights = checked_weights(X, sample_weight)
            used = weights > 0
            cases, y, sample_weight = cases.select(used), y[used], weights[used]
        if len(cases) < 2:
            raise ValueError(f"X has {len(cases)} sample, expected at least 2 cases")
        return cases, y, sample_weight

    def _fit_readout(
        self, cases: Sequences, answers: np.ndarray, weights: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Fit, and return cases with their leave-one-out predictions."""
        settings = {name: getattr(self, name) for name in OscillatorFeatures().get_params()}
        self.features_ = OscillatorFeatures(**settings).fit(cases)
        features = self.features_.transform(cases)
        importance = np.array([_IMPORTANCE.get(name, 1.0) for name in STATISTICS])
        importance = importance.repeat(features.shape[1] // len(STATISTICS))
        self.ridge_, left_out = fit_ridge(features, answers, weights, importance)
        return left_out.cases, left_out.answers

    def _decide(self, X: Any, times: Any) -> np.ndarray:
        """The decision values, `(cases, outputs)`."""
        check_is_fitted(self)
        cases, _ = as_sequences(self, X, None, times, reset=False)
        parts = []
        for start in range(0, len(cases), _AT_ONCE):
            some = cases.select(np.arange(start, min(start + _AT_ONCE, len(cases))))
            parts.append(self.ridge_(self.features_.transform(some)))
        return np.concatenate(parts)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "ridge_")

    def _answer(self, decision: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def stream(self) -> FunctionListener:
        """Return a function that processes one sample at a time, in constant memory.

        It returns the prediction for the sequence so far: probabilities, or numbers. Requires
        `causal=True`.

        ```python
        >>> import numpy as np
        >>> from linoss import OscillatorClassifier
        >>> waves = np.random.default_rng(0).normal(size=(20, 1, 50))
        >>> settings = {"n_oscillators": 64, "causal": True, "random_state": 0}
        >>> classifier = OscillatorClassifier(**settings).fit(waves, np.arange(20) % 2)
        >>> listen = classifier.stream()
        >>> for sample in waves[0].T:
        ...     probabilities = listen(sample)
        >>> bool(np.allclose(probabilities, classifier.predict_proba(waves[:1]), atol=1e-5))
        True

        ```
        """
        check_is_fitted(self)
        features = self.features_.stream()

        def listen(sample: Any, time: float | None = None) -> np.ndarray:
            return np.atleast_1d(self._answer(self.ridge_(features(sample, time)))[0])

        return FunctionListener(listen)

    def explain(self, X: Any, *, times: Any = None, periods: int = 24, parts: int = 48) -> Evidence:
        """Return the evidence for each output in the only case of X, by period and time.

        **Arguments:**

        - `X`, `times`: as in `predict`, with one case.
        - `periods`: number of bins of periods.
        - `parts`: number of parts of the sequence.

        ```python
        >>> import numpy as np
        >>> from linoss import OscillatorClassifier
        >>> waves = np.random.default_rng(0).normal(size=(20, 1, 100))
        >>> waves[::2, :, 50:] += np.sin(np.arange(50))  # of period 6.28, in the second half
        >>> labels = np.where(np.arange(20) % 2, "noise", "wave")
        >>> classifier = OscillatorClassifier(n_oscillators=512, random_state=0).fit(waves, labels)
        >>> found = classifier.explain(waves[:1])
        >>> said = found.evidence.sum(axis=(1, 2)) + found.intercept
        >>> bool(np.allclose(said, classifier.decision_function(waves[:1]), atol=1e-3))
        True

        ```
        """
        check_is_fitted(self)
        _checks.positive_integer("periods", periods)
        _checks.positive_integer("parts", parts)
        features = self.features_
        unit = 1.0 if features.interval_ is None else features.interval_
        response = features.response(X, times=times)
        return find_evidence(response, self.ridge_, unit, periods=periods, times=parts)

    # ---- The interface of all estimators for commands ----

    task: str
    """The task."""
    metric: str
    """The name of the metric of `left_out_score_`."""

    @property
    def n_outputs_(self) -> int:
        """Number of classes, or of targets."""
        return len(self.ridge_.intercept)

    @property
    def n_channels_(self) -> int:
        """Number of channels of the data."""
        return len(self.features_.bank_.mean)

    @property
    def timed_(self) -> bool:
        """Whether each sample needs a time."""
        return not self.features_.even_

    @property
    def can_stream_(self) -> bool:
        """Whether it supports streaming."""
        return bool(self.causal)

    @property
    def own_scores_(self) -> dict[str, float]:
        """Scores without a test part, by name."""
        return {f"left-out {self.metric}": self.left_out_score_}

    @property
    def members_(self) -> dict[ModelName, Any]:
        """The fitted estimators of the ensemble, by model."""
        return {"oscillators": self}

    # ---- Files ----

    def _fitted(self) -> dict[str, Any]:
        """Return fitted attributes other than bank and readout, as JSON values."""
        return {
            "left_out_score": self.left_out_score_,
            "n_features_in": getattr(self, "n_features_in_", None),
            "features": self.features_.fitted()[1],
            "penalty": self.ridge_.penalty,
        }

    def _restore(self, fitted: dict[str, Any]) -> None:
        """Set the attributes that `_fitted` returned."""
        self.left_out_score_ = float(fitted["left_out_score"])
        if fitted["n_features_in"] is not None:
            self.n_features_in_ = int(fitted["n_features_in"])

    def save(self, directory: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the fitted estimator to a directory, as JSON and safetensors.

        Raises if it holds an estimator or a run; with `overwrite` it is replaced atomically.
        """
        check_is_fitted(self)
        bank = {f"bank.{name}": array for name, array in self.features_.fitted()[0].items()}
        readout = {f"ridge.{name}": getattr(self.ridge_, name) for name in _RIDGE}
        with saved_into(directory, overwrite) as folder:
            save_arrays(folder, describe(self, self._fitted()), {**bank, **readout})

    @classmethod
    def load(cls: type[Kind], directory: str | os.PathLike[str]) -> Kind:
        """Load an estimator of `save`."""
        extra, arrays = load_arrays(directory)
        estimator = described(cls, extra, directory)
        with understanding(directory):
            fitted = extra["fitted"]
            bank = _below("bank.", arrays)
            estimator.features_ = OscillatorFeatures.restored(estimator, bank, fitted["features"])
            readout = _below("ridge.", arrays)
            size = len(STATISTICS) * estimator.features_.bank_.size
            _checks.shape("ridge.coefficients", readout["coefficients"], (size, "answers"))
            estimator.ridge_ = Ridge(**readout, penalty=float(fitted["penalty"]))
            estimator._restore(fitted)
        return estimator


@documented
class OscillatorClassifier(ClassifierMixin, OscillatorClassifierSettings, OscillatorEstimator):
    """A scikit-learn classifier of sequences with untrained oscillators, fitted in seconds.

    A ridge classifier on standardised [`linoss.OscillatorFeatures`][], with the penalty selected by
    leave-one-out cross-validation. The leave-one-out predictions also give the accuracy
    `left_out_score_` and calibrate the probabilities.

    ```python
    >>> import numpy as np
    >>> from linoss import OscillatorClassifier
    >>> labels = np.arange(60) % 2
    >>> waves = np.sin(np.outer(1 + labels, np.arange(50)) / 5)
    >>> waves += 0.3 * np.random.default_rng(0).normal(size=waves.shape)
    >>> classifier = OscillatorClassifier(n_oscillators=256, random_state=0)
    >>> classifier.fit(waves[:40], labels[:40]).score(waves[40:], labels[40:])
    1.0
    >>> classifier.left_out_score_
    1.0

    ```
    """

    task, metric = "classification", "accuracy"

    @property
    def n_outputs_(self) -> int:
        """Number of classes."""
        return len(self.classes_)

    def fit(
        self, X: Any, y: Any = None, *, times: Any = None, sample_weight: Any = None
    ) -> "OscillatorClassifier":
        """Fit to labelled sequences.

        **Arguments:**

        - `X`: `(cases, channels, time)`, `(cases, time)`, a list of `(channels, length)` arrays of
          unequal length, or [`linoss.data.Sequences`][]. NaN marks a missing value.
        - `y`: a label for each case; None for the labels of [`linoss.data.Sequences`][].
        - `times`: sampling times, for irregular sampling: `(time,)`, `(cases, time)` or a list of
          `(length,)` arrays.
        - `sample_weight`: a weight for each case.
        """
        check_settings(self)
        cases, y = labelled_cases(self, X, y, times)
        cases, y, weights = self._weighted(X, cases, class_labels(y), sample_weight)
        self.classes_, place = classes_of(y)
        if self.class_weight is not None:
            balance = compute_sample_weight(self.class_weight, y)
            weights = balance if weights is None else weights * balance
        columns = np.arange(len(self.classes_)) if len(self.classes_) > 2 else np.array([1])
        answers = np.where(place[:, None] == columns, 1.0, -1.0)
        left_out, decision = self._fit_readout(cases, answers, weights)
        truth = place[left_out]
        self.sharpness_ = float(fit_pool([_two_sided(decision)], truth)[0])
        self.left_out_ = left_out, self._answer(decision)
        self.left_out_score_ = float(np.mean(_two_sided(decision).argmax(axis=1) == truth))
        return self

    def decision_function(self, X: Any, *, times: Any = None) -> np.ndarray:
        """Decision values, about 1 for a class and -1 for the others.

        `(cases, classes)`, or `(cases,)` for two classes, positive for the second.
        """
        decision = self._decide(X, times)
        return decision[:, 0] if decision.shape[1] == 1 else decision

    def predict_proba(self, X: Any, *, times: Any = None) -> np.ndarray:
        """Probabilities `(cases, classes)`, in the order of `classes_`."""
        return self._answer(self._decide(X, times))

    def predict(self, X: Any, *, times: Any = None) -> np.ndarray:
        """Most probable class of each sequence."""
        decision = _two_sided(self._decide(X, times))
        return self.classes_[decision.argmax(axis=1)]

    def score(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, times: Any = None
    ) -> float:
        """Accuracy; `y` may be omitted if X has labels."""
        y = X.labels if y is None and isinstance(X, Sequences) else y
        return float(accuracy_score(y, self.predict(X, times=times), sample_weight=sample_weight))

    def _answer(self, decision: np.ndarray) -> np.ndarray:
        return pool([_two_sided(decision)], np.array([self.sharpness_]))

    def _fitted(self) -> dict[str, Any]:
        classes = {"classes": self.classes_.tolist(), "objects": self.classes_.dtype == object}
        return {**super()._fitted(), **classes, "sharpness": self.sharpness_}

    def _restore(self, fitted: dict[str, Any]) -> None:
        super()._restore(fitted)
        self.classes_ = np.array(fitted["classes"], object if fitted["objects"] else None)
        self.sharpness_ = float(fitted["sharpness"])


@documented
class OscillatorRegressor(RegressorMixin, OscillatorEstimator):
    """A scikit-learn regressor of sequences with untrained oscillators, fitted in seconds.

    A ridge regression on standardised [`linoss.OscillatorFeatures`][], with the penalty selected by
    leave-one-out cross-validation. `left_out_score_` is the leave-one-out R².

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

    task, metric = "regression", "R²"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(
        self, X: Any, y: Any = None, *, times: Any = None, sample_weight: Any = None
    ) -> "OscillatorRegressor":
        """Fit to sequences and their targets.

        **Arguments:** as for [`linoss.OscillatorClassifier.fit`][], but

        - `y`: `(cases,)` or `(cases, n)` numbers.
        """
        check_settings(self)
        cases, y = labelled_cases(self, X, y, times, multi_output=True, y_numeric=True)
        answers = np.asarray(y, np.float64)
        self.one_number_ = answers.ndim == 1
        cases, answers, weights = self._weighted(X, cases, answers, sample_weight)
        answers = answers.reshape(len(answers), -1)
        scaling = Scaling.from_sequences([answers], kind="target")
        answers = scaling.apply(answers)
        left_out, found = self._fit_readout(cases, answers, weights)
        scaled = self.ridge_
        self.ridge_ = replace(
            scaled,
            coefficients=scaled.coefficients * scaling.deviation,
            intercept=scaling.undo(scaled.intercept),
        )
        self.left_out_ = left_out, self._answer(scaling.undo(found))
        self.left_out_score_ = float(r2_score(answers[left_out], found))
        return self

    def predict(self, X: Any, *, times: Any = None) -> np.ndarray:
        """Predicted targets, in the shape of `fit`."""
        return self._answer(self._decide(X, times))

    def score(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, times: Any = None
    ) -> float:
        """R²; `y` may be omitted if X has labels."""
        y = X.labels if y is None and isinstance(X, Sequences) else y
        return float(r2_score(y, self.predict(X, times=times), sample_weight=sample_weight))

    def _answer(self, decision: np.ndarray) -> np.ndarray:
        return decision[:, 0] if self.one_number_ else decision

    def _fitted(self) -> dict[str, Any]:
        return {**super()._fitted(), "one_number": bool(self.one_number_)}

    def _restore(self, fitted: dict[str, Any]) -> None:
        super()._restore(fitted)
        self.one_number_ = bool(fitted["one_number"])


def _below(prefix: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays whose names begin with a prefix, with the prefix removed."""
    return {n.removeprefix(prefix): array for n, array in arrays.items() if n.startswith(prefix)}


def _two_sided(decision: np.ndarray) -> np.ndarray:
    """A column for each of two classes."""
    return np.concatenate([-decision, decision], axis=1) if decision.shape[1] == 1 else decision
