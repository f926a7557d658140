"""Published numbers: the paper's tables, results published with its code, and later results.

Nothing here was computed by this project. Each table has its source; "the paper" is Rusch and Rus,
Oscillatory State-Space Models, ICLR 2025.
"""

from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

SEEDS = (2345, 3456, 4567, 5678, 6789)
"""The seeds of the published runs."""
LOSS_FLOOR = 1e-8
"""The floor of the published loss, -log(p + 1e-8)."""


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


UEA = {
    "EigenWorms": DataSet("Worms", 6, 5, 17984, batch_size=4),
    "SelfRegulationSCP1": DataSet("SCP1", 6, 2, 896),
    "SelfRegulationSCP2": DataSet("SCP2", 7, 2, 1152),
    "EthanolConcentration": DataSet("Ethanol", 3, 4, 1751),
    "Heartbeat": DataSet("Heartbeat", 61, 2, 405),
    "MotorImagery": DataSet("Motor", 64, 2, 3000),
}
"""The six sets of the UEA archive, in the order of the paper's tables."""
DATA_SETS = {
    **UEA,
    "PPG": DataSet("PPG", 6, 1, 49920, batch_size=4, every=128),
    "Weather": DataSet("Weather", 12, 12, 1440),
}
"""All of the paper's data sets."""
SUBJECTS = 15
"""Number of subjects of PPG-DaLiA."""


@dataclass(frozen=True)
class Hyperparameters:
    """Hyperparameters selected by a search over the paper's grid."""

    learning_rate: float
    hidden_size: int
    state_size: int
    num_blocks: int
    include_time: bool


BEST = {
    ("EigenWorms", "im"): Hyperparameters(1e-3, 128, 64, 2, True),
    # The table has False; the published number of parameters requires True.
    ("EigenWorms", "imex"): Hyperparameters(1e-4, 64, 16, 2, True),
    ("SelfRegulationSCP1", "im"): Hyperparameters(1e-4, 128, 256, 6, True),
    ("SelfRegulationSCP1", "imex"): Hyperparameters(1e-4, 64, 256, 6, False),
    ("SelfRegulationSCP2", "im"): Hyperparameters(1e-4, 128, 64, 6, False),
    ("SelfRegulationSCP2", "imex"): Hyperparameters(1e-5, 64, 256, 6, True),
    ("EthanolConcentration", "im"): Hyperparameters(1e-5, 16, 16, 4, False),
    ("EthanolConcentration", "imex"): Hyperparameters(1e-5, 16, 256, 4, False),
    ("Heartbeat", "im"): Hyperparameters(1e-3, 16, 16, 6, True),
    ("Heartbeat", "imex"): Hyperparameters(1e-5, 64, 16, 2, True),
    ("MotorImagery", "im"): Hyperparameters(1e-5, 128, 16, 2, False),
    ("MotorImagery", "imex"): Hyperparameters(1e-4, 16, 256, 6, True),
    ("PPG", "im"): Hyperparameters(1e-3, 16, 64, 6, True),
    ("PPG", "imex"): Hyperparameters(1e-4, 64, 16, 2, True),
    ("Weather", "im"): Hyperparameters(6e-4, 64, 32, 8, True),
    ("Weather", "imex"): Hyperparameters(7e-4, 256, 128, 5, False),
    ("EigenWorms", "damped"): Hyperparameters(1e-3, 128, 64, 2, False),
    ("SelfRegulationSCP1", "damped"): Hyperparameters(1e-4, 128, 256, 6, True),
    ("SelfRegulationSCP2", "damped"): Hyperparameters(1e-5, 128, 64, 6, False),
    ("EthanolConcentration", "damped"): Hyperparameters(1e-5, 16, 256, 4, False),
    ("Heartbeat", "damped"): Hyperparameters(1e-4, 16, 16, 2, False),
    ("MotorImagery", "damped"): Hyperparameters(1e-3, 16, 64, 4, False),
    ("PPG", "damped"): Hyperparameters(1e-3, 64, 64, 4, True),
    ("Weather", "damped"): Hyperparameters(7.95e-5, 128, 128, 3, False),
}
"""Table "Best hyperparameters" of the appendix; damped: those of D-LinOSS."""

