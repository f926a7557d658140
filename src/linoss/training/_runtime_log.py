"""A filter for the messages of JAX's C++ runtime on stderr, with several processes.

When a process dies, the runtime of every other process logs several lines and ends with a stack
trace. These lines are suppressed in favour of a message that names the lost process.
"""

import os
import re
import sys
import threading

_LOST = re.compile(
    rb"[WEF]\d{4} .*\b(coordination_service\w*|preemption_sync_manager|client)\.(cc|h):\d+\]"
)
_SILENT = re.compile(r"stopped sending heartbeats\):\s*((?:\d+\s+)+)")
_MOST = 2**16  # bytes that are stored


class RuntimeLog(threading.Thread):
    """Replaces stderr for C++ code, and forwards all lines except those about lost processes.

    It runs until the process ends: JAX disconnects when Python exits, and other processes may have
    ended by then.
    """

    current: "RuntimeLog | None" = None

    def __init__(self) -> None:
        super().__init__(name="linoss-runtime-log", daemon=True)
        self.quiet = False
        self._kept = b""
        self._stderr = os.dup(2)
        self._read, write = os.pipe()
        os.dup2(write, 2)
        os.close(write)
        if sys.stderr is not None and _is_stderr(sys.stderr):
            sys.stderr.flush()
            sys.stderr = open(  # noqa: SIM115
                os.dup(self._stderr), "w", buffering=1, encoding="utf-8", errors="backslashreplace"
            )

    @classmethod
    def begin(cls) -> None:
        """Replace stderr, if the system has pipes and stderr is open."""
        if cls.current is None and os.name == "posix":
            try:
                os.fstat(2)
            except OSError:
                return
            cls.current = cls()
            cls.current.start()

    def run(self) -> None:
        """Forward lines until the process ends, or other processes are lost."""
        rest = b""
        while chunk := os.read(self._read, 4096):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self._pass_on(line + b"\n")
        self._pass_on(rest)

    def _pass_on(self, line: bytes) -> None:
        self.quiet = self.quiet or _LOST.match(line) is not None
        if self.quiet:
            self._kept = (self._kept + line)[:_MOST]
        else:
            os.write(self._stderr, line)

    def silent_processes(self) -> list[int]:
        """The processes that the runtime has reported as silent."""
        found = _SILENT.search(self._kept.decode(errors="replace"))
        return [] if found is None else [int(number) for number in found[1].split()]

    def write(self, text: str) -> None:
        """Write to the original stderr."""
        os.write(self._stderr, text.encode())


def _is_stderr(stream: object) -> bool:
    try:
        return stream.fileno() == 2  # pyright: ignore[reportAttributeAccessIssue]
    except (AttributeError, OSError, ValueError):
        return False
