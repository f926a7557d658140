"""Exported C on small real data sets: `python benchmarks/microcontroller.py`.

For each set, of a small model with weights in single precision and in bytes: accuracy of the
compiled C and of the library on the test part, the largest difference of a probability, and bytes
of flash and RAM.
"""

import argparse
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import aeon.datasets
import numpy as np

from linoss import LinOSSClassifier
from linoss.export import write

SETS: dict[str, Any] = {
    "BasicMotions": aeon.datasets.load_basic_motions,
    "GunPoint": aeon.datasets.load_gunpoint,
    "ItalyPowerDemand": aeon.datasets.load_italy_power_demand,
    "ArrowHead": aeon.datasets.load_arrow_head,
}
"""Those that come inside aeon, with their official test parts."""

ALONE: dict[str, Any] = {"n_models": 1, "patch": 1, "steps": 1000}

MAIN = """
#include <stdint.h>
#include <stdio.h>
#include "model.h"
int main(void) {
    static model_state state;
    float sample[model_CHANNELS], answer[model_OUTPUTS];
    int32_t length;
    while (fread(&length, sizeof length, 1, stdin) == 1) {
        model_reset(&state);
        for (int32_t i = 0; i < length && fread(sample, sizeof sample, 1, stdin) == 1; ++i)
            model_step(&state, sample, answer);
        fwrite(answer, sizeof answer, 1, stdout);
    }
    return 0;
}
"""


def in_c(folder: Path, cases: list[np.ndarray]) -> np.ndarray:
    """Probabilities of the compiled model."""
    (folder / "main.c").write_text(MAIN)
    command = ["cc", "-std=c99", "-O2", "main.c", "model_weights.c", "-lm", "-o", "model"]
    subprocess.run(command, cwd=folder, check=True)
    given = b"".join(np.int32(len(case)).tobytes() + case.tobytes() for case in cases)
    done = subprocess.run([folder / "model"], input=given, capture_output=True, check=True)
    return np.frombuffer(done.stdout, np.float32).reshape(len(cases), -1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--hidden-size", type=int, default=16)
    parser.add_argument("--state-size", type=int, default=16)
    options = parser.parse_args()
    print("| set | weights | accuracy | of the library | difference | flash | RAM |")
    print("|---|---|---|---|---|---|---|")
    sizes: dict[str, Any] = {"hidden_size": options.hidden_size, "state_size": options.state_size}
    for name in options.sets:
        (X, y), (test, labels) = (SETS[name](split=part) for part in ("train", "test"))
        classifier = LinOSSClassifier(**sizes, **ALONE, random_state=0).fit(X, y)
        expected = classifier.predict_proba(test)
        cases = [np.ascontiguousarray(np.atleast_2d(case).T, np.float32) for case in test]
        for kind, int8 in (("float32", False), ("int8", True)):
            with tempfile.TemporaryDirectory() as folder:
                written = write(classifier, Path(folder) / "model.h", int8=int8)
                found = in_c(Path(folder), cases)
            scores = [
                np.mean(classifier.classes_[p.argmax(1)] == labels) for p in (found, expected)
            ]
            print(
                f"| {name} | {kind} | {scores[0]:.3f} | {scores[1]:.3f} | "
                f"{np.abs(found - expected).max():.1e} | {written.flash:,} | {written.ram:,} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
