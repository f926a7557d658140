"""PPG-DaLiA: from raw recordings to windows, against brute force."""

import itertools

import numpy as np
import pytest

from linoss.data import DataError
from paper import numbers, ppg
from paper.runs import Options, make_run

pytestmark = pytest.mark.usefixtures("single_precision")


def unit(values):
    low, high = np.min(values), np.max(values)
    return 2 * (values - low) / (high - low) - 1


def brute_signals(content):
    """At 64 Hz, sample by sample."""
    wrist = content["signal"]["wrist"]
    groups = {name: unit(wrist[name]) for name in ("ACC", "BVP", "EDA", "TEMP")}
    steps = len(wrist["BVP"])
    rows = [
        [*groups["ACC"][t // 2], groups["BVP"][t, 0], groups["EDA"][t // 16, 0],
         groups["TEMP"][t // 16, 0]]
        for t in range(steps)
    ]  # fmt: skip
    labels = [content["label"][max(i - 3, 0)] for i in range(len(content["label"]) + 3)]
    return np.array(rows, np.float32), unit(np.array(labels))


def test_signals_and_labels_of_a_subject(tmp_path, write_recordings):
    (content,) = write_recordings(tmp_path, 1, labels=20)
    signals, labels = ppg.read_subject(tmp_path / "PPG_FieldStudy" / "S1" / "S1.pkl")
    expected, expected_labels = brute_signals(content)
    assert signals.dtype == labels.dtype == np.float32
    np.testing.assert_allclose(signals, expected, atol=1e-6)
    np.testing.assert_allclose(labels[:, 0], expected_labels, atol=1e-6)
    assert len(signals) == ppg.EVERY * len(labels)
    assert (signals.min(), signals.max(), labels.min(), labels.max()) == (-1, 1, -1, 1)


def bounds(order, length):
    """Where the parts of 70, 15 and 15 percent begin and end, in whole numbers."""
    percent = (70, 15, 15)
    starts = [sum(percent[p] for p in order[: order.index(part)]) for part in range(3)]
    ends = [start + share for start, share in zip(starts, percent, strict=True)]
    return [(a * length // 100, b * length // 100) for a, b in zip(starts, ends, strict=True)]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("count", [97, 100, 123])
def test_windows_against_brute_force(monkeypatch, order, count):
    monkeypatch.setattr(ppg, "ANSWERS", 6)
    monkeypatch.setattr(ppg, "STRIDE", 4)
    signals = np.arange(count * 128 * 6, dtype=np.float32).reshape(-1, 6)
    labels = np.arange(count, dtype=np.float32)[:, None]
    parts = ppg.cut(signals, labels, np.array(order))
    long, short = bounds(order, len(signals)), bounds(order, count)
    for (found, answers), (start, end), (first, last) in zip(parts, long, short, strict=True):
        number = min((end - start - 6 * 128) // (4 * 128), (last - first - 6) // 4) + 1
        assert len(found) == len(answers) == number
        for i in range(number):
            begin = start + i * 4 * 128
            np.testing.assert_array_equal(found[i], signals[begin : begin + 6 * 128])
            np.testing.assert_array_equal(answers[i], labels[first + 4 * i : first + 4 * i + 6])


def test_windows_at_the_papers_size():
    """150 minutes, as a subject of the data set has: 71, 8 and 8 windows."""
    signals, labels = np.zeros((576_000, 6), np.float32), np.zeros((4500, 1), np.float32)
    parts = ppg.cut(signals, labels, np.array([0, 1, 2]))
    assert [len(part[0]) for part in parts] == [71, 8, 8]
    for values, answers in parts:
        assert {value.shape for value in values} == {(49_920, 6)}
        assert {answer.shape for answer in answers} == {(390, 1)}
        assert all(value.base is signals for value in values)


def test_all_subjects_come_together(tmp_path, write_recordings, monkeypatch):
    monkeypatch.setattr(numbers, "SUBJECTS", 3)
    monkeypatch.setattr(ppg, "ANSWERS", 4)
    monkeypatch.setattr(ppg, "STRIDE", 2)
    contents = write_recordings(tmp_path, 3, labels=57)
    parts = ppg.read_windows(tmp_path / "PPG_FieldStudy")
    assert [len(values) for values, _ in parts] == [3 * 20, 3 * 3, 3 * 3]
    seen = {label.tobytes() for _, labels in parts for label in labels}
    for content in contents:
        _, labels = brute_signals(content)
        pieces = [labels[i : i + 4].astype(np.float32).tobytes() for i in range(len(labels) - 3)]
        assert len(seen & set(pieces)) == 26


def test_missing_subjects_are_named_before_any_is_read(
    tmp_path, write_recordings, monkeypatch, experiment
):
    monkeypatch.setattr(numbers, "SUBJECTS", 3)
    write_recordings(tmp_path, 1, labels=57)
    assert "S2/S2.pkl (likewise S3)" in experiment("ppg", data_dir=tmp_path, code=1)


@pytest.mark.usefixtures("small")
def test_a_problem_is_as_published(tmp_path, write_recordings):
    (content,) = write_recordings(tmp_path, 1, labels=57)
    folder = tmp_path / "PPG_FieldStudy"
    run = make_run(Options(experiment="ppg", out=tmp_path), "PPG", "im", 2345)
    problem = ppg.make_problem(folder, run)
    steps = 4 * 128
    signals = np.float32(brute_signals(content)[0])
    (u,) = problem.inputs(problem.training.batch([0]), masked=False)["u"]
    pieces = [signals[i : i + steps] for i in range(0, len(signals) - steps + 1, 128)]
    assert any(np.allclose(u[:, 1:], piece, atol=1e-6) for piece in pieces)
    np.testing.assert_allclose(u[:, 0], np.arange(steps) / steps, rtol=1e-6)


def test_too_short_recordings_are_refused(tmp_path, write_recordings, monkeypatch):
    monkeypatch.setattr(numbers, "SUBJECTS", 1)
    write_recordings(tmp_path, 1, labels=57)
    with pytest.raises(DataError, match="no recording is long enough for a window of training"):
        ppg.read_windows(tmp_path / "PPG_FieldStudy")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda label: np.append(label[1:], np.nan), "label is empty or not finite"),
        (lambda label: label[:-20], r"has 40 labels for .* minutes of signals, expected one for"),
    ],
)
def test_labels_that_do_not_fit_are_refused(
    tmp_path, write_recordings, python2_pickle, change, words
):
    (content,) = write_recordings(tmp_path, 1, labels=57)
    path = tmp_path / "PPG_FieldStudy" / "S1" / "S1.pkl"
    path.write_bytes(python2_pickle({**content, "label": change(content["label"])}))
    with pytest.raises(DataError, match=words):
        ppg.read_subject(path)
