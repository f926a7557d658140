"""Accuracy of the default classifier on small real data sets: `python benchmarks/accuracy.py`.

The sets are those that come inside aeon and scikit-learn, with their official test parts; of
scikit-learn's digits, read as sequences of 64 pixels, a fixed fifth is the test part.
"""

import argparse
import time
from typing import Any

import aeon.datasets
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from linoss import LinOSSClassifier


def digits() -> tuple[Any, ...]:
    values, labels = load_digits(return_X_y=True)
    parts = train_test_split(values, labels, test_size=0.2, random_state=0, stratify=labels)
    return parts[0], parts[2], parts[1], parts[3]


def from_aeon(load: Any) -> tuple[Any, ...]:
    return *load(split="train"), *load(split="test")


SETS = {
    "BasicMotions": lambda: from_aeon(aeon.datasets.load_basic_motions),
    "JapaneseVowels": lambda: from_aeon(aeon.datasets.load_japanese_vowels),
    "GunPoint": lambda: from_aeon(aeon.datasets.load_gunpoint),
    "ItalyPowerDemand": lambda: from_aeon(aeon.datasets.load_italy_power_demand),
    "ArrowHead": lambda: from_aeon(aeon.datasets.load_arrow_head),
    "digits": digits,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    options = parser.parse_args()
    print("| set | train, test | accuracy | a fit |")
    print("|---|---|---|---|")
    for name in options.sets:
        values, labels, test_values, test_labels = SETS[name]()
        scores, start = [], time.perf_counter()
        for seed in options.seeds:
            classifier = LinOSSClassifier(random_state=seed).fit(values, labels)
            scores.append(f"{classifier.score(test_values, test_labels):.3f}")
        seconds = (time.perf_counter() - start) / len(options.seeds)
        sizes = f"{len(labels)}, {len(test_labels)}"
        print(f"| {name} | {sizes} | {', '.join(scores)} | {seconds:.0f} s |", flush=True)


if __name__ == "__main__":
    main()
