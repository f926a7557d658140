"""How commands end: errors in one line, and exit codes.

0 is good, 1 failed, 2 is wrong use, 130 interrupted.
"""

import functools
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import typer

from linoss._stderr import say

FAILED, INTERRUPTED = 1, 130


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Report errors that users can mend in one line on stderr, without a traceback."""

    @functools.wraps(command)
    def call(*args: Any, **options: Any) -> None:
        try:
            command(*args, **options)
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
