"""Forecasting the weather: 720 hours ahead from 720 hours, as a masked sequence.

Hourly observations of 12 variables, standardised with the mean and deviation of the first 70
percent, which are for training; then 10 percent for validation and 20 for testing. A window of the
later parts begins its forecast in the part, and reads its past from before it, as in the
benchmark's own code. The error is the mean absolute one over all variables, on the standardised
scale.

A channel of time goes from 0 to 1 over the past and on to 2 over the future.
"""

import functools
from pathlib import Path

import numpy as np

from linoss.data import DataError, read_table
from linoss.experiments import _paper
from linoss.experiments._data_sets import data_directory, find
from linoss.experiments._figures import Figures, learning_curves
from linoss.experiments._protocol import Options, Protocol
from linoss.experiments._results import Result, unique
from linoss.experiments._runs import Problem, Run, execute, make_run
from linoss.experiments._tables import model_table
from linoss.training import Forecasting, Inputs, Windows

NAME, TITLE = "weather", "Weather, 720 steps ahead"
MODELS = ("im", "imex")
PAST = HORIZON = 720
PROTOCOLS = {
    "paper": Protocol(steps=100_000, evaluate_every=1000, patience=11),
    "quick": Protocol(steps=20_000, evaluate_every=250, patience=11),
}
"""The paper says nothing of this experiment's; an epoch has 722 steps, an evaluation 2789 windows,
so that looking at them every 50 steps would not be quick."""


def run(options: Options) -> None:
    """Train every model, by default with the first seed: the paper's table has no deviations."""
    path = find("Weather", data_directory(options.data_dir))
    runs = [
        make_run(NAME, options, "Weather", model, seed, protocols=PROTOCOLS)
        for model in options.models or MODELS
        for seed in options.seeds or _paper.SEEDS[:1]
    ]
    execute(runs, functools.partial(make_problem, path), options)


def expected() -> list[tuple[str, str]]:
    """The data sets and models that a full record has."""
    return [("Weather", model) for model in (*MODELS, "damped")]


def make_problem(path: Path, run: Run) -> Problem:
    """Windows of the three parts; they are the same for every seed."""
    training, validation, test = (
        Windows([part], past=PAST, horizon=HORIZON) for part in parts(read_weather(path))
    )
    inputs = Inputs.from_sequences(training, time_channel=run.hyperparameters.include_time)
    objective = Forecasting.from_windows(training, inputs)
    settings = {"task": "forecasting", "horizon": HORIZON}
    return Problem(inputs, objective, training, validation, test, settings)


@functools.lru_cache(maxsize=1)
def read_weather(path: Path) -> np.ndarray:
    """All variables, (hours, 12)."""
    series = read_table(path).series
    if len(series) != 1 or np.isnan(series[0]).any():
        raise DataError(f"{path}: has several series or missing values, expected one without")
    return series[0]


def parts(series: np.ndarray) -> list[np.ndarray]:
    """Training, validation and test part; the later two begin `PAST` steps early."""
    train, test = int(0.7 * len(series)), int(0.2 * len(series))
    bounds = ((0, train), (train - PAST, len(series) - test), (len(series) - test - PAST, None))
    if train < PAST + HORIZON or len(series) - train - test < HORIZON:
        raise DataError(f"the series has {len(series)} steps, expected enough for windows of each")
    return [series[start:end] for start, end in bounds]


def report(results: list[Result], figures: Figures) -> str:
    """The paper's table with ours beside it, and learning curves."""
    lines = ["Mean absolute error on the test part, standardised scale, all variables.", ""]
    lines += [model_table(results, _paper.WEATHER_ERROR, digits=3), ""]
    for protocol in unique(result.protocol for result in results):
        chosen = [result for result in results if result.protocol == protocol]
        lines += learning_curves(chosen, figures, f"{NAME}-{protocol}", f"Weather, {protocol}")
    return "\n".join(lines)
