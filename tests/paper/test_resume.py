"""An experiment goes on without repeating what is finished, or what another process does."""

import fcntl
import os

import pytest

from linoss.training import TrainingError
from paper import runs
from paper.runs import read_results


@pytest.fixture
def again(tmp_path, write_archive, small, single_precision, experiment):
    """A finished experiment; (words, code) to do it again."""
    write_archive(tmp_path / "data", "Heartbeat")

    def run(*words, seeds=2345, code=0):
        words = ["--model", "im", "--data-set", "Heartbeat", "--seeds", seeds, *words]
        return experiment("uea", *words, data_dir=tmp_path / "data", code=code)

    run()
    return run


def test_what_exists_is_not_overwritten_and_not_mixed_with_something_else(again, experiment):
    assert "2345: already exists and is not overwritten" in again(code=1)
    again("--resume", seeds="2345,3456")
    assert [result.seed for result in read_results(experiment.out)] == [2345, 3456]
    said = again("--resume", "--max-steps", 3, code=1)
    assert "steps is 4 in its result, but 3 now; continue with" in said
    for path in experiment.out.rglob("result.json"):
        path.write_text("{")
    assert "result.json: is no result of an experiment" in again("--resume", code=1)


def test_a_run_that_fails_has_a_result_too(again, experiment, monkeypatch):
    train = runs.train

    def fails(*arguments, **options):
        raise TrainingError("the loss is nan", train(*arguments, **options))

    monkeypatch.setattr(runs, "train", fails)
    again(seeds=3456)
    result = read_results(experiment.out)[-1]
    assert result.outcome["error"] == "the loss is nan"
    assert 0 <= result.outcome["test"] <= 1
    monkeypatch.setattr(runs, "train", train)
    monkeypatch.setattr(runs, "evaluate", lambda *arguments: float("inf"))
    again(seeds=4567)
    result = read_results(experiment.out)[-1]
    assert result.outcome["test"] is None
    assert result.outcome["error"] == "the test accuracy is inf"


def test_a_run_of_another_process_is_left_to_it(again, experiment, capsys):
    folder = experiment.out / "uea" / "paper" / "Heartbeat" / "im" / "3456"
    folder.mkdir()
    handle = os.open(folder, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    again("--resume", seeds="2345,3456,4567")
    os.close(handle)
    assert [result.seed for result in read_results(experiment.out)] == [2345, 4567]
