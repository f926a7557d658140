"""Runs that are stopped by Ctrl-C or killed, and go on."""

import signal
import subprocess
import sys

import pytest

STEPS = 200


@pytest.fixture(scope="module")
def long_data(tmp_path_factory, waves, write_cases):
    """Enough to be training for a second or two."""
    path = tmp_path_factory.mktemp("interrupt") / "long.csv"
    write_cases(path, *waves(16, length=300))
    return path


@pytest.fixture(scope="module")
def line(long_data, small):
    """The command without its --out."""
    return f"fit {long_data} --task classification {small} --steps {STEPS} --set evaluate_every=10"


@pytest.fixture(scope="module")
def finished(long_data, line, good):
    """The weights of the run that was not stopped."""
    out = long_data.parent / "finished"
    good(f"{line} --out {out}")
    return (out / "model-1" / "weights.safetensors").read_bytes()


def test_ctrl_c_and_resume(tmp_path, long_data, line, process, good_json, finished):
    out = tmp_path / "run"
    child = process(f"{line} --out {out}")
    while not child.stderr.readline().startswith("step "):
        assert child.poll() is None
    child.send_signal(signal.SIGINT)
    stdout, stderr = child.communicate()
    assert child.returncode == 130
    assert not stdout
    assert f"linoss fit {long_data} --out {out} --resume" in stderr
    assert "Traceback" not in stderr
    assert (out / "model-1" / "state.safetensors").exists()
    assert good_json(f"fit {long_data} --out {out} --resume")["steps"] == STEPS
    assert (out / "model-1" / "weights.safetensors").read_bytes() == finished


def test_ctrl_c_before_training_leaves_nothing(tmp_path, linoss_command, data, monkeypatch):
    def interrupted(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("linoss.data.read_parts", interrupted)
    result = linoss_command(f"fit {data} --task classification --out {tmp_path / 'run'}")
    assert result.exit_code == 130
    assert "Interrupted before training began" in result.stderr
    assert not (tmp_path / "run").exists()


def test_ctrl_c_while_the_command_is_imported_leaves_no_stack_trace():
    code = """
import sys
class Pressed:
    def find_spec(self, name, *rest):
        if name == "typer":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Pressed())
import linoss.cli
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (130, b"")
