"""Hyperparameter search: a study of many trainings, by Optuna, shared by any number of workers."""

from linoss.search._search import search
from linoss.search._space import default_ranges, make_space, parse_ranges
from linoss.search._storage import StorageError, without_password
from linoss.search._study import Study, Trial

__all__ = [
    "StorageError",
    "Study",
    "Trial",
    "default_ranges",
    "make_space",
    "parse_ranges",
    "search",
    "without_password",
]
