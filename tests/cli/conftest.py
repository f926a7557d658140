"""Small data in files, and runs that are trained once and looked at by many tests."""

import fcntl
import importlib
import json
import os
import shlex
import subprocess
from pathlib import Path

import jax
import jaxtyping
import numpy as np
import pytest
from typer.testing import CliRunner

from linoss.cli import app

ALONE = "--set n_models=1"
BANK = "--set n_oscillators=64 --set causal=yes"
SMALL = (
    "--set scheme=im --set damped=no --set hidden_size=8 --set state_size=8 --set num_blocks=1 "
    "--set batch_size=8"
)


def constant(value):
    """A fixture that is always the same."""
    return pytest.fixture(scope="session")(lambda: value)


small = constant(f"{SMALL} {ALONE}")  # options of a small classifier or regressor
small_forecaster = constant(SMALL)
bank = constant(f"--model oscillators {BANK}")  # untrained, and can stream


@pytest.fixture(scope="session")
def linoss_command():
    """Run a command in this process: `linoss_command("fit ...", stdin)`."""

    def run(line, stdin=None, width=200):
        arguments = shlex.split(line) if isinstance(line, str) else [str(part) for part in line]
        environment = {"COLUMNS": str(width)}
        before = jaxtyping.config.jaxtyping_disable
        jaxtyping.config.update("jaxtyping_disable", True)  # the library as users have it
        try:
            with jax.enable_x64(False):
                return CliRunner().invoke(
                    app, arguments, input=stdin, prog_name="linoss", env=environment
                )
        finally:
            jaxtyping.config.update("jaxtyping_disable", before)

    return run


@pytest.fixture(scope="session")
def good(linoss_command):
    """The same for commands that must succeed; gives stdout."""

    def run(line, stdin=None, **options):
        result = linoss_command(line, stdin, **options)
        assert result.exit_code == 0, result.output + repr(result.exception)
        return result.stdout

    return run


@pytest.fixture(scope="session")
def good_json(good):
    """The same with --json: all of stdout is one object."""
    return lambda line, stdin=None: json.loads(good(f"{line} --json", stdin))


@pytest.fixture(scope="session")
def failing(linoss_command):
    """The same for commands that must fail; gives the one line that says why."""

    def run(line, stdin=None, code=1):
        result = linoss_command(line, stdin)
        assert result.exit_code == code, result.output + repr(result.exception)
        assert "Traceback" not in result.output
        if code == 1:
            (message,) = [t for t in result.stderr.splitlines() if t.startswith("Error: ")]
            return message
        return result.stderr

    return run


@pytest.fixture
def few_bells(monkeypatch):
    """The demo on an eighth of its recordings, of a fifth of their length."""
    demo = importlib.import_module("linoss.cli._demo")
    make = demo.bells
    monkeypatch.setattr(demo, "bells", lambda seed, cases: make(seed, cases // 8, 300))


@pytest.fixture
def process(start):
    """Run a command in a process of its own."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "COLUMNS": "200"}
    return lambda line: start(
        "-m", "linoss", *shlex.split(line), text=True, env=environment, **pipes
    )


def _waves(cases, length=40, seed=0):
    """Two channels, of which the first has another stiffness in each class."""
    draw = np.random.default_rng(seed)
    labels = np.arange(cases) % 2
    x = np.sin(np.arange(length) * (0.3 + 0.5 * labels[:, None]) + draw.uniform(0, 6, (cases, 1)))
    z = draw.normal(size=(cases, length))
    return np.stack([x + 0.1 * draw.normal(size=x.shape), z], axis=1), labels


def _write_cases(path, values, labels, name="label"):
    """A long table: a row a sample."""
    lines = [f"case,{name},x,z"]
    for i, (case, label) in enumerate(zip(values, labels, strict=True)):
        lines += [f"c{i},{label},{a:.6g},{b:.6g}" for a, b in case.T]
    Path(path).write_text("\n".join(lines).replace("nan", "") + "\n")


waves, write_cases = constant(_waves), constant(_write_cases)


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A directory that all workers share."""
    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    (base / "cli").mkdir(exist_ok=True)
    return base / "cli"


@pytest.fixture(scope="session")
def once(folder):
    """Make a file or directory once for all workers: `once(name, make)` gives its path."""

    def get(name, make):
        path, done = folder / name, folder / f"{name}.done"
        with open(folder / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not done.exists():
                make(path)
                done.touch()
        return path

    return get


@pytest.fixture(scope="session")
def data(once):
    """A directory with a training and a test part, classes `low` and `high`."""

    def make(directory):
        directory.mkdir()
        for part, cases, seed in (("TRAIN", 32, 0), ("TEST", 12, 1)):
            values, labels = _waves(cases, seed=seed)
            names = np.array(["low", "high"])[labels]
            _write_cases(directory / f"Waves_{part}.csv", values, names)

    return once("Waves", make)


@pytest.fixture(scope="session")
def run(once, data, good):
    """A classifier of one trained model."""
    options = f"{SMALL} {ALONE} --steps 40 --set learning_rate=0.02 --set validation_fraction=0.25"
    line = f"fit {data} --task classification {options} --out"
    return once("classifier", lambda out: good(f"{line} {out}"))


@pytest.fixture(scope="session")
def oscillators(once, data, good):
    """A classifier of untrained oscillators."""
    line = f"fit {data} --task classification --model oscillators {BANK} --out"
    return once("oscillators", lambda out: good(f"{line} {out}"))


@pytest.fixture(scope="session")
def numbers(once):
    """A directory with a training and a test part, with a number for each case."""

    def make(directory):
        directory.mkdir()
        for part, cases, seed in (("train", 32, 0), ("test", 12, 1)):
            values, labels = _waves(cases, seed=seed)
            np.savez(directory / f"{part}.npz", X=values, y=labels * 2.5 + 1)

    return once("Numbers", make)


@pytest.fixture(scope="session")
def regressor(once, numbers, good):
    """A regressor, with a scheme without decay."""
    options = f"{SMALL} {ALONE} --set scheme=imex --steps 30 --set learning_rate=0.02"
    line = f"fit {numbers} --task regression {options} --out"
    return once("regressor", lambda out: good(f"{line} {out}"))


@pytest.fixture(scope="session")
def load(once):
    """A wide table of dates, one variable of which is known in advance."""

    def make(path):
        hours = np.datetime64("2024-01-01T00") + np.arange(200)
        rows = [
            f"{str(hour)[:10]} {str(hour)[11:]}:00:00,{np.sin(i / 3):.5f},"
            f"{np.cos(i / 3) + 5:.5f},{i % 24}"
            for i, hour in enumerate(hours)
        ]
        path.write_text("date,load,heat,hour\n" + "\n".join(rows) + "\n")

    return once("load.csv", make)


@pytest.fixture(scope="session")
def forecaster(once, load, good):
    """A forecaster of short series, which are not trained on."""
    options = f"--horizon 6 --set past=24 --known-in-advance hour {SMALL} --steps 20"
    line = f"fit {load} --task forecasting {options} --out"
    return once("forecaster", lambda out: good(f"{line} {out}"))
