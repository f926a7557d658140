"""Samples of a stream of text, as they arrive."""

import csv
import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime
from io import BufferedIOBase
from typing import Any

import numpy as np

from linoss.cli._output import is_number
from linoss.data import TIME_NAMES, DataError

_MISSING = ("", "nan", "na", "?")
_LONGEST = 2**20  # most bytes of a line
_BLOCK = 2**14  # most bytes read at once
_LARGEST = float(np.finfo(np.float32).max)


class SampleReader:
    """Iterates over the samples of a stream: arrays `(samples, channels)` and their times.

    Each iteration waits for a line, and includes further lines that have arrived, up to some
    hundred. `is_json` and `has_header` are known after the first sample. A header, or the keys of a
    JSON object, may name the channels in any order, and the time. Without names, numbers are in the
    order of the channels, with the time first if `needs_times`.
    """

    def __init__(
        self,
        stream: BufferedIOBase,
        channels: int,
        names: tuple[str, ...] | None,
        *,
        needs_times: bool,
    ):
        self._stream, self._names, self._needs_times = stream, names, needs_times
        self.is_json = self.has_header = False
        self._keys: list[str] = []
        self._width = channels + needs_times
        self._columns = list(range(needs_times, self._width))  # positions of the channels
        self._time_column = 0  # if it needs times
        self._last_time = -math.inf

    def __iter__(self) -> Iterator[tuple[np.ndarray, list[float | None]]]:
        number = 0
        for lines in self._lines():
            samples: list[tuple[list[float], float | None]] = []
            wrong = None
            for line in lines:
                number += 1
                try:
                    cells = self._cells(line, is_first=number == 1)
                    samples += [] if cells is None else [self._sample(cells)]
                except DataError as error:
                    wrong = DataError(f"line {number}: {error}")
                    break
            if samples:
                values, times = zip(*samples, strict=True)
                yield np.array(values, np.float64), list(times)
            if wrong is not None:
                raise wrong

    def _lines(self) -> Iterator[list[bytes]]:
        """Yield the lines that have arrived, without line ends."""
        incomplete = b""
        while block := self._stream.read1(_BLOCK):
            *lines, incomplete = (incomplete + block).split(b"\n")
            if len(incomplete) > _LONGEST:
                lines, incomplete = [*lines, incomplete], b""
            if lines:
                yield lines
        if incomplete:
            yield [incomplete]

    def _cells(self, line: bytes, *, is_first: bool) -> list[Any] | None:
        """The cells of a line; None for a header."""
        if len(line) > _LONGEST:
            raise DataError(f"is longer than {_LONGEST} bytes, expected one sample")
        try:
            text = line.decode("utf-8-sig" if is_first else "utf-8").strip("\r\n")
        except UnicodeDecodeError:
            raise DataError("is not text in UTF-8") from None
        if not text.strip() and self._width > 1:
            raise DataError(f"is empty, expected {self._expected()}")
        self.is_json = self.is_json or (is_first and text.lstrip()[:1] in ("[", "{"))
        if self.is_json:
            return self._json_cells(text)
        try:
            cells = next(csv.reader([text], strict=True)) or [""]
        except csv.Error as error:
            raise DataError(str(error)) from None
        words = [cell.strip() for cell in cells]
        # Without names, the first cell may be a date.
        others = words[self._needs_times and len(words) == self._width :]
        is_missing = all(each.lower() in _MISSING for each in others)
        if is_first and not is_missing and not any(map(is_number, others)):
            self._read_names(words)
            return None
        return cells

    def _json_cells(self, text: str) -> list[Any]:
        try:
            record = json.loads(text)
        except (ValueError, RecursionError):
            raise DataError(f"found {_shown(text)}, expected JSON, as in the first line") from None
        if not isinstance(record, dict):
            return record if isinstance(record, list) else [record]
        if not self.has_header:
            self._read_names(list(record))
        if set(record) != set(self._keys):
            raise DataError(f"has the keys {_listed(record)}, expected {_listed(self._keys)}")
        return [record[key] for key in self._keys]

    def _read_names(self, keys: list[str]) -> None:
        lower = [key.strip().lower() for key in keys]
        twice = {name for name in lower if lower.count(name) > 1}
        if twice:
            raise DataError(
                f"names {_shown(min(twice))} twice, expected names that differ in more than "
                "capitals"
            )
        time = next((n for n in TIME_NAMES if n in lower and n not in (self._names or ())), None)
        if time is None and self._needs_times:
            raise DataError("names no column time, expected one as in training")
        self._time_column = 0 if time is None else lower.index(time)
        columns = [i for i, name in enumerate(lower) if name != time]
        names, count = [keys[i] for i in columns], len(self._columns)
        if self._names is not None:
            if sorted(names) != sorted(self._names):
                raise DataError(
                    f"names {_listed(names)}, expected the channels of the training, "
                    f"{_listed(self._names)}"
                )
            columns = [keys.index(name) for name in self._names]
        if len(columns) != count:
            raise DataError(f"names {len(columns)} channels, expected {count}")
        self._columns, self._keys, self._width, self.has_header = columns, keys, len(keys), True

    def _sample(self, cells: list[Any]) -> tuple[list[float], float | None]:
        """The values of the channels, and the time."""
        if len(cells) != self._width:
            raise DataError(f"has {len(cells)} values, expected {self._expected()}")
        time = None
        if self._needs_times:
            cell = cells[self._time_column]
            time = _seconds(cell)
            if not math.isfinite(time):
                raise DataError(f"the time is {_shown(cell)}, expected a number or date")
            if not time > self._last_time:
                raise DataError(f"the time is {_shown(cell)}, expected a later one than before")
            self._last_time = time
        return [_number(cells[i]) for i in self._columns], time

    def _expected(self) -> str:
        count = len(self._columns)
        numbers = "1 number" if count == 1 else f"{count} numbers"
        return f"a time and {numbers}" if self._width > count else numbers


def _number(cell: Any) -> float:
    if cell is None or (isinstance(cell, str) and cell.strip().lower() in _MISSING):
        return math.nan
    try:
        value = math.inf if isinstance(cell, bool) else float(cell)
    except (TypeError, ValueError):
        raise DataError(
            f"found {_shown(cell)}, expected a number, or nothing where one is missing"
        ) from None
    except OverflowError:
        value = math.inf
    if abs(value) > _LARGEST:
        raise DataError(f"found {_shown(cell)}, expected a number up to {_LARGEST:.2g}")
    return value


def _seconds(cell: Any) -> float:
    """Convert a time to a number; dates to seconds; NaN for others."""
    try:
        if isinstance(cell, str) and not is_number(cell):
            date = datetime.fromisoformat(cell.strip())
            return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
        return math.nan if isinstance(cell, bool) else float(cell)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _shown(cell: Any) -> str:
    text = repr(cell)
    return text if len(text) <= 80 else text[:77] + "..."


def _listed(names: Any) -> str:
    return _shown(", ".join(str(name) for name in names))
