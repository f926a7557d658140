"""Files and tables to arrays, lengths and masks. Knows nothing of models."""

from linoss.data._errors import DataError
from linoss.data._memory import sequences
from linoss.data._read import read, read_parts
from linoss.data._sequences import Batch, Sequences
from linoss.data._table import Table
from linoss.data._tables import read_table, table

__all__ = [
    "Batch",
    "DataError",
    "Sequences",
    "Table",
    "read",
    "read_parts",
    "read_table",
    "sequences",
    "table",
]
