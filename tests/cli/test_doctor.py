"""What `linoss doctor` says of an install."""

import importlib.metadata
import sys

import jax
import pytest

import linoss
from linoss import kernels
from linoss.kernels import OUTSIDE_KERNELS


@pytest.fixture
def unbuilt(monkeypatch):
    """An install whose kernels were not built."""
    monkeypatch.setattr("linoss.kernels._library.native", None)


def test_versions_devices_and_engines(good_json):
    found = good_json("doctor")
    assert found["versions"]["linoss"] == linoss.__version__
    assert found["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert found["versions"]["jaxlib"] == importlib.metadata.version("jaxlib")
    assert found["optional"]["optuna"]["version"] == importlib.metadata.version("optuna")
    assert len(found["devices"]) == jax.device_count()
    assert tuple(found["engines"]) == linoss.engines()
    assert found["instruction_set"] == kernels.instruction_set()
    assert found["cores"] >= 1


def test_for_people(good):
    text = good("doctor")
    for word in ("linoss", linoss.__version__, "scikit-learn", "reads .parquet", "sequential"):
        assert word in text


def test_what_is_not_installed_is_null_and_has_its_command(good, good_json, monkeypatch):
    known = importlib.metadata.version

    def version(name):
        if name == "aeon":
            raise importlib.metadata.PackageNotFoundError(name)
        return known(name)

    monkeypatch.setattr("linoss.cli._doctor.version", version)
    assert good_json("doctor")["optional"]["aeon"]["version"] is None
    (line,) = [line for line in good("doctor").splitlines() if "aeon" in line]
    assert 'pip install ".[data]"' in line


def test_variables_are_shown_but_no_password(good, good_json, monkeypatch):
    monkeypatch.setenv("LINOSS_ENGINE", "sequential")
    monkeypatch.setenv("LINOSS_STORAGE", "postgresql://me:sesame@host/studies")
    found = good_json("doctor")["environment"]
    assert found["LINOSS_ENGINE"] == "sequential"
    assert found["LINOSS_STORAGE"] == "(set)"
    assert "sesame" not in good("doctor")


@pytest.mark.skipif(not kernels.usable(), reason="no kernels")
def test_what_kernels_do_not_cover_and_how_much_slower_it_is(good):
    (line,) = [line for line in good("doctor").splitlines() if "Slower than native" in line]
    for words, factor in OUTSIDE_KERNELS.items():
        assert f"{words} ({factor:g} times)" in line


@pytest.mark.usefixtures("unbuilt")
def test_without_kernels(good, good_json):
    found = good_json("doctor")
    assert found["instruction_set"] is None
    assert "native" not in found["engines"]
    assert "pip install -v shows why" in " ".join(good("doctor").split())
