"""Heart rate on a treadmill: 13 wrist recordings of 27,576 to 40,803 steps at 125 Hz.

The data of the IEEE Signal Processing Cup 2015 ask the question of PPG-DaLiA at the same length,
but are another set: their numbers do not belong in the paper's table. Inputs are two PPG channels
and three of acceleration, each standardised by its own recording; the ECG, from which the labels
come, is left out. A label is the heart rate of the last eight seconds, every two seconds. Models
have the paper's hyperparameters for PPG-DaLiA, Mamba the grid's smallest sizes: its own would take
more memory than there is. They read whole recordings.

Persons are divided into four folds of three: one for testing, two persons of the next one for
validation, the others for training. Labels are scaled to [-1, 1] by the extremes of the training
part.
"""

import functools
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import loadmat
from scipy.io.matlab import MatReadError
from scipy.signal import periodogram

from linoss.data import DataError, Sequences
from linoss.nn import LinOSS
from linoss.training import Inputs, Regression, Scaling, predict
from paper import numbers, runs
from paper.data import data_directory, find
from paper.models import SMALLEST, title
from paper.numbers import PublishedRun, Spread
from paper.runs import Experiment, Options, Problem, Protocol, Result, Run, execute, make_run
from paper.tables import cell, groups, printed, table

NAME = "TROIKA"
RATE, EVERY = 125, 250
"""Samples in a second, and from one label to the next."""
WINDOW = 8 * RATE
"""Samples that a label describes."""
PROTOCOLS = {"paper": Protocol(5_000, 50), "quick": Protocol(600, 20)}
FOLDS = {f"fold-{i + 1}": range(3 * i + 1, 3 * i + 4) for i in range(4)}
"""The persons of each fold."""
BASELINES = {
    "mean": "mean of the training part",
    "previous": "previous label, known from the ECG",
    "spectrum": "spectral peak of PPG without acceleration",
}
_BAND, _POINTS = (40 / 60, 200 / 60), 2**14
"""Frequencies of a heart in Hz, and points of a spectrum."""
_BASELINE = "baseline"
Recording = tuple[int, np.ndarray, np.ndarray]


def run(options: Options) -> None:
    """Predict by the baselines, then train every model, on every fold."""
    recordings = read_recordings(find(NAME, data_directory(options.data_dir)))
    for name, fold in itertools.product(BASELINES, FOLDS):
        measure_baseline(options, recordings, name, fold)
    todo = [
        make_run(
            options,
            NAME,
            model,
            seed,
            chosen=SMALLEST if model == "mamba" else None,
            variant=fold,
            protocols=PROTOCOLS,
        )
        for model in options.models
        for fold in options.variants
        for seed in options.seeds
    ]
    execute(todo, functools.partial(make_problem, recordings), options, measure)


@functools.lru_cache(maxsize=1)
def read_recordings(folder: Path) -> tuple[Recording, ...]:
    """Person, signals `(steps, 5)` and heart rates of every recording."""
    return tuple(read_recording(path) for path in sorted(folder.glob("DATA_*_TYPE*.mat")))


def read_recording(path: Path) -> Recording:
    """A recording: the number of its person, the standardised signals, and the heart rates."""
    signals = _matrix(path, "sig")
    reference = path.with_name(path.name.replace("DATA", "REF", 1))
    rates = _matrix(reference, "BPM0").reshape(-1)
    if signals.shape[0] != 6:
        raise DataError(f"{path}: sig has shape {signals.shape}, expected (6, time)")
    expected = (signals.shape[1] - WINDOW) // EVERY + 1
    if len(rates) != expected:
        raise DataError(f"{reference}: has {len(rates)} heart rates, expected {expected}")
    signals = signals[1:].T
    signals = (signals - signals.mean(0)) / signals.std(0)
    return int(path.name.split("_")[1]), signals.astype(np.float32), rates


def _matrix(path: Path, name: str) -> np.ndarray:
    try:
        values = np.asarray(loadmat(path, variable_names=[name])[name], np.float64)
    except (OSError, KeyError, TypeError, ValueError, NotImplementedError, MatReadError) as error:
        raise DataError(f"{path}: has no readable array {name} ({error})") from None
    if not np.isfinite(values).all():
        raise DataError(f"{path}: {name} has values that are not finite, expected numbers")
    return values


def parts(
    recordings: Sequence[Recording], fold: str
) -> tuple[list[Recording], list[Recording], list[Recording]]:
    """The recordings for training, validation and testing."""
    following = list(FOLDS)[(list(FOLDS).index(fold) + 1) % len(FOLDS)]
    tested, validated = set(FOLDS[fold]), set(FOLDS[following][:2])
    test = [r for r in recordings if r[0] in tested]
    validation = [r for r in recordings if r[0] in validated]
    return [r for r in recordings if r[0] not in tested | validated], validation, test


