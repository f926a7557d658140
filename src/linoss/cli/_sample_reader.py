"""Reading samples from a stream of text: lines of CSV or JSON, as they arrive."""

import csv
import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime
from io import BufferedIOBase
from typing import Any, NamedTuple

import numpy as np

from linoss.data import TIME_NAMES, DataError

_MISSING = ("", "nan", "na", "?")
_LONGEST = 2**20  # most bytes of a line
_BLOCK = 2**14  # most bytes read at once
_LARGEST = float(np.finfo(np.float32).max)


class StreamedSamples(NamedTuple):
    """The samples of lines that arrived together."""

    values: np.ndarray
    """(samples, channels), NaN where missing."""
    times: list[float | None]
    """Sampling times, if the stream has them."""


class SampleReader:
    """Iterates over the samples of a stream, in the order of the channels of a model.

    Each iteration waits for a line, and includes further lines that have arrived, up to some
    hundred. `is_json` and `has_header` are known after the first sample. A header, or the keys of a
    JSON object, may name the channels in any order, and the time. Without names, numbers are in the
    order of the channels, with the time first if `timed`.
    """

    def __init__(
        self, stream: BufferedIOBase, channels: int, names: tuple[str, ...] | None, *, timed: bool
    ):
        self.channels, self.names, self.timed = channels, names, timed
        self.is_json = self.has_header = False
        self._stream = stream
        self._number, self._begun = 0, False
        self._places: list[int] | None = None  # positions of the channels among the cells
        self._time_place: int | None = 0 if timed else None
        self._width = channels + timed
        self._last_time: float | None = None

    def __iter__(self) -> Iterator[StreamedSamples]:
        for lines in self._lines():
            found: list[tuple[list[float], float | None]] = []
            wrong = None
            for line in lines:
                try:
                    sample = self._read(line)
                except DataError as error:
                    wrong = error
                    break
                if sample is not None:
                    found.append(sample)
            if found:
                values, times = zip(*found, strict=True)
                yield StreamedSamples(np.array(values, np.float64), list(times))
            if wrong is not None:
                raise wrong

    def _lines(self) -> Iterator[list[bytes]]:
        """Yield the lines that have arrived, without line ends."""
        rest = b""
        while block := self._stream.read1(_BLOCK):
            *lines, rest = (rest + block).split(b"\n")
            if len(rest) > _LONGEST:
                lines, rest = [*lines, rest], b""
            if lines:
                yield lines
        if rest:
            yield [rest]

    def _read(self, line: bytes) -> tuple[list[float], float | None] | None:
        """Parse values and time of a line; None for a header."""
        self._number += 1
        number, first = self._number, not self._begun
        text = self._text(line, number)
        self._begun = True
        if first and text.lstrip()[:1] in ("[", "{"):
            self.is_json = True
        cells = self._json_cells(text, number) if self.is_json else _cells(text, number)
        if first and not self.is_json and self._is_header(cells):
            self._read_names([cell.strip() for cell in cells], number)
            self.has_header = True
            return None
        return self._sample(cells, number)

    def _text(self, line: bytes, number: int) -> str:
        if len(line) > _LONGEST:
            raise DataError(f"line {number}: is longer than {_LONGEST} bytes, expected one sample")
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip("\r\n")
        except UnicodeDecodeError:
            raise DataError(f"line {number}: is not text in UTF-8") from None
        if not text.strip() and self._width > 1:
            raise DataError(f"line {number}: is empty, expected {self._expected()}")
        return text

    def _expected(self) -> str:
        numbers = "1 number" if self.channels == 1 else f"{self.channels} numbers"
        return f"a time and {numbers}" if self._time_place is not None else numbers

    # ---- Names ----

    def _is_header(self, cells: list[Any]) -> bool:
        """Whether no cell is a number and not all are missing; a date may be the time of a
        sample."""
        first = 1 if self.timed and len(cells) == self._width else 0
        texts = [cell.strip().lower() for cell in cells[first:]]
        return any(text not in _MISSING for text in texts) and not any(
            _is_number(text) for text in texts
        )

    def _read_names(self, found: list[str], number: int) -> None:
        lower = [name.strip().lower() for name in found]
        twice = {name for name in lower if lower.count(name) > 1}
        if twice:
            raise DataError(
                f"line {number}: names {_shown(min(twice))} twice, expected names that differ in "
                "more than capitals"
            )
        known = set(self.names or ())
        time = next((n for n in TIME_NAMES if n in lower and n not in known), None)
        self._time_place = None if time is None else lower.index(time)
        if self.timed and self._time_place is None:
            raise DataError(f"line {number}: names no column time, expected one as in training")
        self._width = len(found)
        others = [i for i in range(len(found)) if i != self._time_place]
        if self.names is None or sorted(found[i] for i in others) != sorted(self.names):
            if self.names is not None:
                raise DataError(
                    f"line {number}: names {_listed([found[i] for i in others])}, expected the "
                    f"channels of the training, {_listed(self.names)}"
                )
            self._places = others
        else:
            self._places = [found.index(name) for name in self.names]
        if len(self._places) != self.channels:
            raise DataError(
                f"line {number}: names {len(self._places)} channels, expected {self.channels}"
            )

    def _json_cells(self, text: str, number: int) -> list[Any]:
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            raise DataError(
                f"line {number}: found {_shown(text)}, expected JSON, as in the first line"
            ) from None
        if isinstance(found, dict):
            if not self.has_header:
                self._read_names(list(found), number)
                self.has_header, self._keys = True, list(found)
            if set(found) != set(self._keys):
                raise DataError(
                    f"line {number}: has the keys {_listed(found)}, expected {_listed(self._keys)}"
                )
            return [found[key] for key in self._keys]
        return found if isinstance(found, list) else [found]

    # ---- Numbers ----

    def _sample(self, cells: list[Any], number: int) -> tuple[list[float], float | None]:
        if len(cells) != self._width:
            raise DataError(f"line {number}: has {len(cells)} values, expected {self._expected()}")
        time = None
        if self._time_place is not None:
            time = self._time(cells[self._time_place], number) if self.timed else None
        places = self._places
        if places is None:
            places = range(self._width - self.channels, self._width)
        return [_number(cells[i], number) for i in places], time

    def _time(self, cell: Any, number: int) -> float:
        time = _seconds(cell)
        if time is None or not math.isfinite(time):
            raise DataError(f"line {number}: the time is {_shown(cell)}, expected a number or date")
        if self._last_time is not None and not time > self._last_time:
            raise DataError(
                f"line {number}: the time is {_shown(cell)}, expected a later one than before"
            )
        self._last_time = time
        return time


