"""`linoss fit` on several devices and in several processes."""

import json
import socket

import pytest


@pytest.fixture
def free_port():
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]


def test_devices_and_others_when_a_run_goes_on(tmp_path, data, small, good_json):
    one = good_json(f"fit {data} --task classification --out {tmp_path / 'a'} {small} --steps 4")
    line = f"fit {data} --task classification --out {tmp_path / 'b'} {small} --steps 4"
    several = good_json(f"{line} --devices 4x2")
    assert several["test"] == one["test"]
    assert good_json(f"fit {data} --out {tmp_path / 'b'} --resume --devices 4")["steps"] == 4


@pytest.mark.slow  # training/test_distributed.py joins processes, too
def test_several_processes(tmp_path, data, small, process, free_port):
    line = f"fit {data} --task classification --out {tmp_path / 'run'} {small} --steps 4 --json"
    line += f" --coordinator localhost:{free_port} --num-processes 2"
    joined = [process(f"{line} --process-id {i}") for i in range(2)]
    outputs = [child.communicate(timeout=600) for child in joined]
    assert [child.returncode for child in joined] == [0, 0], outputs
    assert json.loads(outputs[0][0])["steps"] == 4
    assert outputs[1][0] == ""
    assert (tmp_path / "run" / "report.html").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--devices none", "expected a number, or such as 2x4"),
        ("--devices 0", "expected a number, or such as 2x4"),
        ("--num-processes 2", "--num-processes is for several processes, with --coordinator"),
        ("--coordinator h:1 --num-processes 2 --process-id 0 --devices 3", "a multiple of the 2"),
    ],
)
def test_wrong_use(tmp_path, data, failing, options, message):
    said = failing(f"fit {data} --task classification --out {tmp_path / 'run'} {options}", code=2)
    assert message in " ".join(said.replace("│", " ").split())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--devices 3", "batch_size is 8, expected a multiple of 3"),
        ("--devices 99", "devices is 99, but JAX has 8"),
        ("--coordinator nowhere --num-processes 2 --process-id 0", "expected HOST:PORT"),
        ("--coordinator auto", "neither Slurm, Kubernetes nor Open MPI was found"),
    ],
)
def test_what_cannot_be_done(tmp_path, data, small, failing, options, message):
    line = f"fit {data} --task classification --out {tmp_path / 'run'} {small} --steps 2 {options}"
    assert message in failing(line)
