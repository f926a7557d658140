"""Columns of times: numbers, or dates of which the year comes first."""

import numpy as np

from linoss.data._columns import Columns, is_missing
from linoss.data._errors import DataError, optional
from linoss.data._files import refusing, shown


def time_column(columns: Columns, name: str) -> np.ndarray:
    """(rows,) int64, float64 or datetime64 in UTC; finite."""
    column = columns.others[name]
    missing = is_missing(column)
    if missing.any():
        raise DataError(
            f"{columns.where(int(np.argmax(missing)))}, column {shown(name)}: found no time, "
            "expected one in every row"
        )
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
    """Days such as 20240131, if all are."""
    if numbers.min() < 1800_01_01 or numbers.max() > 2199_12_31:
        return None
    pandas = optional("pandas", "reading dates")
    days = pandas.to_datetime(numbers.astype(str), format="%Y%m%d", errors="coerce")
    return None if days.isna().any() else days.to_numpy()


def _dates(columns: Columns, name: str, texts: np.ndarray) -> np.ndarray:
    """Dates in text, if the year comes first: then there is one way to read them."""
    pandas = optional("pandas", "reading dates")
    with refusing(columns.source, f"expected dates in column {shown(name)}"):
        dates = pandas.to_datetime(texts, format="ISO8601", errors="coerce", utc=True)
        if dates.isna().any() and texts[0][:4].isdigit():
            guess = pandas.tseries.api.guess_datetime_format(texts[0])
            if guess is not None:
                dates = pandas.to_datetime(texts, format=guess, errors="coerce", utc=True)
    wrong = np.asarray(dates.isna())
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"{columns.where(row)}, column {shown(name)}: found {shown(texts[row])}, expected a "
            "number, or a date such as 2024-01-31 or 2024-01-31 12:00:00, as in the other rows"
        )
    return dates.tz_localize(None).to_numpy()
