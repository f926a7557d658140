"""The directory of a run: checkpoints, and resuming from them.

`state.safetensors` is authoritative. `history.jsonl` and `weights.safetensors` are written before
it and are ahead of it if the process dies in between; resuming resets them to the state.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from linoss._plain import first_difference
from linoss.nn import LinOSS
from linoss.training._config import TrainingConfig
from linoss.training._errors import CheckpointError
from linoss.training._outcome import Record
from linoss.training._saved import (
    ARRAYS,
    CONFIG,
    FILES,
    HISTORY,
    STATE,
    WEIGHTS,
    read_config,
    refuse_files,
    weights_bytes,
    write_arrays,
)
from linoss.training._step import Carry
from linoss.training._verified_files import (
    NOT_UNDERSTOOD,
    named,
    read_file,
    read_tensors,
    remove_file,
    remove_remains,
    restored,
    write_after,
    write_file,
    write_json,
    write_tensors,
)

_FORMAT = "linoss-state"
FACTS = ("step", "best_step", "best_metric", "stale", "records", "seconds")


@dataclass(frozen=True, eq=False)
class RunState:
    """The state of a run. Immutable, so that it is consistent at any interrupt."""

    carry: Carry
    step: int = 0
    """Number of updates."""
    best: LinOSS | None = None
    best_step: int | None = None
    best_metric: float | None = None
    stale: int = 0
    """Number of evaluations since the last improvement."""
    records: int = 0
    """Length of the history."""
    seconds: float = 0.0
    """Elapsed time."""

    @property
    def model(self) -> LinOSS:
        """The best model; without evaluations, the last one."""
        return self.carry.model if self.best is None else self.best


class _Written(NamedTuple):
    """The content of the history file. Immutable, because an interrupt may come at any moment."""

    lines: int
    size: int
    digest: Any

    def and_then(self, lines: list[bytes]) -> "_Written":
        """The content after appending lines."""
        content, digest = b"".join(lines), self.digest.copy()
        digest.update(content)
        return _Written(self.lines + len(lines), self.size + len(content), digest)


class RunDirectory:
    """The files of a run."""

    def __init__(self, folder: Path, arrays: dict[str, np.ndarray] | None = None):
        self.folder, self.arrays = folder, arrays
        self._written = _Written(0, 0, hashlib.sha256())

    def create(self, description: dict[str, Any], state: RunState) -> None:
        """Begin a run. config.json is written last: if it exists, so does the state."""
        refuse_files(self.folder)
        write_arrays(self.folder, self.arrays)
        self._write_state(state)
        write_json(self.folder / CONFIG, "linoss", description)

    def resume(self, description: dict[str, Any], fresh: RunState) -> tuple[RunState, list[Record]]:
        """Resume a run from its state, or begin it if there is none."""
        config, path = self.folder / CONFIG, self.folder / STATE
        remove_remains(self.folder)
        if not config.exists() and path.exists() and self._read_state(fresh)[0].step == 0:
            remove_file(path)  # killed between the first state and config.json
        if not config.exists() and not path.exists():
            remove_file(self.folder / ARRAYS)  # killed before the first state
        if not any((self.folder / name).exists() for name in FILES):
            self.create(description, fresh)
            return fresh, []
        before = read_config(config)
        training = description["training"]
        longer = TrainingConfig.from_dict(training).goes_on(before.get("training"))
        if longer:
            before["training"] = training
            _lengthen(before, description)
        _check_same(config, before, description)
        state, digest = self._read_state(fresh)
        history = self._cut_history(state.records, digest)
        if state.step > 0:
            self._write_weights(state)
        if longer:
            write_json(config, "linoss", description)
        return state, history

    def save(self, state: RunState, history: list[Record]) -> None:
        """Write history and weights, then the state."""
        lines = [_line(record) for record in history[self._written.lines : state.records]]
        if lines:
            write_after(self.folder / HISTORY, self._written.size, b"".join(lines))
            self._written = self._written.and_then(lines)
        self._write_weights(state)
        self._write_state(state)

    def _write_weights(self, state: RunState) -> None:
        """Write the weights of the state, unless the file already has them."""
        content = weights_bytes(state.model, step=state.best_step or state.step)
        path = self.folder / WEIGHTS
        if not path.is_file() or path.read_bytes() != content:
            write_file(path, content)

    def _write_state(self, state: RunState) -> None:
        facts = {name: getattr(state, name) for name in FACTS}
        facts["history_sha256"] = self._written.digest.hexdigest()
        tensors = named({"carry": state.carry, "best": state.best})
        write_tensors(self.folder / STATE, _FORMAT, tensors, facts)

    def _read_state(self, fresh: RunState) -> tuple[RunState, str]:
        """The state, and the checksum of its history."""
        path = self.folder / STATE
        tensors, facts = read_tensors(path, _FORMAT)
        best = fresh.carry.model if any(name.startswith("best.") for name in tensors) else None
        trees = restored(path, {"carry": fresh.carry, "best": best}, tensors, exact=True)
        try:
            best_step, best_metric = facts["best_step"], facts["best_metric"]
            state = RunState(
                **trees,
                step=int(facts["step"]),
                best_step=None if best_step is None else int(best_step),
                best_metric=None if best_metric is None else float(best_metric),
                stale=int(facts["stale"]),
                records=int(facts["records"]),
                seconds=float(facts["seconds"]),
            )
            return state, str(facts["history_sha256"])
        except NOT_UNDERSTOOD as error:
            raise CheckpointError(f"{path}: is invalid: {error!r}") from None

    def _cut_history(self, records: int, digest: str) -> list[Record]:
        """Truncate the history to the state."""
        path = self.folder / HISTORY
        content = read_file(path) if records or path.exists() else b""
        lines = content.splitlines(keepends=True)[:records]
        written = self._written.and_then(lines)
        if written.lines < records or written.digest.hexdigest() != digest:
            raise CheckpointError(
                f"{path}: is not the history of {STATE}, which has {records} records; restore it "
                "from a backup, or train again in another directory"
            )
        if written.size < len(content):
            write_file(path, b"".join(lines))
        self._written = written
        return [json.loads(line) for line in lines]


def _lengthen(before: dict[str, Any], now: dict[str, Any]) -> None:
    """Update the number of steps in the saved settings of the estimator of a run."""
    saved, found = (part.get("extra", {}).get("parameters") for part in (before, now))
    if isinstance(saved, dict) and isinstance(found, dict):
        saved.update({name: found[name] for name in ("steps", "epochs") if name in found})


def _line(record: Record) -> bytes:
    return json.dumps(record, allow_nan=False).encode() + b"\n"


def _check_same(path: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Raise if the settings differ from those of the run, and name the first difference."""
    parts = ("model", "inputs", "objective", "training", "data", "extra", "arrays")
    before = {part: before.get(part) for part in parts}
    found = first_difference(before, {part: now[part] for part in parts})
    if found is None:
        return
    if found.path == ("training", "steps"):
        rate = before["training"].get("schedule")
        why = (
            "its learning rate falls to 0 there; only a run at a constant learning rate "
            "(schedule='constant') can be extended"
            if rate == "cosine"
            else "it can only be extended, and only if it has an evaluation at its end"
        )
        raise CheckpointError(
            f"{path}: the run has {found.before} updates, and {found.now} were asked for, but "
            f"{why}. To continue from its weights, begin another run with start_from, or linoss "
            "fit --from"
        )
    differs = f"{'.'.join(found.path)} is {found.before!r} in the run, but {found.now!r} now"
    if found.path[0] in ("inputs", "data"):
        differs = differs if isinstance(found.now, int) else f"{found.path[1]} differs"
        raise CheckpointError(
            f"{path}: the data are not those of the run ({differs}); resume with the same data, or "
            "train in another directory"
        )
    raise CheckpointError(
        f"{path}: {differs}; resume with the settings of the run, or train in another directory"
    )
