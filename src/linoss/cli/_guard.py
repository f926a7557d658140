"""Errors of commands as one line, and exit codes.

0: success, 1: failure, 2: usage error, 3: success, but some predictions are not numbers, 130:
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
_OPTIONS = {"label": "--label", "case": "--id", "drop": "--drop"}


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Context manager: report warnings and user errors as one line each on stderr."""

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
        except BrokenPipeError:  # the pipe is closed; nothing more can be flushed
            _give_up_stdout()
            raise typer.Exit(FAILED) from None
        except OSError as error:
            fail(message_of(error))
        except (ValueError, ImportError) as error:
            fail(_in_options(error))
        except (RuntimeError, MemoryError) as error:
            fail(_of_training(error))

    return call


def _in_options(error: Exception) -> str:
    """The message of an error, with options in place of arguments of `linoss.data`."""
    text = str(error)
    for argument in getattr(error, "arguments", ()):
        text = text.replace(f"{argument}=", f"{_OPTIONS[argument]} ")
    return text


@contextmanager
def _warnings_in_lines() -> Iterator[list[type[Warning]]]:
    """Show warnings as lines; yields a list of their categories."""
    seen: list[type[Warning]] = []

    def show(message: Any, category: type[Warning], *place: Any, **options: Any) -> None:
        say(f"Warning: {' '.join(str(message).split())}")
        if category not in seen:
            seen.append(category)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield seen


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


def _of_training(error: RuntimeError | MemoryError) -> str:
    """The message for an error of training; internal errors are raised again."""
    from linoss.training import TrainingError

    if isinstance(error, TrainingError):
        return str(error)
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
        return "out of memory; try smaller batches, or a smaller model"
    raise error
