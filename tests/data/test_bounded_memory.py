"""Files that claim or unfold to more than they hold are refused in little memory."""

import re
import tracemalloc
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from linoss.data import DataError, read

MEGABYTE = 2**20


def peak_of(path, message=None):
    """Bytes allocated at most while a file is refused, or read, by Python, NumPy and Arrow."""
    pool = pa.default_memory_pool()
    watched = pa.proxy_memory_pool(pool)
    pa.set_memory_pool(watched)
    tracemalloc.start()
    try:
        if message is None:
            read(path)
        else:
            with pytest.raises(DataError, match=re.escape(message)):
                read(path)
        return tracemalloc.get_traced_memory()[1] + watched.max_memory()
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(pool)


def write_bomb(path, size, header=b""):
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("X.npy", "w") as member,
    ):
        member.write(header)
        for _ in range(size // MEGABYTE):
            member.write(bytes(MEGABYTE))


def test_npz_that_unfolds(tmp_path):
    write_bomb(tmp_path / "a.npz", 300 * MEGABYTE)
    assert (tmp_path / "a.npz").stat().st_size < 3 * MEGABYTE
    assert peak_of(tmp_path / "a.npz", "array 'X': ") < MEGABYTE


def test_npz_that_unfolds_to_more_than_it_says(tmp_path):
    path = tmp_path / "a.npz"
    text = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1, 1, 2), }"
    header = b"\x93NUMPY\x01\x00" + (len(text) + 1).to_bytes(2, "little") + text + b"\n"
    write_bomb(path, 64 * MEGABYTE, header)
    said = len(header) + 16
    content = path.read_bytes()
    claimed = (64 * MEGABYTE + len(header)).to_bytes(4, "little")
    assert content.count(claimed) == 2  # before the array and in the directory at the end
    path.write_bytes(content.replace(claimed, said.to_bytes(4, "little")))
    assert peak_of(path, "as numpy.save writes it (Bad CRC-32") < 2 * MEGABYTE


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_array_that_claims_terabytes(tmp_path, suffix):
    text = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000, 1000, 1000000), }"
    content = (
        b"\x93NUMPY\x01\x00" + (len(text) + 1).to_bytes(2, "little") + text + b"\n" + bytes(64)
    )
    path = tmp_path / f"a{suffix}"
    if suffix == ".npy":
        path.write_bytes(content)
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("X.npy", content)
    assert peak_of(path, "8000000000000 bytes, but 64 follow") < MEGABYTE


@pytest.mark.parametrize("suffix", [".csv", ".ts"])
def test_endless_line(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    with path.open("wb") as file:  # a hole in the file system, of no bytes on disk
        file.truncate(2**32)
    assert peak_of(path, ", line 1: the line is longer than 64 MiB") < 200 * MEGABYTE


def test_parquet_of_repeated_numbers(tmp_path):
    block = pa.table({"x_0": np.zeros(MEGABYTE)})
    with pq.ParquetWriter(tmp_path / "a.parquet", block.schema) as writer:
        for _ in range(40):
            writer.write_table(block)
    del block
    assert (tmp_path / "a.parquet").stat().st_size < MEGABYTE
    assert peak_of(tmp_path / "a.parquet", "bytes claim to hold 335544320, expected") < MEGABYTE


def test_parquet_of_a_repeated_text(tmp_path):
    label = pa.DictionaryArray.from_arrays(np.zeros(2_000, np.int32), ["a" * 500_000])
    table = pa.table({"label": label, "x_0": np.zeros(2_000)})
    pq.write_table(table, tmp_path / "a.parquet")
    del label, table
    assert peak_of(tmp_path / "a.parquet", "a label has 500000 characters") < 50 * MEGABYTE


def test_large_array_is_not_read(tmp_path):
    array = np.lib.format.open_memmap(
        tmp_path / "a.npy", mode="w+", dtype=np.float32, shape=(1000, 4, 100_000)
    )
    array[7, 2, 5] = 3.0
    del array
    tracemalloc.start()
    cases = read(tmp_path / "a.npy")
    batch = cases.select(range(5, 10)).batch([2])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert batch.values[0, 5, 2] == 3.0
    assert peak < 30 * MEGABYTE
