"""Progress and messages on stderr. Apart from `cli`, only this module prints.

Permanent lines are messages of the logger `linoss`, which gets a handler that writes them unless it
already has one: configure `logging.getLogger("linoss")` to redirect them.

Estimators and searches report progress on request, in Python and on the command line.
They create the text; this module shows it.
"""

import logging
import sys
from contextlib import suppress
from typing import TextIO

_LOGGER = logging.getLogger("linoss")


class _Lines(logging.Handler):
    """A handler that writes lines and ignores errors, such as a closed pipe or a full disk."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line to the current stderr."""
        if sys.stderr is not None:
            with suppress(OSError):
                sys.stderr.write(record.getMessage() + "\n")
                sys.stderr.flush()


if not _LOGGER.handlers:
    _LOGGER.addHandler(_Lines())
    _LOGGER.setLevel(logging.INFO)
    _LOGGER.propagate = False


def say(message: str) -> None:
    """Log a line."""
    _LOGGER.info("%s", message)


def duration(seconds: float) -> str:
    """Format a duration.

    ```python
    >>> from linoss._stderr import duration
    >>> duration(7), duration(61), duration(7260)
    ('7 s', '1 min 01 s', '2 h 01 min')

    ```
    """
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {seconds:02d} s" if minutes else f"{seconds} s"


class LiveLine:
    """A progress line that is rewritten in place on a terminal."""

    def __init__(self, stream: TextIO | None = None):
        self._stream = stream or sys.stderr
        self._shown = 0

    @property
    def is_live(self) -> bool:
        """Whether the stream is a terminal."""
        return self._stream is not None and self._stream.isatty()

    def show(self, text: str) -> None:
        """Rewrite the line."""
        self._write("\r" + text.ljust(self._shown))
        self._shown = len(text)

    def keep(self, text: str) -> None:
        """Replace the progress line by a permanent line."""
        self.clear()
        self._write(text + "\n")

    def clear(self) -> None:
        """Erase the line."""
        if self._shown:
            self._write("\r" + " " * self._shown + "\r")
        self._shown = 0

    def close(self) -> None:
        """Keep the line, and begin a new one."""
        if self._shown:
            self._write("\n")
        self._shown = 0

    def _write(self, text: str) -> None:
        if self._stream is not None:
            with suppress(OSError):
                self._stream.write(text)
                self._stream.flush()
