"""Conversion of the arguments of an estimator to sequences."""

import os
from typing import Any

import numpy as np

from linoss.data._arrays import as_cases, warn_if_turned
from linoss.data._errors import DataError
from linoss.data._raw_files import shown
from linoss.data._sequences import Sequences


def as_sequences(
    estimator: Any, X: Any, y: Any, times: Any, *, reset: bool, **checks: Any
) -> tuple[Sequences, Any]:
    """Convert X to sequences; scikit-learn validates arrays first.

    ```python
    >>> import numpy as np
    >>> from sklearn.base import BaseEstimator
    >>> from linoss.data import as_sequences
    >>> cases, y = as_sequences(BaseEstimator(), np.zeros((2, 5)), [0, 1], None, reset=True)
    >>> cases.lengths, y
    (array([5, 5]), array([0, 1]))

    ```

    **Arguments:**

    - `estimator`: its `n_features_in_` is set if `reset`, otherwise compared.
    - `X`, `y`, `times`: as in [`linoss.LinOSSClassifier.fit`][]; y may be None.
    - `checks`: further arguments of `sklearn.utils.validation.validate_data`.
    """
    from sklearn.utils import check_array
    from sklearn.utils.validation import validate_data

    _check_labels(y)
    if isinstance(X, str | os.PathLike):
        raise DataError(
            f"X is {X!r}, expected sequences; if it is a file, linoss.data.read reads it"
        )
    if isinstance(X, Sequences):
        return _refuse_empty(X) if reset else X, y
    _refuse_frames(X)
    if isinstance(X, np.ndarray) and X.dtype == object and X.size and np.ndim(X.flat[0]):
        X = list(X) if X.ndim == 1 else [np.stack(channels) for channels in X]
    if not isinstance(X, list | tuple) or _is_table(X):
        allowed: Any = {"allow_nd": True, "ensure_all_finite": "allow-nan"}
        validate: Any = validate_data  # scikit-learn's type hints do not include arrays
        try:
            if y is None and getattr(X, "ndim", None) == 3:  # sequences of any length
                X = check_array(X, estimator=estimator, **allowed)
            elif y is None:
                X = validate(estimator, X, reset=reset, **allowed)
            else:
                X, y = validate(estimator, X, y, reset=reset, **allowed, **checks)
        except OverflowError:
            raise DataError(
                "X holds an integer above 1.8e308, which no float can be, expected numbers of "
                "a float's range; scale the data, or put NaN for a missing value"
            ) from None
        except ValueError as error:
            if "is expecting" not in str(error):
                raise
            raise ValueError(
                f"{error} Pass X[:1] for one case, and (cases, channels, time) for another length"
            ) from None
    cases = as_cases(X, times=times)
    if not reset:
        return cases, y
    return _refuse_empty(warn_if_turned("X", cases)), y


def _is_table(X: Any) -> bool:
    """Whether X is a list with a list, not an array, for each case, all of the same length."""
    lists = len(X) > 0 and all(isinstance(row, list | tuple) for row in X)
    return lists and len({len(row) for row in X}) == 1


def _check_labels(y: Any) -> None:
    """Raise for labels that are None, with the number of the case, and for texts among numbers."""
    labels: Any = y
    if hasattr(y, "notna"):
        labels = np.array(y, dtype=object)
        labels[~np.asarray(y.notna())] = None
    if not isinstance(labels, list | tuple) and np.asarray(labels).dtype.kind != "O":
        return
    missing = [i for i, label in enumerate(() if y is None else labels) if label is None]
    if missing:
        raise DataError(
            f"y, case {missing[0]}: the label is missing, in {len(missing)} of {len(labels)} "
            "cases, expected a label for each case; leave out the cases without"
        )
    texts = [isinstance(label, str) for label in (() if y is None else labels)]
    if any(texts) and not all(texts):
        one, other = labels[texts.index(True)], labels[texts.index(False)]
        raise DataError(
            f"y holds the text {shown(one)} and the {type(other).__name__} {other!r:.80}, expected "
            "labels of one type; pass [str(label) for label in y]"
        )


def _refuse_frames(X: Any) -> None:
    """Raise for frames that do not have a row of numbers for each case."""
    if isinstance(X, list | tuple) and any(hasattr(case, "columns") for case in X):
        raise DataError(
            "X is a list of data frames, expected a list of arrays (channels, length); if each "
            "frame has a row for each sample, pass [frame.to_numpy().T for frame in X]"
        )
    if not hasattr(X, "columns"):
        return
    frame: Any = X
    index, columns = frame.index, frame.columns
    if index.nlevels > 1:
        raise DataError(
            f"X is a frame with an index of {index.nlevels} levels, expected a row for each case; "
            "if the first level is the case, and a row is a sample, pass "
            "[case.to_numpy().T for _, case in X.groupby(level=0)]"
        )
    if columns.nlevels > 1:
        raise DataError(
            f"X is a frame with columns of {columns.nlevels} levels, expected a column for each "
            "time point of one channel; for several channels pass an array (cases, channels, time)"
        )
    if not columns.is_unique:
        raise DataError(
            f"X is a frame with several columns named {shown(columns[columns.duplicated()][0])}, "
            "expected a different name for each time point; pass X.to_numpy()"
        )
    for place, name in enumerate(columns):
        column = frame.iloc[:, place]
        if len(column) and np.ndim(column.iloc[0]):
            raise DataError(
                f"X, column {shown(name)}: has a sequence in each cell, expected numbers; pass "
                "[np.stack(row) for row in X.to_numpy()]"
            )
        if getattr(column.dtype, "kind", "O") not in "biuf":
            text = next((cell for cell in column if isinstance(cell, str)), None)
            if text is not None:
                raise DataError(
                    f"X, column {shown(name)}: holds {shown(text)}, expected numbers, a column for "
                    f"each time point; leave out what is none, X.drop(columns=[{name!r}])"
                )


def _refuse_empty(cases: Sequences) -> Sequences:
    """Return the cases; raise for a case without any value."""
    empty = next((i for i, case in enumerate(cases.values) if np.isnan(case).all()), None)
    if empty is not None:
        raise DataError(f"case {empty} of X has no value at all; leave it out")
    return cases
