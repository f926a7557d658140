"""Reading samples from a stream of text: lines of CSV or JSON, as they arrive."""

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
Sample = tuple[list[float], float | None]
"""The values of the channels, and the time."""


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
        self._channels, self._names, self._needs_times = channels, names, needs_times
        self.is_json = self.has_header = False
        self._stream = stream
        self._number = 0
        self._keys: list[str] = []
        self._width = channels + needs_times
        self._columns = list(range(needs_times, self._width))  # positions of the channels
        self._time_column: int | None = 0 if needs_times else None
        self._last_time = -math.inf

    def __iter__(self) -> Iterator[tuple[np.ndarray, list[float | None]]]:
        for lines in self._lines():
            samples: list[Sample] = []
            wrong = None
            for line in lines:
                self._number += 1
                try:
                    sample = self._read(line)
                except DataError as error:
                    wrong = DataError(f"line {self._number}: {error}")
                    break
                samples += [] if sample is None else [sample]
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

    def _read(self, line: bytes) -> Sample | None:
        """The sample of a line; None for a header."""
        is_first = self._number == 1
        if len(line) > _LONGEST:
            raise DataError(f"is longer than {_LONGEST} bytes, expected one sample")
        try:
            text = line.decode("utf-8-sig" if is_first else "utf-8").strip("\r\n")
        except UnicodeDecodeError:
            raise DataError("is not text in UTF-8") from None
        if not text.strip() and self._width > 1:
            raise DataError(f"is empty, expected {self._expected()}")
        self.is_json = self.is_json or (is_first and text.lstrip()[:1] in ("[", "{"))
        cells = self._json_cells(text) if self.is_json else _csv_cells(text)
        if is_first and not self.is_json and self._is_header(cells):
            self._read_names([cell.strip() for cell in cells])
            return None
        if len(cells) != self._width:
            raise DataError(f"has {len(cells)} values, expected {self._expected()}")
        time = None
        if self._needs_times and self._time_column is not None:
            time = self._time(cells[self._time_column])
        return [_number(cells[i]) for i in self._columns], time

    def _expected(self) -> str:
        numbers = "1 number" if self._channels == 1 else f"{self._channels} numbers"
        return f"a time and {numbers}" if self._time_column is not None else numbers

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

    # ---- Names ----

    def _is_header(self, cells: list[str]) -> bool:
        """Whether no cell is a number and not all are missing; a date may be the time of a
        sample."""
        has_time = self._needs_times and len(cells) == self._width
        texts = [cell.strip().lower() for cell in cells[has_time:]]
        return not set(texts) <= set(_MISSING) and not any(map(is_number, texts))

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
        self._time_column = None if time is None else lower.index(time)
        columns = [i for i in range(len(keys)) if i != self._time_column]
        names = [keys[i] for i in columns]
        if self._names is not None:
            if sorted(names) != sorted(self._names):
                raise DataError(
                    f"names {_listed(names)}, expected the channels of the training, "
                    f"{_listed(self._names)}"
                )
            columns = [keys.index(name) for name in self._names]
        if len(columns) != self._channels:
            raise DataError(f"names {len(columns)} channels, expected {self._channels}")
        self._columns, self._keys, self._width, self.has_header = columns, keys, len(keys), True

    def _time(self, cell: Any) -> float:
        time = _seconds(cell)
        if not math.isfinite(time):
            raise DataError(f"the time is {_shown(cell)}, expected a number or date")
        if not time > self._last_time:
            raise DataError(f"the time is {_shown(cell)}, expected a later one than before")
        self._last_time = time
        return time


def _csv_cells(text: str) -> list[str]:
    if '"' not in text:
        return text.split(",")
    try:
        return next(csv.reader([text], strict=True))
    except csv.Error as error:
        raise DataError(str(error)) from None


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
    if isinstance(cell, str) and not is_number(cell):
        try:
            date = datetime.fromisoformat(cell.strip())
        except ValueError:
            return math.nan
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    try:
        return math.nan if isinstance(cell, bool) else float(cell)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _shown(cell: Any) -> str:
    text = repr(cell)
    return text if len(text) <= 80 else text[:77] + "..."


def _listed(names: Any) -> str:
    return _shown(", ".join(str(name) for name in names))
