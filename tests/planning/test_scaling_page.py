"""The commands of `docs/scaling.md` run, and its table has what they print."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from linoss.cli import app

PAGE = (Path(__file__).parents[2] / "docs" / "scaling.md").read_text()
ROWS = re.findall(r"^\| ([\d,]+) \| ([\d,]+) \| ([\dx]+) \| (.*) \|$", PAGE, re.MULTILINE)


def linoss(line):
    result = CliRunner().invoke(app, shlex.split(line))
    assert result.exit_code == 0, result.output
    return result.stdout


def test_commands_run():
    commands = re.findall(r"^\$ linoss (.*)$", PAGE, re.MULTILINE)
    assert commands
    for command in commands:
        linoss(command)


@pytest.mark.parametrize(("length", "batch", "devices", "memory"), ROWS)
def test_rows_of_the_table(length, batch, devices, memory):
    length, batch = length.replace(",", ""), batch.replace(",", "")
    text = linoss(f"plan --length {length} --batch-size {batch} --devices {devices} --set memory=0")
    assert re.search(r"^.*memory[ │|]+(.*?)[ │|]*$", text, re.MULTILINE)[1] == memory
