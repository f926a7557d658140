"""What was published: data sets, seeds, the paper's tables, and later results.

Nothing here was computed by this project. "The paper" is Rusch and Rus, Oscillatory State-Space
Models, ICLR 2025.
"""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from linoss.data import DataError

SEEDS = (2345, 3456, 4567, 5678, 6789)
"""The seeds of the published runs."""
LOSS_FLOOR = 1e-8
"""The floor of the published loss, -log(p + 1e-8)."""
SUBJECTS = 15
"""Number of subjects of PPG-DaLiA."""
_ARCHIVE = "https://www.timeseriesclassification.com/description.php?Dataset={}"


@dataclass(frozen=True)
class DataSet:
    """A data set of the paper, with the sizes of its tables."""

    short: str
    """The paper's name for it."""
    channels: int
    classes: int
    """Number of classes, or of targets for regression and forecasting."""
    length: int
    batch_size: int = 32
    every: int | None = None
    """Regression: an output at every k-th step."""
    source: str = ""
    """Where it can be had."""


UEA = {
    name: DataSet(*sizes, source=_ARCHIVE.format(name))
    for name, sizes in {
        "EigenWorms": ("Worms", 6, 5, 17984, 4),
        "SelfRegulationSCP1": ("SCP1", 6, 2, 896),
        "SelfRegulationSCP2": ("SCP2", 7, 2, 1152),
        "EthanolConcentration": ("Ethanol", 3, 4, 1751),
        "Heartbeat": ("Heartbeat", 61, 2, 405),
        "MotorImagery": ("Motor", 64, 2, 3000),
    }.items()
}
"""The six sets of the UEA archive, in the order of the paper's tables."""
_PPG = "https://archive.ics.uci.edu/dataset/495/ppg+dalia"
_WEATHER = "https://github.com/zhouhaoyi/Informer2020 (WTH.csv of its data)"
_TROIKA = "the IEEE Signal Processing Cup 2015 (DATA_NN_TYPEnn.mat and REF_NN_TYPEnn.mat)"
DATA_SETS = {
    **UEA,
    "PPG": DataSet("PPG", 6, 1, 49920, batch_size=4, every=128, source=_PPG),
    "Weather": DataSet("Weather", 12, 12, 1440, source=_WEATHER),
    "TROIKA": DataSet("TROIKA", 5, 1, 40803, batch_size=4, every=250, source=_TROIKA),
}
"""The paper's data sets, and at the end one that is not in it."""


class Spread(NamedTuple):
    """A mean and a standard deviation over runs, as published."""

    mean: float
    deviation: float | None = None


def _row(*cells: tuple[float, float]) -> dict[str, Spread]:
    return dict(zip(UEA, (Spread(*cell) for cell in cells), strict=True))


