"""A run that was stopped, by whatever, ends as it would have."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import jax
import pytest
import safetensors

from linoss.training import CheckpointError, load_model

pytestmark = pytest.mark.usefixtures("single_precision")

FILES = ["config.json", "state.safetensors", "weights.safetensors"]


@pytest.fixture
def problem(make_problem):
    return make_problem()


def content(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


class Crash(BaseException):
    """The end of the process, as far as the code can tell."""


def crash_at(monkeypatch, count):
    """Let the process end at the `count`-th thing it does to the disk, before it does it."""
    done = [0]

    def counted(function):
        def call(*args, **options):
            done[0] += 1
            if done[0] == count:
                raise Crash
            return function(*args, **options)

        return call

    for name in ("os.fsync", "os.replace"):
        module, attribute = name.split(".")
        monkeypatch.setattr(name, counted(getattr(__import__(module), attribute)))


def test_a_directory_holds_the_run(
    tmp_path, problem, finished_run, script_metrics, assert_same_trees
):
    assert sorted(content(finished_run)) == FILES
    assert load_model(finished_run).training == problem.config
    assert [record["step"] for record in load_model(finished_run).history] == [4, 8, 12]
    script_metrics(0.2, 0.9, 0.1)
    result = problem.train(directory=tmp_path)
    assert result.best_step == 8
    assert_same_trees(load_model(tmp_path).model, result.model)


def test_a_crash_between_any_two_writes(tmp_path, problem, finished_run, monkeypatch, read_run):
    count = 0
    while True:
        count += 1
        directory = tmp_path / str(count)
        with monkeypatch.context() as patch:
            crash_at(patch, count)
            try:
                problem.train(directory=directory)
                break  # there are no more writes to crash at
            except Crash:
                pass
        problem.train(directory=directory, resume=True)
        assert read_run(directory) == read_run(finished_run)
        assert sorted(content(directory)) == FILES
    assert count > 16  # (state, config) + 3 (weights, state), two each


def interrupt_at(step, error=KeyboardInterrupt):
    """A callback that ends the run from a step on."""

    def report(progress):
        if progress.step >= step:
            raise error

    return report


@pytest.mark.parametrize(
    ("step", "error"),
    [(1, KeyboardInterrupt), (4, SystemExit), (8, KeyboardInterrupt), (12, SystemExit)],
)
def test_ctrl_c_leaves_a_checkpoint(tmp_path, problem, finished_run, read_run, step, error):
    with pytest.raises(error):
        problem.train(directory=tmp_path, on_progress=interrupt_at(step, error))
    load_model(tmp_path)
    seen = []
    problem.train(directory=tmp_path, resume=True, on_progress=seen.append)
    assert all(progress.step >= step for progress in seen)
    assert read_run(tmp_path) == read_run(finished_run)


@pytest.mark.parametrize(
    "place",
    [
        "_train.metric_and_loss",
        "_run_directory.write_tree",
    ],
)
def test_ctrl_c_anywhere(tmp_path, problem, finished_run, read_run, monkeypatch, place):
    """In the middle of an evaluation, and in the middle of writing the checkpoint."""
    module, name = f"linoss.training.{place}".rsplit(".", 1)
    function, calls = getattr(sys.modules[module], name), []

    def call(*args, **options):
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return function(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(f"{module}.{name}", call)
        with pytest.raises(KeyboardInterrupt):
            problem.train(directory=tmp_path)
    problem.train(directory=tmp_path, resume=True)
    assert read_run(tmp_path) == read_run(finished_run)


@pytest.mark.integration
def test_kill_9_of_a_real_process(tmp_path, read_run, start):
    def begin(name, pause):
        program = Path(__file__).with_name("joined_run.py")
        words = ("-", 1, 0, 1, tmp_path / name, pause)
        return start(program, *words, stdout=subprocess.PIPE, text=True)

    whole, killed = begin("whole", 0), begin("killed", 0.5)
    for _ in range(3):
        killed.stdout.readline()
    killed.kill()
    killed.communicate()
    again = begin("killed", 0)
    for process in (whole, again):
        process.communicate()
    codes = [process.returncode for process in (whole, killed, again)]
    assert codes == [0, -signal.SIGKILL, 0]
    assert read_run(tmp_path / "killed") == read_run(tmp_path / "whole")


def test_checkpoints_between_evaluations(tmp_path, problem, finished_run, read_run, monkeypatch):
    monkeypatch.setattr("linoss.training._train._SAVE_EVERY", 0)
    with pytest.raises(Crash):
        problem.train(
            directory=tmp_path / "run", evaluate_every=12, on_progress=interrupt_at(12, Crash),
        )  # fmt: skip
    with safetensors.safe_open(tmp_path / "run/state.safetensors", framework="numpy") as file:
        state = json.loads(file.metadata()["linoss"])
    # On a slow machine, progress is told before the last step is written.
    assert state["step"] in (11, 12)
    problem.train(directory=tmp_path / "often")
    assert read_run(tmp_path / "often") == read_run(finished_run)


def test_resuming_a_finished_run_gives_its_result(finished, problem, assert_same_trees):
    before = content(finished)
    result = problem.train(directory=finished, resume=True)
    assert (result.steps, len(result.history)) == (12, 3)
    assert_same_trees(result.model, load_model(finished).model)
    with pytest.raises(CheckpointError, match="already exists and is not overwritten"):
        problem.train(directory=finished)
    assert content(finished) == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 20}, r"training.steps is 12 in the run, but 20 now"),
        ({"learning_rate": 0.1}, r"training.learning_rate is 0.01 in the run, but 0.1 now"),
        ({"seed": 1}, r"training.seed is 0"),
        ({"validation_set": None}, r"data.validation is .* in the run, but None now"),
        ({"model": 5}, r"model.hidden_size is 4 in the run, but 5 now"),
        ({"training_set": 22}, r"data.training.cases is 24 in the run, but 22 now"),
    ],
)
def test_other_settings_are_refused_by_name(
    finished, problem, make_problem, waves, changes, message
):
    if "model" in changes:
        changes = {"model": make_problem(hidden_size=changes["model"]).model}
    if "training_set" in changes:
        changes = {"training_set": waves(changes["training_set"], 0)}
    with pytest.raises(CheckpointError, match=message):
        problem.train(directory=finished, resume=True, **changes)


def test_another_precision_is_refused(finished, make_problem):
    with jax.enable_x64(True):
        problem = make_problem()
        with pytest.raises(CheckpointError, match="is float32, but this run would be float64"):
            problem.train(directory=finished, resume=True)


def test_two_processes_do_not_share_a_directory(tmp_path, problem):
    def second(progress):
        with pytest.raises(BlockingIOError, match="another process is training in it"):
            problem.train(directory=tmp_path, resume=True)

    problem.train(directory=tmp_path, on_progress=second)


@pytest.mark.parametrize("damage", [None, b"anything"])
def test_weights_are_written_again(finished, finished_run, problem, damage, read_run):
    (finished / "weights.safetensors").unlink()
    if damage is not None:
        (finished / "weights.safetensors").write_bytes(damage)
    problem.train(directory=finished, resume=True)
    assert read_run(finished) == read_run(finished_run)


def test_a_run_without_weights_yet_says_so(tmp_path, problem):
    with pytest.raises(Crash):
        problem.train(directory=tmp_path, on_progress=interrupt_at(1, Crash))
    with pytest.raises(CheckpointError, match="stopped before its first evaluation; continue"):
        load_model(tmp_path)
