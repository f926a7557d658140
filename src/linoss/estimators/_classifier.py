"""Classes of sequences."""

import os
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.model_selection import train_test_split
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from linoss.data import DataError, Sequences
from linoss.estimators._base import OnProgress, RunOptions, SequenceEstimator
from linoss.training import Classification, Inputs


class LinOSSClassifier(ClassifierMixin, SequenceEstimator):
    """A LinOSS model that learns classes of sequences, with scikit-learn's manners.

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

    def __init__(
        self,
        *,
        hidden_size: int = 64,
        state_size: int = 64,
        num_blocks: int = 2,
        scheme: str = "exact",
        damped: bool | None = None,
        bidirectional: bool = False,
        norm: str | None = "batch",
        dropout: float = 0.2,
        time_channel: bool = False,
        model_options: dict[str, Any] | None = None,
        class_weight: Any = None,
        label_smoothing: float = 0.0,
        steps: int = 1000,
        batch_size: int = 32,
        learning_rate: float = 3e-3,
        warmup: int | None = None,
        schedule: str = "cosine",
        weight_decay: float = 0.01,
        clip_norm: float | None = 1.0,
        validation_fraction: float | None = None,
        evaluate_every: int | None = None,
        patience: int | None = None,
        devices: int | tuple[int, int] | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        """**Arguments:**

        - `hidden_size`, `state_size`, `num_blocks`, `scheme`, `bidirectional`, `norm`, `dropout`:
          the model, see [`linoss.LinOSSConfig`][].
        - `damped`: with learned damping; by default if the scheme has it.
        - `time_channel`: with a channel that tells the time since the start.
        - `model_options`: further settings of [`linoss.LinOSSConfig`][].
        - `class_weight`: None, `"balanced"`, or a weight for each class.
        - `label_smoothing`: this share of each target is spread over all classes.
        - `steps`, `batch_size`, `learning_rate`, `schedule`, `weight_decay`, `clip_norm`: see
          [`linoss.training.TrainingConfig`][].
        - `warmup`: steps of it; by default a tenth of `steps`, at most 100.
        - `validation_fraction`: the share of cases that is held out to choose the best weights; by
          default a tenth, but none of fewer than 500 cases.
        - `evaluate_every`: steps between evaluations of that part; by default a twentieth of
          `steps`.
        - `patience`: stop after so many evaluations without improvement; None to never stop.
        - `devices`: train on so many, each with its part of a batch, or on `(batch, time)` of them,
          which split sequences, too; None for JAX's default device.
        - `random_state`: a whole number for results that can be had again.
        - `verbose`: 1 for a live line of progress.
        """
        super().__init__(
            hidden_size=hidden_size,
            state_size=state_size,
            num_blocks=num_blocks,
            scheme=scheme,
            damped=damped,
            bidirectional=bidirectional,
            norm=norm,
            dropout=dropout,
            time_channel=time_channel,
            model_options=model_options,
            steps=steps,
            batch_size=batch_size,
            learning_rate=learning_rate,
            warmup=warmup,
            schedule=schedule,
            weight_decay=weight_decay,
            clip_norm=clip_norm,
            validation_fraction=validation_fraction,
            evaluate_every=evaluate_every,
            patience=patience,
            devices=devices,
            random_state=random_state,
            verbose=verbose,
        )
        self.class_weight = class_weight
        self.label_smoothing = label_smoothing

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
        """Learn from labelled sequences.

        **Arguments:**

        - `X`: `(cases, channels, time)`, `(cases, time)`, a list of `(channels, length)` arrays of
          unequal length, or [`linoss.data.Sequences`][]. NaN means missing: such values are masked.
        - `y`: a label for each case.
        - `times`: for irregular sampling, when samples were taken: `(time,)`, `(cases, time)` or a
          list of `(length,)` arrays.
        - `directory`: where to keep the run, with checkpoints.
        - `resume`: go on with the run in `directory`.
        - `on_progress`: is called with a [`linoss.training.Progress`][], twice a second at most.
        """
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
        seed = self._seed()
        training_set, validation_set = self._split(cases, y, seed)
        inputs = Inputs.from_sequences(training_set, time_channel=self.time_channel)
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
        """Training and validation part, the latter with its share of every class."""
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
        """The probability of each class, in the order of `classes_`."""
        return self._answers(X, times)

    def predict(self, X: Any, *, times: Any = None) -> np.ndarray:
        """The likeliest class of each sequence."""
        likeliest = np.argmax(self.predict_proba(X, times=times), axis=1)
        return self.classes_[likeliest]

    def score(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, times: Any = None
    ) -> float:
        """The accuracy; `y` may be left out where X has labels."""
        y = X.labels if y is None and isinstance(X, Sequences) else y
        return float(accuracy_score(y, self.predict(X, times=times), sample_weight=sample_weight))

    def _fitted(self) -> dict[str, Any]:
        return {**super()._fitted(), "object_labels": self.classes_.dtype == object}

    def _restore(self, fitted: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        super()._restore(fitted, arrays)
        assert isinstance(self.objective_, Classification)
        dtype = object if fitted["object_labels"] else None
        self.classes_ = np.array(self.objective_.classes, dtype)
