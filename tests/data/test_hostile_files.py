"""A file that cannot be used is one error that names it, the line, what was found and expected."""

import io
import os
import re
import struct
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from linoss.data import DataError, read, read_parts, read_table

GARBAGE = np.random.default_rng(0).bytes(5000)
ARFF = "@attribute x numeric\n@attribute c {a,b}\n@data\n1,2,a\n3,4,b\n"
TS = "@univariate true\n@equalLength true\n@classLabel true a b\n@data\n1,2,3:a\n4,5,6:b\n"
SEVERAL = (
    TS.replace("true\n@e", "false\n@e").replace("1,2,3", "1,2:3,4").replace("4,5,6", "1,2:3,4")
)


def npy(array, **options):
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


def npy_header(shape):
    """The start of a .npy file that claims what it likes."""
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape!r}, }}\n".encode()
    return b"\x93NUMPY" + bytes([1, 0]) + struct.pack("<H", len(text)) + text


def npz(compression=zipfile.ZIP_STORED, **members):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content if isinstance(content, bytes) else npy(content))
    return stream.getvalue()


def parquet(**columns):
    stream = io.BytesIO()
    pq.write_table(pa.table(columns), stream)
    return stream.getvalue()


X = np.ones((2, 1, 3))
OBJECTS = npy(np.array([{"a": 1}, None]), allow_pickle=True)