GRID = tuple(
    Hyperparameters(rate, hidden, state, blocks, time)
    for rate, blocks, hidden, state, time in product(
        (1e-5, 1e-4, 1e-3), (2, 4, 6), (16, 64, 128), (16, 64, 256), (True, False)
    )
)
"""Section "Hyperparameters" of the appendix."""


class Spread(NamedTuple):
    """A mean and a standard deviation over runs, as published."""

    mean: float
    deviation: float | None = None


def _row(*cells: tuple[float, float] | float) -> dict[str, Spread]:
    spreads = (Spread(*cell) if isinstance(cell, tuple) else Spread(cell) for cell in cells)
    return dict(zip(UEA, spreads, strict=True))


ACCURACY = {
    "im": _row((95.0, 4.4), (87.8, 2.6), (58.2, 6.9), (29.9, 0.6), (75.8, 3.7), (60.0, 7.5)),
    "imex": _row((80.0, 2.7), (87.5, 4.0), (58.9, 8.1), (29.9, 1.0), (75.5, 4.3), (57.9, 5.3)),
    "damped": _row((93.9, 3.2), (88.9, 3.0), (58.6, 2.3), (29.9, 0.6), (75.8, 4.9), (61.1, 2.0)),
    "nrde": _row((83.9, 7.3), (80.9, 2.5), (53.7, 6.9), (25.3, 1.8), (72.9, 4.8), (47.0, 5.7)),
    "ncde": _row((75.0, 3.9), (79.8, 5.6), (53.0, 2.8), (29.9, 6.5), (73.9, 2.6), (49.5, 2.8)),
    "log-ncde": _row((85.6, 5.1), (83.1, 2.8), (53.7, 4.1), (34.4, 6.4), (75.2, 4.6), (53.7, 5.3)),
    "lru": _row((87.8, 2.8), (82.6, 3.4), (51.2, 3.6), (21.5, 2.1), (78.4, 6.7), (48.4, 5.0)),
    "s5": _row((81.1, 3.7), (89.9, 4.6), (50.5, 2.6), (24.1, 4.3), (77.7, 5.5), (47.7, 5.5)),
    "s6": _row((85.0, 16.1), (82.8, 2.7), (49.9, 9.4), (26.4, 6.4), (76.5, 8.3), (51.3, 4.7)),
    "mamba": _row((70.9, 15.8), (80.7, 1.4), (48.2, 3.9), (27.9, 4.5), (76.2, 3.8), (47.7, 4.5)),
}
"""Test accuracy in percent, table of the six UEA sets; damped: D-LinOSS as reported by its authors
(arXiv 2505.12171)."""

SINCE = {
    "LogSig-SSM": (
        "arXiv 2610.05051",
        _row((95.3, 3.6), (88.4, 1.9), (58.5, 2.9), (51.4, 6.9), (76.9, 9.7), (59.9, 3.4)),
    ),
    "PD-SSM": (
        "arXiv 2509.22284",
        _row((90.0, 5.7), (80.9, 2.0), (56.1, 8.6), (34.7, 4.0), (80.0, 2.6), (60.0, 3.7)),
    ),
    "LrcSSM": (
        "arXiv 2505.21717",
        _row((90.6, 1.4), (85.2, 2.1), (53.9, 7.2), (36.9, 5.3), (72.7, 5.7), (58.6, 3.1)),
    ),
}
"""Test accuracy in percent of later models, as reported by their authors: five seeds, the paper's
protocol."""
RERUN = {"im": {"EigenWorms": Spread(90.6, 9.3)}}
"""Test accuracy in percent of the paper's code, run by others."""

