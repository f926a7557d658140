"""The data that people have: folders, sounds, other separators, groups, columns of other names."""

import gzip
import re

import numpy as np
import pandas as pd
import pytest
from scipy.io import wavfile
from sklearn.model_selection import train_test_split

from linoss.data import DataError, read, read_parts

RANDOM = np.random.default_rng(0)
LONG = pd.DataFrame(
    {
        "id": np.repeat(list("abcd"), 6),
        "t_sec": np.tile(np.arange(6), 4) / 4,
        "machine_no": np.repeat([1, 1, 2, 2], 6),
        "x": RANDOM.normal(size=24),
        "z": RANDOM.normal(size=24),
        "label": np.repeat(["up", "down", "up", None], 6),
    }
)
ROLES = {"time": "t_sec", "groups": "machine_no"}


def check(cases):
    assert cases.names == ("x", "z")
    assert cases.labels.tolist() == ["up", "down", "up"]
    assert [str(group) for group in cases.groups] == ["1", "1", "2"]
    np.testing.assert_allclose(cases.values[1], LONG[["x", "z"]][6:12], rtol=1e-6)
    np.testing.assert_array_equal(cases.times[1], np.arange(6) / 4)
    assert cases.summary == (
        "3 cases of 2 channels (x, z), 6 samples; time: t_sec, in its own unit; label: label, 2 "
        "classes; groups: machine_no, 2; left out: 1 case without a label"
    )


@pytest.mark.parametrize("mark", [",", ";", "\t"])
@pytest.mark.parametrize("decimal", [".", ","])
def test_texts(tmp_path, mark, decimal):
    content = LONG.to_csv(index=False, sep=mark, decimal="." if mark == "," else decimal).encode()
    (tmp_path / "a.csv").write_bytes(content)
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(content))
    for name in ("a.csv", "b.csv.gz"):
        check(read(tmp_path / name, **ROLES))


def test_frames_and_chosen_channels():
    check(read(LONG, **ROLES))
    cases = read(LONG, time="t_sec", channels=["z", "machine_no"])
    assert cases.names == ("machine_no", "z")
    assert cases.groups is None
    assert cases.about["dropped"] == ("x",)
    assert read(LONG, **ROLES, may_lack=True).labels is None  # all are predicted


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ({}, "column 't_sec': never decreases within every case; .* time='t_sec' or drop='t_sec'"),
        ({"time": "t_sec"}, "column 'machine_no': is constant within .* groups='machine_no' or"),
        (
            {"drop": ["machine_no"], "groups": "t_sec", "time": "x"},
            "column 't_sec': found 0.25, expected one group",
        ),
        ({"channels": ["w"]}, "channels='w' is no column"),
    ],
)
def test_columns_that_are_asked_about(roles, message):
    with pytest.raises(DataError, match=message):
        read(LONG, **roles)


def test_a_folder_for_each_class(tmp_path):
    """Sounds of two rates, an array, and tables."""
    sounds = tmp_path / "sounds"
    for name, rate in (("train/bell", 100), ("train/horn", 200), ("test/bell", 100)):
        (sounds / name).mkdir(parents=True)
        wave = np.arange(-rate, rate, dtype=np.int16)
        wavfile.write(sounds / name / "one.WAV", rate, wave)
    train, test = read_parts(sounds)
    assert (train.labels.tolist(), train.lengths.tolist(), len(test)) == (
        ["bell", "horn"],
        [200, 400],
        1,
    )
    assert train.times[1][-1] == 399 / 200
    np.testing.assert_allclose(train.values[0][:2, 0] * 2**15, [-100, -99])
    tables = tmp_path / "tables"
    (tables / "up").mkdir(parents=True)
    LONG[["t_sec", "x", "z"]][:6].to_csv(tables / "up" / "a.csv", index=False)
    LONG[["z", "x", "t_sec"]][6:12].to_csv(tables / "up" / "b.csv", index=False)
    cases = read(tables, time="t_sec")
    assert cases.ids == ("up/a.csv", "up/b.csv")
    np.testing.assert_allclose(cases.values[1], LONG[["x", "z"]][6:12], rtol=1e-6)
    np.save(tables / "up" / "c.npy", np.zeros((2, 5)))
    with pytest.raises(DataError, match=r"up/c.npy has 2 channels and no times, expected those of"):
        read(tables, time="t_sec")
    (sounds / "test" / "bell" / "one.WAV").write_bytes(b"RIFF\1\0\0\0WAVE")
    with pytest.raises(DataError, match=r"one.WAV: expected a .wav file"):
        read_parts(sounds)


def test_sequences_belong_to_python():
    cases = read(LONG, **ROLES)
    assert [one.ids[0] for one in cases] == ["a", "b", "c"]
    assert cases[-1].labels.tolist() == ["up"]
    assert cases[[True, False, True]].ids == cases[::2].ids == ("a", "c")
    train, test = train_test_split(cases, test_size=1, random_state=0)
    assert sorted(train.ids + test.ids) == ["a", "b", "c"]
    assert re.fullmatch(r"Sequences: .*\n    time: .*\n    groups: .*", repr(cases))


def test_a_lone_surrogate_is_no_label(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.zeros((2, 3)), y=np.array(["a", "\ud800"]))
    with pytest.raises(DataError, match=r"array 'y': the label '\\ud800' is no valid Unicode"):
        read(tmp_path / "a.npz")
