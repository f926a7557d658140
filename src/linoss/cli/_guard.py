"""How commands end: errors in one line, and exit codes.

0 is good, 1 failed, 2 is wrong use, 3 is done, but with answers that are not numbers, 130
interrupted.
"""

import functools
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import typer

from linoss._stderr import say

FAILED, MISUSED, NOT_NUMBERS, INTERRUPTED = 1, 2, 3, 130


def fill_closed_streams() -> None:
    """Open /dev/null where stdin or stderr are closed, and end where stdout is.

    Otherwise the next file that is opened would take their place, and be written to or read.
    """
    closed = []
    for stream in (0, 1, 2):
        try:
            os.fstat(stream)
        except OSError:
            closed.append(stream)
            os.open(os.devnull, os.O_RDONLY if stream == 0 else os.O_WRONLY)  # takes the lowest
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8")  # noqa: SIM115
    if 1 in closed or sys.stdout is None:
        say("Error: stdout is closed, expected somewhere to write to, such as /dev/null")
        sys.exit(MISUSED)


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Report warnings, and errors that users can mend, in one line on stderr each."""

    @functools.wraps(command)
    def call(*args: Any, **options: Any) -> None:
        try:
            with _warnings_in_lines() as seen:
                command(*args, **options)
                sys.stdout.flush()
            if any(category.__name__ == "NotANumberWarning" for category in seen):
                raise typer.Exit(NOT_NUMBERS)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:  # the reader has closed the pipe; nothing more can be flushed
            _give_up_stdout()
            raise typer.Exit(FAILED) from None
        except OSError as error:
            fail(message_of(error))
        except (ValueError, ImportError) as error:
            fail(str(error))
        except (RuntimeError, MemoryError) as error:
            fail(_of_training(error))

    return call


@contextmanager
def _warnings_in_lines() -> Iterator[list[type[Warning]]]:
    """Show warnings as lines; gives a list of their kinds, each of them once."""
    seen: list[type[Warning]] = []

    def show(message: Any, category: type[Warning], *place: Any, **options: Any) -> None:
        say(f"Warning: {' '.join(str(message).split())}")
        if category not in seen:
            seen.append(category)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield seen


def fail(message: str) -> NoReturn:
    """End with a message."""
    say(f"Error: {' '.join(message.split())}")
    raise typer.Exit(FAILED) from None


def message_of(error: OSError) -> str:
    """The message for an error of the system, which by itself has a number in it."""
    if error.errno is None or error.strerror is None:
        return str(error)
    if error.filename is not None or isinstance(error, ConnectionError):
        return f"{error.filename or 'a connection'}: {error.strerror}"
    _give_up_stdout()  # files that cannot be written have names
    return f"stdout cannot be written ({error.strerror})"


def _give_up_stdout() -> None:
    """Let what is left in the buffer of stdout go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _of_training(error: RuntimeError | MemoryError) -> str:
    """The message for an error of training; an error of the library itself is raised again."""
    from linoss.training import TrainingError

    if isinstance(error, TrainingError):
        return str(error)
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
        return "out of memory; try smaller batches, or a smaller model"
    raise error
