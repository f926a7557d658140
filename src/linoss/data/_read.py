"""Reading sequences from a file, a frame, a folder of recordings, or a training and a test part."""

import os
import warnings
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from linoss.data._archive import read_arff, read_ts
from linoss.data._arrays import as_labels
from linoss.data._columns import TABLES, Chooser, Columns, columns_of_frame
from linoss.data._layouts import HINT, Roles, sequences_of
from linoss.data._numpy import read_npy, read_npz, read_recording
from linoss.data._raw_files import DataError, listed, refusing, regular_file, suffix_of
from linoss.data._sequences import Sequences, as_case, joined
from linoss.data._table import Table

Part = TypeVar("Part", Sequences, Table)


def read_wav(path: Path) -> Sequences:
    """The only case of a .wav file, between -1 and 1, with times in seconds."""
    from scipy.io import wavfile

    with refusing(str(path), "expected a .wav file"), warnings.catch_warnings():
        warnings.simplefilter("error", wavfile.WavFileWarning)
        warnings.filterwarnings("ignore", "Chunk .* not understood", wavfile.WavFileWarning)
        rate, samples = wavfile.read(path)
    if samples.dtype.kind in "iu":
        half = 2.0 ** (8 * samples.dtype.itemsize - 1)
        samples = samples / half - (samples.dtype.kind == "u")
    values = as_case(str(path), np.atleast_2d(samples.T))
    about = {"time": "seconds"}
    return Sequences([values], times=[np.arange(len(values)) / rate], about=about)


ARRAYS: dict[str, Callable[[Path], Sequences]] = {
    ".ts": read_ts,
    ".arff": read_arff,
    ".npz": read_npz,
    ".npy": read_npy,
    ".wav": read_wav,
}
_RECORDINGS = (*TABLES, ".wav", ".npy")


def read(
    source: Any,
    *,
    label: str | int | None = None,
    case: str | int | None = None,
    time: str | int | None = None,
    channels: Collection[str | int] | None = None,
    groups: str | int | None = None,
    drop: Collection[str | int] = (),
    may_lack: bool = False,
) -> Sequences:
    r"""Read sequences from a file, a folder or a frame. Raises [`linoss.data.DataError`][].

    ```python
    >>> import pathlib, tempfile
    >>> import linoss.data
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "walks.csv"
    ...     _ = file.write_text("label,x_0,x_1,x_2\nup,1,2,3\ndown,3,,1\n")
    ...     walks = linoss.data.read(file)
    >>> walks.labels.tolist(), walks.names
    (['up', 'down'], ('x',))
    >>> walks.summary
    '2 cases of 1 channel (x), 3 samples; label: label, 2 classes'

    ```

    - `.ts`, `.arff`: the formats of the UEA and UCR archives, with missing values, classes or
      targets; in `.ts` lengths may be unequal. Time stamps are not supported.
    - `.npy`: (cases, channels, time) or (cases, time). Stays on disk: cases are read on access, so
      that data may be larger than memory. Labels of `data.npy` come from `data.labels.npy` in the
      same directory, if it exists.
    - `.npz`: the same as array `X` or `values`, with optional labels `y` or `labels`, true lengths
      `lengths` and sampling times `times`, (time,) or (cases, time).
    - `.csv`, `.tsv`, `.csv.gz`, `.parquet`, or a pandas frame: wide, with a row for each case and
      columns `label, x_0, x_1, ..., z_0, z_1, ...`; or long, with a row for each sample and columns
      `case, time, label, x, z, ...`. The docstring of `data/_layouts.py` has the details. Text is
      separated by commas, or by semicolons or tabs with decimal points or commas; an empty cell,
      NaN, NA and ? are missing. Cases without a label are left out if others have one.
    - `.wav`: one case, with times in seconds.
    - A folder with a folder for each class, which has a file for each case: one of these tables, a
      `.wav` file, or a `.npy` file (channels, time) or (time,).

    **Arguments:**

    - `source`: the path, or a pandas frame.
    - `label`: the column of labels in a table, by its name or its position: 0 is the first, -1 the
      last. By default the first of `label`, `class`, `target` and `y` that exists; False for none.
    - `case`: the column with the names of cases, likewise.
    - `time`: the column of times of a long table, likewise.
    - `channels`: the columns of channels; by default all that have no other role.
    - `groups`: the column of groups of cases that belong together, such as the subject.
    - `drop`: columns to ignore.
    - `may_lack`: ignore those of these columns that the file does not have, as for predictions.
    """
    chosen = None if channels is None else tuple(channels)
    roles = Roles(label, case, time, groups, chosen, tuple(drop), may_lack=may_lack)
    if hasattr(source, "columns"):
        return _of_table(
            "the frame", lambda *how: columns_of_frame("the frame", source, *how), roles
        )
    if Path(source).is_dir():
        return _recordings(Path(source), roles)
    file = regular_file(source)
    suffix = suffix_of(file, (*ARRAYS, *TABLES))
    if suffix in TABLES:
        return _of_table(str(file), lambda *how: TABLES[suffix](file, *how), roles)
    if roles != Roles() and not may_lack:
        raise DataError(f"{file}: columns are named, but {suffix} has none; leave out their names")
    return ARRAYS[suffix](file)


