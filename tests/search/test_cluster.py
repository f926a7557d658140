"""The page about searches: its programs run as printed, one on a cluster on this machine."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "search.md"
PROGRAMS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.slow  # test_workers.py has several workers, too
@pytest.mark.parametrize(
    ("program", "printed"),
    [
        pytest.param(PROGRAMS[0], "'schedule': ", id="study"),
        pytest.param(PROGRAMS[1], "{'learning_rate': 0.03} 1.0", id="cluster"),
    ],
)
def test_programs_of_the_page(tmp_path, environment, program, printed):
    (tmp_path / "program.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert printed in done.stdout
