"""Regression: one or several numbers for each sequence, or at every k-th step."""

import os
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.model_selection import train_test_split

from linoss._declare import check_settings, documented
from linoss._settings import RegressorSettings
from linoss.data import DataError, Sequences
from linoss.estimators._base import OnProgress, RunOptions, SequenceEstimator, drawn_seed
from linoss.training import Inputs, Regression


@documented
class LinOSSRegressor(RegressorMixin, RegressorSettings, SequenceEstimator):
    """A scikit-learn regressor of sequences.

    With `every=k` it predicts targets at every k-th step, `(length // k,)` or `(length // k, n)`
    for each case.

    ```python
    >>> import numpy as np
    >>> from linoss import LinOSSRegressor
    >>> speed = np.random.default_rng(0).uniform(0.5, 1.5, 60)
    >>> waves = np.sin(np.outer(speed, np.arange(50)) / 3)
    >>> regressor = LinOSSRegressor(steps=100, hidden_size=16, state_size=16, random_state=0)
    >>> bool(regressor.fit(waves[:40], speed[:40]).score(waves[40:], speed[40:]) > 0.9)
    True

    ```
    """

    task = "regression"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = True
        tags.target_tags.multi_output = True
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
    ) -> "LinOSSRegressor":
        """Train on sequences and their targets.

        **Arguments:** as for [`linoss.LinOSSClassifier.fit`][], but

        - `y`: `(cases,)` or `(cases, n)` numbers; with `every`, `(cases, answers)`,
          `(cases, answers, n)`, or a list of `(answers,)` or `(answers, n)` arrays, where NaN
          means that a target is unknown.
        """
        check_settings(self)
        _refuse_words(y)
        checks = {"multi_output": True, "y_numeric": True} if self.every is None else {}
        targets = None if self.every is not None or isinstance(X, Sequences) else y
        cases, checked = self._sequences(X, targets, times, reset=True, **checks)
        y = y if checked is None else checked
        y = cases.labels if y is None else y
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        if len(y) != len(cases):
            raise DataError(f"y has {len(y)} targets, expected {len(cases)}, one for each case")
        y = np.asarray(y, np.float64) if self.every is None else list(y)
        self.one_number_ = np.ndim(y[0]) == (0 if self.every is None else 1)
        cases = Sequences(cases.values, y, cases.times, cases.names, cases.ids)
        seed, held_out = drawn_seed(self.random_state), self._held_out(len(cases))
        training_set, validation_set = cases, None
        if held_out:
            first, second = train_test_split(
                np.arange(len(cases)), test_size=held_out, random_state=seed
            )
            training_set, validation_set = (
                cases.select(np.sort(first)),
                cases.select(np.sort(second)),
            )
        inputs = Inputs.from_sequences(training_set, time_channel=bool(self.time_channel))
        objective = Regression.from_labels(training_set.labels, every=self.every)
        run = RunOptions(directory, resume, on_progress)
        self._train(inputs, objective, training_set, validation_set, seed, run)
        return self

    def predict(self, X: Any, *, times: Any = None) -> Any:
        """Targets in the shape that they had in `fit`; a list if their numbers differ."""
        answers = self._answers(X, times)
        if not self.one_number_:
            return answers
        return [a[..., 0] for a in answers] if isinstance(answers, list) else answers[..., 0]

    def score(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, times: Any = None
    ) -> float:
        """R² over all known targets; `y` may be left out if X has labels."""
        y = X.labels if y is None and isinstance(X, Sequences) else y
        found = self.predict(X, times=times)
        if self.every is None:
            return float(r2_score(y, found, sample_weight=sample_weight))
        if sample_weight is not None:
            raise ValueError("sample_weight was given, but every is not None, expected None")
        columns = 1 if self.one_number_ else self.objective_.out_size
        truth = np.concatenate([np.asarray(case, float).reshape(-1, columns) for case in y])
        found = np.concatenate([np.asarray(case).reshape(-1, columns) for case in found])
        known = np.isfinite(truth).all(axis=1)
        return float(r2_score(truth[known], found[known]))

    def _fitted(self) -> dict[str, Any]:
        return {**super()._fitted(), "one_number": bool(self.one_number_)}

    def _restore(self, fitted: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        super()._restore(fitted, arrays)
        self.one_number_ = bool(fitted["one_number"])


def _refuse_words(y: Any) -> None:
    """Raise a ValueError for targets that are text."""
    try:
        targets = iter(y)
    except TypeError:
        return
    for case, target in enumerate(targets):
        if isinstance(target, str):
            raise ValueError(
                f"y is {str(target)!r} for case {case}, expected numbers; for classes there is "
                "LinOSSClassifier"
            )
