"""What `linoss doctor` says of an install."""

import importlib.metadata
import sys

import jax
import pytest

import linoss
from linoss import kernels
from linoss.kernels import OUTSIDE_KERNELS


def test_versions_devices_and_engines(good, good_json, monkeypatch):
    monkeypatch.setenv("LINOSS_ENGINE", "sequential")
    monkeypatch.setenv("LINOSS_STORAGE", "postgresql://me:sesame@host/studies")
    found, printed = good_json("doctor"), good("doctor")
    assert found["versions"]["linoss"] == linoss.__version__
    assert found["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert found["optional"]["optuna"]["version"] == importlib.metadata.version("optuna")
    assert len(found["devices"]) == jax.device_count()
    assert tuple(found["engines"]) == linoss.engines()
    assert found["instruction_set"] == kernels.instruction_set()
    assert found["cores"] >= 1
    assert found["environment"]["LINOSS_ENGINE"] == "sequential"
    assert found["environment"]["LINOSS_STORAGE"] == "(set)"
    assert "sesame" not in printed
    for word in ("linoss", linoss.__version__, "scikit-learn", "reads .parquet", "sequential"):
        assert word in printed


def test_what_is_not_installed_is_null_and_has_its_command(good, good_json, monkeypatch):
    def absent(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr("linoss.cli._doctor.version", absent)
    assert good_json("doctor")["optional"]["aeon"]["version"] is None
    (line,) = [line for line in good("doctor").splitlines() if "aeon" in line]
    assert 'pip install ".[data]"' in line


@pytest.mark.skipif(not kernels.usable(), reason="no kernels")
def test_what_kernels_do_not_cover_and_how_much_slower_it_is(good, monkeypatch):
    (line,) = [line for line in good("doctor").splitlines() if "Slower than native" in line]
    for words, factor in OUTSIDE_KERNELS.items():
        assert f"{words} ({factor:g} times)" in line
    monkeypatch.setattr("linoss.kernels._library.native", None)
    assert "pip install -v shows why" in " ".join(good("doctor").split())
