"""The packages of the extra `search`, imported when they are needed."""

import importlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def extra(module: str) -> Any:
    """Import a module of the extra; an error says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(
            f"a search needs {package}; install it with pip install 'linoss[search]'"
        ) from error


@contextmanager
def quietly() -> Iterator[Any]:
    """Optuna, without its log and its warnings of experimental features."""
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
