"""Heart rate from a wrist-worn device: PPG-DaLiA, sequences of 49,920 steps.

The signals of each subject are repeated to 64 Hz and scaled to [-1, 1]; so is the label, of which
there is one for 128 steps. The recording of a subject is divided into a training, a validation and
a test part of 70, 15 and 15 percent, and each of them into windows. For the published runs, the
order of the three parts was drawn once for each subject, without a seed; here it is drawn with a
seed.
"""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from linoss.data import DataError, Sequences
from linoss.training import Inputs, Regression
from paper import numbers
from paper.data import data_directory, find
from paper.models import BASELINES, title
from paper.numbers import PublishedRun
from paper.pickles import array_at, read_pickle
from paper.runs import Experiment, Options, Problem, Result, Run, execute, make_run
from paper.tables import groups, learning_curves, model_table, source_here, table
from paper.wristband import MADE_UP

REPEATS = {"ACC": 2, "BVP": 1, "EDA": 16, "TEMP": 16}
"""Repetitions of each signal to reach 64 Hz, in the order of the channels."""
EVERY = 128
"""Steps for each label, that is two seconds."""
ANSWERS, STRIDE = 390, 39
"""Labels in a window, and labels between the starts of windows."""
_SPARE = 8  # tolerated number of missing or surplus labels at the end of a recording
_SHARES = np.array([0.70, 0.15, 0.15])
_ORDER_SEED = 2345
Part = tuple[list[np.ndarray], list[np.ndarray]]


def run(options: Options) -> None:
    """Train every model with every seed."""
    folder = find("PPG", data_directory(options.data_dir))
    variant = MADE_UP if (folder / MADE_UP).exists() else None
    runs = [
        make_run(options, "PPG", model, seed, variant=variant)
        for model in options.models
        for seed in options.seeds
    ]
    execute(runs, functools.partial(make_problem, folder), options)


def make_problem(folder: Path, run: Run) -> Problem:
    """The windows of all subjects; their split is the same for every seed."""
    training, validation, test = (
        Sequences(values, np.stack(labels)) for values, labels in read_windows(folder)
    )
    inputs = Inputs.from_sequences(
        training, scale=False, indicators=False, time_channel=run.hyperparameters.include_time
    )
    objective = Regression(out_size=1, every=EVERY)
    settings = {"task": "regression", "every": EVERY}
    return Problem(inputs, objective, training, validation, test, settings)


@functools.lru_cache(maxsize=1)
def read_windows(folder: Path) -> tuple[Part, Part, Part]:
    """The windows of the training, validation and test part: signals, and labels."""
    parts: tuple[Part, Part, Part] = ([], []), ([], []), ([], [])
    for subject in range(1, numbers.SUBJECTS + 1):
        path = folder / f"S{subject}" / f"S{subject}.pkl"
        signals, labels = read_subject(path)
        order = np.random.default_rng([_ORDER_SEED, subject]).permutation(3)
        for part, windows in zip(parts, cut(signals, labels, order), strict=True):
            part[0].extend(windows[0])
            part[1].extend(windows[1])
    for name, part in zip(("training", "validation", "test"), parts, strict=True):
        if not part[0]:
            raise DataError(f"{folder}: no recording is long enough for a window of {name}")
    return parts


def read_subject(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """A recording at 64 Hz, (steps, 6), and its labels, (labels, 1), each in [-1, 1].

    The first heart rate is that of the first eight seconds; three copies are prepended, so that
    there is one for each two seconds.
    """
    content = read_pickle(path)
    signals = []
    for name, repeats in REPEATS.items():
        values = _finite(path, content, "signal", "wrist", name)
        if values.ndim != 2:
            raise DataError(f"{path}: {name} has shape {values.shape}, expected (time, channels)")
        signals.append(np.repeat(scaled(values), repeats, axis=0))
    labels = _finite(path, content, "label").reshape(-1)
    labels = scaled(np.concatenate([np.repeat(labels[:1], 3), labels]))
    steps = {len(signal) for signal in signals}
    if len(steps) > 1:
        raise DataError(f"{path}: signals have {sorted(steps)} steps at 64 Hz, expected as many")
    (steps,) = steps
    if abs(steps / EVERY - len(labels)) > _SPARE:
        raise DataError(
            f"{path}: has {len(labels)} labels for {steps / EVERY / 30:.1f} minutes of signals, "
            "expected one for each two seconds"
        )
    joined = np.concatenate(signals, axis=1, dtype=np.float32, casting="same_kind")
    return joined, labels.astype(np.float32)[:, None]


def _finite(path: Path, content: Any, *names: str) -> np.ndarray:
    values = array_at(path, content, *names)
    if not values.size or not np.isfinite(values).all():
        raise DataError(f"{path}: {names[-1]} is empty or not finite, expected numbers")
    return values


def scaled(values: np.ndarray) -> np.ndarray:
    """Scale to [-1, 1] by minimum and maximum."""
    values = values.astype(np.float64)
    low, high = values.min(), values.max()
    return 2 * (values - low) / (high - low if high > low else 1) - 1


def cut(signals: np.ndarray, labels: np.ndarray, order: np.ndarray) -> list[Part]:
    """The windows of the training, validation and test part, which are in that `order`.

    Signals and labels are each divided at the same fractions of their length.
    """
    ends = np.cumsum(_SHARES[order]).round(2)
    starts = np.concatenate([[0.0], ends[:-1]])
    parts: list[Part] = [([], [])] * 3
    for part, start, end in zip(order, starts, ends, strict=True):
        cuts = [x[int(start * len(x)) : int(end * len(x))] for x in (signals, labels)]
        answers = min(len(cuts[0]) // EVERY, len(cuts[1]))
        parts[part] = windows(cuts[0][: answers * EVERY], EVERY), windows(cuts[1][:answers], 1)
    return parts


def windows(array: np.ndarray, steps: int) -> list[np.ndarray]:
    """Windows of `ANSWERS` labels' length, every `STRIDE` labels; views, not copies."""
    length, stride = steps * ANSWERS, steps * STRIDE
    return [array[i : i + length] for i in range(0, len(array) - length + 1, stride)]


def report(results: Sequence[Result], folder: Path, published: Sequence[PublishedRun]) -> str:
    """The paper's table with our rows, the results of each seed, and learning curves.

    Seeds cannot be compared one by one: the order of a subject's parts was drawn anew.
    """
    rows = [[title("im"), "published", *(f"{x:.4f}" for x in numbers.PER_SEED["PPG", "im"])]]
    for (model, *kind), chosen in groups(results, "model", "protocol", "variant").items():
        tests = {r.seed: r.outcome["test"] for r in chosen if r.outcome["test"] is not None}
        cells = [f"{tests[s]:.4f}" if s in tests else "" for s in numbers.SEEDS]
        rows.append([title(model), source_here(*kind), *cells])
    lines = [model_table(results, numbers.PPG_ERROR, scale=100, digits=2), ""]
    lines += [table(["model", "", *map(str, numbers.SEEDS)], rows)]
    return "\n".join([*lines, *learning_curves(results, folder, "ppg", published)])


EXPERIMENT = Experiment(
    title="PPG-DaLiA, sequences of 49,920 steps",
    run=run,
    report=report,
    models=("im", "imex"),
    others=("damped", *BASELINES),
    seeds=numbers.SEEDS,
)
