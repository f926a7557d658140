"""The base of all estimators: training, data checks, saving and loading."""

import os
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

import jax
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from linoss import _checks
from linoss._plain import plain
from linoss.data import DataError, Sequences, sequences
from linoss.estimators._listener import Listener
from linoss.nn import LinOSS, LinOSSConfig
from linoss.training import (
    Cases,
    CheckpointError,
    Inputs,
    Objective,
    Progress,
    ProgressLine,
    Saved,
    TrainingConfig,
    load_model,
    make_mesh,
    predict,
    save_model,
    train,
)

OnProgress = Callable[[Progress], None]
Kind = TypeVar("Kind", bound="SequenceEstimator")

_FEW = 500  # cases: with fewer, all are used for training


@dataclass(frozen=True)
class RunOptions:
    """Where a fit writes its files, if anywhere, and what it reports to."""

    directory: str | os.PathLike[str] | None = None
    resume: bool = False
    on_progress: OnProgress | None = None


class SequenceEstimator(BaseEstimator):
    """Parameters, training and files of all estimators."""

    def __init__(
        self,
        *,
        hidden_size: int,
        state_size: int,
        num_blocks: int,
        scheme: str,
        damped: bool | None,
        bidirectional: bool,
        norm: str | None,
        dropout: float,
        time_channel: bool,
        model_options: dict[str, Any] | None,
        steps: int,
        batch_size: int,
        learning_rate: float,
        warmup: int | None,
        schedule: str,
        weight_decay: float,
        clip_norm: float | None,
        validation_fraction: float | None,
        evaluate_every: int | None,
        patience: int | None,
        devices: int | tuple[int, int] | None,
        random_state: Any,
        verbose: int,
    ):
        self.hidden_size = hidden_size
        self.state_size = state_size
        self.num_blocks = num_blocks
        self.scheme = scheme
        self.damped = damped
        self.bidirectional = bidirectional
        self.norm = norm
        self.dropout = dropout
        self.time_channel = time_channel
        self.model_options = model_options
        self.steps = steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.warmup = warmup
        self.schedule = schedule
        self.weight_decay = weight_decay
        self.clip_norm = clip_norm
        self.validation_fraction = validation_fraction
        self.evaluate_every = evaluate_every
        self.patience = patience
        self.devices = devices
        self.random_state = random_state
        self.verbose = verbose

    # ---- Training ----

    def _train(
        self,
        inputs: Inputs,
        objective: Objective,
        training_set: Cases,
        validation_set: Cases | None,
        seed: int,
        run: RunOptions,
        **head: Any,
    ) -> None:
        """Fit a model, and keep it in `model_`."""
        config = LinOSSConfig(
            **{
                "in_size": inputs.in_size,
                "out_size": objective.out_size,
                "task": objective.task,
                "hidden_size": self.hidden_size,
                "state_size": self.state_size,
                "num_blocks": self.num_blocks,
                "scheme": self.scheme,
                "damped": self.scheme != "verlet" if self.damped is None else self.damped,
                "bidirectional": self.bidirectional,
                "norm": self.norm,
                "dropout": self.dropout,
                **head,
                **(self.model_options or {}),
            }
        )
        settings = self._training_config(seed)
        if self.patience is not None and validation_set is None:
            raise ValueError(
                f"patience is {self.patience}, but nothing is held out to see an improvement by; "
                "set validation_fraction, such as 0.2"
            )
        line = ProgressLine(objective.metric) if self.verbose else nullcontext()
        report = run.on_progress
        with jax.enable_x64(False), line as shown:
            result = train(
                LinOSS(config, key=jax.random.key(seed)),
                inputs,
                objective,
                training_set,
                validation_set,
                settings,
                directory=run.directory,
                resume=run.resume,
                on_progress=shown if report is None else _both(report, shown),
                extra=self._extra(),
                arrays=self._arrays(),
                mesh=make_mesh(self.devices),
            )
        self.model_, self.inputs_, self.objective_ = result.model, inputs, objective
        self.history_, self.n_steps_ = result.history, result.steps
        self.best_metric_ = result.best_metric

    def _training_config(self, seed: int) -> TrainingConfig:
        _checks.positive_integer("steps", self.steps)
        every = self.evaluate_every
        warmup = self.warmup
        return TrainingConfig(
            steps=self.steps,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            warmup=min(100, self.steps // 10) if warmup is None else warmup,
            schedule=self.schedule,  # pyright: ignore[reportArgumentType]
            weight_decay=self.weight_decay,
            clip_norm=self.clip_norm,
            evaluate_every=max(self.steps // 20, 1) if every is None else every,
            patience=self.patience,
            seed=seed,
        )

    def _seed(self) -> int:
        """The seed of all random numbers."""
        if isinstance(self.random_state, int | np.integer):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31))

    def _held_out(self, cases: int) -> int:
        """How many of the cases are held out for validation."""
        fraction = self.validation_fraction
        if fraction is None:
            fraction = 0.0 if cases < _FEW else 0.1
        _checks.number(
            "validation_fraction", fraction, "None or a number in [0, 1)", lambda x: 0 <= x < 1
        )
        return min(round(fraction * cases), cases - 1)

    # ---- Data ----

    def _sequences(self, X: Any, y: Any, times: Any, *, reset: bool, **checks: Any) -> Any:
        """Cases from a user's data; arrays pass scikit-learn's checks."""
        validate: Any = validate_data  # its type annotations do not accept arrays
        if isinstance(X, Sequences):
            cases = X
        else:
            if not isinstance(X, list | tuple) or _is_table(X):
                allowed: Any = {"allow_nd": True, "ensure_all_finite": "allow-nan"}
                if (
                    y is None and getattr(X, "ndim", None) == 3
                ):  # lengths may differ from those of fit
                    X = check_array(X, estimator=self, **allowed)
                elif y is None:
                    X = validate(self, X, reset=reset, **allowed)
                else:
                    X, y = validate(self, X, y, reset=reset, **allowed, **checks)
            cases = sequences(X, times=times)
        if not reset and cases.num_channels != self.inputs_.channels:
            raise DataError(
                f"X has {cases.num_channels} channels, expected {self.inputs_.channels}, as in fit"
            )
        return cases, y

    def _answers(self, X: Any, times: Any) -> Any:
        """The decoded answers of the model."""
        check_is_fitted(self)
        cases, _ = self._sequences(X, None, times, reset=False)
        if self.inputs_.ignores_times(cases):
            raise DataError(
                "times are not evenly spaced, but those of fit were, or there were none, so that "
                "the model knows of no times; fit with such times"
            )
        if not self.inputs_.indicators and any(map(_partly_missing, cases.values)):
            warnings.warn(
                "X has steps where some of the channels are missing; fit had none, so that the "
                "model takes these for the mean of their channel. Fit with such cases, too",
                stacklevel=3,
            )
        with jax.enable_x64(False):
            found = predict(self.model_, self.inputs_, cases)
        if isinstance(found, list):
            return [self.objective_.decode(answers) for answers in found]
        return self.objective_.decode(found)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def stream(self) -> Listener:
        """The trained estimator, to listen to one sample at a time, in constant memory.

        The answer after each sample is the prediction for the sequence so far.

        ```python
        >>> import numpy as np
        >>> from linoss import LinOSSClassifier
        >>> waves = np.random.default_rng(0).normal(size=(20, 2, 50))
        >>> settings = {"steps": 5, "hidden_size": 8, "state_size": 8, "random_state": 0}
        >>> classifier = LinOSSClassifier(**settings).fit(waves, np.arange(20) % 2)
        >>> listen = classifier.stream()
        >>> for sample in waves[0].T:
        ...     probabilities = listen(sample)
        >>> bool(np.allclose(probabilities, classifier.predict_proba(waves[:1]), atol=1e-5))
        True

        ```
        """
        check_is_fitted(self)
        return Listener(self)

    # ---- Files ----

    def _extra(self) -> dict[str, Any]:
        """JSON values to save with the model."""
        parameters = self.get_params(deep=False)
        del parameters["devices"]  # a run may be resumed on others
        if not isinstance(parameters["random_state"], int | None):
            parameters["random_state"] = None  # its state has changed
        return {
            "estimator": type(self).__name__,
            "parameters": plain(parameters),
            "fitted": self._fitted(),
        }

    def _fitted(self) -> dict[str, Any]:
        """Learned attributes that are neither in the model nor in its inputs or objective."""
        return {"n_features_in": getattr(self, "n_features_in_", None)}

    def _arrays(self) -> dict[str, np.ndarray]:
        """Learned arrays to save with the model."""
        return {}

    def _restore(self, fitted: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """The inverse of `_fitted` and `_arrays`."""
        if fitted["n_features_in"] is not None:
            self.n_features_in_ = fitted["n_features_in"]

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write the trained estimator into a directory, as JSON and safetensors."""
        check_is_fitted(self)
        model = (self.model_, self.inputs_, self.objective_)
        save_model(directory, *model, extra=self._extra(), arrays=self._arrays())

    @classmethod
    def load(cls: type[Kind], directory: str | os.PathLike[str]) -> Kind:
        """The estimator that [`save`][], or `fit(..., directory=...)`, wrote."""
        with jax.enable_x64(False):
            saved = load_model(directory)
        kind = saved.extra.get("estimator")
        if kind != cls.__name__:
            raise ValueError(
                f"{os.fspath(directory)} holds {f'a {kind}' if kind else 'no estimator'}, "
                f"expected a {cls.__name__}"
            )
        return cls.of(saved, directory)

    @classmethod
    def of(cls: type[Kind], saved: Saved, directory: str | os.PathLike[str]) -> Kind:
        """The estimator of a model that was read from a directory."""
        try:
            estimator = cls(**saved.extra["parameters"])
            estimator.model_, estimator.inputs_ = saved.model, saved.inputs
            estimator.objective_, estimator.history_ = saved.objective, saved.history
            estimator._restore(saved.extra["fitted"], saved.arrays)
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"{os.fspath(directory)}: the estimator in it cannot be understood: {error!r}"
            ) from None
        return estimator


def _both(report: OnProgress, shown: OnProgress | None) -> OnProgress:
    """Report to a callback and to the live line."""

    def tell(progress: Progress) -> None:
        if shown is not None:
            shown(progress)
        report(progress)

    return tell


def _partly_missing(case: Any) -> bool:
    """Whether a case has steps with some channels missing, but not all."""
    missing = np.isnan(case)
    return bool((missing.any(axis=-1) & ~missing.all(axis=-1)).any())


def _is_table(X: Any) -> bool:
    """Whether a list is a table of numbers, a row for each case, and not a list of arrays."""
    return len(X) > 0 and all(isinstance(row, list | tuple) for row in X)
