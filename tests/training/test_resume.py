"""A run that was stopped, by whatever, ends as it would have."""

import dataclasses
import json
import signal
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
import safetensors

from linoss.training import CheckpointError, TrainingConfig, TrainingError, load_model, train

pytestmark = pytest.mark.usefixtures("single_precision")

FILES = ["config.json", "history.jsonl", "state.safetensors", "weights.safetensors"]


def run(problem, directory, **changes):
    """Train; settings of the config and arguments of `train` alike."""
    settings = {field.name for field in dataclasses.fields(TrainingConfig)}
    config = dataclasses.replace(
        problem.config, **{k: v for k, v in changes.items() if k in settings}
    )
    arguments = {k: v for k, v in changes.items() if k not in settings}
    return train(**{**vars(problem), "config": config, "directory": directory, **arguments})


@pytest.fixture
def problem(make_problem):
    return make_problem()


@pytest.fixture
def finished(tmp_path, problem):
    """The directory of a run that was not stopped."""
    run(problem, tmp_path / "finished")
    return tmp_path / "finished"


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


def test_a_directory_holds_the_run(finished, problem):
    assert sorted(p.name for p in finished.iterdir()) == FILES
    saved = load_model(finished)
    assert saved.training == problem.config
    assert len((finished / "history.jsonl").read_text().splitlines()) == 3


def test_the_weights_on_disk_are_those_of_the_result(
    tmp_path, problem, monkeypatch, assert_same_trees
):
    metrics = iter([0.2, 0.9, 0.1])
    monkeypatch.setattr("linoss.training._loop.evaluate", lambda *args, **options: next(metrics))
    result = run(problem, tmp_path)
    assert result.best_step == 8
    assert_same_trees(load_model(tmp_path).model, result.model)


def test_a_crash_between_any_two_writes(tmp_path, problem, finished, monkeypatch, read_run):
    count = 0
    while True:
        count += 1
        directory = tmp_path / str(count)
        with monkeypatch.context() as patch:
            crash_at(patch, count)
            try:
                run(problem, directory)
                break  # there are no more writes to crash at
            except Crash:
                pass
        run(problem, directory, resume=True)
        assert read_run(directory) == read_run(finished)
        assert sorted(p.name for p in directory.iterdir()) == FILES
    assert count > 20  # (state, config) + 3 (history, weights, state), two each


def test_two_crashes_and_a_crash_on_resuming(tmp_path, problem, finished, monkeypatch, read_run):
    for count in (17, 3, 9, 2, 11):
        with monkeypatch.context() as patch:
            crash_at(patch, count)
            with pytest.raises(Crash):
                run(problem, tmp_path / "run", resume=True)
    run(problem, tmp_path / "run", resume=True)
    assert read_run(tmp_path / "run") == read_run(finished)


def interrupt_at(step, error=KeyboardInterrupt):
    """A report that ends the run from a step on."""

    def report(progress):
        if progress.step >= step:
            raise error

    return report


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("step", [1, 4, 8, 12])
def test_ctrl_c_leaves_a_checkpoint(tmp_path, problem, finished, read_run, step, error):
    with pytest.raises(error):
        run(problem, tmp_path / "run", on_progress=interrupt_at(step, error))
    load_model(tmp_path / "run")
    seen = []
    run(problem, tmp_path / "run", resume=True, on_progress=seen.append)
    assert all(progress.step >= step for progress in seen)
    assert read_run(tmp_path / "run") == read_run(finished)


def test_ctrl_c_anywhere(tmp_path, problem, finished, read_run, monkeypatch):
    """In the middle of an evaluation, and in the middle of writing the checkpoint."""
    for place in (
        "_loop.evaluate",
        "_run_directory.write_text",
        "_run_directory.write_tensors",
        "_run_directory.write_weights",
    ):
        directory = tmp_path / place
        with monkeypatch.context() as patch:
            path = f"linoss.training.{place}"
            module, name = path.rsplit(".", 1)
            function, calls = getattr(sys.modules[module], name), [0]

            def call(*args, function=function, calls=calls, **options):
                calls[0] += 1
                if calls[0] == 2:
                    raise KeyboardInterrupt
                return function(*args, **options)

            patch.setattr(path, call)
            with pytest.raises(KeyboardInterrupt):
                run(problem, directory)
        run(problem, directory, resume=True)
        assert read_run(directory) == read_run(finished)


