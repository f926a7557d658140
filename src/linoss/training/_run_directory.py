"""The directory of a run: checkpoints, and resuming from them.

`state.safetensors` is authoritative. `weights.safetensors`, for `load_model`, is written before it;
resuming resets it to that of the state.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from linoss._files import remove_file, remove_remains
from linoss._plain import first_difference
from linoss.nn import LinOSS
from linoss.training._result import CheckpointError, Record
from linoss.training._saved import (
    CONFIG,
    FILES,
    FORMAT,
    STATE,
    WEIGHTS,
    WEIGHTS_FORMAT,
    Kinds,
    history_of,
    read_json,
    read_tree,
    refuse_files,
    understood,
    write_json,
    write_tree,
)
from linoss.training._step import Carry

_STATE_FORMAT = "linoss-state"
FACTS = ("step", "best_step", "best_metric", "stale", "history", "seconds")


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
    history: tuple[Record, ...] = ()
    """A record of each evaluation."""
    seconds: float = 0.0
    """Elapsed time."""

    @property
    def model(self) -> LinOSS:
        """The best model; without evaluations, the last one."""
        return self.carry.model if self.best is None else self.best

    @property
    def last(self) -> Record | None:
        """The record of the last evaluation."""
        return self.history[-1] if self.history else None

    def facts(self) -> dict[str, Any]:
        """All values but arrays, for JSON."""
        return {name: getattr(self, name) for name in FACTS}

    @classmethod
    def from_facts(cls, carry: Carry, best: LinOSS | None, facts: dict[str, Any]) -> "RunState":
        """The state of these arrays and of the values of `facts`."""
        values = {name: facts[name] for name in FACTS}
        return cls(carry, best=best, **{**values, "history": tuple(history_of(facts))})


class RunDirectory:
    """The files of a run."""

    def __init__(self, folder: Path):
        self.folder = folder

    def create(self, description: dict[str, Any], state: RunState) -> None:
        """Begin a run. config.json is written last: if it exists, so does the state."""
        refuse_files(self.folder)
        self._write_state(state)
        write_json(self.folder / CONFIG, FORMAT, description)

    def resume(self, description: dict[str, Any], fresh: RunState) -> RunState:
        """Resume a run from its state, or begin it if there is none."""
        config, path = self.folder / CONFIG, self.folder / STATE
        remove_remains(self.folder)
        if not config.exists() and path.exists() and self._read_state(fresh).step == 0:
            remove_file(path)  # killed between the first state and config.json
        if not any(os.path.lexists(self.folder / name) for name in FILES):
            self.create(description, fresh)
            return fresh
        _check_same(config, read_json(config, FORMAT), description)
        state = self._read_state(fresh)
        if state.step > 0:
            self._write_weights(state)
        return state

    def save(self, state: RunState) -> None:
        """Write a checkpoint."""
        self._write_weights(state)
        self._write_state(state)

    def _write_weights(self, state: RunState) -> None:
        facts = {"step": state.best_step or state.step, "history": state.history}
        write_tree(self.folder / WEIGHTS, WEIGHTS_FORMAT, state.model, facts)

    def _write_state(self, state: RunState) -> None:
        tree = {"carry": state.carry, "best": state.best}
        write_tree(self.folder / STATE, _STATE_FORMAT, tree, state.facts())

    def _read_state(self, fresh: RunState) -> RunState:
        path, carry = self.folder / STATE, fresh.carry

        def like(kinds: Kinds) -> dict[str, Any]:
            has_best = any(name.startswith("best.") for name in kinds)
            return {"carry": carry, "best": carry.model if has_best else None}

        trees, facts = read_tree(path, _STATE_FORMAT, like, exact=True)
        with understood(path):
            return RunState.from_facts(trees["carry"], trees["best"], facts)


def _check_same(path: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Raise if the settings differ from those of the run, and name the first difference."""
    parts = ("model", "inputs", "objective", "training", "data")
    before, now = ({part: run.get(part) for part in parts} for run in (before, now))
    difference = first_difference(before, now)
    if difference is None:
        return
    where, old, new = difference
    raise CheckpointError(
        f"{path}: {'.'.join(where)} is {old!r:.80} in the run, but {new!r:.80} now; resume "
        "with the settings and the data of the run, or train in another directory"
    )
