"""NumPy files: cases of .npy are read on access, .npz is read as a whole."""

import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from linoss.data._arrays import as_labels, as_times, from_array, warn_if_turned
from linoss.data._raw_files import DataError, check_expansion, listed, refusing, regular_file
from linoss.data._sequences import Sequences

_KEYS = {
    "values": ("X", "values"),
    "labels": ("y", "labels"),
    "lengths": ("lengths",),
    "times": ("times",),
}


def read_npy(path: Path) -> Sequences:
    """Cases of data.npy, with labels from data.labels.npy in the same directory if it exists."""
    with path.open("rb") as file:
        _check_claims(str(path), file, path.stat().st_size)
    with refusing(str(path), "expected an array of numbers"):
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    values = from_array(str(path), array, stored=True)
    beside = path.with_name(f"{path.stem}.labels{path.suffix}")
    labels = None
    if beside.exists():
        with regular_file(beside).open("rb") as file:
            labels = _read_array(str(beside), file, beside.stat().st_size)
        labels = as_labels(str(beside), labels, len(values))
    return warn_if_turned(str(path), Sequences(values, labels))


def read_recording(path: Path) -> Sequences:
    """The only case of a .npy file (channels, time) or (time,)."""
    with path.open("rb") as file:
        array = _read_array(str(path), file, path.stat().st_size)
    return Sequences(list(from_array(str(path), array[None])))


def read_npz(path: Path) -> Sequences:
    """Cases from the arrays `X` or `values`, `y` or `labels`, `lengths` and `times`."""
    with refusing(str(path), "expected an .npz file, as numpy.savez writes it"):
        arrays = _read_members(path)
    values = from_array(*arrays["values"])
    count, longest = len(values), len(values[0])
    where, lengths = arrays.get("lengths", ("", np.full(count, longest)))
    integers = lengths.shape == (count,) and lengths.dtype.kind in "iu"
    if not integers or not ((lengths >= 1) & (lengths <= longest)).all():
        raise DataError(
            f"{where}: has shape {lengths.shape} and dtype {lengths.dtype}, expected ({count},) "
            f"integers from 1 to {longest}"
        )
    labels = as_labels(*arrays["labels"], count) if "labels" in arrays else None
    times = None
    if "times" in arrays:
        where, array = arrays["times"]
        if array.shape not in ((count, longest), (longest,)):
            raise DataError(
                f"{where}: has shape {array.shape}, expected {(count, longest)} or {(longest,)}"
            )
        rows = np.broadcast_to(array, (count, longest))
        times = as_times(where, [r[:n] for r, n in zip(rows, lengths, strict=True)], lengths)
    values = [case[:length] for case, length in zip(values, lengths, strict=True)]
    return warn_if_turned(str(path), Sequences(values, labels, times))


def _read_members(path: Path) -> dict[str, tuple[str, np.ndarray]]:
    """Maps each role to (location for errors, array)."""
    arrays: dict[str, tuple[str, np.ndarray]] = {}
    size = path.stat().st_size
    with zipfile.ZipFile(path) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        for role, names in _KEYS.items():
            for name in [name for name in names if name in members]:
                where, info = f"{path}, array {name!r}", members[name]
                if role in arrays:
                    raise DataError(f"{where}: is the second one of {role}, expected one")
                check_expansion(where, info.file_size, size)
                with archive.open(info) as file:
                    arrays[role] = where, _read_array(where, file, info.file_size)
    if "values" not in arrays:
        raise DataError(
            f"{path}: has the arrays {listed(sorted(members))}, expected one named 'X' or 'values' "
            "of shape (cases, channels, time)"
        )
    return arrays


def _read_array(where: str, file: Any, size: int) -> np.ndarray:
    _check_claims(where, file, size)
    file.seek(0)
    with refusing(where, "expected an array of numbers or strings"):
        return np.lib.format.read_array(file, allow_pickle=False)


def _check_claims(where: str, file: Any, size: int) -> None:
    """Raise if a header does not match the size of the file, before memory is allocated."""
    with refusing(where, "expected an array as numpy.save writes it"):
        version = np.lib.format.read_magic(file)
        if version != (1, 0):  # others can claim a header of gigabytes
            raise ValueError(f"version {version}")
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    if dtype.hasobject:
        raise DataError(
            f"{where}: holds pickled Python objects, which are not read because they can run code; "
            "save an array of numbers, or of strings with dtype str"
        )
    claimed, held = math.prod(shape) * dtype.itemsize, size - file.tell()
    if min(shape, default=0) < 0 or claimed != held:
        raise DataError(
            f"{where}: the header claims shape {shape} of {dtype}, {claimed} bytes, but {held} "
            "follow; the file is incomplete or damaged, write it again"
        )
