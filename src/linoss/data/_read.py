"""Reading sequences from a file, or from a directory with a training and a test part."""

import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeVar

from linoss.data._archive import read_arff, read_ts
from linoss.data._columns import Chooser, Columns, read_csv, read_parquet
from linoss.data._layouts import HINT, Roles, sequences_of
from linoss.data._numpy import read_npy, read_npz
from linoss.data._raw_files import DataError, listed, regular_file, shown
from linoss.data._sequences import Sequences
from linoss.data._table import Table

ARRAYS: dict[str, Callable[[Path], Sequences]] = {
    ".ts": read_ts,
    ".arff": read_arff,
    ".npz": read_npz,
    ".npy": read_npy,
}
TABLES: dict[str, Callable[[Path, Chooser, str], Columns]] = {
    ".csv": read_csv,
    ".parquet": read_parquet,
}


Part = TypeVar("Part", Sequences, Table)


def read(
    path: str | os.PathLike[str],
    *,
    label: str | int | None = None,
    case: str | int | None = None,
    drop: Collection[str | int] = (),
    may_lack: bool = False,
) -> Sequences:
    r"""Read sequences from a file, by its suffix. Raises [`linoss.data.DataError`][].

    ```python
    >>> import pathlib, tempfile
    >>> import linoss.data
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "walks.csv"
    ...     _ = file.write_text("label,x_0,x_1,x_2\nup,1,2,3\ndown,3,,1\n")
    ...     walks = linoss.data.read(file)
    >>> walks.labels.tolist(), walks.names, walks.has_missing
    (['up', 'down'], ('x',), True)

    ```

    - `.ts`, `.arff`: the formats of the UEA and UCR archives, with equal or unequal lengths,
      missing values, classes or targets. Time stamps are not supported.
    - `.npy`: (cases, channels, time) or (cases, time). Stays on disk: cases are read on access, so
      that data may be larger than memory. Labels of `data.npy` come from `data.labels.npy` in the
      same directory, if it exists.
    - `.npz`: the same as array `X` or `values`, with optional labels `y` or `labels`, true lengths
      `lengths` and sampling times `times`, (time,) or (cases, time).
    - `.csv`, `.parquet`: wide, with a row for each case and columns `label, x_0, x_1, ..., z_0,
      z_1, ...`; or long, with a row for each sample and columns `case, time, label, x, z, ...`. The
      docstring of `data/_layouts.py` has the details. In .csv files an empty cell, NaN, NA and ?
      are missing values, and True and False are 1 and 0.

    **Arguments:**

    - `path`: the file.
    - `label`: the column of labels in .csv and .parquet files, by its name or its position: 0 is
      the first, -1 the last. By default the first of `label`, `class`, `target` and `y` that
      exists; False for none.
    - `case`: the column with the names of cases, likewise.
    - `drop`: columns to ignore, likewise.
    - `may_lack`: ignore those of these columns that the file does not have, as for predictions.
    """
    file = regular_file(path)
    suffix = file.suffix.lower()
    if suffix in TABLES:
        roles = Roles(label, case, tuple(drop), may_lack=may_lack)

        def choose(names: tuple[str, ...]) -> list[str]:
            nonlocal roles
            roles = roles.named(str(file), names)
            return roles.columns()

        return sequences_of(TABLES[suffix](file, choose, HINT), roles)
    if suffix not in ARRAYS:
        raise DataError(
            f"{file}: the suffix is {shown(suffix)}, expected one of {listed([*ARRAYS, *TABLES])}"
        )
    for name, value in (("label", label), ("case", case), ("drop", tuple(drop) or None)):
        if value is not None and not may_lack:
            raise DataError(
                f"{file}: {name}={value!r} is for tables, {suffix} has no named columns"
            )
    return ARRAYS[suffix](file)


def read_parts(
    path: str | os.PathLike[str], read: Callable[..., Part] = read, **options: Any
) -> tuple[Part, Part | None]:
    r"""Read the training part and, if there is one, the test part.

    ```python
    >>> import pathlib, tempfile
    >>> import linoss.data
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for part in ("TRAIN", "TEST"):
    ...         file = pathlib.Path(folder) / f"Walks_{part}.csv"
    ...         _ = file.write_text("label,x_0,x_1\nup,1,2\ndown,2,1\n")
    ...     train, test = linoss.data.read_parts(folder)
    >>> len(train), len(test)
    (2, 2)

    ```

    **Arguments:**

    - `path`: a file, which has no test part, or a directory that holds `NAME_TRAIN.ts` and
      `NAME_TEST.ts`, or `train.ts` and `test.ts`, or the same with another suffix of
      [`linoss.data.read`][]. If there are several names, the one of the directory is used; if there
      are several suffixes, the first in the order of `read`. Channels of the test part are put in
      the order of the training part, by name.
    - `read`: [`linoss.data.read`][], or [`linoss.data.read_table`][] for forecasting.
    - `options`: keyword arguments of `read`.
    """
    folder = Path(path)
    if not folder.is_dir():
        return read(folder, **options), None
    train, test = find_parts(folder)
    training = read(train, **options)
    if test is None:
        return training, None
    cases = read(test, **options).ordered(training.names, str(test))
    counts = [part.num_channels for part in (training, cases) if isinstance(part, Sequences)]
    if len(set(counts)) > 1:
        raise DataError(f"{test}: has {counts[1]} channels, expected {counts[0]} as {train.name}")
    return training, cases


def find_parts(folder: Path) -> tuple[Path, Path | None]:
    """The files of the training part and, if there is one, the test part in a directory."""
    try:
        files = sorted(file for file in folder.iterdir() if not file.is_dir())
    except OSError as error:
        raise DataError(
            f"{folder}: the directory cannot be listed ({error.strerror}); check its permissions"
        ) from error
    by_suffix: dict[str, dict[str, dict[str, Path]]] = {}  # then by name and part
    for file in files:
        name, _, part = file.stem.rpartition("_")
        if part.lower() in ("train", "test"):
            parts = by_suffix.setdefault(file.suffix.lower(), {}).setdefault(name, {})
            parts[part.lower()] = file
    for suffix in (*ARRAYS, *TABLES):
        names = {
            name: parts for name, parts in by_suffix.get(suffix, {}).items() if "train" in parts
        }
        if len(names) > 1:
            names = {folder.resolve().name: names.get(folder.resolve().name)}
        for parts in names.values():
            if parts is None:
                raise DataError(
                    f"{folder}: holds the training parts of several data sets, expected one; name "
                    "a file in it"
                )
            return parts["train"], parts.get("test")
    raise DataError(
        f"{folder}: holds no training part, expected a file named NAME_TRAIN or train with one of "
        f"the suffixes {listed([*ARRAYS, *TABLES])}"
    )
