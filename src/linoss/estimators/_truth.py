"""The cases of a fit, and their labels."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import column_or_1d

from linoss.data import DataError, Sequences, as_sequences


def labelled_cases(
    estimator: BaseEstimator, X: Any, y: Any, times: Any, **checks: Any
) -> tuple[Sequences, Any]:
    """The training sequences, and their labels, one for each."""
    cases, y = as_sequences(estimator, X, y, times, reset=True, **checks)
    return cases, labels_of(estimator, cases, y)


def labels_of(estimator: BaseEstimator, cases: Sequences, y: Any) -> Any:
    """The labels `y`, or else those of the cases."""
    y = cases.labels if y is None else y
    if y is None:
        name = type(estimator).__name__
        raise ValueError(f"{name} requires y to be passed, but the target y is None")
    if len(y) != len(cases):
        raise DataError(f"y has {len(y)} labels, expected {len(cases)}, one for each case")
    return y


def class_labels(y: Any) -> np.ndarray:
    """Validate one class for each case."""
    y = column_or_1d(y, warn=True)
    if type_of_target(y, input_name="y") == "continuous":
        fraction = next(value for value in y.tolist() if value != int(value))
        raise ValueError(
            f"Unknown label type: y has numbers with fractions, such as {fraction:.6g}, expected "
            "classes; predict numbers with a regressor (--task regression), or name the column "
            "of the classes (--label)"
        )
    check_classification_targets(y)
    return y


def classes_of(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The classes in order, and the index of each case's class."""
    classes, place = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"y has one class, {classes.tolist()[0]!r}, expected at least two")
    return classes, place