@pytest.mark.integration
def test_kill_9_of_a_real_process(tmp_path, read_run, start):
    script = Path(__file__).with_name("killed_run.py")
    options = {"stdout": subprocess.PIPE, "text": True}
    whole = start(script, tmp_path / "whole", **options)
    whole.communicate()
    assert whole.returncode == 0
    killed = start(script, tmp_path / "killed", **options)
    assert killed.stdout is not None
    for _ in range(5):
        killed.stdout.readline()
    killed.kill()
    killed.communicate()
    last = start(script, tmp_path / "killed", **options)
    last.communicate()
    assert (killed.returncode, last.returncode) == (-signal.SIGKILL, 0)
    assert read_run(tmp_path / "killed") == read_run(tmp_path / "whole")


def test_checkpoints_between_evaluations(tmp_path, problem, finished, read_run):
    with pytest.raises(Crash):
        run(
            problem, tmp_path / "run", save_every=0, evaluate_every=12,
            on_progress=interrupt_at(12, Crash),
        )  # fmt: skip
    state = json.loads(_metadata(tmp_path / "run" / "state.safetensors"))
    # On a slow machine, progress is told before the last step is written.
    assert state["step"] in (11, 12)
    run(problem, tmp_path / "often", save_every=0)
    assert read_run(tmp_path / "often") == read_run(finished)


def _metadata(path):
    with safetensors.safe_open(path, framework="numpy") as file:
        return file.metadata()["linoss"]


def test_resuming_a_finished_run_gives_its_result(finished, problem, assert_same_trees):
    before = {p.name: p.read_bytes() for p in finished.iterdir()}
    result = run(problem, finished, resume=True)
    assert result.steps == 12
    assert len(result.history) == 3
    assert_same_trees(result.model, load_model(finished).model)
    assert {p.name: p.read_bytes() for p in finished.iterdir()} == before


def test_resuming_a_run_that_lost_patience_does_not_go_on(tmp_path, problem, monkeypatch):
    metrics = iter([0.5, 0.4])
    monkeypatch.setattr("linoss.training._loop.evaluate", lambda *args, **options: next(metrics))
    run(problem, tmp_path, patience=1, evaluate_every=3)
    result = run(problem, tmp_path, patience=1, evaluate_every=3, resume=True)
    assert (result.steps, result.stopped_early, result.best_step) == (6, True, 3)


def test_a_run_is_not_overwritten(finished, problem):
    before = {p.name: p.read_bytes() for p in finished.iterdir()}
    with pytest.raises(CheckpointError, match="already exists and is not overwritten"):
        run(problem, finished)
    assert {p.name: p.read_bytes() for p in finished.iterdir()} == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 20}, r"the run has 12 updates, and 20 were asked for"),
        ({"learning_rate": 0.1}, r"training.learning_rate is 0.01 in the run, but 0.1 now"),
        ({"seed": 1}, r"training.seed is 0"),
        ({"validation_set": None}, r"not those of the run \(validation differs\)"),
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
        run(problem, finished, resume=True, **changes)


@pytest.mark.parametrize("first", [6, 9])
def test_a_longer_run_at_a_constant_rate_goes_on(tmp_path, problem, read_run, first):
    constant = {"schedule": "constant", "warmup": 2, "evaluate_every": 3}
    run(problem, tmp_path / "long", steps=12, **constant)
    run(problem, tmp_path / "short", steps=first, **constant)
    before = read_run(tmp_path / "short")
    run(problem, tmp_path / "short", steps=12, resume=True, **constant)
    assert read_run(tmp_path / "short") == read_run(tmp_path / "long") != before


