"""What each part of the default classifier brings: `python benchmarks/defaults.py`.

On development sets, with their official splits: a fit of `LinOSSClassifier` with each of several
changes of its defaults, and the accuracy of one trained model, of all of them, of the untrained
oscillators beside them, and of all together, for the test part; the score that the classifier gives
itself; its calibration error in ten bins; and the seconds of the fit. Means over seeds, then sets.

    python benchmarks/defaults.py --changes '{}' '{"patch": 1}' '{"pooling": "mean+max"}'

Needs what benchmarks/archive.py needs.
"""

import argparse
import json
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from archive import AEON, UCR, UEA, calibration_error, read, readable

import linoss.data
from linoss import LinOSSClassifier

COLUMNS = ("one model", "models", "oscillators", "all", "left out", "calibration", "seconds")


def measure(name: str, changes: dict[str, Any], seed: int, data_dir: Path | None) -> dict[str, Any]:
    """One fit, and the accuracy of each part."""
    training, test = read(name, data_dir)
    begun = time.perf_counter()
    classifier = LinOSSClassifier(random_state=seed, **changes).fit(training.cases, training.labels)
    took = time.perf_counter() - begun
    cases = linoss.data.sequences(test.cases)
    models = np.array([classifier._decoded(model, cases) for model in classifier.models_])
    found = {"one model": models[0], "models": models.mean(axis=0)}
    if classifier.oscillators_ is not None:
        found["oscillators"] = classifier.oscillators_.predict_proba(cases)
    found["all"] = classifier.predict_proba(cases)
    scores = {
        part: float(np.mean(classifier.classes_[answers.argmax(axis=1)] == test.labels))
        for part, answers in found.items()
    }
    error = calibration_error(found["all"], classifier.classes_, test.labels)
    score = classifier.left_out_score_
    return {
        **{"set": name, "changes": json.dumps(changes), "seed": seed, **scores},
        **{"left out": np.nan if score is None else score, "calibration": error, "seconds": took},
    }


def table(records: list[dict[str, Any]]) -> str:
    """A row for each change, and for each set with the first change and the score of the others."""
    changes = list(dict.fromkeys(record["changes"] for record in records))
    sets = list(dict.fromkeys(record["set"] for record in records))

    def mean(change: str, name: str, column: str) -> float:
        found = [
            r.get(column, np.nan) for r in records if (r["changes"], r["set"]) == (change, name)
        ]
        return float(np.mean(found)) if found else np.nan

    def row(label: str, means: list[float]) -> str:
        return (
            f"| {label} | " + " | ".join(f"{x:.0f}" if x > 2 else f"{x:.3f}" for x in means) + " |"
        )

    def head(columns: list[str]) -> list[str]:
        return [
            "",
            f"| {len(sets)} sets | " + " | ".join(columns) + " |",
            "|---" * (1 + len(columns)) + "|",
        ]

    lines = head(list(COLUMNS))
    for change in changes:
        means = [float(np.mean([mean(change, s, c) for s in sets])) for c in COLUMNS]
        lines.append(row(change, means))
    lines += head([*COLUMNS, *changes[1:]])
    for name in sets:
        first = [mean(changes[0], name, column) for column in COLUMNS]
        lines.append(row(name, [*first, *(mean(change, name, "all") for change in changes[1:])]))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    known = (*UCR, *AEON, *UEA)
    parser.add_argument("--sets", nargs="+", choices=known, default=known, metavar="SET")
    parser.add_argument("--changes", nargs="+", type=json.loads, default=[{}], metavar="JSON")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("LINOSS_DATA"))
    parser.add_argument("--out", type=Path, help="write JSON lines there, and go on after those")
    options = parser.parse_args()
    data_dir = None if options.data_dir is None else Path(options.data_dir)
    warnings.simplefilter("ignore")
    records = []
    if options.out is not None and options.out.exists():
        records = [json.loads(line) for line in options.out.read_text().splitlines()]
    done = {(record["set"], record["seed"], record["changes"]) for record in records}
    for name in readable(options.sets, data_dir):
        for seed in options.seeds:
            for changes in options.changes:
                if (name, seed, json.dumps(changes)) in done:
                    continue
                records.append(measure(name, changes, seed, data_dir))
                print(records[-1], flush=True)
                if options.out is not None:
                    with options.out.open("a") as file:
                        file.write(json.dumps(records[-1]) + "\n")
    print(table(records))


if __name__ == "__main__":
    main()