ACCURACY = {
    "im": _row((95.0, 4.4), (87.8, 2.6), (58.2, 6.9), (29.9, 0.6), (75.8, 3.7), (60.0, 7.5)),
    "imex": _row((80.0, 2.7), (87.5, 4.0), (58.9, 8.1), (29.9, 1.0), (75.5, 4.3), (57.9, 5.3)),
    "nrde": _row((83.9, 7.3), (80.9, 2.5), (53.7, 6.9), (25.3, 1.8), (72.9, 4.8), (47.0, 5.7)),
    "ncde": _row((75.0, 3.9), (79.8, 5.6), (53.0, 2.8), (29.9, 6.5), (73.9, 2.6), (49.5, 2.8)),
    "log-ncde": _row((85.6, 5.1), (83.1, 2.8), (53.7, 4.1), (34.4, 6.4), (75.2, 4.6), (53.7, 5.3)),
    "lru": _row((87.8, 2.8), (82.6, 3.4), (51.2, 3.6), (21.5, 2.1), (78.4, 6.7), (48.4, 5.0)),
    "s5": _row((81.1, 3.7), (89.9, 4.6), (50.5, 2.6), (24.1, 4.3), (77.7, 5.5), (47.7, 5.5)),
    "s6": _row((85.0, 16.1), (82.8, 2.7), (49.9, 9.4), (26.4, 6.4), (76.5, 8.3), (51.3, 4.7)),
    "mamba": _row((70.9, 15.8), (80.7, 1.4), (48.2, 3.9), (27.9, 4.5), (76.2, 3.8), (47.7, 4.5)),
    "damped": _row((93.9, 3.2), (88.9, 3.0), (58.6, 2.3), (29.9, 0.6), (75.8, 4.9), (61.1, 2.0)),
    "LogSig-SSM": _row(
        (95.3, 3.6), (88.4, 1.9), (58.5, 2.9), (51.4, 6.9), (76.9, 9.7), (59.9, 3.4)
    ),
    "PD-SSM": _row((90.0, 5.7), (80.9, 2.0), (56.1, 8.6), (34.7, 4.0), (80.0, 2.6), (60.0, 3.7)),
    "LrcSSM": _row((90.6, 1.4), (85.2, 2.1), (53.9, 7.2), (36.9, 5.3), (72.7, 5.7), (58.6, 3.1)),
}
"""Test accuracy in percent: five seeds, the paper's protocol."""
AVERAGE = {
    "im": 67.8, "imex": 65.0, "nrde": 60.6, "ncde": 60.2, "log-ncde": 64.3, "lru": 61.7,
    "s5": 61.8, "s6": 62.0, "mamba": 58.6, "damped": 68.0, "LogSig-SSM": 71.7, "PD-SSM": 67.0,
    "LrcSSM": 66.3, "relu": 67.8, "squared": 67.1, "squared-normal": 64.0,
}  # fmt: skip
"""The average over the six sets, as printed: from means that were not yet rounded."""
SOURCES = {
    "damped": "D-LinOSS, arXiv 2505.12171",
    "LogSig-SSM": "arXiv 2610.05051",
    "PD-SSM": "arXiv 2509.22284",
    "LrcSSM": "arXiv 2505.21717",
    **dict.fromkeys(
        ("s4", "Informer", "LogTrans", "Reformer", "LSTMa", "LSTnet"), "quoted in the paper"
    ),
}
"""The sources of numbers that the paper did not measure."""

PARAMETERIZATION = {
    "relu": ACCURACY["im"],
    "squared": _row((88.9, 2.5), (86.6, 1.8), (59.3, 7.8), (32.7, 6.2), (76.8, 2.2), (58.2, 8.4)),
    "squared-normal": _row(
        (74.4, 31.3), (87.3, 1.7), (60.7, 4.1), (31.4, 4.8), (73.9, 4.0), (56.5, 3.0)
    ),
}
"""Test accuracy of LinOSS-IM in percent, table of the appendix."""

PPG_ERROR = {
    "im": Spread(6.4, 0.23),
    "imex": Spread(7.5, 0.46),
    "nrde": Spread(9.90, 0.97),
    "ncde": Spread(13.54, 0.69),
    "log-ncde": Spread(9.56, 0.59),
    "lru": Spread(12.17, 0.49),
    "s5": Spread(12.63, 1.25),
    "s6": Spread(12.88, 2.05),
    "mamba": Spread(10.65, 2.20),
    "damped": Spread(6.16),
    "LogSig-SSM": Spread(4.46),
}
"""Mean squared error times 100, table of PPG-DaLiA, and as reported later."""

WEATHER_ERROR = {
    "im": Spread(0.528),
    "imex": Spread(0.508),
    "s4": Spread(0.578),
    "Informer": Spread(0.731),
    "LogTrans": Spread(0.773),
    "Reformer": Spread(1.575),
    "LSTMa": Spread(1.109),
    "LSTnet": Spread(0.757),
    "damped": Spread(0.486),
    "LogSig-SSM": Spread(0.432),
}
"""Mean absolute error, table of the weather data set, and as reported later."""

