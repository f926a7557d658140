"""Frequencies of dates with gaps, in time zones, continued as pandas continues them."""

import numpy as np
import pandas as pd
import pytest

from linoss.data import Frequency, read_table


def made(dates):
    return read_table(pd.DataFrame({"y": np.arange(1.0, len(dates) + 1)}, index=dates))


CALENDARS = ["B", "MS", "ME", "BME", "BMS", "QE", "YS", "YE", "D", "W-SUN", "2W-MON", "h", "7s"]


@pytest.mark.parametrize("freq", CALENDARS)
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_any_samples_may_be_missing(freq, zone):
    """The grid, and what comes after it, are those of pandas, whatever a third of samples lack."""
    random = np.random.default_rng(0)
    for start in ("2023-09-30", "2024-02-28", "2024-03-20"):
        dates = pd.date_range(start, periods=40, freq=freq, tz=zone)
        kept = random.random(36) > 0.3
        kept[[0, 1, 2, -1]] = True
        frame = made(dates[:36][kept])
        assert len(frame.index[0]) == 36
        assert frame.gaps == np.sum(~kept)
        np.testing.assert_array_equal(np.isnan(frame.series[0][:, 0]), ~kept)
        after = frame.restore([np.zeros((4, 1))]).index
        pd.testing.assert_index_equal(after, dates[36:], check_names=False, exact=False)


@pytest.mark.parametrize(
    ("dates", "name", "after"),
    [
        (["2024-06-01", "2024-07-01", "2024-09-01"], "months", "2024-10-01"),
        (["2024-01-31", "2024-02-29", "2024-03-31"], "months", "2024-04-30"),
        (["2024-01-15", "2024-02-15", "2024-05-15"], "months", "2024-06-15"),
        (["2024-01-30", "2024-02-29", "2024-03-30"], "months", "2024-04-30"),
        (["2024-05-02", "2024-05-03", "2024-05-06"], "working days", "2024-05-07"),
        (["2024-05-03", "2024-05-06"], "working days", "2024-05-07"),
        (["2024-05-06", "2024-05-07", "2024-05-09", "2024-05-10"], "days", "2024-05-11"),
        (["2024-05-06", "2024-05-13"], "7 days", "2024-05-20"),
        (["2024-01-01", "2025-01-01"], "12 months", "2026-01-01"),
    ],
)
def test_short_indices(dates, name, after):
    frame = made(pd.DatetimeIndex(dates))
    assert str(frame.frequencies[0]) == name
    assert str(frame.continued(1)[0][0])[:10] == after


def test_holidays_and_other_weeks():
    """Working days but for holidays; a market from Sunday to Thursday."""
    days = pd.bdate_range("2024-04-01", "2024-06-28")
    frame = made(days.drop(["2024-05-01", "2024-05-09", "2024-05-20"]))
    assert (str(frame.frequencies[0]), frame.gaps) == ("working days", 3)
    sunday = pd.bdate_range("2024-04-01", "2024-06-20", freq="C", weekmask="Sun Mon Tue Wed Thu")
    assert str(made(sunday).continued(1)[0][0])[:10] == "2024-06-23"


def test_clock_changes():
    """Days of 23 and 25 hours are days; hours are hours of UTC."""
    days = made(pd.date_range("2024-10-20", periods=6, freq="D", tz="Europe/Berlin"))
    after = days.restore([np.zeros((3, 1))]).index
    assert [f"{each:%d %H}" for each in after] == ["26 00", "27 00", "28 00"]
    hours = made(pd.date_range("2024-10-26 20:00", periods=5, freq="h", tz="Europe/Berlin"))
    after = hours.restore([np.zeros((4, 1))]).index
    assert [f"{each:%d %H}" for each in after] == ["27 01", "27 02", "27 02", "27 03"]


def test_a_gap_in_numbers():
    frame = read_table(pd.DataFrame({"ds": [10, 15, 25, 30], "y": [1.0, 2.0, 4.0, 5.0]}))
    np.testing.assert_array_equal(frame.series[0][:, 0], [1, 2, np.nan, 4, 5])
    assert frame.index[0].tolist() == [10, 15, 20, 25, 30]


def test_no_frequency():
    assert Frequency.of(np.array(["2024-01-01"], "datetime64[D]")) is None
    some = np.array(["2024-01-01T00", "2024-01-02T07", "2024-01-09T01"], "datetime64[h]")
    assert not Frequency.of(some).is_regular
