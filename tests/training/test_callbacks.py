"""Callbacks: each progress in a file, read again by other programs."""

import json
import struct

import pytest
from tensorboardX.proto.event_pb2 import Event

from linoss.training import JsonLines, Progress, TensorBoard

NAN = float("nan")


def events(folder):
    """The scalars of an event file, by step and name."""
    (path,) = folder.iterdir()
    content, scalars = path.read_bytes(), {}
    while content:
        (size,) = struct.unpack("<Q", content[:8])
        event = Event.FromString(content[12 : 12 + size])
        scalars |= {(event.step, value.tag): value.simple_value for value in event.summary.value}
        content = content[16 + size :]
    return scalars


def test_several_callbacks_of_a_training(make_problem, tmp_path):
    seen = []
    with JsonLines(tmp_path / "log" / "run.jsonl") as log, TensorBoard(tmp_path / "tb") as board:
        make_problem().train(on_progress=lambda p: [call(p) for call in (log, board, seen.append)])
    lines = [json.loads(x) for x in (tmp_path / "log" / "run.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [progress.step for progress in seen]
    last, written = seen[-1], events(tmp_path / "tb")
    assert lines[-1]["loss"] == last.loss
    assert [line["epoch"] for line in lines] == [line["step"] / 3 for line in lines]  # of 3 batches
    assert last.epochs == 4
    assert lines[-1]["gradient_norm"] == last.gradient_norm > 0
    assert (last.cases_per_second or 0) > 0
    for name in ("loss", "metric", "learning_rate", "gradient_norm", "cases_per_second"):
        assert written[12, name] == pytest.approx(getattr(last, name), rel=1e-6)


def test_lines_are_appended_and_hold_no_nan(tmp_path):
    path = tmp_path / "run.jsonl"
    for step in (1, 2):
        with JsonLines(path) as log:
            log(Progress(step, 9, NAN, None, None, None))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["step"], line["loss"], line["metric"]) for line in lines] == [
        (1, None, None), (2, None, None),
    ]  # fmt: skip


def test_an_error_of_a_callback_ends_the_training(make_problem):
    def full(progress):
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        make_problem().train(on_progress=full)
