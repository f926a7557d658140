"""What holds for all commands: help, its examples, exit codes, and what is imported."""

import re
import shlex
import shutil
import subprocess
import sys

import pytest

import linoss
from linoss.cli import app

COMMANDS = [command.callback.__name__ for command in app.registered_commands]


def test_every_command_is_there():
    first, second = COMMANDS[:8], COMMANDS[8:]
    assert " ".join(first) == "fit search evaluate predict forecast backtest stream inspect"
    assert " ".join(second) == "explain export plan settings demo doctor"


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(good, command):
    """The examples run with those of README and docs."""
    assert re.search(rf"^ linoss {command} ?", good(f"{command} --help"), re.MULTILINE)


def test_the_version_and_the_whole_help(good, linoss_command):
    assert good("--version") == f"linoss {linoss.__version__}\n"
    result = linoss_command("")
    assert "Usage: linoss" in result.output
    assert result.exit_code == 2
    usual, everything = good("fit --help"), good("fit --help-all")
    assert "--devices" not in usual
    for option in ("--devices", "--watch", "--start-from", "--groups", "--case"):
        assert option in everything


@pytest.mark.parametrize("line", ["dance", "fit", "evaluate", "predict run", "stream a b", "--no"])
def test_wrong_use(failing, line):
    assert re.match(r"Usage: linoss .*\nTry .*\n\nError: .*\n$", failing(line, code=2))


def test_help_does_not_wait_for_what_it_does_not_need():
    slow = ["numpy", "jax", "sklearn", "matplotlib", "aeon", "optuna"]
    code = (
        "import sys; from linoss.cli import app; app(['--help'], 'linoss', standalone_mode=False)"
    )
    code += f"; print([name for name in {slow} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Usage: linoss" in found.stdout
    assert found.stdout.splitlines()[-1] == "[]"


def test_a_mistake_of_the_library_is_not_hidden(linoss_command, monkeypatch, run):
    def broken(*args):
        raise RuntimeError("a bug")

    monkeypatch.setattr("linoss.training.read_extra", broken)
    result = linoss_command(f"inspect {run}")
    assert isinstance(result.exception, RuntimeError)


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("RESOURCE_EXHAUSTED: 10 TB")])
def test_out_of_memory(failing, monkeypatch, run, error):
    def broken(*args):
        raise error

    monkeypatch.setattr("linoss.training.read_extra", broken)
    assert "out of memory; try smaller batches" in failing(f"inspect {run}")


@pytest.mark.parametrize(
    ("streams", "code", "said"),
    [
        ("--version >&-", 2, "Error: stdout is closed, expected somewhere to write to, such as"),
        ("stream nowhere <&-", 1, "Error: stdin is closed, expected samples in it"),
        ("--version >/dev/full", 1, "Error: stdout cannot be written (No space left on device)"),
        ("plan --length 100 >/dev/full", 1, "Error: stdout cannot be written (No space left on"),
    ],
)
def test_streams_that_are_full(streams, code, said):
    line = f"{shlex.quote(sys.executable)} -m linoss {streams}"
    result = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert result.returncode == code
    assert result.stderr.startswith(said)
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("content", ["[]", "{", '{"format": 3}'])
def test_a_run_that_is_damaged(tmp_path, run, failing, content):
    shutil.copytree(run, tmp_path / "run")
    (tmp_path / "run" / "config.json").write_text(content)
    assert "run/config.json: " in failing(f"inspect {tmp_path / 'run'}")


def test_a_model_that_was_saved_from_python(tmp_path, run, data, good_json):
    linoss.LinOSSClassifier.load(run).save(tmp_path / "saved")
    assert good_json(f"evaluate {tmp_path / 'saved'} {data}") == good_json(f"evaluate {run} {data}")
