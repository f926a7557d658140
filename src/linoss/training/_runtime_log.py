"""What the C++ runtime of several processes writes to stderr.

When a process dies, the runtime of every other one logs it in several lines and ends with a stack
trace. The first such line, and all after it, are kept back: the message that says which process is
gone takes their place.
"""

import os
import re
import sys
import threading

_LOST = re.compile(
    rb"[WEF]\d{4} .*\b(coordination_service\w*|preemption_sync_manager|client)\.(cc|h):\d+\]"
)
_SILENT = re.compile(r"stopped sending heartbeats\):\s*((?:\d+\s+)+)")
_MOST = 2**16  # bytes that are kept


class RuntimeLog(threading.Thread):
    """Takes the place of stderr for C++, and passes on what is not of lost processes.

    To the very end: JAX leaves the other processes when Python exits, and they may be gone by then.
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
        """Take its place, where the system has pipes and there is a stderr."""
        if cls.current is None and os.name == "posix":
            try:
                os.fstat(2)
            except OSError:
                return
            cls.current = cls()
            cls.current.start()

    def run(self) -> None:
        """Pass on lines until the process ends, or processes lose each other."""
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
        """The processes that the runtime has called silent."""
        found = _SILENT.search(self._kept.decode(errors="replace"))
        return [] if found is None else [int(number) for number in found[1].split()]

    def write(self, text: str) -> None:
        """Write to the stderr of before."""
        os.write(self._stderr, text.encode())


def _is_stderr(stream: object) -> bool:
    try:
        return stream.fileno() == 2  # pyright: ignore[reportAttributeAccessIssue]
    except (AttributeError, OSError, ValueError):
        return False
