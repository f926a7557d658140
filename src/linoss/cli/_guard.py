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

FAILED, NOT_NUMBERS, INTERRUPTED = 1, 3, 130


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Report warnings, and errors that users can mend, in one line on stderr each."""

    @functools.wraps(command)
    def call(*args: Any, **options: Any) -> None:
        try:
            with _warnings_in_lines() as seen:
                command(*args, **options)
            if any(category.__name__ == "NotANumberWarning" for category in seen):
                raise typer.Exit(NOT_NUMBERS)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:  # the reader has closed the pipe; nothing more can be flushed
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(FAILED) from None
        except (ValueError, OSError, ImportError) as error:
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


def _of_training(error: RuntimeError | MemoryError) -> str:
    """The message for an error of training; an error of the library itself is raised again."""
    from linoss.training import TrainingError

    if isinstance(error, TrainingError):
        return str(error)
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
        return "out of memory; try smaller batches, or a smaller model"
    raise error
