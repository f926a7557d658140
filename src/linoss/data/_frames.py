"""Reading Parquet files and pandas frames into columns."""

from pathlib import Path
from typing import Any

import numpy as np

from linoss.data._columns import Chooser, Columns, check_names
from linoss.data._errors import DataError, optional
from linoss.data._raw_files import check_expansion, refusing, shown

_PANDAS_INDEX = "__index_level_0__"
"""pandas' name for an unnamed index in a .parquet file."""


def read_parquet(path: Path, choose: Chooser, hint: str) -> Columns:
    """The columns of a .parquet file; those that `choose` does not select must be numbers."""
    parquet = optional("pyarrow.parquet", "reading .parquet files")
    source = str(path)
    with refusing(source, "expected a .parquet file"):
        schema = parquet.read_schema(path)
        # Repeated strings share one object.
        strings = [field.name for field in schema if str(field.type) in ("string", "large_string")]
        stored = ["" if name == _PANDAS_INDEX else name for name in schema.names]
        names = tuple(sorted(stored, key=bool))
        check_names(source, names)
        kept = list(choose(names))
        numeric = tuple(name for name in names if name not in kept)
        for name in numeric:
            _check_type(source, name, str(schema.field(stored.index(name)).type), hint)
        with parquet.ParquetFile(path, read_dictionary=strings) as file:
            groups = range(file.metadata.num_row_groups)
            rows = sum(file.metadata.row_group(i).num_rows for i in groups)
            check_expansion(source, rows * len(names) * 8, path.stat().st_size)
            table = file.read(use_threads=False).rename_columns(stored)
        table.validate(full=True)
        if table.num_rows != rows or not rows:
            raise DataError(f"{path}: holds {table.num_rows} rows, expected {rows}, at least one")
        numbers = [_as_float(table[name]) for name in numeric]
        others = {name: _as_other(f"{path}, column {shown(name)}", table[name]) for name in kept}
    matrix = np.stack(numbers, axis=1) if numbers else np.zeros((rows, 0))
    return Columns(source, numeric, matrix, others)


def columns_of_frame(source: str, frame: Any, choose: Chooser, hint: str) -> Columns:
    """The columns of a pandas frame; those that `choose` does not select must be numbers."""
    names = tuple(str(name) for name in frame.columns)
    check_names(source, names)
    if not len(frame):
        raise DataError(f"{source} has no rows, expected at least one")
    kept = list(choose(names))
    numbers, numeric, others = [], [], {}
    for position, name in enumerate(names):
        column = frame.iloc[:, position]
        if name in kept:
            plain = isinstance(column.dtype, np.dtype) and column.dtype.kind != "O"
            cells = column if plain else column.astype(object).where(column.notna(), None)
            others[name] = cells.to_numpy()
            continue
        kind = getattr(column.dtype, "kind", "O")
        _check_type(source, name, "double" if kind in "biuf" else str(column.dtype), hint)
        numbers.append(column.to_numpy(dtype=float, na_value=np.nan))
        numeric.append(name)
    matrix = np.stack(numbers, axis=1) if numbers else np.zeros((len(frame), 0))
    return Columns(source, tuple(numeric), matrix, others)


def _check_type(source: str, name: str, kind: str, hint: str) -> None:
    if kind not in ("bool", "float", "double", "halffloat", "null") and "int" not in kind:
        raise DataError(
            f"{source}, column {shown(name)}: holds {kind}, expected numbers; convert it; "
            f"{hint.format(name)}"
        )


def _as_float(column: Any) -> np.ndarray:
    return column.cast("float64", safe=False).to_numpy().astype(float)


def _as_other(where: str, column: Any) -> np.ndarray:
    kind = str(column.type)
    if kind.startswith("dictionary"):
        column = column.unify_dictionaries().combine_chunks()
        values = np.array([*column.dictionary.to_pylist(), None], object)
        return values[column.indices.fill_null(len(values) - 1).to_numpy()]
    if not kind.startswith(("string", "int", "uint", "float", "double", "bool", "time", "date")):
        raise DataError(f"{where}: holds {kind}, expected text, numbers or dates; convert it")
    return column.to_numpy()
