"""What estimators are given: arrays, frames or sequences, checked as scikit-learn does."""

import os
from typing import Any

import numpy as np

from linoss.data._arrays import check_labels, from_arrays, warn_if_turned
from linoss.data._columns import ID_NAMES, named
from linoss.data._raw_files import DataError, shown
from linoss.data._read import read
from linoss.data._sequences import Sequences


def as_sequences(
    estimator: Any, X: Any, y: Any, times: Any, *, reset: bool, **checks: Any
) -> tuple[Sequences, Any]:
    """Convert the X of an estimator to sequences; y is checked, and returned as it is.

    ```python
    >>> import numpy as np
    >>> from sklearn.base import BaseEstimator
    >>> from linoss.data import as_sequences
    >>> cases, y = as_sequences(BaseEstimator(), np.zeros((2, 5)), [0, 1], None, reset=True)
    >>> cases.lengths, y
    (array([5, 5]), array([0, 1]))

    ```

    **Arguments:**

    - `estimator`: its `n_features_in_` and `feature_names_in_` are set if `reset`, otherwise
      compared. Channels with names are put in their order.
    - `X`, `y`, `times`: as in [`linoss.LinOSSClassifier.fit`][]; y may be None.
    - `checks`: further arguments of `sklearn.utils.validation.validate_data`, which sees arrays
      first.
    """
    check_labels("y", y)
    if isinstance(X, str | os.PathLike):
        raise DataError(
            f"X is {X!r}, expected sequences; if it is a file, linoss.data.read reads it"
        )
    if hasattr(X, "columns"):
        X = _frame(X, reset=reset)
    if isinstance(X, Sequences):
        X = _with_names(estimator, X, reset=reset)
    else:
        if isinstance(X, np.ndarray) and X.dtype == object and X.size and np.ndim(X.flat[0]):
            X = list(X) if X.ndim == 1 else [np.stack(channels) for channels in X]
        if not isinstance(X, list | tuple) or _is_table(X):
            X, y = _validated(estimator, X, y, reset, checks)
        X = from_arrays(X, times=times)
        X = warn_if_turned("X", X) if reset else X
    if reset:
        for i, case in enumerate(X.values):
            if np.isnan(case[0, 0]) and np.isnan(case).all():
                raise DataError(f"case {i} of X has no value at all; leave it out")
    return X, y


def _frame(frame: Any, *, reset: bool) -> Any:
    """A long frame as sequences, or a frame with a row of numbers for each case as it is."""
    names = [str(name) for name in frame.columns]
    if frame.index.nlevels == 1 == frame.columns.nlevels and named(names, ID_NAMES) is not None:
        return read(frame, may_lack=not reset)
    kinds = {str(n): getattr(kind, "kind", "O") for n, kind in frame.dtypes.items()}
    odd = [name for name, kind in kinds.items() if kind not in "biuf"]
    several = frame.index.nlevels > 1 or frame.columns.nlevels > 1 or len(kinds) < len(names)
    if several or odd:
        levels = "an index or columns of several levels, or two columns of one name"
        what = levels if several else f"column {shown(odd[0])}, which has no numbers"
        raise DataError(
            f"X is a frame with {what}, expected a row for each sample and the columns case, time "
            "and one for each channel, or a row of numbers for each case; linoss.data.read reads "
            "frames with other names, and leaves out columns"
        )
    return frame


def _with_names(estimator: Any, cases: Sequences, *, reset: bool) -> Sequences:
    """The cases with channels in the order of the fit."""
    if not reset:
        known = getattr(estimator, "feature_names_in_", ())
        is_of_channels = len(known) and not hasattr(estimator, "n_features_in_")
        return cases.ordered(tuple(known)) if is_of_channels else cases
    for name in ("n_features_in_", "feature_names_in_"):
        vars(estimator).pop(name, None)
    if cases.names is not None:
        estimator.feature_names_in_ = np.array(cases.names, object)
    return cases


def _validated(estimator: Any, X: Any, y: Any, reset: bool, checks: Any) -> tuple[Any, Any]:
    """What scikit-learn checks of arrays. Whether values are finite is checked for each case."""
    from sklearn.utils import check_array
    from sklearn.utils.validation import validate_data

    allowed: Any = {"allow_nd": True, "ensure_all_finite": False}
    validate: Any = validate_data  # scikit-learn's type hints do not include arrays
    is_unknown = not reset and not hasattr(estimator, "n_features_in_")
    try:
        if y is None and (getattr(X, "ndim", None) == 3 or is_unknown):  # of any length
            return check_array(X, estimator=estimator, **allowed), None
        if y is None:
            return validate(estimator, X, reset=reset, **allowed), None
        return validate(estimator, X, y, reset=reset, **allowed, **checks)
    except ValueError as error:
        if "is expecting" not in str(error):
            raise
        raise ValueError(
            f"{error} Pass X[:1] for one case, and (cases, channels, time) for another length"
        ) from None


def _is_table(X: Any) -> bool:
    """Whether X is a list with a list, not an array, for each case, all of the same length."""
    lists = len(X) > 0 and all(isinstance(row, list | tuple) for row in X)
    return lists and len({len(row) for row in X}) == 1
