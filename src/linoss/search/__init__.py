"""Finding hyperparameters: many trainings, by any number of workers, as one study."""

from linoss.search._records import Study, Trial
from linoss.search._search import search
from linoss.search._storage import StorageError

__all__ = ["StorageError", "Study", "Trial", "search"]
