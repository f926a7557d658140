"""Wrong arrays are refused with the argument, the case, what came and what was expected."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator

from linoss.data import DataError, as_sequences, sequences

pytestmark = pytest.mark.usefixtures("unchecked")

GOOD = np.zeros((2, 1, 3))


def changed(value, index):
    array = GOOD.copy()
    array[index] = value
    return array


BAD = [
    ({"X": np.zeros(3)}, "X has shape (3,) and dtype float64, expected numbers (cases, channels"),
    ({"X": np.zeros((0, 2, 3))}, "X has shape (0, 2, 3) and dtype float64, expected"),
    ({"X": np.full((2, 3), "a")}, "X has shape (2, 3) and dtype <U1, expected numbers"),
    ({"X": "file.csv"}, "X has shape () and dtype <U8, expected numbers"),
    ({"X": []}, "X has no cases, expected at least one"),
    ({"X": [GOOD[0], np.zeros((1, 0))]}, "X, case 1: has shape (1, 0) and dtype"),
    ({"X": [GOOD[0], np.zeros((2, 3))]}, "X, case 1: has 2 channels, expected 1 as in case 0"),
    ({"X": [GOOD[0], ["a", "b"]]}, "X, case 1: has shape (2,) and dtype <U1"),
    ({"X": [GOOD[0], [[1, 2], [3]]]}, "X, case 1: has shape () and dtype object"),
    ({"X": changed(np.inf, (1, 0, 2))}, "X, case 1: the value of channel 0 at position 2 is inf"),
    ({"y": [1]}, "y has 1 labels, expected 2, one for each case"),
    ({"y": ["a", 1.5]}, "y holds the text 'a' and the float 1.5, expected labels of one type"),
    ({"y": ["a", None]}, "y, case 1: the label is missing, in 1 of 2 cases, expected a label"),
    ({"y": [1.0, np.nan]}, "y, case 1: the label is nan, expected a finite number"),
    ({"y": [[1.0], [np.inf]]}, "y, case 1: the label is [inf], expected a finite number"),
    ({"y": [[1.0], ["a"]]}, "y, case 1: expected numbers (outputs,) or (answers, outputs)"),
    ({"y": np.array(["2024", "2025"], "M8[D]")}, "y has dtype datetime64[D] and shape (2,)"),
    ({"y": "ab"}, "y has dtype <U2 and shape (), expected classes or numbers"),
    ({"times": np.arange(2)}, "times has shape (2,), expected (3,), the length of case 0 of X"),
    ({"times": 5}, "times has shape (1,), expected (3,), the length of case 0"),
    ({"times": np.zeros((3, 3))}, "times has 3 cases, expected 2, as X"),
    ({"times": np.zeros((2, 4))}, "times, case 0: has shape (4,) and dtype float64, expected (3,)"),
    ({"times": [[0, 1, 2], [0, 2, 1]]}, "times, case 1, position 2: the time is 1.0 after 2.0"),
    ({"times": [[0, 1, 2], [0, np.nan, 1]]}, "times, case 1, position 1: the time is nan after"),
    ({"times": ["a", "b", "c"]}, "times: has shape (3,) and dtype <U1, expected (3,) numbers"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_bad_arguments(arguments, message):
    with pytest.raises(DataError, match=re.escape(message)):
        sequences(**{"X": GOOD, **arguments})


@pytest.mark.parametrize(
    ("indices", "message"),
    [
        ([], "indices has shape (0,) and dtype float64, expected (n,) integers"),
        ([[0]], "indices has shape (1, 1) and dtype int64, expected (n,) integers"),
        ([0.5], "indices has shape (1,) and dtype float64, expected (n,) integers"),
        ([2], "indices has 2, expected below 2"),
        ([-3], "indices has -3, expected below 2"),
    ],
)
def test_bad_indices(indices, message):
    for method in (sequences(GOOD).select, sequences(GOOD).batch):
        with pytest.raises(DataError, match=re.escape(message)):
            method(indices)


def test_batch_shorter_than_its_cases():
    with pytest.raises(DataError, match="length is 2, expected at least 3, the longest case"):
        sequences(GOOD).batch([0], length=2)


# ---- Arguments of estimators ----


def refused(message, X, y=(0, 1) * 3):
    with pytest.raises(DataError, match=message):
        as_sequences(BaseEstimator(), X, list(y), None, reset=True)


def test_frames_that_would_be_read_otherwise():
    values = np.arange(24.0).reshape(6, 4)
    pairs = pd.MultiIndex.from_product([[0, 1, 2], [0, 1]])
    refused(r"several levels.*expected a row for each sample", pd.DataFrame(values, index=pairs))
    refused(r"several levels", pd.DataFrame(np.zeros((6, 6)), columns=pairs))
    text = pd.DataFrame(values, columns=list("abcd")).assign(name="p7")
    refused(r"column 'name', which has no numbers, expected .* linoss.data.read reads frames", text)
    refused(r"two columns of one name", pd.DataFrame(values, columns=list("abca")))
    nested = pd.DataFrame({"x": [pd.Series(row) for row in values]})
    refused(r"X is a frame with column 'x', which has no numbers", nested)
    refused("X is 'waves.csv', expected sequences; .* linoss.data.read reads it", "waves.csv")


def test_arrays_of_arrays_and_ragged_lists_are_sequences():
    ragged = np.empty(6, object)
    ragged[:] = [np.ones((2, 3 + i)) for i in range(6)]
    channels = np.empty((6, 2), object)
    for i in range(6):
        channels[i] = [np.ones(3 + i), np.ones(3 + i)]
    for X in (ragged, channels, [[1.0] * (3 + i) for i in range(6)]):
        cases, _ = as_sequences(BaseEstimator(), X, None, None, reset=True)
        assert cases.lengths.tolist() == [3, 4, 5, 6, 7, 8]
        assert cases.num_channels == (1 if isinstance(X, list) else 2)


LABELS = ["a", "b", None, "a", "b", None]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (LABELS, "y, case 2: the label is missing, in 2 of 6 cases"),
        (np.array(LABELS, object), "y, case 2: the label is missing, in 2 of 6 cases"),
        (pd.Series(LABELS), "y, case 2: the label is missing, in 2 of 6 cases"),
        (["a", 1] * 3, r"the text 'a' and the int 1, .* one type; pass \[str\("),
        (np.array(["a", 1] * 3, object), r"the text 'a' and the int 1, .* one type"),
    ],
)
def test_labels_that_are_missing_or_of_several_types(y, message):
    with pytest.raises(DataError, match=message):
        as_sequences(BaseEstimator(), np.zeros((6, 4)), y, None, reset=True)


def test_categories_are_labels():
    y = pd.Categorical(list("abcabc"))
    _, found = as_sequences(BaseEstimator(), np.zeros((6, 4)), y, None, reset=True)
    assert list(found) == list("abcabc")


def test_a_case_without_values_is_refused_in_a_fit_only():
    values = np.zeros((6, 2, 4))
    values[3] = np.nan
    refused("case 3 of X has no value at all; leave it out", values)
    as_sequences(BaseEstimator(), values, None, None, reset=False)


@pytest.mark.parametrize("shape", [(6, 24, 3), (6, 100, 12), (6, 1000, 100)])
def test_axes_that_seem_exchanged(shape):
    message = rf"X has {shape[1]} channels of {shape[2]} steps: is it .*X.transpose\(0, 2, 1\)"
    with pytest.warns(UserWarning, match=message):
        as_sequences(BaseEstimator(), np.zeros(shape), None, None, reset=True)
    with pytest.warns(UserWarning, match=message):
        sequences(list(np.zeros(shape)))
    as_sequences(BaseEstimator(), np.zeros(shape), None, None, reset=False)
