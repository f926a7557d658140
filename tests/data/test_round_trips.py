"""What was written in any format is read back bit for bit."""

import numpy as np
import pandas as pd
import pytest

from linoss.data import read, read_parts

RANDOM = np.random.default_rng(1)
VALUES = RANDOM.normal(size=(5, 2, 7)).astype(np.float32)
VALUES[0, 0, :2] = [1e-45, 3.4e38]
VALUES[1, 1, 3] = VALUES[4, 0, 5:] = np.nan
CLASSES = ["Sit", "Up and go", "Sit", "Näher", "Sit"]


def wide_frame():
    frame = pd.DataFrame({"label": CLASSES})
    for channel, name in enumerate(("x", "z")):
        for point in range(VALUES.shape[2]):
            frame[f"{name}_{point}"] = VALUES[:, channel, point]
    return frame.copy()


def long_frame(lengths):
    pieces = [
        pd.DataFrame(
            {"case": f"c{i}", "label": CLASSES[i], "x": case[0, :n], "z": case[1, :n]},
        )
        for i, (case, n) in enumerate(zip(VALUES, lengths, strict=True))
    ]
    return pd.concat(pieces, ignore_index=True)


def check(cases, lengths, labels):
    assert cases.labels.tolist() == labels
    assert cases.lengths.tolist() == list(lengths)
    for case, array, n in zip(cases.values, VALUES, lengths, strict=True):
        np.testing.assert_array_equal(case, array[:, :n].T)


FULL, RAGGED = [7] * 5, [7, 5, 1, 6, 7]


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("keys", [("X", "y"), ("values", "labels")])
@pytest.mark.parametrize("lengths", [FULL, RAGGED], ids=["equal", "unequal"])
def test_npz(tmp_path, save, keys, lengths):
    save(tmp_path / "a.npz", **{keys[0]: VALUES, keys[1]: np.array(CLASSES)}, lengths=lengths)
    check(read(tmp_path / "a.npz"), lengths, CLASSES)


@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_with_labels_beside_it(tmp_path, order):
    np.save(tmp_path / "a.npy", np.asarray(VALUES, order=order))
    np.save(tmp_path / "a.labels.npy", np.array(CLASSES))
    check(read(tmp_path / "a.npy"), FULL, CLASSES)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize(
    ("frame", "lengths"),
    [(wide_frame(), FULL), (long_frame(FULL), FULL), (long_frame(RAGGED), RAGGED)],
    ids=["wide", "long", "long, unequal"],
)
def test_frame(tmp_path, suffix, frame, lengths):
    path = tmp_path / f"a{suffix}"
    if suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path)
    cases = read(path)
    check(cases, lengths, CLASSES)
    assert cases.names == ("x", "z")


@pytest.mark.parametrize("names", [("Walks_TRAIN", "Walks_TEST"), ("train", "test")])
@pytest.mark.parametrize("suffix", [".npy", ".csv"])
def test_parts(tmp_path, names, suffix):
    training, test = paths = [tmp_path / f"{name}{suffix}" for name in names]
    for path in paths:
        if suffix == ".npy":
            np.save(path, VALUES)
        else:
            wide_frame().to_csv(path)  # with row numbers, which are passed over
    assert [len(part) for part in read_parts(tmp_path)] == [5, 5]
    assert read_parts(training)[1] is None
    test.unlink()
    assert read_parts(tmp_path)[1] is None
