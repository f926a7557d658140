"""The baselines of the paper: their settings, and the hyperparameters of published runs.

Most are from the results published with the paper's code; those of S6 and Mamba, which were run
with other programs, are from the configurations of Log-NCDE's authors
(https://github.com/Benjamin-Walker/ log-neural-cdes), whose results the paper quotes. `COUNTED` are
the sizes in the paper's table of parameters, memory and run times. That table is also quoted and
belongs to another search: each of its counts follows from one of these sizes.
"""

from typing import Any

from linoss.experiments._paper import DATA_SETS, TITLES, UEA, Hyperparameters

MODELS: dict[str, dict[str, Any]] = {
    "lru": {"mixer": "lru", "dropout": 0.1},
    "s5": {"mixer": "s5"},
    "s6": {"mixer": "s6", "dropout": 0.1, "norm": "layer"},
    "mamba": {"mixer": "mamba", "dropout": 0.1, "norm": "layer"},
    "ncde": {"mixer": "ncde", "pooling": "last"},
    "nrde": {"mixer": "nrde", "pooling": "last"},
    "log-ncde": {"mixer": "log-ncde", "pooling": "last", "field_scale": 1000.0},
}
"""By name; settings of `LinOSSConfig.published`."""
NAMES = {name: TITLES[name] for name in MODELS}

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
_SETS = (*UEA, "PPG")

# Learning rate, hidden size, state size, blocks, time channel; then settings of the model.
_PUBLISHED: dict[str, tuple[tuple[Any, ...], ...]] = {
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
"""Hyperparameters for each set, in the order of the paper's tables, PPG last. Solver steps are the
published ones, rounded up to an integer for each sample or window."""

# Hidden size, state size, blocks, time channel; then settings of the model that affect counts.
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


def hyperparameters(data_set: str, model: str) -> Hyperparameters:
    """The hyperparameters of the published runs of a model."""
    return Hyperparameters(*_row(data_set, model)[:5])


def own_settings(data_set: str, model: str) -> dict[str, Any]:
    """The settings that only this model has; none for LinOSS."""
    if model not in MODELS:
        return {}
    return dict(zip(_EXTRA.get(model, ()), _row(data_set, model)[5:], strict=True))


def counted(data_set: str, model: str) -> tuple[Hyperparameters, dict[str, Any]]:
    """The sizes of the paper's parameter count, and the settings that only this model has."""
    found = hyperparameters(data_set, model), own_settings(data_set, model)
    if model not in _COUNTED or data_set not in UEA:
        return found
    sizes = _COUNTED[model][_SETS.index(data_set)]
    own = dict(zip(_EXTRA.get(model, ()), sizes[4:], strict=False))
    return Hyperparameters(found[0].learning_rate, *sizes[:4]), own


def buffers(data_set: str, model: str) -> int:
    """The number of untrained values in the published parameter count.

    These are the window ends of NRDE and Log-NCDE, and Log-NCDE's list of channel pairs.

    ```python
    >>> from linoss.experiments._models import buffers
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


def _row(data_set: str, model: str) -> tuple[Any, ...]:
    if data_set not in _SETS:
        raise ValueError(
            f"model is {model!r}, expected one of LinOSS: nothing was published for {model!r} on "
            f"{data_set}"
        )
    return _PUBLISHED[model][_SETS.index(data_set)]