TITLES = {
    "nrde": "NRDE",
    "ncde": "NCDE",
    "log-ncde": "Log-NCDE",
    "lru": "LRU",
    "s4": "S4",
    "s5": "S5",
    "s6": "S6",
    "mamba": "Mamba",
}
"""The paper's names of the baselines."""

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
    "damped": Spread(6.16),
    "nrde": Spread(9.90, 0.97),
    "ncde": Spread(13.54, 0.69),
    "log-ncde": Spread(9.56, 0.59),
    "lru": Spread(12.17, 0.49),
    "s5": Spread(12.63, 1.25),
    "s6": Spread(12.88, 2.05),
    "mamba": Spread(10.65, 2.20),
    "LogSig-SSM": Spread(4.46),
}
"""Mean squared error times 100, table of PPG-DaLiA; damped, LogSig-SSM: as reported later."""

WEATHER_ERROR = {
    "im": Spread(0.528),
    "imex": Spread(0.508),
    "damped": Spread(0.486),
    "s4": Spread(0.578),
    "LogSig-SSM": Spread(0.432),
}
"""Mean absolute error, table of the weather data set; damped, LogSig-SSM: as reported later."""

HARMONIC_FACTOR = 8
"""Section "Additional experiments": at the end, the error of IM exceeds that of IMEX by more than
this factor."""

PARAMETERS = {
    "im": dict(zip(UEA, (134279, 991240, 399112, 6728, 10936, 91844), strict=True)),
    "imex": dict(zip(UEA, (26119, 447944, 448072, 70088, 29444, 106024), strict=True)),
    "nrde": dict(zip(UEA, (105110, 117187, 200707, 93212, 15657742, 1134395), strict=True)),
    "ncde": dict(zip(UEA, (166789, 166274, 182914, 133252, 1098114, 186962), strict=True)),
    "log-ncde": dict(zip(UEA, (37977, 91557, 36379, 31452, 168320, 81391), strict=True)),
    "lru": dict(zip(UEA, (101129, 25892, 26020, 76522, 338820, 107544), strict=True)),
    "s5": dict(zip(UEA, (22007, 226328, 5652, 76214, 158310, 17496), strict=True)),
    "mamba": dict(zip(UEA, (27381, 184194, 356290, 1032772, 1034242, 228226), strict=True)),
    "s6": dict(zip(UEA, (15045, 24898, 26018, 5780, 6674, 52802), strict=True)),
}
MEMORY = {
    "im": dict(zip(UEA, (10654, 4772, 2724, 1182, 928, 4510), strict=True)),
    "imex": dict(zip(UEA, (6556, 4768, 4772, 4766, 922, 12708), strict=True)),
    "nrde": dict(zip(UEA, (2506, 716, 712, 712, 6860, 4552), strict=True)),
    "ncde": dict(zip(UEA, (2484, 694, 692, 692, 1462, 4534), strict=True)),
    "log-ncde": dict(zip(UEA, (2510, 724, 714, 710, 2774, 4566), strict=True)),
    "lru": dict(zip(UEA, (10716, 960, 954, 1988, 1466, 8646), strict=True)),
    "s5": dict(zip(UEA, (6646, 1798, 762, 1520, 1548, 4616), strict=True)),
    "mamba": dict(zip(UEA, (13486, 1110, 2460, 4876, 1650, 3120), strict=True)),
    "s6": dict(zip(UEA, (7922, 904, 1222, 938, 606, 4056), strict=True)),
}
RUN_TIME = {
    "im": dict(zip(UEA, (90, 38, 22, 8, 7, 11), strict=True)),
    "imex": dict(zip(UEA, (37, 42, 55, 48, 4, 128), strict=True)),
    "nrde": dict(zip(UEA, (5386, 1014, 1404, 2256, 9539, 7616), strict=True)),
    "ncde": dict(zip(UEA, (24595, 973, 1251, 2217, 1177, 3778), strict=True)),
    "log-ncde": dict(zip(UEA, (1956, 635, 583, 2056, 826, 730), strict=True)),
    "lru": dict(zip(UEA, (94, 9, 9, 16, 8, 51), strict=True)),
    "s5": dict(zip(UEA, (31, 17, 9, 9, 11, 16), strict=True)),
    "mamba": dict(zip(UEA, (122, 7, 32, 255, 34, 35), strict=True)),
    "s6": dict(zip(UEA, (68, 3, 7, 4, 4, 34), strict=True)),
}
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
