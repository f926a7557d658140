"""Build backend: scikit-build-core, and a pure Python wheel if the native build fails.

The last lines of the failed build become `native_build.txt` beside the wheel's metadata, where
`linoss.kernels.build_failure` finds them, in editable installs, too.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections import deque
from pathlib import Path
from typing import Any

from scikit_build_core import build
from scikit_build_core.build import (
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
]

_KEPT_LINES = 100
_CHILD = """
import json, sys, pathlib
from scikit_build_core import build
hook, arguments, answer = json.loads(sys.argv[1])
pathlib.Path(answer).write_text(getattr(build, hook)(*arguments))
"""

Settings = dict[str, Any] | None


def build_wheel(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Build a wheel and return its file name."""
    return _build("build_wheel", wheel_directory, config_settings, metadata_directory)


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Build a wheel that refers to the sources here and return its file name."""
    return _build("build_editable", wheel_directory, config_settings, metadata_directory)


def _build(hook: str, directory: str, settings: Settings, metadata: str | None) -> str:
    with tempfile.TemporaryDirectory() as folder:
        answer, report = Path(folder, "answer"), Path(folder, "report")
        lines = _run([hook, [directory, settings, metadata], str(answer)])
        if answer.exists():
            return answer.read_text()
        for cache in Path("build").glob("*/CMakeCache.txt"):
            shutil.rmtree(cache.parent)  # or the next build would try the same compiler again
        report.write_text("".join(lines), encoding="utf-8")
        print("\n*** The native kernels were not built; the wheel is pure Python.", flush=True)
        pure = {
            **(settings or {}),
            "wheel.cmake": "false",
            f"wheel.force-include.{report}": "${SKBUILD_METADATA_DIR}/native_build.txt",
        }
        return getattr(build, hook)(directory, pure, metadata)


def _run(task: list[Any]) -> deque[str]:
    """Run a hook in a process of its own, show what it prints, and return the last lines."""
    command = [sys.executable, "-c", _CHILD, json.dumps(task)]
    lines: deque[str] = deque(maxlen=_KEPT_LINES)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as child:
        for line in child.stdout or ():
            print(line, end="", flush=True)
            lines.append(line)
    return lines
