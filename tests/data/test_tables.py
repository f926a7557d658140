"""Tables for forecasting keep their kind: what goes in comes out, with an index that goes on."""

import numpy as np
import pandas as pd
import pytest

from linoss.data import DataError, read_table


def long_frame(**index):
    ds = pd.date_range("2024-01-31", periods=4, **(index or {"freq": "ME"}))
    columns = {"temp": np.arange(8.0), "y": np.arange(8.0) * 10}
    return pd.DataFrame({"unique_id": ["b"] * 4 + ["a"] * 4, "ds": [*ds, *ds], **columns})


def test_array():
    array = np.arange(12).reshape(6, 2)
    made = read_table(array)
    np.testing.assert_array_equal(made.series[0], array)
    assert made.series[0].dtype == np.float64
    forecast = np.ones((3, 2))
    np.testing.assert_array_equal(made.restore([forecast]), forecast)
    assert made.continued(2)[0].tolist() == [6, 7]
    assert read_table([1.0, 2.0, 3.0]).series[0].shape == (3, 1)
    with pytest.raises(DataError, match="horizon is 0, expected an integer >= 1"):
        made.continued(0)


@pytest.mark.parametrize(
    "make",
    [
        lambda f: f,
        lambda f: f.rename_axis("date"),
        lambda f: f.rename_axis("when"),
        lambda f: f.rename_axis("date").reset_index(),
        lambda f: f.reset_index(drop=True),
        lambda f: f.rename(columns={"load": 0, "temp": 1}),
        lambda f: f.tz_localize("Europe/Berlin"),
        lambda f: f.set_axis(range(1900, 1906)),
        lambda f: f[["load"]],
    ],
    ids=["index", "named", "oddly named", "column", "counted", "numbers", "zone", "years", "one"],
)
def test_wide_frame_comes_back_as_it_was(make):
    dates = pd.date_range("2024-01-01", periods=6, freq="h")
    whole = make(pd.DataFrame({"load": np.arange(6.0), "temp": np.arange(6.0, 12.0)}, index=dates))
    made = read_table(whole.iloc[3::-1])
    assert made.kind == "wide"
    variables = [name for name in whole.columns if name != "date"]
    restored = made.restore([whole[variables].to_numpy()[4:]])
    expected = whole.iloc[4:]
    if "date" in whole.columns:
        expected = expected.reset_index(drop=True)
    pd.testing.assert_frame_equal(restored, expected, check_freq=False)


def test_long_frame_comes_back_as_it_was():
    frame = long_frame()
    made = read_table(frame.sample(frac=1, random_state=0))
    assert made.names == ("y", "temp")
    assert set(made.ids) == {"a", "b"}
    position = made.ids.index("b")
    assert made.series[position].tolist() == [[0, 0], [10, 1], [20, 2], [30, 3]]
    restored = made.restore([np.full((2, 1), i) for i in range(2)], names=["y"])
    assert restored.columns.tolist() == ["unique_id", "ds", "y"]
    assert restored["ds"].dt.strftime("%m-%d").tolist() == ["05-31", "06-30"] * 2
    assert restored["unique_id"].tolist() == [made.ids[0]] * 2 + [made.ids[1]] * 2
    assert read_table(frame.assign(unique_id=[7] * 4 + [3] * 4)).ids == (7, 3)
    assert read_table(frame.set_index("unique_id")).ids == ("b", "a")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize(
    "frame",
    [
        long_frame(),
        long_frame().assign(ds=[1, 2, 3, 4] * 2),
        pd.DataFrame({"date": pd.date_range("2024", periods=5), "load": [1.0, 2, np.nan, 4, 5]}),
        pd.DataFrame({"load": np.arange(5.0), "temp": np.arange(5.0)}),
    ],
    ids=["long", "long, counted", "wide", "wide, counted"],
)
def test_file_is_read_as_the_frame_that_it_holds(tmp_path, suffix, frame):
    path = tmp_path / f"a{suffix}"
    if suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path)
    found, expected = read_table(path), read_table(frame)
    assert found.kind == expected.kind
    assert found.names == expected.names
    assert found.ids == expected.ids
    for series in range(len(expected.series)):
        np.testing.assert_array_equal(found.series[series], expected.series[series])
        np.testing.assert_array_equal(found.index[series], expected.index[series])


@pytest.mark.parametrize(
    ("file", "count", "after"),
    [("Airline", 144, np.datetime64("1961-01-01")), ("Lynx", 114, 1935)],
)
def test_real_series(archive, file, count, after):
    made = read_table(archive / file / f"{file}.csv")
    assert made.series[0].shape == (count, 1)
    assert made.continued(1)[0][0] == after


