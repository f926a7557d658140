"""Hyperparameter search: a study of many trainings, by Optuna, shared by any number of workers."""

from linoss.search._search import search
from linoss.search._space import default_ranges, make_space, parse_ranges
from linoss.search._study import Study, Trial
from linoss.search._worker import without_password

__all__ = [
    "Study",
    "Trial",
    "default_ranges",
    "make_space",
    "parse_ranges",
    "search",
    "without_password",
]
