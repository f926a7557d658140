"""Untrained oscillators first, then trained models with a time limit, if they help."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, TypeVar

from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from linoss._declare import Number, check_name, declared, documented, setting, shared_with
from linoss._stderr import duration, say
from linoss.estimators._estimator import SequenceEstimator
from linoss.estimators._trained import LinOSSClassifier, LinOSSRegressor
from linoss.fitted import (
    Choice,
    Fitted,
    OscillatorSettings,
    RunOptions,
    fit_models,
    fit_oscillators,
)
from linoss.training import Callback, TrainingError

Kind = TypeVar("Kind", bound="AutoClassifier | AutoRegressor")

_OWN = ("every",)  # settings of trained models that an ensemble does not have


def _trained_estimator(
    estimator: "AutoClassifier | AutoRegressor",
) -> LinOSSClassifier | LinOSSRegressor:
    """The trained models: settings of the ensemble, and `linoss_options`."""
    kind = LinOSSClassifier if estimator.task == "classification" else LinOSSRegressor
    options, settings = estimator.linoss_options or {}, declared(kind)
    known = sorted(settings.keys() - declared(type(estimator)).keys() - {*_OWN})
    for name, value in options.items():
        check_name(known, name, "linoss_options")
        settings[name].check(value)
    return kind(**{**shared_with(estimator, kind), **options})


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class AutoClassifier(SequenceEstimator, ClassifierMixin, OscillatorSettings, BaseEstimator):
    """A scikit-learn classifier of sequences: the best prediction within a time limit.

    An ensemble of untrained oscillators, as in [`linoss.OscillatorClassifier`][], and trained
    models, as in [`linoss.LinOSSClassifier`][], which train for at most `minutes`. With `verbose`,
    the leave-one-out accuracy of the oscillators is shown after seconds. The oscillators alone are
    kept, unless the trained models increase the log-likelihood of held-out cases by more than a
    standard error. `choice_` has the choice and its reason, `held_out_score_` the accuracy on
    held-out cases. With `minutes=0` nothing is trained.

    ```python
    >>> import numpy as np
    >>> from linoss import AutoClassifier
    >>> labels = np.arange(60) % 2
    >>> waves = np.sin(np.outer(1 + labels, np.arange(50)) / 5)
    >>> waves += 0.5 * np.random.default_rng(0).normal(size=waves.shape)
    >>> small = {"steps": 20, "hidden_size": 8, "state_size": 8}
    >>> classifier = AutoClassifier(n_oscillators=256, linoss_options=small, random_state=0)
    >>> classifier.fit(waves[:40], labels[:40]).score(waves[40:], labels[40:])
    1.0
    >>> classifier.choice_.scores["oscillators"]  # on held-out cases
    1.0

    ```
    """

    task = "classification"
    configs: ClassVar = (LinOSSClassifier,)

    minutes: Number = 2.0
    linoss_options: dict[str, Any] | None = setting(
        None, "Settings of the trained LinOSS estimator, by name.", other="a dict"
    )
    verbose: int | bool = 0
    class_weight: Literal["balanced"] | Mapping[Any, Any] | None = None

    @property
    def choice_(self) -> Choice:
        """Which members were kept, and the reason."""
        assert self.fitted_.choice is not None
        return self.fitted_.choice

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
    ) -> Kind:
        """Fit to labelled sequences: the oscillators, then trained models, and keep what helps.

        **Arguments:** as for [`linoss.LinOSSClassifier.fit`][], with one output for each case.
        Ctrl-C raises a KeyboardInterrupt and keeps the oscillators.
        """
        cases, outputs = self._validated(X, y, times, sample_weight, groups)
        settings = _trained_estimator(self)
        run, begun = self._begin(outputs, directory, resume=resume), time.monotonic()
        bank = {"n_oscillators": self.n_oscillators, "causal": self.causal, "seed": run.seed}
        weight = getattr(self, "class_weight", None)
        oscillators = fit_oscillators(cases, outputs, class_weight=weight, **bank)
        if self.verbose:
            assert oscillators.held_out is not None
            say(
                f"Untrained oscillators, after {duration(time.monotonic() - begun)}: leave-one-out "
                f"{outputs.metric} {oscillators.held_out.score:.4g}"
            )

        def because(reason: str) -> Fitted:
            return replace(oscillators, choice=Choice.because(reason, "oscillators"))

        def ended(fitted: Fitted) -> Kind:
            self._end(fitted, run, directory)
            if self.verbose:
                say(f"{self.choice_.why}.")
            return self

        if self.minutes == 0:
            return ended(because("minutes is 0, so nothing was trained"))
        self._end(because("the training has not ended"), run, directory)  # if it is killed
        options = RunOptions(directory, resume, on_progress)
        try:
            trained = fit_models(settings, cases, outputs, run.seed, options)
        except TrainingError as error:
            return ended(because(f"the training failed: {error}"))
        except KeyboardInterrupt:
            self._end(because("the training was interrupted"), run, directory)
            raise
        return ended(oscillators.composed(trained, cases))


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class AutoRegressor(SequenceEstimator, RegressorMixin, OscillatorSettings, BaseEstimator):
    """A scikit-learn regressor of sequences: the best prediction within a time limit.

    Like [`linoss.AutoClassifier`][], with R².

    ```python
    >>> import numpy as np
    >>> from linoss import AutoRegressor
    >>> speed = np.random.default_rng(0).uniform(0.5, 1.5, 60)
    >>> waves = np.sin(np.outer(speed, np.arange(50)) / 3)
    >>> regressor = AutoRegressor(minutes=0, n_oscillators=256, random_state=0)
    >>> bool(regressor.fit(waves[:40], speed[:40]).score(waves[40:], speed[40:]) > 0.9)
    True
    >>> regressor.choice_.why
    'Kept the oscillators: minutes is 0, so nothing was trained'

    ```
    """

    task = "regression"
    configs: ClassVar = (AutoClassifier,)

    minutes: Number = 2.0
    linoss_options: dict[str, Any] | None = None
    verbose: int | bool = 0

    choice_ = AutoClassifier.choice_
    fit = AutoClassifier.fit