def _of_table(source: str, columns: Callable[[Chooser, str], Columns], roles: Roles) -> Sequences:
    def choose(names: tuple[str, ...]) -> list[str]:
        nonlocal roles
        roles = roles.named(source, names)
        return roles.columns()

    return sequences_of(columns(choose, HINT), roles)


def _recordings(folder: Path, roles: Roles) -> Sequences:
    """The files of a folder for each class."""
    files = [
        file
        for place in _listed(folder)
        for file in (_listed(place) if place.is_dir() else ())
        if file.is_file() and file.name.lower().endswith(_RECORDINGS)
    ]
    if not files:
        raise DataError(
            f"{folder}: holds no training part, expected a file named NAME_TRAIN or train with one "
            f"of the suffixes {listed([*ARRAYS, *TABLES])}; nor a folder for each class with files "
            f"{listed(_RECORDINGS)}"
        )

    one = replace(roles, single=True)

    def recording(file: Path) -> Sequences:
        suffix = suffix_of(regular_file(file), _RECORDINGS)
        if suffix in TABLES:
            return _of_table(str(file), lambda *how: TABLES[suffix](file, *how), one)
        return read_recording(file) if suffix == ".npy" else read_wav(file)

    names = [str(file.relative_to(folder)) for file in files]
    cases = joined(map(recording, files), names)
    labels = as_labels(str(folder), [file.parent.name for file in files], len(files))
    return replace(cases, labels=labels, about={**cases.about, "label": "names of folders"})


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

    - `path`: a file or a folder of recordings, which has no test part, or a directory that holds
      `NAME_TRAIN.ts` and `NAME_TEST.ts`, or `train.ts` and `test.ts`, or the same with another
      suffix of [`linoss.data.read`][], or folders of recordings `train` and `test`. If there are
      several names, the one of the directory is used; if there are several suffixes, the first in
      the order of `read`. Channels of the test part are put in the order of the training part, by
      name.
    - `read`: [`linoss.data.read`][], or [`linoss.data.read_table`][] for forecasting.
    - `options`: keyword arguments of `read`.
    """
    folder = Path(path)
    train, test = _find_parts(folder) if folder.is_dir() else (folder, None)
    training = read(train, **options)
    if test is None:
        return training, None
    cases = read(test, **options).ordered(training.names, str(test))
    counts = [part.num_channels for part in (training, cases) if isinstance(part, Sequences)]
    if len(set(counts)) > 1:
        raise DataError(f"{test}: has {counts[1]} channels, expected {counts[0]} as {train.name}")
    return training, cases


def _find_parts(folder: Path) -> tuple[Path, Path | None]:
    """The training part and, if there is one, the test part of a directory; else itself."""
    files = {file.name.lower(): file for file in _listed(folder)}
    for suffix in (*ARRAYS, *TABLES, ""):
        end = f"train{suffix}"
        trains = [name for name in files if name == end or name.endswith("_" + end)]
        own = f"{folder.resolve().name.lower()}_{end}"
        if len(trains) > 1 and own not in trains:
            raise DataError(
                f"{folder}: holds the training parts of several data sets, expected one; name a "
                "file in it"
            )
        for name in [own] if own in trains else trains:
            return files[name], files.get(name.removesuffix(end) + f"test{suffix}")
    return folder, None


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(file for file in folder.iterdir() if not file.name.startswith("."))
    except OSError as error:
        raise DataError(
            f"{folder}: the directory cannot be listed ({error.strerror}); check its permissions"
        ) from error
