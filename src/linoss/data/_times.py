"""Columns of times: numbers or unambiguous dates."""

import re
import warnings
from typing import Any

import numpy as np

from linoss.data._columns import Columns, Groups
from linoss.data._raw_files import DataError, optional, refusing, shown


def time_column(columns: Columns, name: str) -> np.ndarray:
    """(rows,) int64, float64 or datetime64 in UTC; finite."""
    column = columns.filled(name, "a time in every row")
    if column.dtype.kind == "M":
        with refusing(columns.source, f"expected dates in column {shown(name)}"):
            return optional("pandas", "reading dates").DatetimeIndex(column).to_numpy()
    times = column if column.dtype.kind in "iuf" else _numbers(column)
    if times is None:
        return _dates(columns, name, np.array([str(cell) for cell in column], object))
    wrong = ~np.isfinite(times)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"{columns.where(row)}, column {shown(name)}: found {times[row]}, expected a finite "
            "number or a date"
        )
    if times.dtype.kind != "f":
        times = times.astype(np.int64)
        days = _compact_days(times)
        times = times if days is None else days
    return times


def _numbers(cells: np.ndarray) -> np.ndarray | None:
    for kind in (np.int64, np.float64):
        try:
            return cells.astype(kind)
        except (TypeError, ValueError, OverflowError):
            pass
    return None


def _compact_days(numbers: np.ndarray) -> np.ndarray | None:
    """Parse days such as 20240131, if all have this form."""
    if numbers.min() < 1800_01_01 or numbers.max() > 2199_12_31:
        return None
    pandas = optional("pandas", "reading dates")
    days = pandas.to_datetime(numbers.astype(str), format="%Y%m%d", errors="coerce")
    return None if days.isna().any() else days.to_numpy()


_ZONE = re.compile(r"\d:\d{2}(:\d{2}(\.\d+)?)? ?(Z|[+-]\d{2}:?(\d{2})?)$")
_YEAR_LAST = re.compile(
    r"\d{1,2}(?P<between>[/.-])\d{1,2}(?P=between)\d{4}(?P<time>( \d{1,2}:\d{2}(:\d{2})?)?)"
)


def _year_last(columns: Columns, name: str, texts: np.ndarray, between: str, time: str) -> Any:
    """Parse dates such as 31/1/2024 12:00, all with the day first or all with the month first."""
    pandas = optional("pandas", "reading dates")
    clock = ("", " %H:%M", " %H:%M:%S")[time.count(":")]
    orders = [between.join(order) + clock for order in (("%d", "%m", "%Y"), ("%m", "%d", "%Y"))]
    readings = [
        pandas.to_datetime(texts, format=order, errors="coerce", utc=True) for order in orders
    ]
    good = [dates for dates in readings if not dates.isna().any()]
    if len(good) == 2 and not good[0].equals(good[1]):
        raise DataError(
            f"{columns.where(0)}, column {shown(name)}: found {shown(texts[0])}, which may be "
            "day or month first, and no row decides; write dates as 2024-01-31"
        )
    return good[0] if good else min(readings, key=lambda dates: dates.isna().sum())


def _dates(columns: Columns, name: str, texts: np.ndarray) -> np.ndarray:
    """Parse dates. If the year comes last, a day above 12 must determine the order."""
    pandas = optional("pandas", "reading dates")
    zoned = np.array([_ZONE.search(text) is not None for text in texts])
    if zoned.any() and not zoned.all():
        row, other = int(np.argmin(zoned)), int(np.argmax(zoned))
        raise DataError(
            f"{columns.where(row)}, column {shown(name)}: {shown(texts[row])} has no time zone, "
            f"but {shown(texts[other])} has one, expected it in every row or in none; write all "
            "times in UTC"
        )
    with refusing(columns.source, f"expected dates in column {shown(name)}"):
        dates = pandas.to_datetime(texts, format="ISO8601", errors="coerce", utc=True)
        if dates.isna().any() and texts[0][:4].isdigit():
            with warnings.catch_warnings(action="ignore"):  # about a day before the month
                guess = pandas.tseries.api.guess_datetime_format(texts[0])
            if guess is not None and not 0 <= guess.find("%d") < guess.find("%m"):
                dates = pandas.to_datetime(texts, format=guess, errors="coerce", utc=True)
        elif dates.isna().any() and (found := _YEAR_LAST.fullmatch(texts[0])):
            dates = _year_last(columns, name, texts, found["between"], found["time"])
    wrong = np.asarray(dates.isna())
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"{columns.where(row)}, column {shown(name)}: found {shown(texts[row])}, expected a "
            "number, or a date such as 2024-01-31 or 2024-01-31 12:00:00, as in the other rows"
        )
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
