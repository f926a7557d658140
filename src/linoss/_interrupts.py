"""Ctrl-C that is never lost: JAX's callback of garbage collections swallows KeyboardInterrupt."""

import gc
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_LATER = 0.05  # seconds


def raise_interrupt(number: int, frame: Any) -> None:
    """A handler of SIGINT: raise KeyboardInterrupt, a moment later where it would be swallowed."""
    outer, callbacks = frame, [getattr(each, "__code__", None) for each in gc.callbacks]
    while outer is not None:
        if outer.f_code in callbacks or outer.f_code.co_name == "__del__":
            threading.Timer(_LATER, signal.raise_signal, (number,)).start()
            return
        outer = outer.f_back
    signal.default_int_handler(number, frame)


@contextmanager
def noted_interrupts() -> Iterator[Callable[[], None]]:
    """Yield a function that raises KeyboardInterrupt if there was a Ctrl-C, for safe points.

    A second Ctrl-C raises at once, and one that no call of the function has seen raises at the end.
    Another handler of SIGINT than Python's own stays in place.
    """
    noted, before = threading.Event(), signal.getsignal(signal.SIGINT)

    def note(number: int, frame: Any) -> None:
        if noted.is_set():
            raise_interrupt(number, frame)
        noted.set()

    def check() -> None:
        if noted.is_set():
            raise KeyboardInterrupt

    is_ours = before in (signal.default_int_handler, raise_interrupt)
    if not is_ours or threading.current_thread() is not threading.main_thread():
        yield check
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield check
        check()
    finally:
        signal.signal(signal.SIGINT, before)
