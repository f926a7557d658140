"""Tables of sequences mean what the names of their columns say; arrays on disk stay there."""

import numpy as np
import pytest

from linoss.data import DataError, read, read_parts


def test_points_are_ordered_by_number_whatever_the_order_of_columns(write):
    cases = read(write("a.csv", "z_1,x_0,label,x_1,z_0\n4,1,up,2,3\n"))
    assert cases.names == ("z", "x")
    assert cases.values[0].tolist() == [[3.0, 1.0], [4.0, 2.0]]


@pytest.mark.parametrize(
    "header", ["0,1,2", "t0,t1,t2", "t_1,t_2,t_3", "x.7,x.8,x.9", "a 0,a 1,a 2"]
)
def test_ways_to_number_points(write, header):
    cases = read(write("a.csv", f"y,{header}\n0.5,1,2,3\n1.5,4,5,6\n"))
    assert [case[:, 0].tolist() for case in cases.values] == [[1, 2, 3], [4, 5, 6]]
    assert cases.labels.tolist() == [0.5, 1.5]


def test_wide_table_with_names_of_cases(write):
    cases = read(write("a.csv", "id,label,x_0,x_1\nann,1,2,3\nbob,2,4,5\n"))
    assert cases.ids == ("ann", "bob")
    assert cases.lengths.tolist() == [2, 2]


@pytest.mark.parametrize("name", ["case", "case_id", "id", "unique_id", "Case"])
@pytest.mark.parametrize("time", ["time", "ds", "timestamp", "Time"])
def test_long_table_is_sorted_by_time(write, name, time):
    cases = read(write("a.csv", f"{time},{name},x\n1,b,5\n2.5,a,3\n1,a,1\n2,a,2\n"))
    assert cases.ids == ("b", "a")
    assert cases.values[1][:, 0].tolist() == [1.0, 2.0, 3.0]
    assert [t.tolist() for t in cases.times] == [[1.0], [1.0, 2.0, 2.5]]
    assert cases.labels is None


def test_dates_become_seconds_since_the_first_of_a_case(write, corpus):
    cases = read(write("a.csv", corpus["dates.csv"]))
    assert [t.tolist() for t in cases.times] == [[0.0, 34 * 3600.0], [0.0]]


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (("1", "2"), "i"),
        (("1", "2.5"), "f"),
        (("1", "b"), "U"),
        (("1_0", "1_1"), "U"),
        (("", ""), None),
    ],
)
def test_kind_of_labels(write, cells, kind):
    labels = read(write("a.csv", "label,x_0,x_1\n{},1,2\n{},3,4\n".format(*cells))).labels
    assert (None if labels is None else labels.dtype.kind) == kind


@pytest.mark.parametrize(
    ("label", "expected", "names"),
    [(None, ["a", "b"], ("y", "x")), ("y", [1, 2], ("x",))],
)
def test_label_column_is_the_first_known_name_or_as_said(write, label, expected, names):
    text = "case,label,y,x\n1,a,1,5\n1,a,1,6\n2,b,2,7\n"
    if label == "y":
        text = text.replace("label,", "").replace("a,", "").replace("b,", "")
    cases = read(write("a.csv", text), label=label)
    assert cases.labels.tolist() == expected
    assert cases.names == names


def test_a_channel_may_be_called_y_where_there_are_no_labels(write):
    cases = read(write("a.csv", "case,x,y\n1,5,1\n1,6,2\n"), label=False)
    assert cases.names == ("x", "y")
    assert cases.labels is None


@pytest.mark.parametrize("cell", ["", "NaN", "nan", "?", "NA", " "])
def test_missing_cells(write, cell):
    cases = read(write("a.csv", f"label,x_0,x_1\nup,{cell},2\n"))
    assert np.isnan(cases.values[0][:, 0]).tolist() == [True, False]


def test_npy_is_read_case_by_case(tmp_path):
    X = np.arange(24.0).reshape(4, 2, 3)
    np.save(tmp_path / "a.npy", X)
    cases = read(tmp_path / "a.npy")
    assert not isinstance(cases.values, list)
    assert cases.lengths.tolist() == [3] * 4
    some = cases.select([3, 1])
    assert not isinstance(some.values, list)
    np.testing.assert_array_equal(some.select([1]).values[0], X[1].T)
    np.testing.assert_array_equal(cases.values[1:3][0], X[1].T)


@pytest.mark.usefixtures("unchecked")  # a type check would look at a case, perhaps the bad one
def test_npy_is_checked_case_by_case(tmp_path):
    X = np.ones((3, 2, 3))
    X[1, 1, 2] = np.inf
    np.save(tmp_path / "a.npy", X)
    cases = read(tmp_path / "a.npy")
    assert cases.batch([0, 2]).values.shape == (2, 3, 2)
    with pytest.raises(DataError, match=r"a.npy, case 1: the value of channel 1 at position 2 is"):
        cases.select([2, 1]).batch([1])


@pytest.mark.parametrize("times", [[0, 1, 3], [[0, 1, 3], [0, 2, 2]]])
def test_npz_times_are_cut_to_lengths(tmp_path, times):
    np.savez(tmp_path / "a.npz", X=np.ones((2, 1, 3)), lengths=[3, 2], times=np.array(times, float))
    cases = read(tmp_path / "a.npz")
    assert [len(t) for t in cases.times] == [3, 2]


def test_parts_take_the_name_of_the_directory(archive):
    train, _ = read_parts(archive / "JapaneseVowels")  # holds a second set, of equal length
    assert len(set(train.lengths)) > 1


# ---- Columns that are no channels ----

CLINIC = "patient,age,x_0,x_1,kind\np1,30,1,2,a\np2,40,3,4,b\n"


@pytest.mark.parametrize(
    "roles",
    [
        {"label": "kind", "case": "patient", "drop": ["age"]},
        {"label": -1, "case": 0, "drop": [1]},
        {"label": "4", "case": "0", "drop": ["1"]},
    ],
)
def test_columns_by_name_and_by_position(write, roles):
    cases = read(write("a.csv", CLINIC), **roles)
    assert cases.ids == ("p1", "p2")
    assert cases.labels.tolist() == ["a", "b"]
    np.testing.assert_array_equal(np.stack(cases.values)[..., 0], [[1, 2], [3, 4]])


def test_a_column_without_a_role_is_asked_about(write):
    path = write("a.csv", CLINIC)
    with pytest.raises(DataError, match=r"line 2, column 'patient': .*label='patient'.*drop='pati"):
        read(path, label="kind")
    with pytest.raises(
        DataError, match=r"as for the column 'age', if it holds labels, pass label="
    ):
        read(path, label="kind", case="patient")


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ({"case": "doctor"}, "case='doctor' is no column, expected its name or its position"),
        ({"drop": ["doctor"]}, "drop='doctor' is no column, expected"),
        ({"label": 9}, "label=.?9.? is no column, expected"),
    ],
)
def test_a_role_of_no_column(write, roles, message):
    with pytest.raises(DataError, match=message):
        read(write("a.csv", CLINIC), **roles)


def test_words_for_truth_are_numbers(write):
    cases = read(write("a.csv", "case,on\n1,True\n1,false\n1,\n"))
    np.testing.assert_array_equal(cases.values[0][:, 0], [1, 0, np.nan])
