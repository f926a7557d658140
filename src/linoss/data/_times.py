"""Columns of times: numbers or unambiguous dates."""

import re
from typing import Any

import numpy as np

from linoss.data._columns import Columns, Groups, as_numbers
from linoss.data._raw_files import DataError, optional, refusing, shown

_ZONE = re.compile(r"\d:\d{2}(:\d{2}(\.\d+)?)? ?(Z|[+-]\d{2}:?(\d{2})?)$")
_BETWEEN = re.compile(r"(?<=\d)[/.](?=\d)")
_DAYS = ("%Y-%m-%d", "%d-%m-%Y", "%m-%d-%Y")
_CLOCKS = ("", " %H:%M", " %H:%M:%S")


def time_column(columns: Columns, name: str) -> np.ndarray:
    """(rows,) int64, float64 or datetime64 in UTC; finite."""
    times = as_numbers(columns.filled(name, "a time in every row"))
    if times.dtype.kind == "M":
        with refusing(columns.source, f"expected dates in column {shown(name)}"):
            return optional("pandas", "reading dates").DatetimeIndex(times).to_numpy()
    if times.dtype.kind not in "iuf":
        return _dates(columns, name, np.array([str(cell) for cell in times], object))
    columns.refuse(name, ~np.isfinite(times), "a finite number or a date", times)
    if times.dtype.kind == "f":
        return times
    days = _compact_days(times.astype(np.int64))
    return times.astype(np.int64) if days is None else days


def _compact_days(numbers: np.ndarray) -> np.ndarray | None:
    """Parse days such as 20240131, if all have this form."""
    if numbers.min() < 1800_01_01 or numbers.max() > 2199_12_31:
        return None
    pandas = optional("pandas", "reading dates")
    days = pandas.to_datetime(numbers.astype(str), format="%Y%m%d", errors="coerce")
    return None if days.isna().any() else days.to_numpy()


def _dates(columns: Columns, name: str, texts: np.ndarray) -> np.ndarray:
    """Parse dates. If the year comes last, a day above 12 must determine the order."""
    pandas = optional("pandas", "reading dates")
    zoned = np.array([_ZONE.search(text) is not None for text in texts])
    if zoned.any():
        expected = "a time zone in every row or in none; write all times in UTC"
        columns.refuse(name, ~zoned, expected)
    readings: list[Any] = []
    dashed = [_BETWEEN.sub("-", text) for text in texts]
    clock = _CLOCKS[min(texts[0].count(":"), 2)]
    for cells, form in [(texts, "ISO8601"), *((dashed, day + clock) for day in _DAYS)]:
        with refusing(columns.source, f"expected dates in column {shown(name)}"):
            dates = pandas.to_datetime(cells, format=form, errors="coerce", utc=True)
        readings.append(dates)
        if form == "ISO8601" and not dates.isna().any():
            break
    good = [dates for dates in readings if not dates.isna().any()]
    if len(good) == 2 and not good[0].equals(good[1]):
        raise DataError(
            f"{columns.where(0)}, column {shown(name)}: found {shown(texts[0])}, which may be "
            "day or month first, and no row decides; write dates as 2024-01-31"
        )
    dates = min(readings, key=lambda dates: dates.isna().sum())
    expected = "a number, or a date such as 2024-01-31 or 2024-01-31 12:00:00, as in the other rows"
    columns.refuse(name, np.asarray(dates.isna()), expected)
    return dates.tz_localize(None).to_numpy()


def sorted_rows(
    columns: Columns, groups: Groups, times: np.ndarray, time_name: str | None, remedy: str
) -> list[np.ndarray]:
    """The rows of each group in the order of time; raises for two at the same time."""
    codes = groups.codes
    order = np.lexsort((times, codes))
    twice = (np.diff(codes[order]) == 0) & ~(times[order][1:] > times[order][:-1])
    if twice.any():
        place = int(np.argmax(twice))
        rows = sorted(order[place : place + 2].tolist())
        cells = [row if time_name is None else columns.others[time_name][row] for row in rows]
        first, second = map(shown_time, cells)
        also = f", {shown(first)}" if first != second else ""
        raise DataError(
            f"{columns.where(rows[1])}{groups.title(int(codes[rows[0]]))}: has a second sample at "
            f"{shown(second)}, which is the time of {columns.row(rows[0])}{also}, expected one for "
            f"each time; {remedy}"
        )
    return np.split(order, np.cumsum(np.bincount(codes))[:-1])


def shown_time(time: Any) -> str:
    """Format a time for errors: a number, or a date without trailing zeros."""
    if np.asarray(time).dtype.kind != "M":
        return str(time)
    return str(np.datetime_as_string(time, unit="auto")).replace("T", " ")
