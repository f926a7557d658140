"""Result files, with everything needed to reproduce them."""

import datetime
import functools
import json
import os
import platform
import subprocess
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from linoss import __version__
from linoss._files import make_directory, write_text
from linoss.experiments._protocol import NAMES

RESULT, MISSING = "result.json", "missing.json"


@dataclass(frozen=True, kw_only=True)
class ExperimentResult:
    """The result of one run or measurement."""

    experiment: str
    data_set: str
    model: str
    seed: int | None = None
    variant: str | None = None
    """The variant, which distinguishes it from other runs of the experiment."""
    protocol: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    """All settings that affect the outcome."""
    outcome: dict[str, Any] = field(default_factory=dict)
    """Numbers by name."""
    history: list[dict[str, Any]] = field(default_factory=list)
    """For each evaluation: step, loss, metric, best, learning_rate, seconds."""
    made: dict[str, Any] = field(default_factory=dict)
    """Provenance: command, seconds, commit, versions, machine, date."""


def write_result(folder: Path, result: ExperimentResult) -> None:
    """Write a result to a directory, atomically."""
    make_directory(folder)
    write_text(folder / RESULT, json.dumps(asdict(result), indent=1, allow_nan=False) + "\n")


def read_result(folder: Path) -> ExperimentResult | None:
    """The result in a directory, if there is one."""
    path = folder / RESULT
    if not path.exists():
        return None
    try:
        return ExperimentResult(**json.loads(path.read_text()))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: is no result of an experiment ({error}); remove it") from None


def read_results(folder: Path) -> list[ExperimentResult]:
    """All results in a directory, sorted by protocol, data set and model, then by path."""
    found = (read_result(path.parent) for path in sorted(folder.rglob(RESULT)))
    order = {model: place for place, model in enumerate(NAMES)}
    return sorted(
        (result for result in found if result is not None),
        key=lambda r: (r.protocol or "", r.data_set, order.get(r.model, len(order))),
    )


def made_by(command: str, seconds: float) -> dict[str, Any]:
    """The provenance of a result of this process."""
    import jax

    from linoss.scan import engines

    return {
        "command": command,
        "seconds": round(seconds, 1),
        "commit": _commit(),
        "linoss": __version__,
        "jax": jax.__version__,
        "python": platform.python_version(),
        "engines": list(engines()),
        "machine": machine(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


@functools.cache
def machine() -> str:
    """The processor, its cores and the memory, as text."""
    name, memory = platform.machine(), ""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        name = names[0] if names else name
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        memory = f", {pages / 2**30:.0f} GB"
    except (OSError, ValueError):  # not Linux
        pass
    cores = _cores()
    return f"{name}, {cores} {'core' if cores == 1 else 'cores'}{memory}"


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@functools.cache
def _commit() -> str | None:
    """The commit of the source tree, followed by "+" if files were changed."""

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", str(source), *arguments], capture_output=True, text=True, check=True
        ).stdout.strip()

    source = Path(__file__).resolve().parents[1]
    try:
        if not git("ls-files", "__init__.py"):
            return None  # installed inside another repository
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", ".") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def unique(values: Iterable[Any]) -> list[Any]:
    """The unique values, in the order of their first appearance."""
    return list(dict.fromkeys(values))