def make_problem(recordings: Sequence[Recording], run: Run) -> Problem:
    """The parts of a fold. Of the outputs every two seconds, the first three have no label."""
    assert run.variant is not None
    divided = parts(recordings, run.variant)
    training, validation, test = (
        Sequences([signals for _, signals, _ in part], [every_two_seconds(r) for r in part])
        for part in divided
    )
    inputs = Inputs.from_sequences(
        training, scale=False, indicators=False, time_channel=run.hyperparameters.include_time
    )
    objective = Regression(every=EVERY, scaling=label_scaling(divided[0]))
    settings = {"task": "regression", "every": EVERY}
    return Problem(inputs, objective, training, validation, test, settings)


def label_scaling(training: Sequence[Recording]) -> Scaling:
    """From the extremes of the training part to [-1, 1]."""
    rates = np.concatenate([rates for _, _, rates in training])
    low, high = rates.min(), rates.max()
    return Scaling(np.array([(low + high) / 2]), np.array([(high - low) / 2]))


def every_two_seconds(recording: Recording) -> np.ndarray:
    """A label for each two seconds, `(steps // EVERY, 1)`; NaN in the first six seconds."""
    _, signals, rates = recording
    labels = np.full((len(signals) // EVERY, 1), np.nan)
    first = WINDOW // EVERY - 1
    labels[first : first + len(rates), 0] = rates
    return labels


def measure(model: LinOSS, problem: Problem) -> dict[str, Any]:
    """The mean absolute error of each test recording, in beats a minute."""
    assert isinstance(problem.test, Sequences)
    assert problem.test.labels is not None
    outputs = predict(model, problem.inputs, problem.test)
    rates = [problem.objective.decode(np.asarray(output)) for output in outputs]
    pairs = zip(rates, problem.test.labels, strict=True)
    return {"beats": [float(np.nanmean(np.abs(o[: len(y)] - y))) for o, y in pairs]}


def measure_baseline(
    options: Options, recordings: Sequence[Recording], name: str, fold: str
) -> None:
    """The result of predictions without a model."""
    training, validation, test = parts(recordings, fold)

    def outcome() -> dict[str, Any]:
        mean = float(np.mean(np.concatenate([rates for _, _, rates in training])))
        errors = [predict_by(name, recording, mean) - recording[2] for recording in test]
        scaled = np.concatenate(errors) / label_scaling(training).deviation
        return {
            "metric": "mse",
            "test": float(np.mean(scaled**2)),
            "beats": [float(np.mean(np.abs(error))) for error in errors],
            "steps": 0,
            "cases": [len(training), len(validation), len(test)],
        }

    about = {"data_set": NAME, "model": name, "variant": fold, "protocol": _BASELINE}
    runs.measure_once(options, outcome, **about)


def predict_by(name: str, recording: Recording, mean: float) -> np.ndarray:
    """The heart rates of a recording by a baseline."""
    _, signals, rates = recording
    if name == "mean":
        return np.full(len(rates), mean)
    if name == "previous":
        return np.concatenate([[mean], rates[:-1]])
    return np.array([spectral_rate(signals[i * EVERY :][:WINDOW]) for i in range(len(rates))])


def spectral_rate(window: np.ndarray) -> float:
    """The peak of the spectrum of PPG, less that of the acceleration, in beats a minute.

    ```python
    >>> import numpy as np
    >>> from paper.troika import spectral_rate
    >>> time = np.arange(1000)[:, None] / 125
    >>> heart, arm = np.sin(2 * np.pi * 2 * time), np.sin(2 * np.pi * 1.3 * time)
    >>> round(spectral_rate(np.hstack([heart + 2 * arm] * 2 + [arm] * 3)))
    120

    ```
    """
    frequency, power = periodogram(window, RATE, "hann", _POINTS, axis=0)
    band = (frequency >= _BAND[0]) & (frequency <= _BAND[1])
    power = power[band] / np.maximum(power[band].max(0), 1e-12)
    clean = power[:, :2].mean(1) - power[:, 2:].max(1)
    return float(60 * frequency[band][np.argmax(clean)])


def report(results: Sequence[Result], folder: Path, published: Sequence[PublishedRun]) -> str:
    """For each model, the errors over all recordings that were tested, and over folds."""
    rows = []
    for (model, protocol), chosen in groups(results, "model", "protocol").items():
        beats = [error for result in chosen for error in result.outcome.get("beats", ())]
        if beats:
            spread = Spread(float(np.mean(beats)), float(np.std(beats)))
            cells = [f"{printed(spread)} ({len(beats)} recordings)", cell(chosen, 100, 2)]
            rows.append([BASELINES.get(model, title(model)), f"here, {protocol}", *cells])
    return table(["model", "", "beats a minute", "squared error × 100, folds×steps"], rows)


EXPERIMENT = Experiment(
    title="TROIKA, heart rate from recordings of 27,576 to 40,803 steps",
    run=run,
    report=report,
    models=("im", "imex"),
    others=("damped", "lru", "s5", "mamba"),
    variants=tuple(FOLDS),
    seeds=numbers.SEEDS[:1],
)
