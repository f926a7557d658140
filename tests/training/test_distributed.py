"""Several processes on one machine, joined by JAX: the same curve as one, also after a kill."""

import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from linoss.training import load_model

PROGRAM = Path(__file__).parent / "joined_run.py"


@pytest.fixture
def join(tmp_path, start):
    """(processes, directory, pause) to that many processes, with two devices in all."""

    def join(processes, directory, pause=0):
        with socket.socket() as probe:
            probe.bind(("localhost", 0))
            address = f"localhost:{probe.getsockname()[1]}"
        joined = []
        for number in range(processes):
            words = (address, processes, number, 2, directory, pause)
            path = tmp_path / f"{address}-{number}.log"
            with path.open("w") as log:
                joined.append(start(PROGRAM, *words, stdout=log, stderr=subprocess.STDOUT))
            joined[-1].log = path
        return joined

    return join


def wait(joined):
    return [process.wait(timeout=120) for process in joined]


def said(joined):
    return "\n".join(process.log.read_text() for process in joined)


@pytest.mark.integration
def test_one_is_killed_and_the_run_goes_on(tmp_path, join):
    assert wait(join(1, tmp_path / "one")) == [0]
    joined = join(2, tmp_path / "run", pause=0.5)
    while not (tmp_path / "run" / "weights.safetensors").exists():
        assert joined[0].poll() is None, said(joined)
        time.sleep(0.1)
    joined[1].send_signal(signal.SIGKILL)
    assert all(code != 0 for code in wait(joined))
    again = join(2, tmp_path / "run")
    assert wait(again) == [0, 0], said(again)
    alone, together = (load_model(tmp_path / name).history for name in ("one", "run"))
    assert [record["step"] for record in together] == [3, 6, 9, 12]
    for expected, record in zip(alone, together, strict=True):
        assert record["loss"] == pytest.approx(expected["loss"], rel=1e-4)
        assert record["metric"] == pytest.approx(expected["metric"])
