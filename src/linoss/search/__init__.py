"""Hyperparameter search: a study of many trainings, shared by any number of workers."""

from linoss.search._grid import search_grid
from linoss.search._records import Study, Trial
from linoss.search._search import search
from linoss.search._space import default_ranges, make_space, parse_ranges
from linoss.search._storage import StorageError, without_password

__all__ = [
    "StorageError",
    "Study",
    "Trial",
    "default_ranges",
    "make_space",
    "parse_ranges",
    "search",
    "search_grid",
    "without_password",
]
