"""Made-up wrist recordings in the file layout of PPG-DaLiA: `python -m paper.wristband DIRECTORY`.

With them `python -m paper ppg --data-dir DIRECTORY` runs from end to end without the real data. The
pulse follows a heart rate that wanders between rest and exercise; the arm swings in some minutes,
and its acceleration disturbs the pulse.
"""

import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np

from paper.numbers import SUBJECTS

MINUTES = 90
"""Length of a recording: 15 percent of it are a window of 13 minutes."""
RATES = {"ACC": 32, "BVP": 64, "EDA": 4, "TEMP": 4}
"""Samples in a second."""
MADE_UP = "made-up"
"""A file beside the recordings, so that results say that they are made up."""
_LABELLED = 8, 2  # seconds that a label describes, and from one to the next


def recording(subject: int, minutes: float = MINUTES) -> dict[str, Any]:
    """The content of a subject's file: the signals at the wrist, and the heart rate as label."""
    random, seconds = np.random.default_rng(subject), round(60 * minutes)
    rate = 90 + 30 * wander(random, seconds, 300)  # beats a minute, for each second
    effort = np.maximum(wander(random, seconds, 120), 0)
    swing = effort[:, None] * random.uniform(0.3, 1, 3)
    step = 2 * np.pi * random.uniform(1.5, 2.2)

    def at(name: str, values: np.ndarray) -> np.ndarray:
        """Values for each second at the samples of a signal."""
        times = np.arange(seconds * RATES[name]) / RATES[name]
        return np.interp(times, np.arange(seconds) + 0.5, values)

    times = np.arange(seconds * RATES["ACC"]) / RATES["ACC"]
    axes = [np.sin(step * times + i) * at("ACC", swing[:, i]) for i in range(3)]
    motion = np.repeat(axes[0], 2)
    phase = 2 * np.pi * np.cumsum(at("BVP", rate)) / 60 / RATES["BVP"]
    pulse = np.sin(phase) + 0.4 * np.sin(2 * phase + 1) + motion
    noise = {name: random.normal(size=seconds * n) for name, n in RATES.items()}
    wrist = {
        "ACC": np.stack(axes, axis=1) + 0.05 * random.normal(size=(len(times), 3)),
        "BVP": (pulse + 0.2 * noise["BVP"])[:, None],
        "EDA": (1 + at("EDA", effort) + 0.01 * noise["EDA"])[:, None],
        "TEMP": (33 - 0.5 * at("TEMP", effort) + 0.01 * noise["TEMP"])[:, None],
    }
    width, stride = _LABELLED
    starts = range(0, seconds - width + 1, stride)
    label = np.array([rate[start : start + width].mean() for start in starts])
    label += random.normal(size=len(label))
    return {"signal": {"wrist": wrist}, "label": label, "subject": f"S{subject}"}


def wander(random: np.random.Generator, seconds: int, period: float) -> np.ndarray:
    """A slow random walk between -1 and 1, one value for each second."""
    knots = random.uniform(-1, 1, int(seconds / period) + 2)
    return np.interp(np.arange(seconds) / period, np.arange(len(knots)), knots)


def write(folder: Path, subjects: int = SUBJECTS, minutes: float = MINUTES) -> None:
    """Write `PPG_FieldStudy/S1/S1.pkl` and so on."""
    for subject in range(1, subjects + 1):
        place = folder / "PPG_FieldStudy" / f"S{subject}"
        place.mkdir(parents=True, exist_ok=True)
        content = pickle.dumps(recording(subject, minutes), protocol=4)
        (place / f"S{subject}.pkl").write_bytes(content)
    (folder / "PPG_FieldStudy" / MADE_UP).touch()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m paper.wristband DIRECTORY")
    write(Path(sys.argv[1]))
    print(f"{SUBJECTS} made-up recordings of {MINUTES} minutes are in {sys.argv[1]}/PPG_FieldStudy")
