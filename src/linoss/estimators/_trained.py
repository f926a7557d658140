"""Classifier and regressor of trained models."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from linoss._declare import COUNT, SHARE, Number, documented, setting
from linoss._settings import PoolingName
from linoss.estimators._estimator import SequenceEstimator
from linoss.estimators._oscillators import OscillatorClassifier
from linoss.fitted import (
    FitStopped,
    Fitted,
    RunOptions,
    TrainedSettings,
    fit_models,
    load,
)
from linoss.training import Callback

Kind = TypeVar("Kind", bound="LinOSSClassifier | LinOSSRegressor")


def source_of(start_from: Any) -> Fitted | None:
    """The weights to start from: those of a fitted estimator, or of the directory of one."""
    if isinstance(start_from, str | os.PathLike):
        return load(start_from)[0]
    source = getattr(start_from, "fitted_", None)
    if start_from is not None and not isinstance(source, Fitted):
        raise ValueError(
            f"start_from is {start_from!r}, expected the directory of a run, or a fitted estimator"
        )
    return source


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class LinOSSClassifier(SequenceEstimator, ClassifierMixin, TrainedSettings, BaseEstimator):
    """A scikit-learn classifier of sequences: trained models of the paper.

    The mean of `n_models` models. With fewer than 1000 cases a different fold is held out from each
    model, otherwise the same cases from all. Predictions for held-out cases calibrate the
    probabilities and give the accuracy `held_out_score_`.

    ```python
    >>> import numpy as np
    >>> from linoss import LinOSSClassifier
    >>> labels = np.arange(60) % 2
    >>> waves = np.sin(np.outer(1 + labels, np.arange(50)) / 5)
    >>> waves += 0.1 * np.random.default_rng(0).normal(size=waves.shape)
    >>> classifier = LinOSSClassifier(steps=60, hidden_size=16, state_size=16, random_state=0)
    >>> classifier.fit(waves[:40], labels[:40]).score(waves[40:], labels[40:])
    1.0
    >>> classifier.held_out_score_
    1.0

    ```
    """

    task = "classification"
    configs: ClassVar = (*TrainedSettings.configs, TrainedSettings, OscillatorClassifier)

    dropout: Number = 0.2
    min_loss: Number = 1e-3
    pooling: PoolingName = "mean"
    patch: int | None = setting(
        None,
        "Number of consecutive samples that form one input step of trained models.",
        COUNT,
        none="1 for up to 128 samples, a hundredth of the length otherwise; 1 with times or every",
    )
    n_models: int | None = setting(
        None,
        "Number of trained models, each with its own initial weights; their mean predicts.",
        COUNT,
        none="4 for fewer than 1000 cases, otherwise 1",
    )
    class_weight: Literal["balanced"] | Mapping[Any, Any] | None = None
    label_smoothing: Number = setting(
        0.0, "Label smoothing: fraction of each target spread over all classes.", SHARE
    )

    def fit(
        self: Kind,
        X: Any,
        y: Any = None,
        *,
        times: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
        directory: str | os.PathLike[str] | None = None,
        resume: bool = False,
        on_progress: Callback | None = None,
        start_from: Any = None,
    ) -> Kind:
        """Train on labelled sequences.

        **Arguments:**

        - `X`, `y`, `times`, `sample_weight`, `groups`: as for
          [`linoss.OscillatorClassifier.fit`][]. Missing values are masked. With `every`, `y` is
          `(cases, steps)`, `(cases, steps, n)`, or a list of `(steps,)` or `(steps, n)` arrays,
          where NaN marks an unknown target.
        - `directory`: directory of the run and its checkpoints; None for none.
        - `resume`: resume the run in `directory`.
        - `on_progress`: called with a [`linoss.training.Progress`][], at most twice a second.
        - `start_from`: a fitted estimator, or the directory of one, whose weights initialise the
          training. Parts that fit are reused: blocks of the same sizes, the encoder if the number
          of channels is equal, the head if the classes are equal. With `verbose` they are listed.

        Ctrl-C raises KeyboardInterrupt and leaves the estimator fitted with the weights so far,
        with a warning if there is no directory.

        Raises `ValueError`, which names the invalid setting or argument.
        """
        cases, outputs = self._validated(X, y, times, sample_weight, groups)
        options = RunOptions(directory, resume, on_progress, source_of(start_from))
        run = self._begin(outputs, directory, resume=resume)
        try:
            fitted = fit_models(self, cases, outputs, run.seed, options)
        except FitStopped as stop:
            self._end(stop.fitted, run)
            raise
        return self._end(fitted.calibrated(cases), run, directory)


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class LinOSSRegressor(SequenceEstimator, RegressorMixin, TrainedSettings, BaseEstimator):
    """A scikit-learn regressor of sequences: trained models of the paper.

    Like [`linoss.LinOSSClassifier`][]. With `every=k` it predicts at every k-th step, `(length //
    k,)` or `(length // k, n)` for each case.

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
    configs: ClassVar = (LinOSSClassifier, *TrainedSettings.configs)

    pooling: PoolingName = "mean"
    patch: int | None = None
    n_models: int | None = None
    every: int | None = None

    fit = LinOSSClassifier.fit