def test_a_longer_run_is_refused_where_it_would_be_another(tmp_path, problem):
    constant = {"schedule": "constant", "evaluate_every": 3}
    run(problem, tmp_path / "odd", steps=7, **constant)
    with pytest.raises(CheckpointError, match=r"the run has 7 updates, and 12 were asked for"):
        run(problem, tmp_path / "odd", steps=12, resume=True, **constant)
    run(problem, tmp_path / "even", steps=9, **constant)
    with pytest.raises(CheckpointError, match=r"the run has 9 updates, and 6 were asked for"):
        run(problem, tmp_path / "even", steps=6, resume=True, **constant)


def test_another_precision_is_refused(finished, make_problem):
    with jax.enable_x64(True):
        other = make_problem()
        with pytest.raises(CheckpointError, match="is float32, but this run would be float64"):
            run(other, finished, resume=True)


def test_a_bad_loss_leaves_the_last_good_checkpoint(tmp_path, make_problem, assert_same_trees):
    problem = make_problem(norm=None)
    cases, used = problem.training_set, []

    class Late(type(cases)):
        """The same cases, but for a huge value in the sixth batch."""

        def batch(self, indices, length=None):
            batch = cases.batch(indices, length)
            if len(used) == 5:
                batch.values[0, 0, 0] = 3e38
            used.append(indices)
            return batch

    with pytest.raises(TrainingError) as caught:
        run(problem, tmp_path, training_set=Late(cases.values, cases.labels), save_every=0)
    assert caught.value.result.steps == 4
    assert_same_trees(load_model(tmp_path).model, caught.value.result.model)
    resumed = run(problem, tmp_path, resume=True)  # with good data this time
    assert resumed.steps == 12


@pytest.mark.parametrize("resume", [False, True])
def test_prepared_links_are_not_followed(tmp_path, problem, finished, read_run, resume):
    victim, directory = tmp_path / "v", tmp_path / "run"
    victim.write_bytes(b"mine")
    directory.mkdir()
    for name in FILES:
        (directory / f"{name}.tmp").symlink_to("../v")
    run(problem, directory, resume=resume)
    assert victim.read_bytes() == b"mine"
    assert read_run(directory) == read_run(finished)


def test_two_processes_do_not_share_a_directory(tmp_path, problem):
    def second(progress):
        with pytest.raises(BlockingIOError, match="another process is training in it"):
            run(problem, tmp_path / "run", resume=True)

    run(problem, tmp_path / "run", on_progress=second)


def flipped(content, place):
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


@pytest.mark.parametrize("name", ["config.json", "state.safetensors"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda x: b"",
        lambda x: x[: len(x) // 2],
        lambda x: flipped(x, len(x) // 2),
        lambda x: flipped(x, 10),
        lambda x: np.random.default_rng(0).bytes(len(x)),
    ],
    ids=["empty", "truncated", "a bit in the middle", "a bit at the start", "noise"],
)
def test_damage_is_noticed_and_the_file_named(finished, problem, name, damage):
    path = finished / name
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CheckpointError, match=name):
        run(problem, finished, resume=True)


@pytest.mark.parametrize("name", ["config.json", "state.safetensors"])
def test_a_missing_file_is_named(finished, problem, name):
    (finished / name).unlink()
    with pytest.raises(CheckpointError, match=f"{name}: does not exist"):
        run(problem, finished, resume=True)


@pytest.mark.parametrize("name", ["weights.safetensors", "history.jsonl"])
@pytest.mark.parametrize("damage", [None, b"anything"])
def test_files_for_readers_are_written_again(finished, problem, name, damage, read_run):
    expected = read_run(finished)
    path = finished / name
    path.unlink()
    if damage is not None:
        path.write_bytes(damage)
    run(problem, finished, resume=True)
    assert read_run(finished) == expected


def test_a_run_without_weights_yet_says_so(tmp_path, problem):
    with pytest.raises(Crash):
        run(problem, tmp_path, on_progress=interrupt_at(1, Crash))
    with pytest.raises(CheckpointError, match="stopped before its first evaluation; continue"):
        load_model(tmp_path)
