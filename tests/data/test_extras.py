"""Without the extra packages, what needs them says so; the rest works."""

import importlib
import sys

import numpy as np
import pytest

from linoss.data import read, read_table, sequences


@pytest.fixture(params=["pandas", "pyarrow"])
def absent(request, monkeypatch):
    """Each package in turn, as if it were not installed."""
    load, package = importlib.import_module, request.param

    def refuse(name, *arguments):
        if name.partition(".")[0] == package:
            raise ModuleNotFoundError(f"No module named {name!r}")
        return load(name, *arguments)

    monkeypatch.setattr(importlib, "import_module", refuse)
    return package


NEEDS = {"pandas": ["table_wide.csv", "dates.csv"], "pyarrow": ["wide.parquet", "wide.csv"]}


def test_what_needs_a_package_says_how_to_install_it(absent, write, corpus):
    for name in NEEDS[absent]:
        reader = read_table if name.startswith("table") else read
        with pytest.raises(
            ImportError, match=rf'needs {absent}; install it with pip .*"\.\[data\]"'
        ):
            reader(write(name, corpus[name]))


def test_arrays_need_no_package(write, corpus, monkeypatch):
    for name in ("aeon", "pandas", "pyarrow"):
        monkeypatch.setitem(sys.modules, name, None)
    assert len(sequences(np.ones((2, 1, 3)), ["a", "b"]).batch([0]).values) == 1
    for name in ("plain.npy", "stored.npz", "unequal.ts"):
        assert len(read(write(name, corpus[name]))) > 1