@pytest.mark.parametrize(
    "dates",
    [
        ["2024-01-30", "2024-01-31", "2024-02-01"],
        ["2024/1/30", "2024/1/31", "2024/2/1"],
        ["20240130", "20240131", "20240201"],
        ["2024-01-30T00:00:00Z", "2024-01-31T00:00:00Z", "2024-02-01T00:00:00Z"],
    ],
)
def test_ways_to_write_dates(write, dates):
    rows = "".join(f"{date},{i}\n" for i, date in enumerate(dates))
    made = read_table(write("a.csv", "date,load\n" + rows))
    assert made.index[0][-1] == np.datetime64("2024-02-01")
    assert made.continued(1)[0][0] == np.datetime64("2024-02-02")


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.zeros((2, 3, 4)), r"data has shape \(2, 3, 4\) and dtype float64, expected numbers"),
        (np.zeros((0, 3)), r"data has shape \(0, 3\)"),
        ([[1, 2], [3]], r"data has shape \(\) and dtype object"),
        ("file.csv", "file.csv: there is no such file"),
        (np.array([[1.0], [np.inf]]), "data, row 1, column '0': found inf, expected a finite"),
        (pd.DataFrame({"a": []}), "data has no rows, expected at least one"),
        (
            pd.DataFrame({"date": ["2024-01-01"]}),
            "data: has the columns date, expected at least one of numbers",
        ),
        (pd.DataFrame({"a": ["x"]}), "data, column 'a': holds text, expected numbers"),
        (long_frame().assign(ds=1), "data, row 1, series 'b': has a second sample at '1', which"),
        (long_frame().drop(columns="ds"), "data: has the columns unique_id, temp, y, expected"),
        (long_frame().assign(ds=[2.0**60] * 8), "data, row 0, column 'ds': found 1.1.*e\\+18, exp"),
        (long_frame().assign(unique_id=None), "data, row 0, column 'unique_id': is empty"),
        (long_frame().set_index("ds", drop=False), "data has ds as index and as column, expected"),
        (pd.DataFrame([[1, 2]], columns=["ds", "ds"]), "data: two columns are named 'ds' and 'ds'"),
        (pd.DataFrame([[1, 2]], columns=["ds", "DS"]), "data: two columns are named 'ds' and 'DS'"),
        (long_frame().assign(ds=["x"] * 8), "data, row 0, column 'ds': found 'x', expected a num"),
        (long_frame().assign(ds=[-(2**62), 0, 1, 2**62 + 1] * 2), "expected times that are less"),
    ],
)
def test_bad_tables(data, message):
    with pytest.raises(DataError, match=message):
        read_table(data)


@pytest.mark.parametrize(
    ("times", "step", "after"),
    [
        ([2, 4, 6, 9], 2, [11, 13]),
        ([1, 2, 3, 99], 1, [100, 101]),  # on a grid that is nearly empty
        ([0.5, 1.5, 2.25, 3.25], 1.0, [4.25, 5.25]),
        ([0.5, 1.0, 1.5, 2.0], None, [2.5, 3.0]),
    ],
)
def test_irregular_times_are_kept(times, step, after):
    made = read_table(long_frame().assign(ds=times * 2))
    assert made.index[1].tolist() == times
    assert made.irregular == (step is not None)
    assert step is None or [each.step for each in made.frequencies] == [step, step]
    assert made.continued(2)[1].tolist() == after


def test_one_date_cannot_go_on():
    frame = pd.DataFrame({"unique_id": ["a"], "ds": ["2024-01-01"], "y": [1.0]})
    with pytest.raises(
        DataError, match=r"series 'a': 1 steps after .*there is one date, expected at"
    ):
        read_table(frame).continued(1)


@pytest.mark.parametrize("forecasts", [[], [np.zeros((2, 3))], [np.zeros((2, 2))] * 2])
def test_forecasts_that_do_not_fit(forecasts):
    with pytest.raises(DataError, match=r"forecasts has \d series of shapes"):
        read_table(np.zeros((5, 2))).restore(forecasts)


@pytest.mark.parametrize("odd", ["2024-M13-01", "2024-31-01"])
def test_a_day_before_the_month_is_refused_without_a_warning(tmp_path, odd):
    (tmp_path / "load.csv").write_text(f"date,load\n{odd} 00:00:00,1\n2024-02-01 00:00:00,2\n")
    with pytest.raises(DataError, match=r"line 2.*expected a number, or a date"):
        read_table(tmp_path / "load.csv")


# ---- Times in errors, as people write them ----


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (
            ["2024-01-01 01:00+01:00", "2024-01-01 02:00+02:00", "2024-01-01 03:00+01:00"],
            r"line 3: has a second sample at '2024-01-01 02:00\+02:00', which is the time of line "
            r"2, '2024-01-01 01:00\+01:00'",
        ),
        (
            ["2024-01-01 01:00Z", "2024-01-01 02:00", "2024-01-01 03:00Z"],
            "line 3, column 'time': found '2024-01-01 02:00', expected a time zone in every",
        ),
    ],
)
def test_times_in_errors(tmp_path, times, message):
    path = tmp_path / "a.csv"
    path.write_text("time,load\n" + "".join(f"{time},1\n" for time in times))
    with pytest.raises(DataError, match=message):
        read_table(path)
