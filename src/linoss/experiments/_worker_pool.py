"""Parallel work in several processes, each on its own part of the cores."""

import concurrent.futures
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any


def together(
    function: Callable[[Any], Any],
    items: Sequence[Any],
    processes: int,
    finished: Callable[[Any, Any, str, float], None],
) -> None:
    """Call a function with each item, and `finished` with (item, result, "3/7", seconds left).

    If this process is interrupted or a call fails, all others end at once.
    """
    context = multiprocessing.get_context("spawn")
    shares = context.Queue()
    for share in core_shares(processes):
        shares.put(share)
    hear, speak = context.Pipe(duplex=False)
    start = time.monotonic()
    with concurrent.futures.ProcessPoolExecutor(
        processes, context, initializer=_begin, initargs=(shares, hear)
    ) as pool:
        waiting = {pool.submit(function, item): item for item in items}
        try:
            for done, future in enumerate(concurrent.futures.as_completed(waiting), start=1):
                left = (time.monotonic() - start) / done * (len(items) - done)
                finished(waiting[future], future.result(), f"{done}/{len(items)}", left)
        except BaseException:
            speak.close()
            raise
    speak.close()


def core_shares(processes: int) -> list[list[int]]:
    """Divide the cores of this process; with more processes than cores, each gets all of them."""
    if not hasattr(os, "sched_getaffinity"):
        return [[]] * processes
    cores = sorted(os.sched_getaffinity(0))
    if processes > len(cores):
        return [cores] * processes
    return [cores[i::processes] for i in range(processes)]


def _begin(shares: Any, hear: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the first process handles Ctrl-C
    share = shares.get()
    if share:
        os.sched_setaffinity(0, share)
    threading.Thread(target=_end_with, args=(hear,), daemon=True).start()


def _end_with(hear: Any) -> None:
    """Exit when the first process ends or is killed."""
    hear.poll(None)  # blocks until the other end is closed
    os._exit(1)
