"""Arrays in memory become sequences and batches that hold the same numbers."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linoss.data import Sequences, sequences

RANDOM = np.random.default_rng(0)
CASES = [RANDOM.normal(size=(3, length)) for length in (5, 2, 7)]


def test_three_axes_are_cases_channels_time():
    X = RANDOM.normal(size=(4, 3, 6))
    cases = sequences(X)
    assert len(cases) == 4
    assert cases.num_channels == 3
    for case, array in zip(cases.values, X, strict=True):
        np.testing.assert_array_equal(case, array.T.astype(np.float32))


@pytest.mark.parametrize(
    "X",
    [
        np.arange(8.0).reshape(2, 4),
        np.arange(8).reshape(2, 1, 4),
        np.arange(8, dtype=np.int8).reshape(2, 4),
        np.arange(8, dtype=">f8").reshape(2, 4),
        [np.arange(4.0), np.arange(4.0, 8.0)],
        [[0, 1, 2, 3], [4, 5, 6, 7]],
        pd.DataFrame(np.arange(8).reshape(2, 4)),
    ],
    ids=["2-D", "integers", "bytes", "big-endian", "list of 1-D", "lists", "frame"],
)
def test_one_channel_in_any_form(X):
    cases = sequences(X)
    assert [case.tolist() for case in cases.values] == [[[0], [1], [2], [3]], [[4], [5], [6], [7]]]
    assert all(case.dtype == np.float32 for case in cases.values)


@pytest.mark.parametrize("offset", [1e8, -1e12, 1e-3])
def test_a_signal_on_an_offset_is_kept(offset):
    signal = np.random.default_rng(0).normal(size=(3, 2, 20))
    X = signal.copy()
    X[1, 1] += offset
    cases = sequences(X)
    found = cases.batch([0, 1, 2]).values
    wide = abs(offset) > 1
    assert found.dtype == (np.float64 if wide else np.float32)
    np.testing.assert_allclose(found[1, :, 1] - offset, signal[1, 1], atol=1e-3)
    assert [case.dtype == np.float64 for case in cases.values] == [False, wide, False]


def test_missing_value_of_a_nullable_frame_is_nan():
    frame = pd.DataFrame({"a": pd.array([1, None], "Int64"), "b": [3, 4]})
    assert np.isnan(sequences(frame).values[1][0, 0])


def test_masked_value_is_nan():
    X = np.ma.masked_equal(np.arange(8).reshape(2, 4), 5)
    assert np.argwhere(np.isnan(np.stack(sequences(X).values))).tolist() == [[1, 1, 0]]


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        (["a", "b", "a"], ["a", "b", "a"]),
        (np.array(["a", "b", "a"], object), ["a", "b", "a"]),
        (np.array([b"a", b"b", b"a"]), ["a", "b", "a"]),
        (pd.Series(["a", "b", "a"]), ["a", "b", "a"]),
        (pd.Categorical(["a", "b", "a"]), ["a", "b", "a"]),
        ([1, 2, 1], [1, 2, 1]),
        ([True, False, True], [True, False, True]),
        ([0.5, 1.5, 2.5], [0.5, 1.5, 2.5]),
        ([[1.0, 2.0]] * 3, [[1.0, 2.0]] * 3),
        (np.zeros((3, 2, 1)), [[[0.0], [0.0]]] * 3),
    ],
)
def test_labels(y, expected):
    labels = sequences(CASES, y).labels
    assert isinstance(labels, np.ndarray)
    assert labels.tolist() == expected


def test_answers_of_different_number_stay_a_list():
    y = [np.zeros((2, 1)), np.ones((1, 1)), np.ones((3, 1))]
    labels = sequences(CASES, y).labels
    assert isinstance(labels, list)
    assert [label.shape for label in labels] == [(2, 1), (1, 1), (3, 1)]


@pytest.mark.parametrize(
    "times",
    [
        np.array([0, 1, 4]),
        np.array([[0, 1, 4], [0, 1, 4]]),
        [[0, 1, 4], np.array([0.0, 1.0, 4.0])],
        np.array(["2024-01-01T00:00:00", "2024-01-01T00:00:01", "2024-01-01T00:00:04"], "M8[s]"),
    ],
    ids=["shared", "for each case", "list", "dates"],
)
def test_times(times):
    cases = sequences(np.zeros((2, 1, 3)), times=times)
    assert cases.times is not None
    assert [t.tolist() for t in cases.times] == [[0.0, 1.0, 4.0]] * 2
    assert all(t.dtype == np.float64 for t in cases.times)


@st.composite
def ragged(draw):
    """Sequences of drawn lengths with drawn values missing, with labels and times."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    lengths = draw(st.lists(st.integers(1, 9), min_size=1, max_size=6))
    channels = draw(st.integers(1, 3))
    share = draw(st.sampled_from([0.0, 0.3, 1.0]))
    X = [random.normal(size=(channels, n)) for n in lengths]
    for case in X:
        case[random.uniform(size=case.shape) < share] = np.nan
    times = [np.cumsum(random.uniform(0.1, 2, n)) for n in lengths]
    indices = draw(st.lists(st.integers(0, len(X) - 1), min_size=1, max_size=8))
    return X, times, indices, draw(st.integers(0, 4))


@settings(max_examples=2 * settings.default.max_examples)
@given(ragged())
def test_batch_holds_the_cases_and_nothing_else(drawn):
    X, times, indices, extra = drawn
    cases = sequences(X, np.arange(len(X)), times)
    length = max(X[i].shape[1] for i in indices) + extra
    batch = cases.batch(indices, length)
    assert batch.values.shape == (len(indices), length, X[0].shape[0])
    assert batch.values.dtype == np.float32
    assert batch.lengths.dtype == np.int32
    assert batch.labels.tolist() == indices
    missing = any(np.isnan(X[i]).any() for i in indices)
    assert (batch.observed is not None) == missing
    for row, i in enumerate(indices):
        n, case = X[i].shape[1], X[i].T.astype(np.float32)
        assert batch.lengths[row] == n
        np.testing.assert_array_equal(batch.values[row, :n], np.nan_to_num(case))
        assert not batch.values[row, n:].any()
        np.testing.assert_array_equal(batch.times[row, :n], times[i])
        np.testing.assert_allclose(np.diff(batch.times[row, n - 1 :]), 1.0)
        if batch.observed is not None:
            np.testing.assert_array_equal(batch.observed[row, :n], ~np.isnan(case))
            assert not batch.observed[row, n:].any()


@pytest.mark.parametrize("indices", [[2, 0], np.array([2, 0]), (-1, 0)])
def test_select_keeps_everything_in_order(indices):
    times = [np.arange(case.shape[1]) * 0.5 for case in CASES]
    cases = sequences(CASES, ["a", "b", "c"], times)
    named = Sequences(cases.values, cases.labels, cases.times, ("x", "y", "z"), ("p", "q", "r"))
    some = named.select(indices)
    assert some.labels.tolist() == ["c", "a"]
    assert some.ids == ("r", "p")
    assert some.names == ("x", "y", "z")
    assert some.lengths.tolist() == [7, 5]
    assert [len(t) for t in some.times] == [7, 5]
    assert named.select([True, False, True]).ids == ("p", "r")
