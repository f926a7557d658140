"""Real data sets that come with aeon, and small valid files of every format."""

import io
from pathlib import Path

import aeon
import numpy as np
import pandas as pd
import pytest

VALUES = np.random.default_rng(0).normal(size=(4, 2, 5))
VALUES[1, 0, 3] = np.nan
CLASSES = np.array(["up", "down", "up", "down"])

TEXTS = {
    "wide.csv": "label,x_0,x_1,z_0,z_1\nup,1,2,3,4\ndown,,2.5,?,4\nup,1e3,-2,0.1,NaN\n",
    "long.csv": "case,time,label,x,z\na,0,up,1,2\na,1,up,3,4\nb,0.5,down,5,6\nb,2,down,7,NA\n",
    "dates.csv": "id,ds,x\na,2024-01-01,1\na,2024-01-02 10:00:00,3\nb,2024-01-01,5\n",
    "table_wide.csv": "date,load,temp\n"
    + "".join(f"2024-01-{day:02d},{day},{2 * day}\n" for day in range(1, 10)),
    "table_long.csv": "unique_id,ds,y,temp\n"
    + "".join(f"{name},2024-{m:02d}-01,{m},{-m}\n" for name in "ab" for m in range(1, 6)),
    "table_counted.csv": "unique_id,ds,y\n"
    + "".join(f"{name},{n},{n}\n" for name in "ab" for n in range(1, 6)),
    "unequal.ts": "#comment\n@problemName x\n@timeStamps false\n@missing true\n@univariate false\n"
    "@equalLength false\n@classLabel true Up Down\n@data\n"
    "1,2,3:4,5,6:Up\n1,?:4,5:Down\n1:2:Up\n",
    "one.arff": "%comment\n@relation x\n@attribute a numeric\n@attribute b numeric\n"
    "@attribute c {up,'Down'}\n@data\n1,?,up\n3,4,Down\n",
    "several.arff": "@relation x\n@attribute r relational\n@attribute a numeric\n@end r\n"
    "@attribute c {up,down}\n@data\n'1,2,3\\n4,5,6',up\n'1,2,?\\n0,1,2',down\n",
    "targets.ts": "@problemName x\n@timeStamps false\n@univariate true\n@equalLength true\n"
    "@targetLabel true\n@data\n1,2,3:0.5\n4,5,6:0.25\n",
}

FRAMES = {
    "wide.parquet": pd.DataFrame({"label": ["a", "b"], "x_0": [1.0, 2.0], "x_1": [3, 4]}),
    "long.parquet": pd.DataFrame(
        {"case": [1, 1, 2], "time": pd.date_range("2024", periods=3), "x": [1.0, 2.0, np.nan]}
    ),
    "table_wide.parquet": pd.DataFrame(
        {"load": range(9)}, index=pd.date_range("2024", periods=9, freq="MS")
    ),
    "table_long.parquet": pd.DataFrame(
        {"unique_id": ["a"] * 5 + ["b"] * 5, "ds": list(range(5)) * 2, "y": range(10)}
    ),
}


def _bytes(save, *arrays, **named):
    stream = io.BytesIO()
    save(stream, *arrays, **named)
    return stream.getvalue()


def _make_corpus():
    options = {"lengths": np.array([5, 4, 3, 5]), "times": np.arange(5.0)}
    return {
        **{name: text.encode() for name, text in TEXTS.items()},
        **{name: _bytes(lambda file, f=f: f.to_parquet(file)) for name, f in FRAMES.items()},
        "plain.npy": _bytes(np.save, VALUES),
        "stored.npz": _bytes(np.savez, X=VALUES, y=CLASSES, **options),
        "deflated.npz": _bytes(np.savez_compressed, values=VALUES, labels=np.arange(4)),
    }


CORPUS = _make_corpus()


@pytest.fixture(scope="session")
def corpus():
    """Name to the bytes of a small valid file."""
    return CORPUS


@pytest.fixture(scope="session")
def archive():
    """The data sets that come with aeon."""
    return Path(aeon.__file__).parent / "datasets" / "data"


@pytest.fixture
def write(tmp_path):
    """(name, text or bytes) to the path of a new file."""

    def make(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return make


def check_valid(found):
    """Sequences or a table hold what they promise."""
    (_check_table if hasattr(found, "series") else _check_sequences)(found)


def _check_sequences(cases):
    assert len(cases) == len(cases.lengths) > 0
    for case, length in zip(cases.values, cases.lengths, strict=True):
        assert case.dtype in (np.float32, np.float64)
        assert case.shape == (length, cases.num_channels)
        assert length > 0
        assert not np.isinf(case).any()
    for times, length in zip(cases.times or [], cases.lengths, strict=False):
        assert times.shape == (length,)
        assert np.isfinite(times).all()
        assert (np.diff(times) > 0).all()
    if isinstance(cases.labels, np.ndarray) and cases.labels.dtype.kind == "f":
        assert np.isfinite(cases.labels).all()
    batch = cases.batch(range(len(cases)))
    assert np.isfinite(batch.values).all()
    missing = any(np.isnan(case).any() for case in cases.values)
    assert (batch.observed is not None) == missing


def _check_table(table):
    for values, index in zip(table.series, table.index, strict=True):
        assert values.shape == (len(index), len(table.names))
        assert not np.isinf(values).any()
        assert (index[1:] > index[:-1]).all()


@pytest.fixture(scope="session")
def assert_valid():
    """Sequences or a table hold what they promise."""
    return check_valid
