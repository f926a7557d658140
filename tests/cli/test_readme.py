"""The commands of the README, run as they stand there."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np

README = (Path(__file__).parents[2] / "README.md").read_text()
COMMANDS = re.findall(r"^\$ (.*)$", README, re.MULTILINE)


def test_from_a_file_to_answers(tmp_path):
    """On a few recordings of waves, briefly; what waits for more samples reads to the end."""
    random = np.random.default_rng(0)
    rows = ["label," + ",".join(f"v_{i}" for i in range(20))]
    for i in range(16):
        wave = np.sin((1 + i % 2) * np.arange(20) / 3) + 0.1 * random.normal(size=20)
        rows.append(f"{('slow', 'fast')[i % 2]}," + ",".join(f"{x:.4f}" for x in wave))
    (tmp_path / "recordings.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "new.csv").write_text("\n".join([rows[0], *rows[-2:]]) + "\n")
    (tmp_path / "sensor.csv").write_text("\n".join(rows[1].split(",")[1:]) + "\n")
    linoss = shlex.join([sys.executable, "-m", "linoss"])
    assert len(COMMANDS) == 3
    for command in COMMANDS:
        brief = command.replace("tail -f", "cat").replace(
            "--set causal=yes", "--set causal=yes --minutes 0.03"
        )
        done = subprocess.run(
            re.sub(r"\blinoss\b", lambda _: linoss, brief),
            shell=True,
            cwd=tmp_path,
            env={**os.environ, "JAX_ENABLE_X64": "0"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    answers = done.stdout.splitlines()
    assert len(answers) == 20
    assert answers[-1].startswith("slow,")
    predictions = (tmp_path / "predictions.csv").read_text().splitlines()
    assert [line.split(",")[1] for line in predictions[1:]] == ["slow", "fast"]
