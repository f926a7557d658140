"""Importing changes nothing: no handlers, filters, settings of JAX, or files."""

import json
import os
import pkgutil
import subprocess
import sys

import linoss

CODE = """
import importlib, json, logging, os, signal, sys, warnings
import jax, numpy, sklearn, matplotlib, pandas, aeon, sktime, optuna, jaxtyping, equinox

def state():
    loggers = [logging.getLogger(), *(logging.getLogger(n) for n in ("linoss", "jax"))]
    return {
        "handlers": [(repr(each.handlers), each.propagate, each.level) for each in loggers],
        "filters": [repr(each) for each in warnings.filters],
        "showwarning": repr(warnings.showwarning),
        "jax": {name: repr(value) for name, value in jax.config.values.items()},
        "signals": [repr(signal.getsignal(number)) for number in signal.valid_signals()],
        "excepthook": repr(sys.excepthook),
        "environment": dict(os.environ),
    }

from sklearn.linear_model import RidgeClassifierCV
before = state()
for name in json.loads(sys.argv[1]):
    importlib.import_module(name)
after = state()
print(json.dumps([key for key in before if before[key] != after[key]]))
"""


def test_importing_every_public_module_changes_nothing(tmp_path):
    found = pkgutil.walk_packages(linoss.__path__, "linoss.")
    names = [each.name for each in found if "._" not in each.name]
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    environment = {**os.environ, "HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache")}
    environment |= {"PYTHONDONTWRITEBYTECODE": "1", "MPLCONFIGDIR": str(tmp_path / "matplotlib")}
    done = subprocess.run(
        [sys.executable, "-c", CODE, json.dumps(names)],
        capture_output=True, text=True, check=True, env=environment, cwd=work,
    )  # fmt: skip
    assert json.loads(done.stdout.splitlines()[-1]) == []
    assert done.stderr == ""
    own = [path for path in home.rglob("*") if "linoss" in str(path.relative_to(home))]
    assert not [*own, *work.iterdir()]
