"""Joining several processes for one training, and ending all of them if one fails.

A process that fails writes the reason to the key-value store, and the others end with it. If a
process dies without a message, the next sum over all devices fails in the others; they then
determine which processes still respond, and end with a message that names those that do not. If a
process only stops responding, the runtime ends the others after a timeout and names it. Each
process writes one line.
"""

import atexit
import ctypes
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
from jax.experimental import multihost_utils

from linoss import _checks
from linoss._stderr import say
from linoss.training._runtime_log import RuntimeLog

_FAILURE, _HERE, _HEARD = "linoss/failure", "linoss/here/{}", "linoss/heard/{}"
_UNKNOWN = "?"
_ROLL_CALL = 10  # seconds for other processes to respond
_PATIENCE = 1000  # milliseconds between checks for the message
_LOG = 0.2  # seconds for the log to be read
_HEARTBEAT = 30  # seconds without a heartbeat after which a process is lost
FAILED, INTERRUPTED = 1, 130
_ADVICE = "restart all processes; a resumed run continues from its last checkpoint"
_COORDINATOR_GONE = f"process 0, the coordinator, is gone; {_ADVICE}"


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
    - `timeout`: seconds to wait for the others.
    """
    found: dict[str, Any] = {}
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
        found = {
            "coordinator_address": coordinator,
            "num_processes": num_processes,
            "process_id": process_id,
        }
    RuntimeLog.begin()
    _LastWords.prepare(_not_all_came(coordinator, num_processes, timeout))
    try:
        jax.distributed.initialize(
            **found, initialization_timeout=timeout, heartbeat_timeout_seconds=_HEARTBEAT
        )
    except (ValueError, RuntimeError) as error:
        raise ValueError(_why_not(coordinator, num_processes, timeout, error)) from None
    _LastWords.prepare(_COORDINATOR_GONE)
    _Watch.start()
    with watched():  # on CPUs, a first connection fails after 30 s; later ones wait
        multihost_utils.sync_global_devices("linoss")


class _LastWords:
    """The message to write when JAX aborts this process, as it does without a coordinator.

    JAX aborts in C++ without a Python exception, so a signal handler writes it.
    """

    text = ""
    spoken = False
    _handler: Any = None

    @classmethod
    def prepare(cls, text: str) -> None:
        """Set the message, and install the handler."""
        cls.text = text
        if cls._handler is None and os.name == "posix":
            cls._handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(cls._speak)
            ctypes.CDLL(None).signal(signal.SIGABRT, cls._handler)

    @classmethod
    def speak(cls, text: str) -> None:
        """Write why this process ends, unless it was already written."""
        log = RuntimeLog.current
        if cls.spoken:
            return
        cls.spoken = True
        if log is None:
            say(f"\nError: {text}")
        else:
            log.quiet = True
            log.write(f"\nError: {text}\n")

    @classmethod
    def _speak(cls, number: int) -> None:
        log, watch = RuntimeLog.current, _Watch.current
        time.sleep(_LOG)  # until the log thread has read everything
        silent = [] if log is None else log.silent_processes()
        if cls.spoken and watch is not None:
            time.sleep(_ROLL_CALL)  # the watch ends this process
        cls.speak(_gone(silent) if silent else cls.text)
        os._exit(FAILED)


def _gone(processes: list[int]) -> str:
    one = len(processes) == 1
    names = ", ".join(str(process) for process in processes)
    return f"process{'' if one else 'es'} {names} {'is' if one else 'are'} gone; {_ADVICE}"


def _why_not(coordinator: str, num_processes: int | None, timeout: int, error: Exception) -> str:
    if coordinator == "auto":
        return (
            "coordinator is 'auto', but neither Slurm, Kubernetes nor Open MPI was found "
            f"({_first_line(error)}); pass coordinator='HOST:PORT', num_processes and process_id"
        )
    if "DEADLINE_EXCEEDED" in str(error) or "timed out" in str(error).lower():
        return _not_all_came(coordinator, num_processes, timeout)
    return f"the processes cannot be joined at {coordinator}: {_first_line(error)}"


def _not_all_came(coordinator: str, num_processes: int | None, timeout: int) -> str:
    return (
        f"not all of {num_processes or 'the'} processes connected to {coordinator} within "
        f"{timeout} s; start all of them, with process ids from 0"
    )


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


def _key_value_store() -> Any:
    """The store that the processes of `jax.distributed` share; None before they have joined.

    JAX (0.10 to 0.12) has no public access to it: `jax.distributed` only starts and ends the
    service, and `jax.experimental.multihost_utils` only has collective operations, in which a
    failed process cannot take part. This is the only use of a private module of JAX.
    """
    from jax._src import distributed

    return distributed.global_state.client


class _Watch(threading.Thread):
    """A thread that waits for the message of a failed process, and then ends this process."""

    current: "_Watch | None" = None

    def __init__(self) -> None:
        super().__init__(name="linoss-watch", daemon=True)
        self.store = _key_value_store()
        self.processes, self.here = jax.process_count(), jax.process_index()
        self.over = False
        self.exit_code: int | None = None
        self.gone: list[int] = []

    @classmethod
    def start(cls) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Start the thread, if there are several processes."""
        if jax.process_count() > 1 and cls.current is None:
            cls.current = cls()
            threading.Thread.start(cls.current)
            atexit.register(cls.current.end)

    def run(self) -> None:
        """Wait for the message."""
        while not self.over:
            try:
                told = self.store.blocking_key_value_get(_FAILURE, _PATIENCE)
            except Exception as error:
                if self.over or "DEADLINE_EXCEEDED" in str(error):
                    continue
                self._leave(_COORDINATOR_GONE)
            else:
                self._leave(told if told != _UNKNOWN else self._roll_call())

    def tell(self, cause: str) -> None:
        """Tell the other processes why this one ends."""
        try:
            self.store.key_value_set(_FAILURE, cause)
        except Exception:  # another process was first, or the coordinator is gone
            return

    def end(self) -> None:
        """Stop at the exit of the process; one that failed exits at once."""
        self.over = True
        if self.exit_code is not None:
            self._leave_now(self.exit_code)
        self.join()  # a thread still in C++ would crash the process at exit

    def _roll_call(self) -> str:
        """Ask all processes to respond, and report which ones do not."""
        self.store.key_value_set(_HERE.format(self.here), "yes", True)
        self.gone = self._silent(_HERE)
        if not self.gone:
            return f"the processes cannot reach each other; {_ADVICE}"
        return _gone(self.gone)

    def _silent(self, question: str) -> list[int]:
        """The processes that do not respond in time."""
        deadline, silent = time.monotonic() + _ROLL_CALL, []
        for process in set(range(self.processes)).difference(self.gone):
            left = max(deadline - time.monotonic(), 0.1)
            try:
                self.store.blocking_key_value_get(question.format(process), int(1000 * left))
            except Exception:
                silent.append(process)
        return silent

    def _leave(self, message: str) -> None:
        if not self.over:
            _LastWords.speak(message)
            self._leave_now(FAILED)

    def _leave_now(self, code: int) -> None:
        """Exit, the coordinator last, because the others receive messages through it."""
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        try:
            self.store.key_value_set(_HEARD.format(self.here), "yes", True)
            if self.here == 0:
                self._silent(_HEARD)
        except Exception:  # the coordinator is gone
            pass
        os._exit(code)


def _is_of_connections(error: BaseException) -> bool:
    """Whether a connection between devices was lost, for which JAX raises several types."""
    if isinstance(error, jax.errors.JaxRuntimeError):
        return "RESOURCE_EXHAUSTED" not in str(error)
    return "Gloo" in str(error)


@contextmanager
def watched() -> Iterator[None]:
    """Context manager: report an error to the other processes, if there are any."""
    try:
        yield
    except BaseException as error:
        watch = _Watch.current
        if watch is None:
            raise
        if _is_of_connections(error):
            watch.tell(_UNKNOWN)  # another process is the cause
            watch.join(timeout=3 * _ROLL_CALL)
        interrupted = isinstance(error, KeyboardInterrupt)
        cause = "was interrupted" if interrupted else f"failed: {_first_line(error)}"
        watch.over, watch.exit_code = True, INTERRUPTED if interrupted else FAILED
        watch.tell(f"process {watch.here} {cause}")
        raise
