"""Validated sequences from arrays in memory."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
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
    return warn_if_turned("X", from_arrays(X, y, times))


def from_arrays(X: Any, y: Any = None, times: Any = None) -> Sequences:
    """As `sequences`, without warnings."""
    cases = Sequences(_cases(X))
    labels = None if y is None else as_labels("y", y, len(cases))
    clocks = None if times is None else as_times("times", times, cases.lengths)
    return replace(cases, labels=labels, times=clocks)


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
    if array.ndim not in (2, 3) or array.dtype.kind not in "biuf" or 0 in array.shape:
        raise DataError(
            f"{source} has shape {array.shape} and dtype {array.dtype}, expected numbers (cases, "
            "channels, time) or (cases, time), at least one of each; a single series is one case, "
            "array[None]"
        )
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
        array = np.array(None)
    if array.ndim not in (1, 2) or 0 in array.shape or array.dtype.kind not in "biuf":
        raise DataError(
            f"{where}: has shape {array.shape} and dtype {array.dtype}, expected numbers "
            "(channels, length) or (length,), not empty"
        )
    return as_case(where, array if array.ndim == 2 else array[None])


def as_labels(source: str, y: Any, cases: int) -> np.ndarray | list:
    """Labels as an array, or as a list of arrays (steps, outputs) if their lengths differ."""
    check_labels(source, y)
    several = isinstance(y, list | tuple) and any(np.ndim(label) for label in y)
    labels = _several_numbers(source, y) if several else _one_each(source, y)
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


def _several_numbers(source: str, y: Any) -> np.ndarray | list:
    labels = []
    for i, label in enumerate(y):
        try:
            labels.append(np.asarray(label, float))
        except (TypeError, ValueError):
            labels.append(np.zeros(()))
        if labels[-1].ndim not in (1, 2):
            raise DataError(
                f"{source}, case {i}: expected numbers (outputs,) or (answers, outputs)"
            )
    if len({label.shape for label in labels}) == 1:
        return np.stack(labels)
    return [label[:, None] if label.ndim == 1 else label for label in labels]


def _one_each(source: str, y: Any) -> np.ndarray:
    array: Any = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y, object)
    if array.ndim == 1 and len(array) and isinstance(array[0], str):
        return class_names(source, array)
    array = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)
    if array.dtype.kind not in "biufS" or array.ndim not in (1, 2, 3):
        raise DataError(
            f"{source} has dtype {array.dtype} and shape {array.shape}, expected classes or "
            "numbers (cases,) or (cases, outputs), or (answers, outputs) for each case"
        )
    return np.char.decode(array, "utf-8", "replace") if array.dtype.kind == "S" else array


def class_names(source: str, names: Sequence[str] | np.ndarray) -> np.ndarray:
    """Names as a NumPy array of fixed width, or of Python strings if one is much longer.

    Raises DataError for long names, and for those that are no valid Unicode.
    """
    names = [str(name) for name in names]
    width = max(map(len, names), default=0)
    if width > LONGEST_NAME:
        raise DataError(
            f"{source}: a label has {width} characters, expected the name of a class of at most "
            f"{LONGEST_NAME}"
        )
    for name in set(names):
        if any("\ud800" <= character <= "\udfff" for character in name):
            raise DataError(f"{source}: the label {name!a} is no valid Unicode; rename the class")
    return np.array(names, object if 4 * width * len(names) > _WIDE else str)


def check_labels(source: str, y: Any) -> None:
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


def as_times(source: str, times: Any, lengths: Any) -> list[np.ndarray]:
    """The times of each case, of which there are so many."""
    times = times.to_numpy() if hasattr(times, "to_numpy") else times
    if not isinstance(times, list | tuple) or not any(np.ndim(t) for t in times):
        times = np.atleast_1d(times)
        if times.ndim == 1 and times.dtype != object:
            odd = next((i for i, length in enumerate(lengths) if length != times.size), None)
            if odd is not None:
                raise DataError(
                    f"{source} has shape {times.shape}, expected ({lengths[odd]},), the length of "
                    f"case {odd} of X, or a list with an array for each case"
                )
            shared = case_times(source, times, times.size)
            return [shared] * len(lengths)  # one array for all cases, which may be on disk
    if len(times) != len(lengths):
        raise DataError(f"{source} has {len(times)} cases, expected {len(lengths)}, as X")
    return [
        case_times(f"{source}, case {i}", np.asarray(row), int(length))
        for i, (row, length) in enumerate(zip(times, lengths, strict=True))
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