_COSTS = {
    "im": (
        (134279, 991240, 399112, 6728, 10936, 91844),
        (10654, 4772, 2724, 1182, 928, 4510),
        (90, 38, 22, 8, 7, 11),
    ),
    "imex": (
        (26119, 447944, 448072, 70088, 29444, 106024),
        (6556, 4768, 4772, 4766, 922, 12708),
        (37, 42, 55, 48, 4, 128),
    ),
    "nrde": (
        (105110, 117187, 200707, 93212, 15657742, 1134395),
        (2506, 716, 712, 712, 6860, 4552),
        (5386, 1014, 1404, 2256, 9539, 7616),
    ),
    "ncde": (
        (166789, 166274, 182914, 133252, 1098114, 186962),
        (2484, 694, 692, 692, 1462, 4534),
        (24595, 973, 1251, 2217, 1177, 3778),
    ),
    "log-ncde": (
        (37977, 91557, 36379, 31452, 168320, 81391),
        (2510, 724, 714, 710, 2774, 4566),
        (1956, 635, 583, 2056, 826, 730),
    ),
    "lru": (
        (101129, 25892, 26020, 76522, 338820, 107544),
        (10716, 960, 954, 1988, 1466, 8646),
        (94, 9, 9, 16, 8, 51),
    ),
    "s5": (
        (22007, 226328, 5652, 76214, 158310, 17496),
        (6646, 1798, 762, 1520, 1548, 4616),
        (31, 17, 9, 9, 11, 16),
    ),
    "mamba": (
        (27381, 184194, 356290, 1032772, 1034242, 228226),
        (13486, 1110, 2460, 4876, 1650, 3120),
        (122, 7, 32, 255, 34, 35),
    ),
    "s6": (
        (15045, 24898, 26018, 5780, 6674, 52802),
        (7922, 904, 1222, 938, 606, 4056),
        (68, 3, 7, 4, 4, 34),
    ),
}
PARAMETERS, MEMORY, RUN_TIME = (
    {model: dict(zip(UEA, rows[i], strict=True)) for model, rows in _COSTS.items()}
    for i in range(3)
)
"""Table of the appendix: parameters; megabytes, and seconds for 1000 training steps, on an Nvidia
RTX 4090."""

PER_SEED = {
    ("EigenWorms", "im"): (1.000, 0.917, 0.944, 1.000, 0.889),
    ("SelfRegulationSCP1", "im"): (0.882, 0.918, 0.871, 0.882, 0.835),
    ("SelfRegulationSCP2", "imex"): (0.561, 0.526, 0.667, 0.491, 0.702),
    ("EthanolConcentration", "im"): (0.304, 0.291, 0.304, 0.291, 0.304),
    ("Heartbeat", "im"): (0.758, 0.806, 0.710, 0.790, 0.726),
    ("MotorImagery", "im"): (0.526, 0.614, 0.737, 0.544, 0.579),
    ("PPG", "im"): (0.0668, 0.0618, 0.0610, 0.0654, 0.0660),
}
"""Test results published with the code, for each of `SEEDS`."""

CURVES = "published_curves.json"
_NAMES = {"LinOSS_IM": "im", "LinOSS_IMEX": "imex", "ppg": "PPG"}  # others are in lower case


@dataclass(frozen=True)
class PublishedRun:
    """A learning curve published with the paper's code."""

    data_set: str
    model: str
    seed: int
    every: int
    """Steps between evaluations."""
    validation: tuple[float, ...]
    """The validation metric at each evaluation."""
    test: float


def published_runs(data_dir: str | os.PathLike[str] | None) -> list[PublishedRun]:
    """All published runs in the directory of data sets; empty if there is no file of them."""
    path = None if data_dir is None else Path(data_dir) / CURVES
    if path is None or not path.exists():
        return []
    try:
        return [_published_run(record) for record in json.loads(path.read_text())]
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{path}: is no list of published runs ({error!r}), expected objects with model, "
            "data_set, seed, every, validation and test"
        ) from None


def _published_run(record: dict[str, Any]) -> PublishedRun:
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
