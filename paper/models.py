"""The models, their settings, and the hyperparameters of the published runs.

Those of LinOSS are the paper's, with damping those of D-LinOSS. Most of the baselines' are from the
results published with the paper's code; those of S6 and Mamba, which were run with other programs,
are from the configurations of Log-NCDE's authors
(https://github.com/Benjamin-Walker/log-neural-cdes), whose results the paper quotes.
"""

from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from paper.numbers import DATA_SETS, UEA

UNTRAINED = "oscillators"
"""The untrained model: `OscillatorClassifier`."""


class Model(NamedTuple):
    """A model: its name in tables, and settings of `LinOSSConfig.published`."""

    title: str
    settings: dict[str, Any]


LINOSS = {
    "im": Model("LinOSS-IM", {"scheme": "im"}),
    "imex": Model("LinOSS-IMEX", {"scheme": "imex"}),
    "verlet": Model("LinOSS-VV", {"scheme": "verlet"}),
    "exact": Model("LinOSS, exact", {"scheme": "exact"}),
    "damped": Model("damped IMEX", {"scheme": "imex", "damped": True}),
    "damped-im": Model("damped IM", {"scheme": "im", "damped": True}),
    "damped-exact": Model("damped, exact", {"scheme": "exact", "damped": True}),
}
BASELINES = {
    "lru": Model("LRU", {"mixer": "lru", "dropout": 0.1}),
    "s5": Model("S5", {"mixer": "s5"}),
    "s4": Model("S4", {"mixer": "s4"}),
    "s6": Model("S6", {"mixer": "s6", "dropout": 0.1, "norm": "layer"}),
    "mamba": Model("Mamba", {"mixer": "mamba", "dropout": 0.1, "norm": "layer"}),
    "ncde": Model("NCDE", {"mixer": "ncde", "pooling": "last"}),
    "nrde": Model("NRDE", {"mixer": "nrde", "pooling": "last"}),
    "log-ncde": Model("Log-NCDE", {"mixer": "log-ncde", "pooling": "last", "field_scale": 1000.0}),
}
CDES = ("ncde", "nrde", "log-ncde")
MODELS = {**LINOSS, **BASELINES, UNTRAINED: Model("untrained oscillators", {})}


def title(model: str) -> str:
    """The name of a model in tables."""
    return MODELS[model].title if model in MODELS else model


