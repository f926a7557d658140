"""Validated sequences from arrays in memory, of a caller or of an estimator."""

import os
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from linoss.data._raw_files import DataError, shown
from linoss.data._sequences import Sequences, StoredCases, as_case

LONGEST_NAME = 1000
"""Maximum number of characters in the name of a class."""
_FEW_STEPS, _MANY_CHANNELS = 32, 10  # axes are probably exchanged with fewer steps, more channels
_TURNED = 10  # and more channels for each step than this
_WIDE = 2**24  # bytes of an array of fixed-width names


def sequences(X: Any, y: Any = None, times: Any = None) -> Sequences:
    """Sequences from arrays. NaN marks a missing value; infinite values raise an error.

    ```python
    >>> import numpy as np
    >>> import linoss.data
    >>> recordings = np.zeros((10, 3, 200))  # 10 cases, 3 channels, 200 samples
    >>> cases = linoss.data.sequences(recordings, y=np.arange(10) % 2)
    >>> cases.values[0].shape
    (200, 3)

    ```

    **Arguments:**

    - `X`: (cases, channels, time), (cases, time) for one channel, or a list with an array
      (channels, length) or (length,) for each case, for cases of unequal length. A pandas frame has
      a row for each case and one channel. Values are converted to float32, unless that would lose a
      signal with a large offset. NaN at the end of a case is a missing value, not the end: pass a
      list if lengths differ. A `numpy.memmap` stays on disk, and its cases are read and checked on
      access.
    - `y`: a class or number for each case, (cases, outputs), or (steps, outputs) for each case.
    - `times`: sampling times: (time,) for all cases, (cases, time), or a list with an array
      (length,) for each case. Must increase. Dates become seconds since the first sample of a case.
    """
    return warn_if_turned("X", _sequences(X, y, times))


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

    - `estimator`: its `n_features_in_` is set if `reset`, otherwise compared.
    - `X`, `y`, `times`: as in [`linoss.LinOSSClassifier.fit`][]; y may be None.
    - `checks`: further arguments of `sklearn.utils.validation.validate_data`, which sees arrays
      first.
    """
    _check_labels("y", y)
    if isinstance(X, str | os.PathLike):
        raise DataError(
            f"X is {X!r}, expected sequences; if it is a file, linoss.data.read reads it"
        )
    if not isinstance(X, Sequences):
        _refuse_frames(X)
        if isinstance(X, np.ndarray) and X.dtype == object and X.size and np.ndim(X.flat[0]):
            X = list(X) if X.ndim == 1 else [np.stack(channels) for channels in X]
        if not isinstance(X, list | tuple) or _is_table(X):
            X, y = _validated(estimator, X, y, reset, checks)
        X = _sequences(X, times=times)
        if reset:
            warn_if_turned("X", X)
    if reset:
        _refuse_empty(X)
    return X, y


def _validated(estimator: Any, X: Any, y: Any, reset: bool, checks: Any) -> tuple[Any, Any]:
    """What scikit-learn checks of arrays. Whether values are finite is checked for each case."""
    from sklearn.utils import check_array
    from sklearn.utils.validation import validate_data

    allowed: Any = {"allow_nd": True, "ensure_all_finite": False}
    validate: Any = validate_data  # scikit-learn's type hints do not include arrays
    try:
        if y is None and getattr(X, "ndim", None) == 3:  # sequences of any length
            return check_array(X, estimator=estimator, **allowed), None
        if y is None:
            return validate(estimator, X, reset=reset, **allowed), None
        return validate(estimator, X, y, reset=reset, **allowed, **checks)
    except OverflowError:
        raise DataError(
            "X holds an integer above 1.8e308, which no float can be, expected numbers of a "
            "float's range; scale the data, or put NaN for a missing value"
        ) from None
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
    columns, wrong = frame.columns, None
    if frame.index.nlevels > 1:
        wrong = (
            f"an index of {frame.index.nlevels} levels, expected a row for each case; if the first "
            "level is the case, and a row is a sample, pass "
            "[case.to_numpy().T for _, case in X.groupby(level=0)]"
        )
    elif columns.nlevels > 1:
        wrong = (
            f"columns of {columns.nlevels} levels, expected a column for each time point of one "
            "channel; for several channels pass an array (cases, channels, time)"
        )
    elif not columns.is_unique:
        wrong = (
            f"several columns named {shown(columns[columns.duplicated()][0])}, expected a "
            "different name for each time point; pass X.to_numpy()"
        )
    if wrong is not None:
        raise DataError(f"X is a frame with {wrong}")
    for name, column in frame.items():
        if getattr(column.dtype, "kind", "O") in "biuf":
            continue
        odd = next((cell for cell in column if isinstance(cell, str) or np.ndim(cell)), None)
        if odd is not None and np.ndim(odd):
            raise DataError(
                f"X, column {shown(name)}: has a sequence in each cell, expected numbers; pass "
                "[np.stack(row) for row in X.to_numpy()]"
            )
        if odd is not None:
            raise DataError(
                f"X, column {shown(name)}: holds {shown(odd)}, expected numbers, a column for each "
                f"time point; leave out what is none, X.drop(columns=[{name!r}])"
            )


def _refuse_empty(cases: Sequences) -> None:
    """Raise for a case without any value."""
    for i, case in enumerate(cases.values):
        if np.isnan(case[0, 0]) and np.isnan(case).all():
            raise DataError(f"case {i} of X has no value at all; leave it out")


def _sequences(X: Any, y: Any = None, times: Any = None) -> Sequences:
    values = _cases(X)
    lengths = values.lengths if isinstance(values, StoredCases) else [len(case) for case in values]
    return Sequences(
        values,
        None if y is None else as_labels("y", y, len(values)),
        None if times is None else _times(times, [int(length) for length in lengths]),
    )


def warn_if_turned(source: str, cases: Sequences) -> Sequences:
    """Return the cases; warn if steps and channels seem to be exchanged, which would go unnoticed
    otherwise."""
    channels, steps = cases.num_channels, int(cases.lengths.max())
    few = steps <= _FEW_STEPS and channels >= _MANY_CHANNELS
    if channels > steps and (few or channels >= _TURNED * steps > _TURNED):
        warnings.warn(
            f"{source} has {channels} channels of {steps} steps: is it (cases, time, channels)? "
            "Expected is (cases, channels, time); if so, pass X.transpose(0, 2, 1), of a list "
            "[case.T for case in X]",
            stacklevel=4,
        )
    return cases


def from_array(source: str, array: np.ndarray, *, stored: bool = False) -> Sequence[np.ndarray]:
    """The cases of an array (cases, channels, time) or (cases, time)."""
    if array.ndim not in (2, 3):
        raise DataError(
            f"{source} has shape {array.shape}, expected (cases, channels, time) or (cases, time); "
            "a single series is one case, array[None]"
        )
    if array.dtype.kind not in "biuf":
        raise DataError(f"{source} has dtype {array.dtype}, expected numbers; convert it to float")
    if 0 in array.shape:
        raise DataError(f"{source} has shape {array.shape}, expected at least one of each")
    array = array[:, None, :] if array.ndim == 2 else array
    if stored:
        return StoredCases(array, source)
    return [as_case(f"{source}, case {i}", case) for i, case in enumerate(array)]


def _cases(X: Any) -> Sequence[np.ndarray]:
    if isinstance(X, np.memmap):
        return from_array("X", X, stored=True)
    if hasattr(X, "to_numpy"):
        try:
            X = X.to_numpy(dtype=float, na_value=np.nan)
        except (TypeError, ValueError) as error:
            raise DataError(f"X is a frame, expected one of numbers only: {error}") from None
    if isinstance(X, np.ma.MaskedArray):
        X = np.ma.filled(X.astype(float), np.nan)
    if not isinstance(X, list | tuple):
        X = np.asarray(X)
    if isinstance(X, np.ndarray) and not (X.dtype == object and X.ndim == 1):
        return from_array("X", X)
    if not len(X):
        raise DataError("X has no cases, expected at least one")
    cases = [_one_case(f"X, case {i}", case) for i, case in enumerate(X)]
    channels = cases[0].shape[1]
    for i, case in enumerate(cases):
        if case.shape[1] != channels:
            raise DataError(
                f"X, case {i}: has {case.shape[1]} channels, expected {channels} as in case 0; "
                "each case is an array (channels, length): of (length, channels) pass [case.T for "
                "case in X]"
            )
    return cases


def _one_case(where: str, case: Any) -> np.ndarray:
    try:
        array = np.asarray(case)
    except ValueError:
        raise DataError(f"{where}: is ragged, expected an array (channels, length)") from None
    if array.ndim not in (1, 2) or 0 in array.shape:
        raise DataError(
            f"{where}: has shape {array.shape}, expected (channels, length) or (length,), not empty"
        )
    if array.dtype.kind not in "biuf":
        raise DataError(f"{where}: has dtype {array.dtype}, expected numbers")
    return as_case(where, array if array.ndim == 2 else array[None])


def as_labels(source: str, y: Any, cases: int) -> np.ndarray | list:
    """Labels as an array, or as a list of arrays (steps, outputs) if their lengths differ."""
    if isinstance(y, list | tuple) and any(np.ndim(label) for label in y):
        labels = [_numeric_label(f"{source}, case {i}", label) for i, label in enumerate(y)]
        if len({label.shape for label in labels}) == 1:
            labels = np.stack(labels)
        else:
            labels = [label[:, None] if label.ndim == 1 else label for label in labels]
    else:
        labels = _label_array(source, y)
    if len(labels) != cases:
        raise DataError(f"{source} has {len(labels)} labels, expected {cases}, one for each case")
    if isinstance(labels, list) or labels.dtype.kind == "f":
        for i, label in enumerate(labels):
            if not np.isfinite(label).all():
                raise DataError(
                    f"{source}, case {i}: the label is {label}, expected a finite number; leave "
                    "out cases without a label"
                )
    return labels


def class_name(where: str, name: str) -> str:
    """The name of a class. Raises DataError for long texts."""
    if len(name) > LONGEST_NAME:
        raise DataError(
            f"{where}: the label has {len(name)} characters, expected the name of a class of at "
            f"most {LONGEST_NAME}"
        )
    return name


def class_names(names: Sequence[str]) -> np.ndarray:
    """Names as a NumPy array of fixed width, or of Python strings if one is much longer."""
    width = max(map(len, names), default=0)
    return np.array(names, object if 4 * width * len(names) > _WIDE else str)


def _check_labels(source: str, y: Any) -> None:
    """Raise for labels that are missing, and for texts among numbers."""
    labels: Any = y
    if hasattr(y, "notna"):
        labels = np.array(y, dtype=object)
        labels[~np.asarray(y.notna())] = None
    if y is None or isinstance(y, str):
        return
    if not isinstance(labels, list | tuple) and np.asarray(labels).dtype.kind != "O":
        return
    missing = [i for i, label in enumerate(labels) if label is None]
    if missing:
        raise DataError(
            f"{source}, case {missing[0]}: the label is missing, in {len(missing)} of "
            f"{len(labels)} cases, expected a label for each case; leave out the cases without"
        )
    texts = [isinstance(label, str) for label in labels]
    if any(texts) and not all(texts):
        one, other = labels[texts.index(True)], labels[texts.index(False)]
        raise DataError(
            f"{source} holds the text {shown(one)} and the {type(other).__name__} {other!r:.80}, "
            "expected labels of one type; pass [str(label) for label in y]"
        )


def _label_array(source: str, y: Any) -> np.ndarray:
    _check_labels(source, y)
    if isinstance(y, list | tuple) and y and isinstance(y[0], str):
        return class_names(y)
    array = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)  # pyright: ignore[reportAttributeAccessIssue]
    if array.dtype == object and all(isinstance(label, str) for label in array.flat):
        array = class_names(array.ravel().tolist()).reshape(array.shape)
    texts = array.dtype == object and array.size > 0 and isinstance(array.flat[0], str)
    if not (texts or array.dtype.kind in "biufSU") or array.ndim not in (1, 2, 3):
        raise DataError(
            f"{source} has dtype {array.dtype} and shape {array.shape}, expected classes or "
            "numbers (cases,) or (cases, outputs), or (answers, outputs) for each case"
        )
    return np.char.decode(array, "utf-8", "replace") if array.dtype.kind == "S" else array


def _numeric_label(where: str, label: Any) -> np.ndarray:
    try:
        array = np.asarray(label, float)
    except (TypeError, ValueError):
        array = np.zeros(())
    if array.ndim not in (1, 2):
        raise DataError(f"{where}: expected numbers (outputs,) or (answers, outputs)")
    return array


def _times(times: Any, lengths: list[int]) -> list[np.ndarray]:
    times = times.to_numpy() if hasattr(times, "to_numpy") else times
    if not isinstance(times, list | tuple) or not any(np.ndim(t) for t in times):
        times = np.asarray(times)
        if times.ndim == 0:
            raise DataError("times has shape (), expected (time,), (cases, time) or a list")
        if times.ndim == 1 and times.dtype != object:
            shared = case_times("times", times, times.size)
            odd = next((i for i, length in enumerate(lengths) if length != times.size), None)
            if odd is not None:
                raise DataError(
                    f"times has shape {times.shape}, expected ({lengths[odd]},), the length of "
                    f"case {odd} of X, or a list with an array for each case"
                )
            return [shared] * len(lengths)  # one array for all cases, which may be on disk
    rows = [np.asarray(t) for t in times]
    if len(rows) != len(lengths):
        raise DataError(f"times has {len(rows)} cases, expected {len(lengths)}, as X")
    return [
        case_times(f"times, case {i}", np.asarray(row), length)
        for i, (row, length) in enumerate(zip(rows, lengths, strict=True))
    ]


def case_times(where: str, times: np.ndarray, length: int) -> np.ndarray:
    """The times of one case in float64: finite, strictly increasing, one for each sample."""
    if times.dtype.kind == "M":
        times = (times - times[:1]) / np.timedelta64(1, "s")
    if times.shape != (length,) or times.dtype.kind not in "iuf":
        raise DataError(
            f"{where}: has shape {times.shape} and dtype {times.dtype}, expected ({length},) "
            "numbers or dates, one for each sample"
        )
    times = times.astype(np.float64)
    wrong = ~np.isfinite(times)
    wrong[1:] |= ~(times[1:] > times[:-1])
    if wrong.any():
        position = int(np.argmax(wrong))
        before = f" after {times[position - 1]}" if position else ""
        raise DataError(
            f"{where}, position {position}: the time is {times[position]}{before}, expected finite "
            "times that increase; sort the samples and remove those taken twice"
        )
    return times
