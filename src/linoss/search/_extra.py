"""The packages of the extra `search`, imported on first use."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from linoss import _extras

extra = partial(_extras.optional, purpose="a search", extra="search")


@contextmanager
def quietly() -> Iterator[Any]:
    """Optuna, without its log and its warnings about experimental features."""
    optuna = extra("optuna")
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            warnings.filterwarnings("ignore", "Heartbeat of storage is supposed to be used")
            yield optuna
    finally:
        optuna.logging.set_verbosity(before)