@dataclass(frozen=True)
class Hyperparameters:
    """The hyperparameters of the paper's search."""

    learning_rate: float
    hidden_size: int
    state_size: int
    num_blocks: int
    include_time: bool

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes of the model."""
        return {n: getattr(self, n) for n in ("hidden_size", "state_size", "num_blocks")}

    @property
    def name(self) -> str:
        """As the name of a directory.

        ```python
        >>> from paper.models import best
        >>> best("EigenWorms", "im").name
        'rate0.001-hidden128-state64-blocks2-time'

        ```
        """
        return (
            f"rate{self.learning_rate:g}-hidden{self.hidden_size}-state{self.state_size}"
            f"-blocks{self.num_blocks}{'-time' if self.include_time else ''}"
        )


_RATES, _WIDTHS, _STATES, _TIME = (1e-5, 1e-4, 1e-3), (16, 64, 128), (16, 64, 256), (True, False)
GRID = tuple(
    Hyperparameters(rate, hidden, state, blocks, time)
    for rate, blocks, hidden, state, time in product(_RATES, (2, 4, 6), _WIDTHS, _STATES, _TIME)
)
"""Section "Hyperparameters" of the appendix: the grid of the six UEA sets and of PPG."""
SMALLEST = Hyperparameters(1e-3, 16, 16, 2, True)


def random_points(count: int, seed: int) -> tuple[Hyperparameters, ...]:
    """Weather: points drawn within the grid's bounds, with up to 8 blocks.

    The text names the bounds only; the paper's best IMEX model, with 256 channels, is outside them.
    """
    random = np.random.default_rng(seed)
    return tuple(
        Hyperparameters(
            float(f"{10 ** random.uniform(-5, -3):.3g}"),
            2 ** int(random.integers(4, 8)),
            2 ** int(random.integers(4, 9)),
            int(random.integers(2, 9)),
            bool(random.integers(2)),
        )
        for _ in range(count)
    )


_FIELD = ("field_width", "field_depth", "solver_steps")
_WINDOWS = (*_FIELD, "signature_depth", "signature_steps")
_EXTRA = {
    "s5": ("state_blocks",),
    "mamba": ("conv_size", "expansion"),
    "ncde": _FIELD,
    "nrde": _WINDOWS,
    "log-ncde": _WINDOWS,
}
_NONE = (64, 4)  # defaults, for models without state size and blocks
_SETS = tuple(DATA_SETS)

# Learning rate, hidden size, state size, blocks, time channel; then settings of the model.
_PUBLISHED: dict[str, tuple[tuple[Any, ...], ...]] = {
    "im": (
        (1e-3, 128, 64, 2, True),
        (1e-4, 128, 256, 6, True),
        (1e-4, 128, 64, 6, False),
        (1e-5, 16, 16, 4, False),
        (1e-3, 16, 16, 6, True),
        (1e-5, 128, 16, 2, False),
        (1e-3, 16, 64, 6, True),
        (6e-4, 64, 32, 8, True),
    ),
    "imex": (
        (1e-4, 64, 16, 2, True),  # the table has False; the published parameter count needs True
        (1e-4, 64, 256, 6, False),
        (1e-5, 64, 256, 6, True),
        (1e-5, 16, 256, 4, False),
        (1e-5, 64, 16, 2, True),
        (1e-4, 16, 256, 6, True),
        (1e-4, 64, 16, 2, True),
        (7e-4, 256, 128, 5, False),
    ),
    "damped": (
        (1e-3, 128, 64, 2, False),
        (1e-4, 128, 256, 6, True),
        (1e-5, 128, 64, 6, False),
        (1e-5, 16, 256, 4, False),
        (1e-4, 16, 16, 2, False),
        (1e-3, 16, 64, 4, False),
        (1e-3, 64, 64, 4, True),
        (7.95e-5, 128, 128, 3, False),
    ),
    "lru": (
        (1e-3, 128, 16, 6, True),
        (1e-4, 64, 256, 6, True),
        (1e-3, 128, 64, 6, False),
        (1e-4, 128, 16, 2, False),
        (1e-4, 128, 256, 6, False),
        (1e-3, 64, 256, 6, False),
        (1e-3, 16, 256, 6, True),
    ),
    "s5": (
        (1e-3, 128, 256, 2, True, 8),
        (1e-4, 16, 64, 4, False, 8),
        (1e-4, 64, 256, 2, True, 8),
        (1e-3, 16, 16, 6, True, 2),
        (1e-4, 64, 16, 2, False, 4),
        (1e-4, 128, 256, 4, True, 4),
        (1e-3, 16, 256, 6, True, 8),
    ),
    "s6": (
        (1e-3, 16, 64, 4, False),
        (1e-4, 64, 16, 2, False),
        (1e-3, 16, 256, 2, False),
        (1e-5, 16, 16, 4, True),
        (1e-3, 16, 16, 4, True),
        (1e-3, 16, 256, 4, True),
        (1e-4, 64, 64, 2, True),
    ),
    "mamba": (
        (1e-3, 16, 64, 6, True, 2, 1),
        (1e-5, 128, 16, 2, False, 4, 1),
        (1e-4, 64, 64, 6, True, 2, 2),
        (1e-3, 64, 256, 4, True, 4, 4),
        (1e-4, 64, 256, 4, False, 2, 4),
        (1e-5, 128, 64, 2, False, 3, 1),
        (1e-3, 128, 64, 4, False, 3, 2),
    ),
    "ncde": (
        (1e-4, 128, *_NONE, True, 128, 3, 1),
        (1e-4, 16, *_NONE, False, 128, 3, 1),
        (1e-5, 64, *_NONE, True, 128, 4, 1),
        (1e-5, 16, *_NONE, True, 64, 3, 1),
        (1e-3, 16, *_NONE, False, 32, 2, 2),
        (1e-4, 128, *_NONE, False, 128, 4, 1),
        (1e-3, 16, *_NONE, True, 128, 3, 1),
    ),
    "nrde": (
        (1e-3, 16, *_NONE, True, 128, 4, 1, 2, 16),
        (1e-3, 16, *_NONE, False, 32, 2, 3, 2, 4),
        (1e-3, 16, *_NONE, False, 128, 3, 1, 1, 1),
        (1e-4, 128, *_NONE, False, 128, 3, 1, 1, 1),
        (1e-4, 128, *_NONE, False, 128, 4, 3, 2, 2),
        (1e-4, 128, *_NONE, False, 128, 4, 1, 1, 1),
        (1e-3, 16, *_NONE, True, 128, 4, 10, 2, 1000),
    ),
    "log-ncde": (
        (1e-4, 64, *_NONE, False, 128, 4, 1, 2, 12),
        (1e-3, 128, *_NONE, False, 64, 3, 7, 2, 12),
        (1e-3, 64, *_NONE, True, 128, 3, 4, 2, 8),
        (1e-4, 64, *_NONE, True, 128, 3, 1, 2, 2),
        (1e-3, 16, *_NONE, True, 32, 2, 3, 2, 2),
        (1e-4, 64, *_NONE, True, 128, 3, 1, 2, 4),
        (1e-3, 64, *_NONE, True, 128, 4, 1, 1, 10),
    ),
}
"""For each data set, in the order of `DATA_SETS`; baselines were not run on Weather. Solver steps
are the published ones, rounded up to an integer for each sample or window."""

# Hidden size, state size, blocks, time channel; then settings that affect counts.
# The table of parameters, memory and run times is quoted, too, and belongs to another search.
_COUNTED: dict[str, tuple[tuple[Any, ...], ...]] = {
    "lru": (
        (64, 64, 4, False),
        (64, 16, 2, False),
        (64, 16, 2, True),
        (64, 16, 6, True),
        (128, 256, 2, True),
        (16, 256, 6, False),
    ),
    "s5": (
        (64, 16, 2, True),
        (128, 16, 6, False),
        (16, 64, 2, True),
        (128, 16, 2, True),
        (128, 16, 4, False),
        (16, 64, 6, False),
    ),
    "ncde": (
        (128, *_NONE, True, 128, 3, 1),
        (128, *_NONE, False, 128, 4, 1),
        (128, *_NONE, False, 128, 4, 1),
        (128, *_NONE, True, 128, 4, 1),
        (128, *_NONE, True, 128, 4, 2),
        (16, *_NONE, True, 128, 4, 1),
    ),
    "nrde": (
        (64, *_NONE, False, 64, 3, 1, 2, 4),
        (64, *_NONE, True, 128, 4, 1, 1, 1),
        (128, *_NONE, True, 128, 4, 1, 1, 1),
        (64, *_NONE, True, 128, 4, 1, 1, 1),
        (64, *_NONE, False, 128, 3, 3, 2, 2),
        (128, *_NONE, False, 128, 4, 1, 1, 1),
    ),
    "log-ncde": (
        (128, *_NONE, True, 32, 2, 1, 2, 12),
        (64, *_NONE, False, 128, 3, 9, 2, 16),
        (128, *_NONE, False, 32, 2, 2, 2, 4),
        (64, *_NONE, True, 64, 3, 1, 1, 1),
        (16, *_NONE, True, 128, 3, 3, 2, 2),
        (16, *_NONE, False, 64, 3, 3, 2, 16),
    ),
}


def best(data_set: str, model: str) -> Hyperparameters:
    """The hyperparameters of the published runs: for other schemes those of IMEX, with damping
    those of D-LinOSS; for S4 those of IM; for TROIKA those of PPG."""
    return Hyperparameters(*_published(data_set, model)[:5])


def own_settings(data_set: str, model: str) -> dict[str, Any]:
    """The settings that only this model has; none for LinOSS."""
    return dict(zip(_EXTRA.get(model, ()), _published(data_set, model)[5:], strict=True))


def counted(data_set: str, model: str) -> tuple[Hyperparameters, dict[str, Any]]:
    """The sizes in the paper's table of parameters, memory and run times: each of its counts
    follows from them. Then the settings that only the model has."""
    chosen, own = best(data_set, model), own_settings(data_set, model)
    if model not in _COUNTED or data_set not in UEA:
        return chosen, own
    sizes = _COUNTED[model][_SETS.index(data_set)]
    own = dict(zip(_EXTRA.get(model, ()), sizes[4:], strict=False))
    return Hyperparameters(chosen.learning_rate, *sizes[:4]), own


def buffers(data_set: str, model: str) -> int:
    """The number of untrained values in the published parameter count.

    These are the window ends of NRDE and Log-NCDE, and Log-NCDE's list of channel pairs.

    ```python
    >>> from paper.models import buffers
    >>> buffers("SelfRegulationSCP1", "log-ncde")  # 57 ends, 21 pairs
    99

    ```
    """
    if model not in ("nrde", "log-ncde"):
        return 0
    chosen, own = counted(data_set, model)
    data = DATA_SETS[data_set]
    channels = data.channels + chosen.include_time
    pairs = channels * (channels + 1) if own["signature_depth"] == 2 else 0
    ends = -(-data.length // own["signature_steps"]) + 1
    return ends + (pairs if model == "log-ncde" else 0)


def _published(data_set: str, model: str) -> tuple[Any, ...]:
    if model not in _PUBLISHED:
        damped = MODELS[model].settings.get("damped")
        model = "damped" if damped else "im" if model == "s4" else "imex"
    rows, place = _PUBLISHED[model], _SETS.index("PPG" if data_set == "TROIKA" else data_set)
    if place >= len(rows):
        raise ValueError(
            f"model is {model!r}, expected one of LinOSS: nothing was published for {model!r} on "
            f"{data_set}"
        )
    return rows[place]
