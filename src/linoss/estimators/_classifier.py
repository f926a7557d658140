"""Classification of sequences."""

import os
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.model_selection import train_test_split
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from linoss._declare import check_settings, documented
from linoss._settings import ClassifierSettings
from linoss.data import DataError, Sequences
from linoss.estimators._base import OnProgress, RunOptions, SequenceEstimator, drawn_seed
from linoss.training import Classification, Inputs


@documented
class LinOSSClassifier(ClassifierMixin, ClassifierSettings, SequenceEstimator):
    """A scikit-learn classifier of sequences.

    ```python
    >>> import numpy as np
    >>> from linoss import LinOSSClassifier
    >>> labels = np.arange(60) % 2
    >>> waves = np.sin(np.outer(1 + labels, np.arange(50)) / 5)
    >>> waves += 0.1 * np.random.default_rng(0).normal(size=waves.shape)
    >>> classifier = LinOSSClassifier(steps=60, hidden_size=16, state_size=16, random_state=0)
    >>> classifier.fit(waves[:40], labels[:40]).score(waves[40:], labels[40:])
    1.0

    ```
    """

    task = "classification"

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
        directory: str | os.PathLike[str] | None = None,
        resume: bool = False,
        on_progress: OnProgress | None = None,
    ) -> "LinOSSClassifier":
        """Train on labelled sequences.

        **Arguments:**

        - `X`: `(cases, channels, time)`, `(cases, time)`, a list of `(channels, length)` arrays of
          unequal length, or [`linoss.data.Sequences`][]. NaN means missing: such values are masked.
        - `y`: a label for each case; None for the labels of [`linoss.data.Sequences`][].
        - `times`: sampling times, if the sampling is irregular: `(time,)`, `(cases, time)` or a
          list of `(length,)` arrays.
        - `directory`: directory of the run and its checkpoints; None to keep none.
        - `resume`: resume the run in `directory`.
        - `on_progress`: called with a [`linoss.training.Progress`][], at most twice a second.

        Raises a `ValueError` that names the setting or the argument that is wrong.
        """
        check_settings(self)
        cases, y = self._sequences(X, y, times, reset=True)
        y = cases.labels if y is None else y
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        if len(y) != len(cases):
            raise DataError(f"y has {len(y)} labels, expected {len(cases)}, one for each case")
        self.classes_ = np.unique(y)
        cases = Sequences(cases.values, y, cases.times, cases.names, cases.ids)
        seed = drawn_seed(self.random_state)
        training_set, validation_set = self._split(cases, y, seed)
        inputs = Inputs.from_sequences(training_set, time_channel=bool(self.time_channel))
        objective = Classification(
            classes=tuple(self.classes_.tolist()),
            class_weights=self._class_weights(y),
            smoothing=self.label_smoothing,
        )
        run = RunOptions(directory, resume, on_progress)
        self._train(inputs, objective, training_set, validation_set, seed, run)
        return self

    def _split(
        self, cases: Sequences, y: np.ndarray, seed: int
    ) -> tuple[Sequences, Sequences | None]:
        """Split into training and validation cases, stratified by class."""
        held_out = self._held_out(len(cases))
        _, counts = np.unique(y, return_counts=True)
        held_out = max(held_out, len(counts)) if held_out else 0
        if not held_out or held_out > len(cases) - len(counts):
            return cases, None
        stratify = y if counts.min() > 1 else None
        first, second = train_test_split(
            np.arange(len(cases)), test_size=held_out, random_state=seed, stratify=stratify
        )
        return cases.select(np.sort(first)), cases.select(np.sort(second))

    def _class_weights(self, y: np.ndarray) -> tuple[float, ...] | None:
        if self.class_weight is None:
            return None
        weights = compute_class_weight(self.class_weight, classes=self.classes_, y=y)
        return tuple(float(weight) for weight in weights)

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
        """Accuracy; `y` may be left out if X has labels."""
        y = X.labels if y is None and isinstance(X, Sequences) else y
        return float(accuracy_score(y, self.predict(X, times=times), sample_weight=sample_weight))

    def _fitted(self) -> dict[str, Any]:
        return {**super()._fitted(), "object_labels": self.classes_.dtype == object}

    def _restore(self, fitted: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        super()._restore(fitted, arrays)
        assert isinstance(self.objective_, Classification)
        dtype = object if fitted["object_labels"] else None
        self.classes_ = np.array(self.objective_.classes, dtype)
