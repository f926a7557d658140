"""From the arguments of an estimator to sequences."""

from typing import Any

from linoss.data._arrays import sequences
from linoss.data._sequences import Sequences


def as_sequences(
    estimator: Any, X: Any, y: Any, times: Any, *, reset: bool, **checks: Any
) -> tuple[Sequences, Any]:
    """X as sequences, and y; arrays are validated by scikit-learn first.

    ```python
    >>> import numpy as np
    >>> from sklearn.base import BaseEstimator
    >>> from linoss.data import as_sequences
    >>> cases, y = as_sequences(BaseEstimator(), np.zeros((2, 5)), [0, 1], None, reset=True)
    >>> cases.lengths, y
    (array([5, 5]), array([0, 1]))

    ```

    **Arguments:**

    - `estimator`: whose `n_features_in_` is set by `reset`, or compared with.
    - `X`, `y`, `times`: as in [`linoss.LinOSSClassifier.fit`][]; y may be None.
    - `checks`: further arguments of `sklearn.utils.validation.validate_data`.
    """
    from sklearn.utils import check_array
    from sklearn.utils.validation import validate_data

    if isinstance(X, Sequences):
        return X, y
    if not isinstance(X, list | tuple) or _is_table(X):
        allowed: Any = {"allow_nd": True, "ensure_all_finite": "allow-nan"}
        validate: Any = validate_data  # its type hints do not include arrays
        if y is None and getattr(X, "ndim", None) == 3:  # of any length
            X = check_array(X, estimator=estimator, **allowed)
        elif y is None:
            X = validate(estimator, X, reset=reset, **allowed)
        else:
            X, y = validate(estimator, X, y, reset=reset, **allowed, **checks)
    return sequences(X, times=times), y


def _is_table(X: Any) -> bool:
    """Whether a list has a list for each case, and not an array."""
    return len(X) > 0 and all(isinstance(row, list | tuple) for row in X)
