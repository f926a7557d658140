"""The base of classifiers and regressors: validated cases in, decoded predictions out."""

import os
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight as check_sample_weight
from sklearn.utils.validation import check_is_fitted, column_or_1d

from linoss._declare import check_settings
from linoss._imports import imports_allowed
from linoss.data import Sequences, as_sequences
from linoss.fitted import (
    AbstractPredictionStream,
    Attribution,
    Description,
    Fitted,
    Outputs,
    load,
    reading,
)

Kind = TypeVar("Kind", bound="SequenceEstimator")

_FEATURES = ("n_features_in_", "feature_names_in_")


class SequenceEstimator:
    """The base of classifiers and regressors, before scikit-learn's; `fitted_` does the work."""

    task: ClassVar[str]
    """`"classification"` or `"regression"`."""
    fitted_: Fitted
    """The result of `fit`, see [`linoss.fitted.Fitted`][]."""
    classes_: np.ndarray
    """The classes, in the order of the probabilities."""
    n_features_in_: int
    feature_names_in_: np.ndarray

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # pyright: ignore[reportAttributeAccessIssue]
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = True
        tags.target_tags.multi_output = self.task == "regression"
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "fitted_")

    @property
    def held_out_score_(self) -> float | None:
        """Accuracy or R² of predictions for held-out training cases; None if there are none."""
        return None if self.fitted_.held_out is None else self.fitted_.held_out.score

    # ---- Fits ----

    def _validated(
        self,
        X: Any,
        y: Any,
        times: Any,
        sample_weight: Any,
        groups: Any = None,
        learned: Fitted | None = None,
    ) -> tuple[Sequences, Outputs]:
        """Labelled cases without those of weight 0, and how outputs are decoded.

        Settings and data are validated here, once; further cases are like those that were learned.
        """
        reset = learned is None
        check_settings(self)
        every, is_classifier = getattr(self, "every", None), self.task == "classification"
        checks = {} if is_classifier else {"multi_output": True, "y_numeric": True}
        targets = y if every is None else None
        cases, checked = as_sequences(self, X, targets, times, reset=reset, **checks)
        labels = y if every is not None else checked
        labels = cases.labels if labels is None else labels
        if labels is None:
            name = type(self).__name__
            raise ValueError(f"{name} requires y to be passed, but the target y is None")
        if len(labels) != len(cases):
            raise ValueError(f"y has {len(labels)} labels, expected {len(cases)}, one a case")
        if is_classifier:
            labels = column_or_1d(labels, warn=True)
            check_classification_targets(labels)
        elif every is not None:
            labels = list(labels)
        else:
            try:
                labels = np.asarray(labels, np.float64)
            except ValueError as error:
                expected = "expected numbers; for classes use a classifier"
                raise ValueError(f"y: {error}, {expected}") from None
        weights = None if sample_weight is None else _case_weights(cases, sample_weight)
        groups = cases.groups if groups is None else np.asarray(groups)
        if groups is not None and len(set(groups.tolist())) < 2:
            raise ValueError(f"groups has one group, {groups[0]}, expected at least two")
        cases = replace(cases, labels=labels, weights=weights, groups=groups)
        if weights is not None:
            cases = cases.select(weights > 0)
        if is_classifier:
            return cases, Outputs.of_classes(cases.labels, None if reset else learned.classes)
        first = np.asarray(labels[0])
        is_scalar = first.ndim == (0 if every is None else 1)
        return cases, Outputs(None, 1 if is_scalar else first.shape[-1], is_scalar, every)

    def _begin(
        self,
        outputs: Outputs,
        directory: str | os.PathLike[str] | None = None,
        *,
        resume: bool = False,
    ) -> Description:
        """Begin or resume a run. Returns the description of this estimator, with its seed."""
        facts = {name: getattr(self, name, None) for name in _FEATURES}
        outputs_ = outputs.to_dict()
        return Description.of(self, outputs=outputs_, **facts).begin(directory, resume=resume)  # pyright: ignore[reportArgumentType]

    def _end(
        self: Kind,
        fitted: Fitted,
        description: Description,
        directory: str | os.PathLike[str] | None = None,
    ) -> Kind:
        """Set the fitted attributes, and write them to the directory of the run."""
        self.fitted_, self._description = fitted, description
        if fitted.classes is not None:
            self.classes_ = fitted.classes
        if directory is not None:
            description.finish(directory, fitted)
        return self

    # ---- Predictions ----

    def _cases(self, X: Any, times: Any) -> Sequences:
        check_is_fitted(self)
        return as_sequences(self, X, None, times, reset=False)[0]

    def predict(self, X: Any, *, times: Any = None) -> Any:
        """The most probable class of each case, or numbers in the shape of the targets of `fit`."""
        predictions = self._predictions(X, times)
        return self.fitted_.outputs.decode(predictions)

    @available_if(lambda self: self.task == "classification")
    def predict_proba(self, X: Any, *, times: Any = None) -> np.ndarray:
        """Probabilities `(cases, classes)`, in the order of `classes_`."""
        return self._predictions(X, times)

    def _predictions(self, X: Any, times: Any) -> Any:
        cases = self._cases(X, times)
        return self.fitted_.predict(cases)

    def score(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, times: Any = None
    ) -> float:
        """Accuracy, or R² over all known targets; `y` may be omitted if X has labels."""
        y = X.labels if y is None and isinstance(X, Sequences) else y
        predictions = self._predictions(X, times)
        outputs = self.fitted_.outputs
        if outputs.every is not None and sample_weight is not None:
            raise ValueError("sample_weight was given, but every is not None, expected None")
        return outputs.score(predictions, y, sample_weight)

    def stream(self) -> AbstractPredictionStream:
        """Return a function that processes one sample at a time, in constant memory.

        It returns the prediction for the sequence so far: probabilities, or numbers. Untrained
        oscillators need `causal=True`.

        ```python
        >>> import numpy as np
        >>> from linoss import OscillatorClassifier
        >>> waves = np.random.default_rng(0).normal(size=(20, 1, 50))
        >>> settings = {"n_oscillators": 64, "causal": True, "random_state": 0}
        >>> classifier = OscillatorClassifier(**settings).fit(waves, np.arange(20) % 2)
        >>> stream = classifier.stream()
        >>> for sample in waves[0].T:
        ...     probabilities = stream(sample)
        >>> bool(np.allclose(probabilities, classifier.predict_proba(waves[:1]), atol=1e-5))
        True

        ```
        """
        check_is_fitted(self)
        return self.fitted_.stream()

    def explain(
        self,
        X: Any,
        *,
        times: Any = None,
        member: str | None = None,
        periods: int = 24,
        parts: int = 48,
    ) -> Attribution:
        """Return the attribution of each output to parts of the only case of X.

        **Arguments:**

        - `X`, `times`: as in `predict`, with one case.
        - `member`: of an ensemble, `"oscillators"` or `"linoss"`.
        - `periods`, `parts`: for oscillators, number of bins of periods and of times.

        ```python
        >>> import numpy as np
        >>> from linoss import OscillatorClassifier
        >>> waves = np.random.default_rng(0).normal(size=(20, 1, 100))
        >>> waves[::2, :, 50:] += np.sin(np.arange(50))  # of period 6.28, in the second half
        >>> labels = np.where(np.arange(20) % 2, "noise", "wave")
        >>> classifier = OscillatorClassifier(n_oscillators=512, random_state=0).fit(waves, labels)
        >>> attribution = classifier.explain(waves[:1])
        >>> total = attribution.values.sum(axis=(1, 2)) + attribution.intercept
        >>> bool(np.allclose(total, classifier.decision_function(waves[:1]), atol=1e-3))
        True

        ```
        """
        cases = self._cases(X, times)
        return self.fitted_.explain(cases, member=member, periods=periods, parts=parts)

    # ---- Files ----

    def save(
        self,
        directory: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        allow_import: bool = False,
    ) -> None:
        """Write the fitted estimator to a directory, as JSON and safetensors.

        Raises if it holds an estimator or a run; with `overwrite` it is replaced atomically.
        A mixer or scheme of your own is written by its import path, with `allow_import` only.
        """
        check_is_fitted(self)
        with imports_allowed(allow_import):
            self._description.save(directory, self.fitted_, overwrite=overwrite)

    @classmethod
    def load(
        cls: type[Kind], directory: str | os.PathLike[str], *, allow_import: bool = False
    ) -> Kind:
        """Load an estimator of `save` or `fit(..., directory=...)`.

        It executes no code, but for importing your own mixer or scheme with `allow_import`.
        """
        with imports_allowed(allow_import):
            fitted, description = load(directory)
            estimator = description.create(cls, directory)  # pyright: ignore[reportArgumentType]
        with reading(directory):
            count, names = (description.facts[name] for name in _FEATURES)
            if count is not None:
                estimator.n_features_in_ = int(count)
            if names is not None:
                estimator.feature_names_in_ = np.array(names, object)
        return estimator._end(fitted, description)


def _case_weights(cases: Sequences, sample_weight: Any) -> np.ndarray:
    """A weight for each case, at least one of them above 0."""
    weights = check_sample_weight(sample_weight, cases, dtype=np.float64)
    if not ((weights >= 0).all() and (weights < 1e150).all() and weights.any()):
        raise ValueError(
            "sample_weight has entries that are not finite, >= 0 and < 1e150, or all are 0"
        )
    return weights
