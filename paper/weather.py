"""Weather forecasting: 720 hours from the previous 720 hours, as a masked sequence.

Hourly observations of 12 variables, standardised by the first 70 percent, which are for training;
then 10 percent for validation and 20 for testing. Windows of the later parts begin their forecast
in that part, and may read their past from the previous part, as in the benchmark's code. The error
is the mean absolute error over all variables, on the standardised scale.

There are two variants, because the paper does not list all inputs of its models. It follows S4,
whose models have the calendar at every step, past and future, as do those of the benchmark: with
`"calendar"`, four channels have the sine and cosine of the year and of the day. With `"values"`,
the inputs are only the 12 variables that the text mentions; the season must then be inferred from a
month of past, with less than three years of training data.

A time channel rises from 0 to 1 over the past and from 1 to 2 over the future.
"""

import functools
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from linoss.data import DataError, Table, read_table
from linoss.training import Forecasting, Inputs, Windows
from paper import numbers
from paper.data import data_directory, find
from paper.numbers import PublishedRun
from paper.runs import Experiment, Options, Problem, Protocol, Result, Run, execute, make_run
from paper.tables import learning_curves, model_table

PAST = HORIZON = 720
PROTOCOLS = {"paper": Protocol(100_000, 1000), "quick": Protocol(20_000, 100)}
"""The paper does not describe the protocol of this experiment. An epoch has 722 steps and an
evaluation 2789 windows, so evaluations every 50 steps would not be quick."""
_DAY, _YEAR = 24, 24 * 365.25  # hours


def run(options: Options) -> None:
    """Train every model, by default with the first seed, because the paper's table has no
    deviations."""
    folder = find("Weather", data_directory(options.data_dir))
    runs = [
        make_run(options, "Weather", model, seed, variant=variant, protocols=PROTOCOLS)
        for variant in options.variants
        for model in options.models
        for seed in options.seeds
    ]
    execute(runs, functools.partial(make_problem, folder), options)


def make_problem(folder: Path, run: Run) -> Problem:
    """The windows of the three parts, the same for every seed."""
    weather = read_weather(folder / "WTH.csv")
    series, known = weather.series[0], ()
    if run.variant != "values":
        seasons = calendar(weather.index[0])
        known = tuple(series.shape[1] + i for i in range(seasons.shape[1]))
        series = np.concatenate([series, seasons], axis=1)
    training, validation, test = (
        Windows([part], past=PAST, horizon=HORIZON, known=known) for part in parts(series)
    )
    inputs = Inputs.from_sequences(training, time_channel=run.hyperparameters.include_time)
    objective = Forecasting.from_windows(training, inputs)
    settings = {"task": "forecasting", "horizon": HORIZON}
    return Problem(inputs, objective, training, validation, test, settings)


@functools.lru_cache(maxsize=1)
def read_weather(path: Path) -> Table:
    """All variables, (hours, 12), with their dates."""
    weather = read_table(path)
    if len(weather.series) != 1 or np.isnan(weather.series[0]).any():
        raise DataError(f"{path}: has several series or missing values, expected one without")
    if weather.index[0].dtype.kind != "M":
        raise DataError(f"{path}: has no column of dates, expected one")
    return weather


def calendar(dates: np.ndarray) -> np.ndarray:
    """Sine and cosine of the time of the year and of the time of the day, (dates, 4).

    ```python
    >>> import numpy as np
    >>> from paper.weather import calendar
    >>> calendar(np.array(["2010-01-01T00", "2010-01-01T06"], "datetime64[h]")).round(3)
    array([[0.   , 1.   , 0.   , 1.   ],
           [0.004, 1.   , 1.   , 0.   ]])

    ```
    """
    hours = (dates - dates.astype("datetime64[Y]")) / np.timedelta64(1, "h")
    angles = [2 * np.pi * hours / period for period in (_YEAR, _DAY)]
    return np.stack([f(angle) for angle in angles for f in (np.sin, np.cos)], axis=1)


def parts(series: np.ndarray) -> list[np.ndarray]:
    """Training, validation and test part; the later two begin `PAST` steps early."""
    train, test = int(0.7 * len(series)), int(0.2 * len(series))
    bounds = ((0, train), (train - PAST, len(series) - test), (len(series) - test - PAST, None))
    if train < PAST + HORIZON or len(series) - train - test < HORIZON:
        raise DataError(f"the series has {len(series)} steps, expected enough for windows of each")
    return [series[start:end] for start, end in bounds]


def report(results: Sequence[Result], folder: Path, published: Sequence[PublishedRun]) -> str:
    """The paper's table with ours beside it, and learning curves."""
    lines = [model_table(results, numbers.WEATHER_ERROR, digits=3)]
    return "\n".join([*lines, *learning_curves(results, folder, "weather")])


EXPERIMENT = Experiment(
    title="Weather, 720 steps ahead",
    run=run,
    report=report,
    models=("im", "imex"),
    others=("damped", "s4"),
    variants=("calendar", "values"),
    seeds=numbers.SEEDS[:1],
)