def _cells(text: str, number: int) -> list[str]:
    if '"' not in text:
        return text.split(",")
    try:
        return next(csv.reader([text], strict=True))
    except csv.Error as error:
        raise DataError(f"line {number}: {error}") from None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _number(cell: Any, line: int) -> float:
    try:
        if isinstance(cell, bool | list | dict):
            raise ValueError
        value = math.nan if cell is None else float(cell)
    except (ValueError, OverflowError):
        if isinstance(cell, str) and cell.strip().lower() in _MISSING:
            return math.nan
        raise DataError(
            f"line {line}: found {_shown(cell)}, expected a number, or nothing where one is missing"
        ) from None
    if abs(value) > _LARGEST:
        raise DataError(
            f"line {line}: found {_shown(cell)}, expected a number up to {_LARGEST:.2g}"
        )
    return value


def _seconds(cell: Any) -> float | None:
    """Convert a time to a number; dates to seconds."""
    if isinstance(cell, bool) or not isinstance(cell, int | float | str):
        return None
    try:
        return float(cell)
    except OverflowError:
        return None
    except ValueError:
        pass
    assert isinstance(cell, str)
    try:
        date = datetime.fromisoformat(cell.strip())
    except ValueError:
        return None
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


def _shown(cell: Any) -> str:
    text = repr(cell)
    return text if len(text) <= 80 else text[:77] + "..."


def _listed(names: Any) -> str:
    return _shown(", ".join(str(name) for name in names))
