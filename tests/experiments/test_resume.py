"""A killed experiment goes on without repeating what is finished."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from linoss.experiments import _execute, reproduce
from linoss.experiments._results import read_results
from linoss.experiments._worker_pool import core_shares
from linoss.training import TrainingError


def results_of(out):
    """What decides and what came out, without times."""
    return [
        (r.seed, r.settings, r.outcome, [{**h, "seconds": 0} for h in r.history])
        for r in read_results(out / "uea")
    ]


def files_of(folder):
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}


@pytest.mark.slow  # kill -9 of a training: tests/training/test_resume.py
def test_kill_9_in_the_second_of_three_seeds(tmp_path, write_archive, start):
    write_archive(tmp_path / "data", "Heartbeat")
    script = Path(__file__).with_name("killed_reproduce.py")

    def begin(out, *pace):
        return start(script, tmp_path / "data", out, *pace, stderr=subprocess.PIPE, text=True)

    first = begin(tmp_path / "killed", "slowly")
    assert first.stderr is not None
    for line in first.stderr:
        if line.startswith("[2/3]"):
            break
    for _ in range(4):
        first.stderr.readline()
    first.send_signal(signal.SIGKILL)
    first.communicate()
    runs = tmp_path / "killed" / "uea" / "paper" / "Heartbeat" / "im"
    assert [path.parent.name for path in runs.glob("*/result.json")] == ["2345"]
    assert (runs / "3456" / "state.safetensors").exists()
    finished = files_of(runs / "2345")

    second = begin(tmp_path / "killed")
    _, said = second.communicate()
    assert second.returncode == 0, said
    assert "1 of 3 runs already have results" in said
    assert "[1/2] Heartbeat, LinOSS-IM, seed 3456" in said
    assert "step 1/40" not in said.split("seed 4567")[0]
    assert files_of(runs / "2345") == finished

    whole = begin(tmp_path / "whole")
    whole.communicate()
    assert results_of(tmp_path / "killed") == results_of(tmp_path / "whole")


@pytest.fixture
def again(tmp_path, write_archive, small):
    """A finished experiment; (options) to do it again."""
    write_archive(tmp_path / "data", "Heartbeat")

    def run(**changes):
        options = {"seeds": [2345], "models": ["im"], "data_sets": ["Heartbeat"], **changes}
        return reproduce("uea", out=tmp_path / "out", data_dir=tmp_path / "data", **options)

    run()
    return run


@pytest.mark.usefixtures("single_precision")
class TestAgain:
    """What already exists is not overwritten, and not mixed with something else."""

    def test_without_resume_it_is_refused(self, again):
        with pytest.raises(ValueError, match=r"2345: already exists and is not overwritten"):
            again()

    def test_another_seed_is_added(self, again, tmp_path):
        again(seeds=[2345, 3456], resume=True)
        assert [result.seed for result in read_results(tmp_path / "out")] == [2345, 3456]

    def test_other_settings_are_refused_by_name(self, again):
        with pytest.raises(ValueError, match="steps is 4 in its result, but 3 now; continue with"):
            again(max_steps=3, resume=True)

    def test_more_steps_go_on_from_where_it_ended(self, again, tmp_path, capsys):
        (before,) = read_results(tmp_path / "out")
        again(max_steps=8, resume=True)
        (after,) = read_results(tmp_path / "out")
        steps = len(before.history)
        assert after.history[:steps] == before.history
        assert (before.outcome["steps"], after.outcome["steps"]) == (4, 8)
        assert "step 5/8" in capsys.readouterr().err

    def test_a_damaged_result_is_named(self, again, tmp_path):
        (path,) = (tmp_path / "out").rglob("result.json")
        path.write_text("{")
        with pytest.raises(ValueError, match=r"result.json: is no result of an experiment"):
            again(resume=True)

    def test_ctrl_c_says_how_to_go_on(self, again, monkeypatch, capsys):
        def interrupted(*arguments, **options):
            raise KeyboardInterrupt

        monkeypatch.setattr(_execute, "train", interrupted)
        with pytest.raises(KeyboardInterrupt):
            again(seeds=[3456])
        assert "The same command with --resume continues" in capsys.readouterr().err

    def test_a_run_whose_loss_is_not_finite_has_a_result_too(self, again, tmp_path, monkeypatch):
        train = _execute.train

        def fails(*arguments, **options):
            raise TrainingError("the loss is nan", train(*arguments, **options))

        monkeypatch.setattr(_execute, "train", fails)
        again(seeds=[3456])
        result = read_results(tmp_path / "out")[-1]
        assert result.outcome["error"] == "the loss is nan"
        assert 0 <= result.outcome["test"] <= 1


@pytest.mark.usefixtures("single_precision")
def test_a_test_metric_that_is_not_finite_is_a_result(again, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(_execute, "evaluate", lambda *arguments: float("inf"))
    again(seeds=[3456], resume=True)
    result = read_results(tmp_path / "out")[-1]
    assert result.outcome["test"] is None
    assert result.outcome["error"] == "the test accuracy is inf"
    assert "failed: the test accuracy is inf" in capsys.readouterr().err


def test_ctrl_c_ends_all_processes(tmp_path, start):
    script = Path(__file__).with_name("interrupted_together.py")
    process = start(script, tmp_path, stderr=subprocess.PIPE, text=True)
    while len(list(tmp_path.iterdir())) < 2:
        assert process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)  # until none has the end of the pipe
    assert said.rstrip().endswith("KeyboardInterrupt")
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="needs to choose cores")
def test_cores_are_shared(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2, 5})
    assert core_shares(1) == [[0, 1, 2, 5]]
    assert core_shares(2) == [[0, 2], [1, 5]]
    assert core_shares(5) == [[0, 1, 2, 5]] * 5
