"""Every command of README and docs runs with the packages that are documented for it alone."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement

from linoss.cli import EXAMPLES

ROOT = Path(__file__).parents[2]
PAGES = {
    path.stem: path.read_text() for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))
}
PAGES["help"] = "\n".join(["```bash", *chain(*EXAMPLES.values()), "```\n"])
COMMAND = re.compile(r"(?:\$ )?(?:tail -f (?P<stream>\S+) \| )?linoss (?P<arguments>[^#]+)")
NEEDS = {"search": ["data", "search"], "export": ["data", "export"]}
"""The extras of a command; others have `data`, as in README."""
SMALL = "--set n_models=1 --set hidden_size=8 --set state_size=8 --set num_blocks=1"
CHILD = """
import importlib.metadata, json, os, sys
allowed, places = map(json.loads, sys.argv[1:])
modules = importlib.metadata.packages_distributions()
names = {module for module, owners in modules.items() if not {*allowed} & {*owners}} - {"linoss"}
class Others:
    def find_spec(self, name, *place):
        if name.partition(".")[0] in names:
            raise ImportError(f"{name} is not among the documented packages")
sys.meta_path.insert(0, Others())
from linoss.cli import app
for folder, stream, arguments in places:
    os.chdir(folder)
    sys.stdin = open(stream or os.devnull)
    try:
        app(arguments, prog_name="linoss")
    except SystemExit as end:
        if end.code:
            sys.exit(f"{folder}: linoss {' '.join(arguments)}: {end.code}")
"""


def commands(page):
    """Input and arguments of the commands in the blocks of a page, made brief."""
    blocks = re.findall(r"^```(?:console|bash)\n(.*?)^```$", page, re.M | re.S)
    for line in "".join(blocks).replace("\\\n", " ").splitlines():
        if found := COMMAND.match(line):
            line = found["arguments"].replace("/shared/", "")
            if line.startswith("fit"):
                line += f" --steps 2 {SMALL}" if "--model" in line else " --minutes 0"
                line += " --set causal=yes" * ("classification --out" in line)
            if line.startswith("search"):
                line += " --trials 1 --steps 2 --set num_blocks=1"
            line, _, source = line.partition(" < ")
            if not line.startswith("demo"):
                yield found["stream"] or source.strip(), shlex.split(line)


def closure(extras):
    """The distributions that an install with these extras has."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"]
    left = [*project["dependencies"], *(each for extra in extras for each in optional[extra])]
    found = set()
    while left:
        need = Requirement(left.pop())
        if need.marker is None or any(
            need.marker.evaluate({"extra": e}) for e in need.extras or [""]
        ):
            try:
                name = metadata.metadata(need.name)["Name"]
            except metadata.PackageNotFoundError:
                continue
            if name not in found:
                found.add(name)
                left += metadata.requires(name) or []
    return sorted(found)


@pytest.mark.parametrize("extras", [["data"], *NEEDS.values()], ids="-".join)
def test_commands_run_as_documented(tmp_path, extras, data, load, oscillators):
    places = []
    for name, page in PAGES.items():
        chosen = [(s, a) for s, a in commands(page) if NEEDS.get(a[0], ["data"]) == extras]
        if not chosen:
            continue
        folder = tmp_path / name
        shutil.copytree(data, folder / "Bells")
        if name != "help" or extras != ["data"]:  # these fit it
            shutil.copytree(oscillators, folder / "runs" / "bells")
        for table in ("load.csv", "later.csv"):
            shutil.copy(load, folder / table)
        for name, part in {"recordings": "TRAIN", "data": "TRAIN", "new": "TEST"}.items():
            shutil.copy(data / f"Waves_{part}.csv", folder / f"{name}.csv")
        for stream in ("sensor.csv", "samples.csv"):
            (folder / stream).write_text("x,z\n" + "1,2\n" * 20)
        waves = np.random.default_rng(0).normal(size=(16, 2, 40))
        np.savez(folder / "data.npz", X=waves, y=np.arange(16) % 2)
        places += [(str(folder), stream, arguments) for stream, arguments in chosen]
    assert places
    child = [sys.executable, "-c", CHILD, json.dumps(closure(extras)), json.dumps(places)]
    done = subprocess.run(child, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    if extras == ["data"]:
        assert len((tmp_path / "README" / "predictions.csv").read_text().splitlines()) == 13
        assert "prediction,probability_high,probability_low" in done.stdout
    assert all(extra in (ROOT / "docs" / "install.md").read_text() for extra in extras)
