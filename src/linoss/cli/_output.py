"""Output of commands: one JSON object, tables or lines; errors as one line, and exit codes.

0: success, 1: failure, 2: usage error, 3: success, but some predictions are not numbers, 130:
interrupted.
"""

import csv
import functools
import io
import json
import math
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

import typer

from linoss._interrupts import raise_interrupt
from linoss._plain import plain
from linoss._stderr import printable, say

FAILED, MISUSED, NOT_NUMBERS, INTERRUPTED = 1, 2, 3, 130
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def show_json(record: dict[str, Any]) -> None:
    """Print a JSON object on one line of stdout."""
    sys.stdout.write(json_line(record))
    sys.stdout.flush()


def json_line(record: Any) -> str:
    """A line of JSON; numbers that are not finite become null."""
    return json.dumps(plain(record, lenient=True), ensure_ascii=False, allow_nan=False) + "\n"


def number(value: float | None, digits: int = 4) -> str:
    """Format a number with few digits."""
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞"
    return f"{value:.0f}" if 10**digits <= abs(value) < 10**6 else f"{value:.{digits}g}"


def word(value: Any) -> str:
    """Format a setting or a fact."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(word, value))
    return number(value) if isinstance(value, float) else str(value)


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """Format rows as CSV. None and NaN become empty cells.

    Text that a spreadsheet would run as a formula is prefixed with an apostrophe.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([csv_cell(value) for value in row] for row in rows)
    return text.getvalue()


def csv_cell(value: Any) -> Any:
    """Convert a value to a CSV cell."""
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, str) and value.startswith(_FORMULA) and not is_number(value):
        return "'" + value
    return value


def is_number(text: str) -> bool:
    """Whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def show_table(title: str | None, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table on stdout, numbers at the right; markup is text."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    def text(value: Any, style: str = "") -> Text:
        return Text(printable(str(value)), style)

    table = Table(title=None if title is None else text(title, "bold"), title_justify="left")
    for i, name in enumerate(header):
        table.add_column(text(name), justify="right" if i else "left")
    for row in rows:
        table.add_row(*map(text, row))
    Console(highlight=False).print(table)


def show_markdown(text: str) -> None:
    """Print Markdown on stdout, formatted on a terminal."""
    if not sys.stdout.isatty():
        sys.stdout.write(text)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(text))


def show_line(text: str) -> None:
    """Print a line on stdout."""
    sys.stdout.write(printable(text) + "\n")


# ---- Interrupts and errors ----


def leave(*_: Any) -> None:
    """End at Ctrl-C, where nothing has to be saved."""
    say("Interrupted. Nothing was saved.")
    os._exit(INTERRUPTED)


def heed_interrupts() -> None:
    """From now on Ctrl-C raises KeyboardInterrupt."""
    if signal.getsignal(signal.SIGINT) is leave:
        signal.signal(signal.SIGINT, raise_interrupt)


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """The command, with warnings and errors of users as one line each on stderr."""

    @functools.wraps(command)
    def call(*args: Any, **options: Any) -> None:
        seen: set[str] = set()

        def show(message: Any, category: type[Warning], *place: Any, **options: Any) -> None:
            say(f"Warning: {' '.join(str(message).split())}")
            seen.add(category.__name__)

        try:
            with warnings.catch_warnings():
                warnings.showwarning = show
                command(*args, **options)
                sys.stdout.flush()
            if "NotANumberWarning" in seen:
                raise typer.Exit(NOT_NUMBERS)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:  # the pipe is closed; nothing more can be flushed
            _give_up_stdout()
            raise typer.Exit(FAILED) from None
        except OSError as error:
            fail(message_of(error))
        except (ValueError, ImportError) as error:
            fail(str(error))
        except (RuntimeError, MemoryError) as error:
            if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
                fail("out of memory; try smaller batches, or a smaller model")
            from linoss.training import TrainingError

            if not isinstance(error, TrainingError):  # a mistake of the library
                raise
            fail(str(error))

    return call


def fail(message: str) -> NoReturn:
    """Exit with a message."""
    from linoss.cli._options import spelled

    message = spelled(message)
    say(f"Error: {' '.join(message.split())}")
    raise typer.Exit(FAILED) from None


def message_of(error: OSError) -> str:
    """The message for an OSError, without its number."""
    if error.errno is None or error.strerror is None:
        return str(error)
    if error.filename is not None or isinstance(error, ConnectionError):
        return f"{error.filename or 'a connection'}: {error.strerror}"
    _give_up_stdout()  # errors of files have names
    return f"stdout cannot be written ({error.strerror})"


def _give_up_stdout() -> None:
    """Discard the rest of the buffer of stdout."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
