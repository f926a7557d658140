"""What packages, workflows and documents say of each other."""

import ast
import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def assigned(path, name):
    """The value of a constant of a module that is not imported."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return ast.literal_eval(node.value)
    raise LookupError(name)


def test_the_hosted_tests_are_those_of_nox():
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]
    pairs = assigned(ROOT / "noxfile.py", "VERSIONS")
    sessions = [f"py{python}-jax{jax}" for python, jax in pairs]
    assert jobs["tests"]["strategy"]["matrix"]["session"] == sessions
    assert {python for python, _ in pairs} == {
        name.split(" :: ")[-1]
        for name in PROJECT["project"]["classifiers"]
        if re.search(r":: 3\.\d+$", name)
    }


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_run_files_and_extras_that_exist(path):
    workflow = yaml.safe_load(path.read_text())
    commands = [step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"]]
    assert not [
        name
        for name in re.findall(r"\btests/[\w/]+\.py", "\n".join(commands))
        if not (ROOT / name).exists()
    ]
    extras = re.findall(r'"\.\[([\w,]+)\]"', "\n".join(commands))
    assert {name for each in extras for name in each.split(",")} <= EXTRAS


EXTRAS = set(PROJECT["project"]["optional-dependencies"])


def test_every_extra_is_documented():
    table = re.search(
        r"\| extra \|.*?\n\n", (ROOT / "docs/install.md").read_text(), re.DOTALL
    ).group()
    assert set(re.findall(r"`(\w+)`(?=[^|]*\|[^|]*\|\n)", table)) == EXTRAS


def test_wheels_are_built_for_the_supported_pythons():
    built = {name.removesuffix("-*") for name in PROJECT["tool"]["cibuildwheel"]["build"]}
    pairs = assigned(ROOT / "noxfile.py", "VERSIONS")
    assert built == {f"cp{python.replace('.', '')}" for python, _ in pairs}
