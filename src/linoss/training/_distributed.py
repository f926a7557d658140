"""Joining several processes for one training.

If a process ends, the next sum over all devices fails in the others, or JAX's runtime ends them
once its heartbeats stop; a resumed run continues from its last checkpoint.
"""

import atexit
import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
from jax.experimental import multihost_utils

from linoss import _checks

_HEARTBEAT = 30  # seconds without a heartbeat after which a process is lost
FAILED, INTERRUPTED = 1, 130


def join_processes(
    coordinator: str,
    num_processes: int | None = None,
    process_id: int | None = None,
    *,
    timeout: int = 120,
) -> None:
    """Join several processes, whose devices form one mesh. Call it before any use of JAX.

    **Arguments:**

    - `coordinator`: `"HOST:PORT"` of the first process; or `"auto"`, to detect all of these under
      Slurm, Kubernetes or Open MPI.
    - `num_processes`, `process_id`: the number of processes, and the index of this one, from 0.
    - `timeout`: seconds to wait for the others; JAX's runtime then ends the process.
    """
    options: dict[str, Any] = {}
    if coordinator != "auto":
        host, port = _address(coordinator)
        if num_processes is None or process_id is None:
            missing = "num_processes" if num_processes is None else "process_id"
            raise ValueError(f"coordinator is {coordinator!r}, but {missing} is missing")
        _checks.positive_integer("num_processes", num_processes)
        expected = f"a number from 0 to {num_processes - 1}"
        _checks.number("process_id", process_id, expected, lambda i: 0 <= i < num_processes)
        if process_id == 0:
            _refuse_used_port(coordinator, port)
        else:
            _wait_for(coordinator, host, port, timeout)
        options = {
            "coordinator_address": coordinator,
            "num_processes": num_processes,
            "process_id": process_id,
        }
    try:
        jax.distributed.initialize(
            **options, initialization_timeout=timeout, heartbeat_timeout_seconds=_HEARTBEAT
        )
    except (ValueError, RuntimeError) as error:
        raise ValueError(_why_not(coordinator, error)) from None
    with watched():  # on CPUs, a first connection fails after 30 s; later ones wait
        multihost_utils.sync_global_devices("linoss")


def _why_not(coordinator: str, error: Exception) -> str:
    if coordinator == "auto":
        return (
            "coordinator is 'auto', but neither Slurm, Kubernetes nor Open MPI was found "
            f"({_first_line(error)}); pass coordinator='HOST:PORT', num_processes and process_id"
        )
    return f"the processes cannot be joined at {coordinator}: {_first_line(error)}"


def _first_line(error: BaseException) -> str:
    return str(error).split("\n", 1)[0][:300]


def _address(coordinator: str) -> tuple[str, int]:
    host, colon, port = coordinator.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(
            f"coordinator is {coordinator!r}, expected HOST:PORT, such as 10.0.0.1:1234, or 'auto'"
        )
    return host.strip("[]"), int(port)


def _refuse_used_port(coordinator: str, port: int) -> None:
    with socket.socket(socket.AF_INET6 if socket.has_ipv6 else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            raise ValueError(
                f"coordinator is {coordinator!r}, but this machine cannot listen there "
                f"({error.strerror}); choose another port"
            ) from None


def _wait_for(coordinator: str, host: str, port: int, timeout: int) -> None:
    deadline = time.monotonic() + timeout
    while True:
        try:
            socket.create_connection((host, port), timeout=5).close()
            return
        except OSError as error:
            if time.monotonic() > deadline:
                raise ValueError(
                    f"the coordinator {coordinator} did not answer within {timeout} s "
                    f"({error.strerror or error}); is process 0 running, and can it be reached?"
                ) from None
            time.sleep(0.2)


def _is_of_connections(error: BaseException) -> bool:
    """Whether a connection between devices was lost, for which JAX raises several types."""
    if isinstance(error, jax.errors.JaxRuntimeError):
        return "RESOURCE_EXHAUSTED" not in str(error)
    return "Gloo" in str(error)


@contextmanager
def watched() -> Iterator[None]:
    """Context manager: end this process if there are several and an error is raised, so that the
    others do not wait for it."""
    try:
        yield
    except BaseException as error:
        if not jax.distributed.is_initialized():
            raise
        interrupted = isinstance(error, KeyboardInterrupt)
        atexit.register(_leave, INTERRUPTED if interrupted else FAILED)
        if _is_of_connections(error):
            raise ConnectionError(
                f"the connection to another process was lost ({_first_line(error)}): see its "
                "output, and restart all processes; a resumed run continues from its last "
                "checkpoint"
            ) from None
        raise


def _leave(code: int) -> None:
    """Exit at once: JAX would wait for the other processes."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(code)
