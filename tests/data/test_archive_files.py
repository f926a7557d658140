"""Files of the UEA and UCR archives are read as aeon reads them, with their labels as written."""

import numpy as np
import pytest
from aeon.datasets import load_from_arff_file, load_from_ts_file

from linoss.data import read, read_parts

SETS = {
    "BasicMotions": ((40, 40), 6, {100}, {"Standing", "Running", "Walking", "Badminton"}),
    "JapaneseVowels": ((270, 370), 12, None, set("123456789")),
    "GunPoint": ((50, 150), 1, {150}, {"1", "2"}),
    "Covid3Month": ((140, 61), 1, {84}, None),
}


@pytest.mark.parametrize("name", SETS)
def test_real_set(archive, assert_valid, name):
    counts, channels, lengths, classes = SETS[name]
    parts = read_parts(archive / name)
    for part, count in zip(parts, counts, strict=True):
        assert_valid(part)
        assert len(part) == count
        assert part.num_channels == channels
        assert lengths is None or set(part.lengths) == lengths
        if classes is None:
            assert part.labels.dtype == np.float64
        else:
            assert set(part.labels) == classes
        if lengths is None:
            assert (part.lengths.min(), part.lengths.max()) == (7, 26 if part is parts[0] else 29)


@pytest.mark.parametrize("name", SETS)
def test_ts_has_the_numbers_that_aeon_reads(archive, name):
    path = archive / name / f"{name}_TRAIN.ts"
    X, y = load_from_ts_file(str(path))
    found = read(path)
    for case, array in zip(found.values, X, strict=True):
        np.testing.assert_array_equal(case, array.T.astype(np.float32))
    lowered = found.labels if name == "Covid3Month" else np.char.lower(found.labels)
    np.testing.assert_array_equal(lowered, y)


@pytest.mark.parametrize("name", ["BasicMotions", "GunPoint"])
def test_arff_holds_what_aeon_reads(archive, name):
    path = archive / name / f"{name}_TRAIN.arff"
    X, y = load_from_arff_file(str(path))
    cases = read(path)
    np.testing.assert_array_equal(np.stack(cases.values), X.transpose(0, 2, 1).astype(np.float32))
    np.testing.assert_array_equal(cases.labels, y)


def test_arff_channels_and_targets(write, corpus):
    assert read(write("a.arff", corpus["several.arff"])).values[0].tolist() == [
        [1, 4],
        [2, 5],
        [3, 6],
    ]
    assert read(write("b.arff", corpus["one.arff"])).labels.tolist() == ["up", "Down"]
    text = "@attribute a numeric\n@attribute y real\n@data\n1,0.5\n2,0.25\n"
    assert read(write("c.arff", text)).labels.tolist() == [0.5, 0.25]


def test_missing_values_and_capitals(write, corpus):
    cases = read(write("a.ts", corpus["unequal.ts"]))
    assert cases.labels.tolist() == ["Up", "Down", "Up"]
    assert np.isnan(cases.values[1]).tolist() == [[False, False], [True, False]]


def test_cases_without_labels(write):
    text = "@univariate true\n@equalLength true\n@classLabel false\n@data\n1,2\n3,4\n"
    cases = read(write("a.ts", text))
    assert cases.labels is None
    assert cases.lengths.tolist() == [2, 2]


def test_time_stamps_are_refused(archive):
    with pytest.raises(ValueError, match=r"_TRAIN.ts, line 5: .*expected no time stamps"):
        read(archive / "UnitTest" / "UnitTestTimeStamps_TRAIN.ts")
