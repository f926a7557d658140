"""Several processes on one machine: the same curve, and clear ends."""

import contextlib
import json
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from linoss.training import join_processes

PROGRAM = Path(__file__).parent / "joined_run.py"


@pytest.fixture
def free_port():
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]


@pytest.fixture
def join(tmp_path, free_port, start):
    """(processes, devices, directory, pause) to that many processes."""
    with contextlib.ExitStack() as logs:

        def join(processes, devices, directory, pause=0, port=free_port):
            return [one_of(processes, i, devices, directory, pause, port) for i in range(processes)]

        def one_of(processes, number, devices, directory, pause, port):
            log = logs.enter_context(tempfile.TemporaryFile("w+", dir=tmp_path))
            words = (f"localhost:{port}", processes, number, devices, directory, pause)
            process = start(PROGRAM, *words, stdout=log, stderr=subprocess.STDOUT, text=True)
            process.log = log
            return process

        yield join


def said(process):
    process.log.seek(0)
    return process.log.read()


def wait(processes, seconds=120):
    deadline = time.monotonic() + seconds
    for process in processes:
        process.wait(timeout=max(deadline - time.monotonic(), 0.1))
    return [process.returncode for process in processes]


def reads(text):
    return int(re.search(r"^read (\d+)$", text, re.MULTILINE)[1])


def curve(directory):
    lines = (directory / "history.jsonl").read_text().splitlines()
    return [(r["step"], r["loss"], r["metric"]) for r in map(json.loads, lines)]


@pytest.fixture(scope="module")
def curve_of_one(tmp_path_factory):
    directory = tmp_path_factory.mktemp("one")
    words = [sys.executable, str(PROGRAM), "-", "1", "0", "1", str(directory)]
    result = subprocess.run(words, check=True, capture_output=True, text=True)
    return curve(directory), reads(result.stdout)


def assert_same(curve, expected):
    assert [step for step, _, _ in curve] == [step for step, _, _ in expected]
    for (_, loss, metric), (_, expected_loss, expected_metric) in zip(curve, expected, strict=True):
        assert loss == pytest.approx(expected_loss, rel=1e-4)
        assert metric == pytest.approx(expected_metric)


@pytest.mark.slow  # a run of which one process is killed has the same curve, too
@pytest.mark.parametrize(("processes", "devices"), [(2, 4), (4, 4)])
def test_the_same_curve_as_one_process(tmp_path, join, curve_of_one, processes, devices):
    joined = join(processes, devices, tmp_path / "run")
    codes = wait(joined)
    assert codes == [0] * processes, "\n".join(map(said, joined))
    expected, reads_of_one = curve_of_one
    assert_same(curve(tmp_path / "run"), expected)
    counts = [reads(said(process)) for process in joined]
    once = 36  # each of 32 for its length, and some for the number of channels
    assert max(counts) <= reads_of_one / processes + once


@pytest.mark.integration
@pytest.mark.parametrize(
    ("processes", "killed"), [(2, 0), pytest.param(4, 1, marks=pytest.mark.slow)]
)
def test_one_is_killed_and_the_run_goes_on(
    tmp_path, join, curve_of_one, processes, killed, free_port
):
    directory = tmp_path / "run"
    joined = join(processes, processes, directory, pause=0.5)
    while not (directory / "history.jsonl").exists():
        assert joined[0].poll() is None, said(joined[0])
        time.sleep(0.1)
    joined[killed].send_signal(signal.SIGKILL)
    others = [process for process in joined if process is not joined[killed]]
    assert all(code != 0 for code in wait(others, seconds=60))
    again = join(2, 2, directory, port=free_port + 1)
    assert wait(again) == [0, 0], "\n".join(map(said, again))
    assert_same(curve(directory), curve_of_one[0])


@pytest.mark.integration
def test_one_fails_and_the_others_end(tmp_path, join):
    (tmp_path / "file").write_text("in the way")
    joined = join(2, 2, tmp_path / "file")
    assert all(code != 0 for code in wait(joined, seconds=60))
    assert "file: cannot be written" in said(joined[0])


@pytest.mark.slow
def test_processes_wait_for_one_that_is_late(free_port, start):
    """Longer than the 30 s after which a first contact over Gloo fails."""
    code = "import sys, time; from linoss.training import from_first, join_processes\n"
    code += f"join_processes('localhost:{free_port}', 2, int(sys.argv[1]))\n"
    code += "time.sleep(40 * (sys.argv[1] == '0')); print(from_first(sys.argv[1]), flush=True)"
    pipe = {"stdout": subprocess.PIPE, "text": True}
    joined = [start("-c", code, i, **pipe) for i in range(2)]
    assert [child.communicate()[0].splitlines()[-1] for child in joined] == ["0", "0"]


def test_a_port_in_use(free_port):
    with socket.socket(socket.AF_INET6) as listener:
        listener.bind(("", free_port))
        listener.listen()
        with pytest.raises(ValueError, match=r"cannot listen there .*; choose another port"):
            join_processes(f"localhost:{free_port}", 2, 0)


def test_a_coordinator_that_never_answers(free_port):
    with pytest.raises(ValueError, match=r"did not answer within 1 s .*is process 0 running"):
        join_processes(f"localhost:{free_port}", 2, 1, timeout=1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere", 2, 0), "expected HOST:PORT"),
        (("host:99999", 2, 0), "expected HOST:PORT"),
        (("host:1234",), "num_processes is missing"),
        (("host:1234", 2), "process_id is missing"),
        (("host:1234", 2, 2), "process_id is 2, expected a number from 0 to 1"),
        (("auto",), "neither Slurm, Kubernetes nor Open MPI was found"),
    ],
)
def test_wrong_arguments(arguments, message, monkeypatch):
    with pytest.raises(ValueError, match=message):
        join_processes(*arguments)
