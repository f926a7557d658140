"""Classification of sequences."""

import os
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.class_weight import compute_class_weight

from linoss._declare import check_settings, documented
from linoss._settings import ClassifierSettings
from linoss.data import Sequences
from linoss.estimators._base import OnProgress, RunOptions
from linoss.estimators._labelled import LabelledEstimator
from linoss.estimators._oscillators import OscillatorClassifier
from linoss.estimators._stack import FLOOR, fit_pool, logarithms, pool, pool_losses
from linoss.estimators._truth import class_labels, classes_of, labelled_cases
from linoss.training import Classification


@documented
class LinOSSClassifier(ClassifierMixin, ClassifierSettings, LabelledEstimator):
    """A scikit-learn classifier of sequences.

    An ensemble of `n_models` trained models and, unless `n_oscillators` is None, a
    [`linoss.OscillatorClassifier`][]. With fewer than 1000 cases a different fold is held out from
    each model, otherwise the same cases from all. Predictions for held-out cases determine the
    weights of both in `predict_proba`, calibrate the probabilities, and give the accuracy
    `left_out_score_`.

    ```python
    >>> import numpy as np
    >>> from linoss import LinOSSClassifier
    >>> labels = np.arange(60) % 2
    >>> waves = np.sin(np.outer(1 + labels, np.arange(50)) / 5)
    >>> waves += 0.1 * np.random.default_rng(0).normal(size=waves.shape)
    >>> settings = {"steps": 60, "hidden_size": 16, "state_size": 16, "n_oscillators": 256}
    >>> classifier = LinOSSClassifier(**settings, random_state=0)
    >>> classifier.fit(waves[:40], labels[:40]).score(waves[40:], labels[40:])
    1.0
    >>> classifier.left_out_score_
    1.0

    ```
    """

    task, metric = "classification", "accuracy"
    floor = FLOOR
    """Added to the probabilities of a member before they are weighted."""
    _untrained = OscillatorClassifier

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = True
        return tags

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        times: Any = None,
        sample_weight: Any = None,
        directory: str | os.PathLike[str] | None = None,
        resume: bool = False,
        on_progress: OnProgress | None = None,
        start_from: Any = None,
    ) -> "LinOSSClassifier":
        """Train on labelled sequences.

        **Arguments:**

        - `X`: `(cases, channels, time)`, `(cases, time)`, a list of `(channels, length)` arrays of
          unequal length, or [`linoss.data.Sequences`][]. NaN marks a missing value, which is
          masked.
        - `y`: a label for each case; None for the labels of [`linoss.data.Sequences`][].
        - `times`: sampling times, for irregular sampling: `(time,)`, `(cases, time)` or a list of
          `(length,)` arrays.
        - `sample_weight`: a weight for each case; cases of weight 0 are ignored.
        - `directory`: directory of the run and its checkpoints; None for none.
        - `resume`: resume the run in `directory`.
        - `on_progress`: called with a [`linoss.training.Progress`][], at most twice a second.
        - `start_from`: a fitted classifier, or the directory of one, whose weights initialise the
          training. Parts that fit are reused: blocks of the same sizes, the encoder if the number
          of channels is equal, the head if the classes are equal. With `verbose` they are listed.

        Ctrl-C raises KeyboardInterrupt and leaves the estimator fitted with the weights so far,
        with a warning if there is no directory.

        Raises `ValueError`, which names the invalid setting or argument.
        """
        check_settings(self)
        cases, y = labelled_cases(self, X, y, times)
        cases = self._cases(X, cases, class_labels(y), sample_weight)
        labels = np.asarray(cases.labels)
        self.classes_, groups = classes_of(labels)
        objective = Classification(
            classes=tuple(self.classes_.tolist()),
            class_weights=self._class_weights(labels),
            smoothing=self.label_smoothing,
        )
        run = RunOptions(directory, resume, on_progress)
        self._fit(cases, groups, lambda _: objective, run, start_from)
        return self

    def _class_weights(self, y: np.ndarray) -> tuple[float, ...] | None:
        if self.class_weight is None:
            return None
        weights = compute_class_weight(self.class_weight, classes=self.classes_, y=y)
        return tuple(float(weight) for weight in weights)

    def _heard(self, cases: Sequences) -> np.ndarray:
        return self.oscillators_.predict_proba(cases)

    def _fit_weights(
        self, sources: list[np.ndarray], truth: Any, case_weights: np.ndarray | None
    ) -> np.ndarray:
        return fit_pool(list(map(logarithms, sources)), self._places(truth), case_weights)

    def _losses(self, sources: list[np.ndarray], truth: Any, weights: np.ndarray) -> np.ndarray:
        return pool_losses(list(map(logarithms, sources)), self._places(truth), weights)

    def _places(self, labels: Any) -> np.ndarray:
        return np.searchsorted(self.classes_, labels)

    def _combine(self, sources: list[np.ndarray], weights: np.ndarray) -> np.ndarray:
        return pool(list(map(logarithms, sources)), weights)

    def _quality(self, answers: np.ndarray, truth: Any) -> float:
        return float(accuracy_score(truth, self.classes_[answers.argmax(axis=1)]))

    def predict_proba(self, X: Any, *, times: Any = None) -> np.ndarray:
        """Probabilities `(cases, classes)`, in the order of `classes_`."""
        return self._answers(X, times)

    def predict(self, X: Any, *, times: Any = None) -> np.ndarray:
        """Most probable class of each sequence."""
        likeliest = np.argmax(self.predict_proba(X, times=times), axis=1)
        return self.classes_[likeliest]

    def score(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, times: Any = None
    ) -> float:
        """Accuracy; `y` may be omitted if X has labels."""
        y = X.labels if y is None and isinstance(X, Sequences) else y
        return float(accuracy_score(y, self.predict(X, times=times), sample_weight=sample_weight))

    def _fitted(self) -> dict[str, Any]:
        return {**super()._fitted(), "object_labels": self.classes_.dtype == object}

    def _restore(self, fitted: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        super()._restore(fitted, arrays)
        assert isinstance(self.objective_, Classification)
        dtype = object if fitted["object_labels"] else None
        self.classes_ = np.array(self.objective_.classes, dtype)
