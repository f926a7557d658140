"""Regression: one or several numbers for each sequence, or at every k-th step."""

import os
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from linoss._declare import check_settings, documented
from linoss._settings import RegressorSettings
from linoss.data import Sequences
from linoss.estimators._base import OnProgress, RunOptions
from linoss.estimators._labelled import LabelledEstimator
from linoss.estimators._oscillators import OscillatorRegressor
from linoss.estimators._stack import fit_mean, mean_losses
from linoss.estimators._truth import labels_of
from linoss.training import Regression


@documented
class LinOSSRegressor(RegressorMixin, RegressorSettings, LabelledEstimator):
    """A scikit-learn regressor of sequences.

    Like [`linoss.LinOSSClassifier`][], with a [`linoss.OscillatorRegressor`][] in the ensemble.
    With `every=k` only the trained models predict, at every k-th step, `(length // k,)` or `(length
    // k, n)` for each case.

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

    task, metric = "regression", "R²"
    _untrained = OscillatorRegressor

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
        sample_weight: Any = None,
        directory: str | os.PathLike[str] | None = None,
        resume: bool = False,
        on_progress: OnProgress | None = None,
        start_from: Any = None,
    ) -> "LinOSSRegressor":
        """Train on sequences and their targets.

        **Arguments:** as for [`linoss.LinOSSClassifier.fit`][], but

        - `y`: `(cases,)` or `(cases, n)` numbers; with `every`, `(cases, steps)`, `(cases, steps,
          n)`, or a list of `(steps,)` or `(steps, n)` arrays, where NaN marks an unknown target.
        """
        check_settings(self)
        _refuse_words(y)
        checks = {"multi_output": True, "y_numeric": True} if self.every is None else {}
        targets = None if self.every is not None or isinstance(X, Sequences) else y
        cases, checked = self._sequences(X, targets, times, reset=True, **checks)
        y = labels_of(self, cases, y if checked is None else checked)
        y = np.asarray(y, np.float64) if self.every is None else list(y)
        self.one_number_ = np.ndim(y[0]) == (0 if self.every is None else 1)
        cases = self._cases(X, cases, y, sample_weight)
        run = RunOptions(directory, resume, on_progress)
        self._fit(cases, None, self._objective, run, start_from)
        return self

    def _objective(self, cases: Sequences) -> Regression:
        return Regression.from_labels(cases.labels, every=self.every)

    def _heard(self, cases: Sequences) -> np.ndarray:
        return self.oscillators_.predict(cases)

    def _fit_weights(
        self, sources: list[np.ndarray], truth: Any, case_weights: np.ndarray | None
    ) -> np.ndarray | None:
        if len(sources) == 1:
            return None
        return fit_mean(sources, truth.reshape(sources[0].shape), case_weights)

    def _losses(self, sources: list[np.ndarray], truth: Any, weights: np.ndarray) -> np.ndarray:
        return mean_losses(sources, truth.reshape(sources[0].shape), weights)

    def _combine(self, sources: list[np.ndarray], weights: np.ndarray) -> np.ndarray:
        return np.tensordot(weights, np.asarray(sources), 1)

    def _quality(self, answers: Any, truth: Any) -> float:
        """R² over all known targets."""
        columns = self.objective_.out_size
        truth = np.concatenate([np.reshape(np.asarray(t, float), (-1, columns)) for t in truth])
        found = np.concatenate([np.reshape(a, (-1, columns)) for a in answers])
        known = np.isfinite(truth).all(axis=1)
        return float(r2_score(truth[known], found[known]))

    def predict(self, X: Any, *, times: Any = None) -> Any:
        """Predicted targets, in the shape of `fit`; a list if their numbers differ."""
        answers = self._answers(X, times)
        if not self.one_number_:
            return answers
        return [a[..., 0] for a in answers] if isinstance(answers, list) else answers[..., 0]

    def score(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, times: Any = None
    ) -> float:
        """R² over all known targets; `y` may be omitted if X has labels."""
        y = X.labels if y is None and isinstance(X, Sequences) else y
        found = self.predict(X, times=times)
        if self.every is None:
            return float(r2_score(y, found, sample_weight=sample_weight))
        if sample_weight is not None:
            raise ValueError("sample_weight was given, but every is not None, expected None")
        return self._quality(found, y)

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
                f"y is {str(target)!r} for case {case}, expected numbers; for classes use "
                "LinOSSClassifier"
            )
