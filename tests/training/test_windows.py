"""Windows of long series, without a copy of them."""

import numpy as np
import pytest

from linoss.training import Windows


def series(*lengths, columns=2, seed=0):
    random = np.random.default_rng(seed)
    return [random.normal(size=(n, columns)) for n in lengths]


def test_every_window_of_every_series_in_order():
    arrays = series(10, 7)
    windows = Windows(arrays, past=4, horizon=2)
    expected = [x[i : i + 6] for x in arrays for i in range(len(x) - 5)]
    assert len(windows) == len(expected) == 7
    batch = windows.batch(np.arange(7))
    np.testing.assert_array_equal(batch.values, [w[:4] for w in expected])
    np.testing.assert_array_equal(batch.labels, [w[4:] for w in expected])


def test_stride_starts_at_the_first():
    windows = Windows(series(20, 11), past=4, horizon=2, stride=5)
    which, ends = windows.locate(np.arange(len(windows)))
    assert which.tolist() == [0, 0, 0, 1, 1]
    assert ends.tolist() == [4, 9, 14, 4, 9]


def test_only_the_last_of_each():
    arrays = series(20, 11)
    batch = Windows(arrays, past=4, horizon=2, only_last=True).batch(np.arange(2))
    np.testing.assert_array_equal(batch.labels, [x[-2:] for x in arrays])


def test_a_short_series_is_left_out_or_gives_a_short_window():
    arrays = series(20, 5)
    assert set(Windows(arrays, past=8, horizon=2).locate(np.arange(11))[0]) == {0}
    windows = Windows(arrays, past=8, horizon=2, min_past=2)
    assert windows.lengths.tolist() == [8] * 11 + [3]
    batch = windows.batch(np.array([11, 0]), 10)
    np.testing.assert_array_equal(batch.values[0, :3], arrays[1][:3])
    assert not batch.values[0, 3:].any()
    assert batch.lengths.tolist() == [3, 8]


def test_the_future_holds_what_is_known_in_advance_and_zeros():
    (array,) = series(9, columns=3)
    array[8, 2] = np.nan
    batch = Windows([array], past=4, horizon=3, targets=(1,), known=(0, 2)).batch(np.array([2]))
    expected = array[6:9].copy()
    expected[:, 1] = 0
    expected[2, 2] = 0
    np.testing.assert_array_equal(batch.future[0], expected)
    assert batch.future_observed[0].tolist() == [[True, False, True]] * 2 + [[True, False, False]]
    np.testing.assert_array_equal(batch.labels[0], array[6:9, 1:2])


def test_data_stay_where_they_are(tmp_path):
    np.save(tmp_path / "long.npy", series(100_000)[0])
    array = np.load(tmp_path / "long.npy", mmap_mode="r")
    windows = Windows([array], past=10, horizon=5)
    assert np.shares_memory(windows.values[0], array)
    np.testing.assert_array_equal(windows.batch([99_985]).labels[0], array[-5:])


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"past": 0}, "past is 0"),
        ({"horizon": 1.5}, "horizon is 1.5"),
        ({"targets": (0,), "known": (0,)}, "expected some targets, and none of them known"),
        ({"past": 40}, "longest series has 30 steps: no window fits"),
        ({"series": []}, "series is empty"),
        ({"series": [np.zeros((9, 2)), np.zeros((9, 3))]}, r"series\[1\] has shape"),
    ],
)
def test_bad_windows_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        Windows(**{"series": series(30), "past": 4, "horizon": 2, **changes})