FILES = {
    # any file
    "empty": ("a.csv", b"", ": the file is empty, expected data"),
    "unknown suffix": ("a.xlsx", b"a", ": the suffix is '.xlsx', expected one of .ts, .arff, .npz"),
    # .csv
    "csv garbage": ("a.csv", GARBAGE, ", line 1: byte 2 (0x82) is not UTF-8, expected text"),
    "csv in UTF-16": ("a.csv", "case,x\n1,2\n".encode("utf-16"), ", line 1: byte 1 (0xff) is not "),
    "csv in latin-1": ("a.csv", b"x_0\n1\n\xe4\n", ", line 3: byte 1 (0xe4) is not UTF-8"),
    "csv of spaces": ("a.csv", "\n\n\n", ": found no text, expected a header and rows of data"),
    "csv header only": ("a.csv", "label,x_0\n", ": found only a header, expected rows of data"),
    "csv ragged": ("a.csv", "label,x_0\na,1\nb,2,3\n", ": expected rows of 2 cells, separated by "),
    "csv word": ("a.csv", "label,x_0\na,1\n\nb,one\n", ", line 4, column 'x_0': found 'one', expe"),
    "csv infinite": ("a.csv", "x_0\r1\rinf\r", ", line 3, column 'x_0': found inf, expected a fin"),
    "csv too large": ("a.csv", "x_0\n1\n1e39\n", ", line 3, column 'x_0': found 1e+39, expected a"),
    "csv twice": ("a.csv", "x_0,x_0\n1,2\n", ": two columns are named 'x_0' and 'x_0', expected n"),
    "npz labels of many axes": (
        "a.npz", npz(X=X, y=np.zeros((2,) + (1,) * 39, "S1")),
        ", array 'y' has dtype |S1 and shape (2, 1, 1",
    ),
    "csv capitals": ("a.csv", "case,CASE,x\n1,a,2\n1,a,3\n", ": two columns are named 'case' and "),
    "parquet capitals": (
        "a.parquet", parquet(x_0=[1.0], Label=["a"], **{" label": ["b"]}),
        ": two columns are named 'Label' and ' label', expected",
    ),
    "csv unnamed": ("a.csv", "x_0,\n1,2\n", ": column 2 has no name; name it"),
    "csv open quote": ("a.csv", 'label,x_0\n"a,1\nb,2\n', ": expected rows of 2 cells, separated "),
    "csv long cell": ("a.csv", "x_0\n" + "1" * 200_000, ", line 2, column 'x_0': found inf, expec"),
    "csv only labels": ("a.csv", "label\na\n", ": found the columns label, expected columns of nu"),
    "csv long label": ("a.csv", f"label,x_0\n{'a' * 1001},1\n", ", column 'label': a label has 10"),
    "csv infinite label": ("a.csv", "label,x_0\n1,1\n1e999,1\n", ", column 'label': holds float64"),
    "csv two labels": ("a.csv", "case,y,x\n1,a,1\n1,b,1\n", ", line 3, column 'y': found 'b', exp"),
    "csv no case": ("a.csv", "case,x\n1,1\n,1\n", ", line 3, column 'case': is empty, expected th"),
    "csv interleaved": ("a.csv", "case,x\n1,1\n2,1\n1,1\n", ", line 4, case '1': continues after "),
    "csv same time": ("a.csv", "case,time,x\n1,1,1\n1,1,2\n", ", line 3, case '1': has a second s"),
    "csv no time": ("a.csv", "case,time,x\n1,1,1\n1,,2\n", ", line 3, column 'time': is empty"),
    "csv odd time": ("a.csv", "case,time,x\n1,inf,1\n", ", line 2, column 'time': found 'inf', ex"),
    "csv bad date": (
        "a.csv", "case,ds,x\n1,2024-01-01,1\n1,2024-13-01,2\n",
        ", line 3, column 'ds'",
    ),
    # .ts
    "ts no data": ("a.ts", TS.partition("@data")[0], ": found no line '@data' with cases after it"),
    "ts bad flag": ("a.ts", TS.replace("true", "yes", 1), ", line 1: found '@univariate yes', exp"),
    "ts data tag": ("a.ts", TS.replace("@data", "@data 1"), ", line 4: found '@data 1', expected"),
    "ts no classes": ("a.ts", TS.replace(" a b", ""), ", line 3: found '@classLabel true', expect"),
    "ts same classes": ("a.ts", TS.replace(" a b", " a A"), ", line 3: found '@classLabel true a "),
    "ts strange class": ("a.ts", TS.replace(":b", ":c"), ", line 6: the class is 'c', expected on"),
    "ts no label": ("a.ts", TS.replace("6:b", "6"), ", line 6: found '4,5,6', expected the values"),
    "ts empty label": ("a.ts", TS.replace(":b", ":"), ", line 6: the class is '', expected one of"),
    "ts cut": ("a.ts", TS[:-5], ", line 6: found '4,5', expected the values of a case, a colon"),
    "ts ragged": ("a.ts", SEVERAL.replace("3,4:b", "3:b"), ", line 6: has 2 channels of [2, 1] va"),
    "ts unequal": ("a.ts", TS.replace("4,5,6", "4,5"), ", line 6: has 1 channels of [2] values"),
    "ts word": ("a.ts", TS.replace("5", "five"), ", line 6: channel 0 has a value that is no numb"),
    "arff words": ("a.arff", "once\n" + ARFF, ", line 1: found 'once', expected a header u"),
    "arff short": ("a.arff", ARFF.replace("3,4,b", "3,b"), ", line 5: has 1 channels of [1] valu"),
    "arff class": ("a.arff", ARFF.replace(",b\n", ",c\n"), ", line 5: the class is 'c', expec"),
    "arff cut": ("a.arff", ARFF.partition("@data")[0], ": found no line '@data' with cas"),
    "ts empty line": ("a.ts", TS + "\n", ", line 7: found '', expected the values of a case, a co"),
    "ts bad target": (
        "a.ts", TS.replace("@classLabel true a b", "@targetLabel true").replace(":a", ":1"),
        ", line 6: target has a value that is no number",
    ),
    # .npy
    "npy garbage": ("a.npy", GARBAGE, ": expected an array as numpy.save writes it (the magic str"),
    "npy cut header": ("a.npy", npy(X)[:40], ": expected an array as numpy.save writes it (EOF"),
    "npy claims": ("a.npy", npy_header((10**6, 10, 10**6)), ": the header claims shape (1000000,"),
    "npy beyond": ("a.npy", npy_header((10**30, 10**30)), ": the header claims shape (10000000000"),
    "npy negative": ("a.npy", npy_header((-1, -1)) + b"0" * 8, ": the header claims shape (-1, -1"),
    "npy deep": ("a.npy", npy_header("(" * 9000), ": expected an array as numpy.save writes it (s"),
    "npy objects": ("a.npy", OBJECTS, ": holds pickled Python objects, which are not read because"),
    "npy complex": ("a.npy", npy(X * 1j), " has shape (2, 1, 3) and dtype complex128, expected nu"),
    "npy no cases": ("a.npy", npy(X[:0]), " has shape (0, 1, 3) and dtype float64, expected numbe"),
    # .npz
    "npz both": ("a.npz", npz(X=X, values=X), ", array \'values\': is the second one of values"),
    "npz objects": ("a.npz", npz(X=X, y=OBJECTS), ", array 'y': holds pickled Python objects, whi"),
    "npz claims": ("a.npz", npz(X=npy_header((10**9, 9))), ", array 'X': the header claims shape"),
    "npz member": ("a.npz", npz(X=b"hello world!!"), ", array 'X': expected an array as numpy.sav"),
    "npz lengths": ("a.npz", npz(X=X, lengths=np.array([3, 4])), ", array 'lengths': has sh"),
    "npz no length": ("a.npz", npz(X=X, lengths=np.ones(2)), ", array 'lengths': has shape (2,) a"),
    "npz times": ("a.npz", npz(X=X, times=np.ones(2)), ", array 'times': has shape (2,), expected"),
    "npz no time": ("a.npz", npz(X=X, times=np.ones(3)), ", array 'times', case 0, position 1: th"),
    # .parquet
    "parquet garbage": ("a.parquet", b"PAR1" + GARBAGE + b"PAR1", ": expected a .parquet file ("),
    "parquet lists": ("a.parquet", parquet(x_0=[[1.0]]), ", column 'x_0': holds list<element: dou"),
    "parquet text": ("a.parquet", parquet(x_0=["a"]), ", column 'x_0': holds text, expected numbe"),
    "parquet case": ("a.parquet", parquet(case=[[1]], x=[1.0]), ", column 'case': holds list<elem"),
    "parquet no rows": (
        "a.parquet", parquet(x_0=pa.array([], pa.float64())),
        ": holds 0 rows, expected",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_hostile_file(write, name):
    file, content, message = FILES[name]
    path = write(file, content)
    with pytest.raises(DataError, match="^" + re.escape(f"{path}{message}")) as caught:
        read(path)
    assert len(str(caught.value)) < 600 + len(str(path))


TABLES = {
    "suffix": ("a.npy", npy(X), ": the suffix is '.npy', expected one of .csv, .tsv, .csv.gz, .pa"),
    "word": ("a.csv", "date,load\n2024-01-01,one\n", ", line 2, column 'load': found 'one', expec"),
    "date": ("a.csv", "date,load\n2024-01-01,1\nsoon,2\n", ", line 3, column 'date': found 'soon'"),
    "day or month first": ("a.csv", "date,load\n01/02/2024,1\n02/02/2024,2\n", ", line 2, column"),
    "unnamed dates": ("a.csv", "when,load\n2024-01-01,1\n", ", column 'when': holds date32[day], "),
    "no date": ("a.csv", "date,load\n2024-01-01,1\n,2\n", ", line 3, column 'date': is empty"),
    "twice": ("a.csv", "date,load\n2024-01-01,1\n2024-01-01,2\n", ", line 3: has a second sample"),
    "series": ("a.csv", "unique_id,ds,y\na,1,1\nb,1,2\na,1,3\n", ", line 4, series 'a': has a sec"),
    "no series": ("a.csv", "unique_id,ds,y\na,1,1\n,1,2\n", ", line 3, column 'unique_id': is emp"),
    "no times": ("a.csv", "unique_id,y\na,1\n", ": has the columns unique_id, y, expected at leas"),
    "infinite": ("a.csv", "date,load\n2024-01-01,-inf\n", ", line 2, column 'load': found -inf, e"),
    "capitals": ("a.csv", "unique_id,ds,DS,y\na,1,1,2\na,2,2,3\n", ": two columns are named 'ds' "),
    "only dates": ("a.csv", "date\n2024-01-01\n", ": has the columns date, expected at least one "),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_hostile_table(write, name):
    file, content, message = TABLES[name]
    path = write(file, content)
    with pytest.raises(DataError, match="^" + re.escape(f"{path}{message}")):
        read_table(path)


@pytest.mark.parametrize("reader", [read, read_parts, read_table])
def test_paths(tmp_path, write, reader, monkeypatch):
    file = write("a.csv", "x_0\n1\n")
    os.mkfifo(tmp_path / "pipe.csv")
    for path, message in (
        (tmp_path / "b.csv", "b.csv: there is no such file; check the path"),
        (file / "b.csv", "b.csv: there is no such file; check the path"),
        (tmp_path / "pipe.csv", "pipe.csv: this is a device or a pipe, expected a file"),
        ("a\0b.csv", "cannot be opened|there is no such file"),
    ):
        with pytest.raises(DataError, match=message):
            reader(path)

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(DataError, match=r"cannot be opened \(Permission denied\); check its pat"):
        reader(file)


DIRECTORIES = {
    "no parts": ({}, ": holds no training part, expected a file named NAME_TRAIN"),
    "several": (
        {"a_TRAIN.csv": "x_0\n1\n", "b_TRAIN.csv": "x_0\n1\n"},
        ": holds the training parts of several data sets, expected",
    ),
    "channels": (
        {"train.npy": npy(np.ones((2, 3))), "test.npy": npy(np.ones((2, 2, 3)))},
        "test.npy: has 2 channels, expected 1 as train.npy",
    ),
    "names": (
        {"train.csv": "x_0,y_0\n1,2\n", "test.csv": "x_0,z_0\n1,2\n"},
        "test.csv, channels: lacks y and has z, expected x, y, in any order; rename channels, or",
    ),
}


@pytest.mark.parametrize(("files", "message"), DIRECTORIES.values(), ids=DIRECTORIES)
def test_directories(write, tmp_path, files, message):
    for name, content in files.items():
        write(name, content)
    with pytest.raises(DataError, match=re.escape(message)):
        read_parts(tmp_path)
    with pytest.raises(
        DataError, match=r": this is a directory|nor a folder for each class|channels: lacks y"
    ):
        read(tmp_path)


def test_label_that_is_not_there(write):
    path = write("a.csv", "label,x_0\na,1\n")
    with pytest.raises(
        DataError, match=r"a.csv: label='kind' is no column, expected .* the columns are label, x_0"
    ):
        read(path, label="kind")


def test_label_of_a_file_without_columns(write):
    with pytest.raises(DataError, match=r"a.npy: columns are named, but .npy has none"):
        read(write("a.npy", npy(X)), label="y")


@pytest.mark.parametrize(
    ("labels", "message"),
    [(npy(np.ones(3)), "has 3 labels, expected 2"), (OBJECTS, ": holds pickled Python objects")],
)
def test_labels_beside_an_array(write, labels, message):
    path = write("a.npy", npy(X))
    write("a.labels.npy", labels)
    with pytest.raises(DataError, match=f"a.labels.npy ?{message}"):
        read(path)


def test_pickle_is_not_run(write):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("a pickle was run",))

    content = npy(np.array([Trap(), None]), allow_pickle=True)
    for name in ("a.npy", "a.npz"):
        with pytest.raises(DataError, match="holds pickled Python objects"):
            read(write(name, content if name == "a.npy" else npz(X=content)))
