"""Reading files and tables into arrays, lengths and times. Independent of models."""

from linoss.data._arrays import sequences
from linoss.data._calendar import Frequency, lay
from linoss.data._columns import TIME_NAMES
from linoss.data._estimators import as_sequences
from linoss.data._raw_files import DataError
from linoss.data._read import read, read_parts
from linoss.data._sequences import Batch, Sequences
from linoss.data._table import Table, read_table

__all__ = [
    "TIME_NAMES",
    "Batch",
    "DataError",
    "Frequency",
    "Sequences",
    "Table",
    "as_sequences",
    "lay",
    "read",
    "read_parts",
    "read_table",
    "sequences",
]
