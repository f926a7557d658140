"""Messages and progress on stderr. Apart from `cli`, only this module prints.

Both appear on request, in Python (`verbose=1`) as on the command line. A message is written as a
line; if `logging.getLogger("linoss")` has a handler, it is logged instead, with level INFO.
"""

import logging
import re
import sys
from contextlib import suppress
from typing import Any, TextIO

_CONTROLS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_LINES = 20  # at most, where there is no bar


def say(message: str) -> None:
    """Write a line, or log it. A closed pipe or a full disk is ignored."""
    logger = logging.getLogger("linoss")
    if logger.handlers:
        logger.info("%s", message)
    else:
        _write(sys.stderr, printable(message) + "\n")


def printable(text: str) -> str:
    r"""Text for a terminal: control characters, which names in data may hold, become escapes.

    ```python
    >>> from linoss._stderr import printable
    >>> print(printable("red \x1b[31m"))
    red \x1b[31m

    ```
    """
    return _CONTROLS.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


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


class ProgressBar:
    """A bar on a terminal, a line that is rewritten in a notebook, elsewhere at most 20 lines."""

    def __init__(self, stream: TextIO | None = None):
        self._stream = sys.stderr if stream is None else stream
        self._is_terminal = self._stream is not None and self._stream.isatty()
        self._is_notebook = type(self._stream).__module__.startswith("ipykernel")
        self._bar: Any = None
        self._next = 1.0
        self._width = 0

    @property
    def is_live(self) -> bool:
        """Whether it is rewritten in place."""
        return self._is_terminal or self._is_notebook

    def show(self, done: float, total: float, text: str) -> None:
        """Show how much is done, with a text."""
        text = printable(text)
        if self._is_terminal:
            with suppress(OSError):
                bar = self._started()
                bar.update(bar.task_ids[0], completed=done, total=total, description=text)
                bar.refresh()
        elif self._is_notebook:
            _write(self._stream, "\r" + text.ljust(self._width))
            self._width = len(text)
        elif done >= self._next:
            self._next = done + total / _LINES
            _write(self._stream, text + "\n")

    def close(self) -> None:
        """End the bar, which stays visible."""
        if self._bar is not None:
            with suppress(OSError):
                self._bar.stop()
        elif self._width:
            _write(self._stream, "\n")
        self._bar, self._width = None, 0

    def _started(self) -> Any:
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
            from rich.table import Column

            wrapped = Column(no_wrap=False)
            text = TextColumn("{task.description}", markup=False, table_column=wrapped)
            columns = BarColumn(20), TaskProgressColumn(), text
            console = Console(file=self._stream, force_jupyter=False)
            self._bar = Progress(*columns, console=console, auto_refresh=False)
            self._bar.add_task("")
            self._bar.start()
        return self._bar


def _write(stream: TextIO | None, text: str) -> None:
    if stream is not None:
        with suppress(OSError):
            stream.write(text)
            stream.flush()
