"""Compiled programs between processes, and what is imported before it is needed."""

import json
import os
import subprocess
import sys
import time

import jax
import pytest

from linoss import _programs
from linoss._programs import VARIABLE, keep_programs
from linoss.cli import app

COMMANDS = [command.callback.__name__ for command in app.registered_commands]
HEAVY = ("numpy", "jax", "sklearn", "optax", "matplotlib", "scipy", "pandas")
LOADED = f"""
import json, sys
{{}}
print(json.dumps([name for name in {HEAVY} if name in sys.modules]), file=sys.stderr)
"""


def loaded_after(code):
    process = subprocess.run(
        [sys.executable, "-c", LOADED.format(code)], capture_output=True, text=True, check=True
    )
    return json.loads(process.stderr.splitlines()[-1])


@pytest.fixture
def unset(monkeypatch):
    """JAX without a directory of programs, and its settings as they were afterwards."""
    names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    before = {name: getattr(jax.config, name) for name in names}
    jax.config.update(names[0], None)
    monkeypatch.delenv(VARIABLE, raising=False)
    yield monkeypatch
    for name, value in before.items():
        jax.config.update(name, value)


def test_the_package_imports_nothing_heavy():
    assert loaded_after("import linoss") == []


def test_help_and_wrong_arguments_import_nothing_heavy(tmp_path):
    """One process for all: what one of them imports is there for the next."""
    wrong = [
        ["--help"],
        ["fit", "--help"],
        *([command, "--colour", "blue"] for command in COMMANDS),
        ["fit", "data.csv", "--out", "run", "--task", "painting"],
        ["fit", "data.csv", "--out", "run"],
        ["fit", "data.csv", "--out", "run", "--task", "forecasting", "--label", "y"],
        ["fit", str(tmp_path / "absent.csv"), "--out", "run", "--task", "classification"],
        ["search", "--help"],
        ["evaluate", str(tmp_path), str(tmp_path)],
        ["predict", str(tmp_path), str(tmp_path / "absent.csv")],
    ]
    code = f"""
from linoss.cli import main
for arguments in {wrong}:
    sys.argv = ["linoss", *arguments]
    try:
        main()
    except SystemExit as end:
        assert end.code == (0 if "--help" in arguments else end.code or "no error")
"""
    assert loaded_after(code) == []


def test_programs_are_kept_in_the_directory_of_the_user(unset, tmp_path):
    unset.setenv("XDG_CACHE_HOME", str(tmp_path))
    unset.setattr(sys, "platform", "linux")
    directory = keep_programs()
    assert directory is not None
    assert directory.parent == tmp_path / "linoss" / "programs"
    assert directory.stat().st_mode & 0o777 == 0o700
    assert jax.config.jax_compilation_cache_dir == str(directory)
    assert keep_programs() == directory


@pytest.mark.parametrize("word", ["off", "OFF", "0", ""])
def test_the_switch(unset, word):
    unset.setenv(VARIABLE, word)
    assert keep_programs() is None
    assert jax.config.jax_compilation_cache_dir is None


def test_a_directory_that_others_write_to_is_not_used(unset, tmp_path):
    """Programs are code: who may put one there may run it as this user."""
    tmp_path.chmod(0o777)
    unset.setenv(VARIABLE, str(tmp_path))
    assert keep_programs() is None
    tmp_path.chmod(0o755)
    assert keep_programs() is not None


def test_old_programs_are_forgotten_and_the_oldest_of_too_many(unset, tmp_path):
    unset.setenv(VARIABLE, str(tmp_path))
    unset.setattr(_programs, "_LARGEST", 250)
    folder = tmp_path / "jax-0.0.1-other"
    folder.mkdir()
    ages = {"new": 0, "day": 1, "week": 7, "years": 700}
    for name, days in ages.items():
        (folder / f"{name}-cache").write_bytes(bytes(100))
        when = time.time() - days * 24 * 3600
        os.utime(folder / f"{name}-cache", (when, when))
    keep_programs()
    assert {path.name for path in folder.iterdir()} == {"new-cache", "day-cache"}


@pytest.mark.integration
def test_a_second_process_compiles_nothing_again(tmp_path):
    code = """
import pathlib, sys, jax
from linoss._programs import kept_programs
import jax.numpy as jnp
events = []
jax.monitoring.register_event_listener(lambda name, **_: events.append(name))

def hits():
    before = events.count("/jax/compilation_cache/cache_hits")
    with kept_programs():
        jax.jit(lambda x: jnp.sin(x) * 3)(2.0)
    return events.count("/jax/compilation_cache/cache_hits") - before

print(hits())
if "spoil" in sys.argv:
    jax.clear_caches()
    for path in pathlib.Path().glob("jax-*/*-cache"):
        path.write_bytes(path.read_bytes()[:-20])
    print(hits())
"""
    unwanted = ("JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS")
    clean = {name: value for name, value in os.environ.items() if name not in unwanted}

    def hits(*arguments):
        process = subprocess.run(
            [sys.executable, "-W", "error", "-c", code, *arguments],
            env={**clean, VARIABLE: str(tmp_path)}, cwd=tmp_path, capture_output=True, text=True,
            check=True,
        )  # fmt: skip
        assert not process.stderr
        return process.stdout.split()

    assert hits() == ["0"]
    assert list(tmp_path.glob("jax-*/*-cache"))
    assert hits("spoil") == ["1", "0"]
