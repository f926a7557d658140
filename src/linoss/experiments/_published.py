"""Learning curves published with the paper's code, compared with ours at the same steps."""

import json
import os
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from linoss.data import DataError
from linoss.experiments._data_sets import VARIABLE
from linoss.experiments._markdown import ABSENT, source_here, table
from linoss.experiments._paper import UEA
from linoss.experiments._protocol import NAMES
from linoss.experiments._results import ExperimentResult, unique

FILE = "published_curves.json"
WITHOUT = (
    f"The learning curves that were published with the paper's code are not shown: there is no "
    f"`{FILE}` in the directory of data sets. They can be had from the results in "
    "https://github.com/tk-rusch/linoss; the documentation says how the file is written."
)
_NAMES = {"LinOSS_IM": "im", "LinOSS_IMEX": "imex", "ppg": "PPG"}  # others are in lower case
_SHOWN = {factor * 10**power for power in range(3) for factor in (1, 2, 3, 5)}


@dataclass(frozen=True)
class PublishedRun:
    """One run of one model on the split of a seed."""

    data_set: str
    model: str
    seed: int
    every: int
    """Steps between evaluations."""
    validation: tuple[float, ...]
    """The validation metric at each evaluation."""
    test: float

    @property
    def curve(self) -> dict[int, float]:
        """The validation metric by step."""
        return {self.every * (i + 1): value for i, value in enumerate(self.validation)}


def read_published(data_dir: str | os.PathLike[str] | None) -> tuple[PublishedRun, ...]:
    """All published runs in the directory of data sets; empty if the file does not exist."""
    folder = data_dir or os.environ.get(VARIABLE)
    if not folder or not (Path(folder) / FILE).exists():
        return ()
    path = Path(folder) / FILE
    try:
        return tuple(_run(record) for record in json.loads(path.read_text()))
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{path}: is no list of published runs ({error!r}), expected objects with model, "
            "data_set, seed, every, validation and test"
        ) from None


def _run(record: dict[str, Any]) -> PublishedRun:
    model, data_set = str(record["model"]), str(record["data_set"])
    return PublishedRun(
        data_set=_NAMES.get(data_set, data_set),
        model=_NAMES.get(model, model.lower().replace("_", "-")),
        seed=int(record["seed"]),
        every=int(record["every"]),
        validation=tuple(float(value) for value in record["validation"]),
        test=float(record["test"]),
    )


def runs_of(published: Iterable[PublishedRun], data_set: str, model: str) -> list[PublishedRun]:
    """The published runs of a model on a data set."""
    return [run for run in published if (run.data_set, run.model) == (data_set, model)]


def curve_table(
    results: Sequence[ExperimentResult], published: Sequence[PublishedRun]
) -> list[str]:
    """Validation accuracy, ours and the published one, at common steps."""
    rows = []
    for key in unique((r.data_set, r.model, r.protocol, r.variant) for r in results):
        data_set, model, protocol, variant = key
        theirs = runs_of(published, data_set, model)
        ours = {
            r.seed: {h["step"]: h["metric"] for h in r.history if h["metric"] is not None}
            for r in results
            if (r.data_set, r.model, r.protocol, r.variant) == key
        }
        for step in _shared_steps(ours.values(), theirs):
            here = {seed: curve[step] for seed, curve in ours.items() if step in curve}
            there = {run.seed: run.curve[step] for run in theirs if step in run.curve}
            source = source_here(protocol, variant)
            cells = [f"{step:,}", *_compared(here, there)]
            rows.append([UEA[data_set].short, NAMES[model], source, *cells])
    if not rows:
        return []
    head = ["set", "model", "", "step", "here", "published", "lowest to highest"]
    head += ["from the same seeds", "within their range", "from their mean"]
    return [table(head, rows)]


def _shared_steps(ours: Iterable[dict[int, float]], theirs: Sequence[PublishedRun]) -> list[int]:
    """Common steps: the first few, fewer later on, and the last."""
    there = {step: run.every for run in theirs for step in run.curve}
    shared = sorted(set(there) & set().union(*ours))
    return [step for step in shared if step // there[step] in _SHOWN or step == shared[-1]]


def _compared(here: dict[int | None, float], there: dict[int, float]) -> list[str]:
    """Means, their range, the difference on the same splits, and the position of ours in theirs."""
    lowest, highest = min(there.values()), max(there.values())
    mean, deviation = statistics.fmean(there.values()), statistics.pstdev(there.values())
    ours = statistics.fmean(here.values())
    same = [value - there[seed] for seed, value in here.items() if seed in there]
    # A published number has four decimals.
    within = sum(lowest - 5e-5 <= value <= highest + 5e-5 for value in here.values())
    return [
        f"{100 * ours:.1f} ({len(here)} {'seed' if len(here) == 1 else 'seeds'})",
        f"{100 * mean:.1f} ± {100 * deviation:.1f}",
        f"{100 * lowest:.1f} to {100 * highest:.1f}",
        f"{100 * statistics.fmean(same):+.1f}" if same else ABSENT,
        f"{within} of {len(here)}",
        f"{(ours - mean) / deviation:+.2f} deviations" if deviation else ABSENT,
    ]
