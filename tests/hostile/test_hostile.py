"""The drivers, for a moment each; `python tests/hostile KIND` runs them for as long as asked."""

import importlib
from pathlib import Path

import pytest

import linoss
from linoss.data import read, read_table

SEED = 1


@pytest.fixture
def drive(monkeypatch, unchecked, single_precision):
    """(kind, cases) to what a driver finds; arrays on disk are read at random by a type check."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))

    def run(kind, cases, seed=SEED):
        module, _, which = kind.partition("-")
        module = importlib.import_module("kills" if module == "kill" else module)
        driver = getattr(module, which or "driver")
        drivers = importlib.import_module("drivers")
        said = []
        findings = drivers.run(driver, kind, seed=seed, cases=cases, say=said.append)
        assert not findings, "\n".join(said)
        return said[-1]

    return run


@pytest.mark.filterwarnings("default")  # the drivers set their own
@pytest.mark.parametrize(
    ("kind", "cases"),
    [
        ("files", 1500),
        pytest.param("runs", 20, marks=pytest.mark.integration),
        pytest.param("runs-signed", 40, marks=pytest.mark.integration),
        pytest.param("kernels", 52, marks=pytest.mark.integration),
    ],
)
def test_nothing_is_found(drive, kind, cases):
    if kind == "kernels" and "native" not in linoss.engines():
        pytest.skip("the kernels were not built")
    assert f"{kind}, seed {SEED}: {cases} cases" in drive(kind, cases)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "cases"), [("kill-one", 4), ("kill-auto", 4), ("kill-search", 3)])
def test_nothing_is_lost(drive, kind, cases):
    assert "killed" in drive(kind, cases)


def test_a_finding_has_a_seed_that_repeats_it(drive, monkeypatch):
    files = importlib.import_module("files")

    def broken(*arguments):
        raise KeyError("a bug")

    monkeypatch.setattr(files, "read_table", broken)
    drivers, said = importlib.import_module("drivers"), []
    found = drivers.run(files.driver, "files", seed=7, cases=60, say=said.append)
    number = found[0][0]
    again = f"  again: python tests/hostile files --seed 7 --first {number} --cases 1"
    assert again in said
    once = drivers.run(files.driver, "files", seed=7, first=number, cases=1, say=said.append)
    assert [(n, str(error)) for n, error in once] == [(number, "'a bug'")]


def test_unharmed_files_are_read(drive, tmp_path):
    data = importlib.import_module("drivers").load("data/conftest.py")
    for name, content in data.CORPUS.items():
        (tmp_path / name).write_bytes(content)
        reader = read_table if name.startswith("table") else read
        data.check_valid(reader(tmp_path / name))
